//! What comes out of links, and why they end.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use bytes::Bytes;

use super::Unacked;
use crate::membership::{RemovalCause, Roles};
use crate::node::{DialId, LinkId};
use crate::wire::control::Refusal;
use crate::wire::header::{MAX_VERSION, MIN_VERSION};
use crate::wire::{DecodeError, Header, VersionMismatch};
use crate::{Incarnation, NodeId};

/// Who a node is, as handshakes say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerIdentity {
    /// `hash::node_id` of the name.
    pub(crate) node: NodeId,
    /// Which life of it.
    pub(crate) incarnation: Incarnation,
    /// Its name.
    pub(crate) name: String,
    /// Where to dial it.
    pub(crate) address: String,
    /// Its roles.
    pub(crate) roles: Roles,
}

/// The place of a node in the table of peers. It stays the node's over all its lives, until the node is forgotten
/// ([`LinkEvent::Forgotten`]); a slot that is used after that names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PeerSlot {
    pub(super) index: u16,
    pub(super) generation: u16,
}

impl PeerSlot {
    /// Dense index, below `max_peers`, for tables of the caller.
    pub(crate) const fn index(self) -> usize {
        self.index as usize
    }
}

/// A frame that is not the link's own business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// Control of an established link. The term is in the header.
    Control {
        /// Who sent it.
        peer: PeerSlot,
        /// Its id.
        node: NodeId,
        /// The header; its kind is known.
        header: Header,
        /// The body.
        body: Bytes,
    },
    /// Data, exactly once and in order. It counts as accepted: handle it before anything is transmitted.
    Data {
        /// Who sent it.
        peer: PeerSlot,
        /// Its id.
        node: NodeId,
        /// The header; its kind may be unknown (count and skip it).
        header: Header,
        /// The body.
        body: Bytes,
    },
}

/// What links want done, or known. Poll until `None` after every input.
#[derive(Debug)]
#[allow(dead_code, reason = "says whom and why, whoever listens")]
pub(crate) enum LinkEvent {
    /// Connect to an address, then `dialed` or `dial_failed`.
    Dial {
        /// Names the dial.
        dial: DialId,
        /// Where to.
        address: String,
    },
    /// Write what `poll_transmit` still has, then close the connection. The id is good for nothing else.
    Close {
        /// Which.
        link: LinkId,
        /// Why.
        reason: CloseReason,
    },
    /// A peer can be reached. A newer life of a node comes after the [`LinkEvent::PairEnded`] of the older.
    Up {
        /// The peer.
        peer: PeerSlot,
        /// Who it is.
        identity: Box<PeerIdentity>,
    },
    /// A peer cannot be reached. What is sent to it waits.
    Down {
        /// The peer.
        peer: PeerSlot,
        /// Its id.
        node: NodeId,
        /// Why.
        reason: CloseReason,
    },
    /// A handshake was refused.
    Refused {
        /// Whether the other side refused; otherwise this one did.
        by_peer: bool,
        /// With whom, if it came to light.
        node: Option<NodeId>,
        /// Why.
        refusal: Refusal,
    },
    /// The peer says that it is leaving. Once per life.
    Leaving {
        /// The peer.
        peer: PeerSlot,
        /// Its id.
        node: NodeId,
    },
    /// A life of a node ended: what it had not acknowledged is dropped, and given here.
    PairEnded {
        /// The peer. The slot is good for the node's next life.
        peer: PeerSlot,
        /// The node.
        node: NodeId,
        /// The life that ended.
        incarnation: Incarnation,
        /// Why.
        cause: RemovalCause,
        /// What was not acknowledged.
        unacked: Unacked,
    },
    /// The slot of a node is free for another one: it is no member and has no link.
    Forgotten {
        /// The slot, no longer valid.
        peer: PeerSlot,
        /// The node that had it.
        node: NodeId,
    },
    /// A window is full (hold back), or half empty again.
    Congested {
        /// The peer.
        peer: PeerSlot,
        /// Its id.
        node: NodeId,
        /// Which of both.
        congested: bool,
    },
}

/// Why a link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum CloseReason {
    /// The connection broke, or the other side closed it.
    Closed,
    /// Nothing was heard for too long.
    Idle,
    /// The handshake took too long.
    HandshakeTimeout,
    /// Refused by this side.
    Refused(Refusal),
    /// Refused by the other side.
    RefusedByPeer(Refusal),
    /// Another connection of the same two nodes takes its place.
    Superseded,
    /// The life of the peer ended.
    Ended,
    /// The peer left.
    PeerLeft,
    /// This node left.
    Left,
    /// The peer violated the protocol.
    Error(LinkFault),
}

impl CloseReason {
    /// For logs.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "the connection ended",
            Self::Idle => "nothing was heard for too long",
            Self::HandshakeTimeout => "the handshake took too long",
            Self::Refused(refusal) => refusal_str(refusal),
            Self::RefusedByPeer(_) => "refused by the other side",
            Self::Superseded => "another connection with this node takes its place",
            Self::Ended => "this life of the node ended",
            Self::PeerLeft => "the node left",
            Self::Left => "this node left",
            Self::Error(fault) => fault.as_str(),
        }
    }
}

/// A refusal, for logs.
pub(crate) const fn refusal_str(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Version { .. } => "no common wire version",
        Refusal::Cluster => "another cluster's name",
        Refusal::Voters { .. } => "another list of voters",
        Refusal::Identity => "name, node and authenticated identity do not belong together",
        Refusal::Incarnation { .. } => "that life of the node has ended",
        Refusal::Myself => "two nodes have this name, or the node dialed itself",
        Refusal::Duplicate => "another connection with this node survives",
        Refusal::Full => "no room for another link",
        Refusal::Handshake => "not a handshake",
        Refusal::Client => "a client is no node",
        Refusal::Future { .. } => "that life of the node began in the future",
    }
}

/// What a peer did wrong. The connection is of no use any more; the pair is, after a reconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum LinkFault {
    /// The bytes are no frame.
    Frame(DecodeError),
    /// The body of a frame that concerns the link does not decode.
    Body(DecodeError),
    /// Something other than the handshake came first, or the handshake came twice.
    Handshake,
    /// The link was refused; the frame that says so is still to be written.
    Refused(Refusal),
    /// The same, for want of a version that both sides speak.
    Version(VersionMismatch),
    /// The other side refused the link.
    RefusedByPeer(Refusal),
    /// A number is missing on a lane.
    Gap {
        /// What came next.
        found: u64,
        /// What should have.
        expected: u64,
    },
    /// Something was acknowledged, or is expected, that was never sent.
    Ack {
        /// The number it named.
        next: u64,
        /// The first that was never sent.
        sent: u64,
    },
    /// A lane that does not exist, or not on this stream; or control on a lane's stream.
    Lane,
    /// The peer takes only shorter messages than one that waits for it.
    FrameLimit,
    /// A fragment that does not belong to what came before it on its lane.
    Fragment,
    /// The fragments of a message are longer than a message may be.
    Message {
        /// How long its body is, at least.
        size: usize,
        /// How long it may be.
        limit: u32,
    },
    /// The link is not known, or is being closed.
    Unknown,
}

impl LinkFault {
    /// Whether a person should hear of it: not that another connection takes this one's place. A node does not dial its
    /// own address: if it is told that it did, another one has its name, or it has another address.
    pub(crate) const fn is_news(&self) -> bool {
        !matches!(
            self,
            Self::Unknown
                | Self::Refused(Refusal::Duplicate | Refusal::Myself)
                | Self::RefusedByPeer(Refusal::Duplicate)
        )
    }

    /// For logs.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Frame(_) => "malformed frame",
            Self::Body(_) => "malformed body of a link's own frame",
            Self::Handshake => "not a handshake, or a second one",
            Self::Refused(refusal) => refusal_str(refusal),
            Self::Version(_) => "no common wire version",
            Self::RefusedByPeer(_) => "refused by the other side",
            Self::Gap { .. } => "a data frame is missing",
            Self::Ack { .. } => "something was acknowledged that was never sent",
            Self::Lane => "unknown lane",
            Self::FrameLimit => {
                "the other side takes only shorter messages than one that waits for it"
            }
            Self::Fragment => "a fragment does not belong to what came before it",
            Self::Message { .. } => "a message in fragments is too long",
            Self::Unknown => "unknown link",
        }
    }
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Version(mismatch) = self {
            return mismatch.fmt(f);
        }
        f.write_str(self.as_str())?;
        match self {
            Self::Frame(error) | Self::Body(error) => write!(f, ": {error}"),
            Self::Gap { found, expected } => write!(f, ": {found} came, {expected} is next"),
            Self::Ack { next, sent } => write!(f, ": {next} of {sent}"),
            Self::Message { size, limit } => write!(f, ": {size} bytes, {limit} are the limit"),
            Self::RefusedByPeer(Refusal::Version { min, max }) => {
                let ours = (MIN_VERSION, MAX_VERSION);
                let theirs = (*min, *max);
                write!(f, ": {}", VersionMismatch { ours, theirs })
            }
            Self::RefusedByPeer(refusal) => {
                write!(f, ": {}", refusal_str(refusal))?;
                differ(refusal, f)
            }
            Self::Refused(refusal) => differ(refusal, f),
            _ => Ok(()),
        }
    }
}

/// What both sides have set differently.
fn differ(refusal: &Refusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Refusal::Voters { ours, theirs } = refusal else {
        return Ok(());
    };
    f.write_str("; set `voters` to the same list on all nodes")?;
    for (side, digest) in [("the side that refuses", ours), ("the other", theirs)] {
        match digest {
            0 => write!(f, ", {side} has none")?,
            _ => write!(f, ", {side} has {digest:016x}")?,
        }
    }
    Ok(())
}

impl core::error::Error for LinkFault {}

/// Why a data frame was not taken. Nothing of it is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum DataError<E> {
    /// No such peer.
    UnknownPeer,
    /// Four windows are unacknowledged: the caller did not hold back.
    Full,
    /// The message is longer than the peer takes.
    TooLarge {
        /// Body bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// What the writer answered.
    Write(E),
}

/// What links count. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkStats {
    /// Connections that came up.
    pub(crate) ups: u64,
    /// Handshakes refused by this side.
    pub(crate) refused: u64,
    /// Handshakes refused by others.
    pub(crate) refused_by_peers: u64,
    /// Links closed because the peer violated the protocol.
    pub(crate) faults: u64,
    /// Control frames dropped: no link, or its buffer is full.
    pub(crate) control_dropped: u64,
    /// Frames of unknown kinds, skipped.
    pub(crate) unknown_kinds: u64,
    /// Data frames that had been accepted before.
    pub(crate) duplicates: u64,
    /// Data frames sent again after a reconnect.
    pub(crate) resent: u64,
    /// Data frames handed to the caller.
    pub(crate) data_in: u64,
    /// Data frames taken from the caller.
    pub(crate) data_out: u64,
    /// Fragments that came.
    pub(crate) fragments_in: u64,
    /// Links closed because of a fragment: out of place, or of what is too long.
    pub(crate) fragments_refused: u64,
}
