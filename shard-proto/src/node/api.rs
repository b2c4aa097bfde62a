//! What goes into a node and what comes out of it.

use alloc::string::String;
use core::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::EntityKey;
use super::weight::Weight;
use crate::membership::{Member, RemovalCause};
use crate::region::{Origin, RejectReason};
use crate::wire::control::RegisterRefusal;
use crate::{Epoch, Home, Incarnation, Instant, Leader, NodeId, ShardId, Term};

/// A message's body, as the application hands it over and as it comes off the wire.
///
/// A body that stays on this node is never encoded. One that leaves it is encoded once, straight into the buffer of
/// the link; one that arrives is a slice of the buffer that was read.
pub trait Body: Sized {
    /// Takes over the payload of an envelope. Decoding can wait until the entity handles it. `share` makes a handle to
    /// the same bytes, which keeps the whole buffer that was read alive: short payloads are better copied.
    fn from_wire(payload: &[u8], share: impl FnOnce() -> Bytes) -> Self;

    /// Appends the payload of an envelope.
    ///
    /// # Errors
    /// If the body has no encoding. What was appended is taken back.
    fn encode(&self, out: &mut BytesMut) -> Result<(), BodyError>;

    /// About how many bytes [`Body::encode`] appends. A body whose hint alone is over the limit is refused before
    /// anything is encoded.
    fn len_hint(&self) -> usize {
        64
    }

    /// What [`Body::encode`] would append, if it is there already: long payloads are sent from it without a copy.
    fn shared(&self) -> Option<Bytes> {
        None
    }
}

impl Body for Bytes {
    fn from_wire(_payload: &[u8], share: impl FnOnce() -> Self) -> Self {
        share()
    }

    fn encode(&self, out: &mut BytesMut) -> Result<(), BodyError> {
        out.put_slice(self);
        Ok(())
    }

    fn len_hint(&self) -> usize {
        self.len()
    }

    fn shared(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// A body that has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// Why, for logs.
    pub reason: &'static str,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message cannot be encoded: {}", self.reason)
    }
}

impl core::error::Error for BodyError {}

/// An entity type that was added to a node. Valid for that node only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u16);

/// The adapter's own name of a waiting ask. The node never looks into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskKey(pub u64);

/// The adapter's answer to [`NodeCommand::Dial`] names the dial with this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialId(pub u32);

/// A stream of a connection: the first is control's, and data's if there is no other; then comes one for each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamIndex(pub u8);

impl StreamIndex {
    /// The first.
    pub const CONTROL: Self = Self(0);

    /// That of a lane, if there is one for each.
    #[must_use]
    pub const fn of_lane(lane: u8) -> Self {
        Self(lane.saturating_add(1))
    }

    /// Of which lane it is; `None`: the first.
    #[must_use]
    pub const fn lane(self) -> Option<u8> {
        self.0.checked_sub(1)
    }
}

/// An ask: somebody on this node waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whom to tell.
    pub key: AskKey,
    /// Until when it waits. Watched by the node (some milliseconds coarse) while the message is the node's: from
    /// [`Sent::Remote`] or [`Sent::Queued`] until the answer, the failure, or a delivery on this node.
    pub deadline: Instant,
}

/// A message to an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B> {
    /// The entity; at most 65 535 bytes.
    pub id: EntityKey,
    /// The body.
    pub body: B,
    /// Of a message of this node: who waits for the reply. Once the message is handed to the adapter
    /// ([`Sent::Local`], [`NodeCommand::Deliver`]), answering and timing out are the adapter's.
    pub ask: Option<Ask>,
    /// Of a message of another node: what its reply must carry; 0 for a tell. Keep it for
    /// [`Node::give_back`](super::Node::give_back).
    pub correlation: u64,
    /// Of a message of another node: the life that sent it; 0 for one of this node. Keep it for
    /// [`Node::give_back`](super::Node::give_back): what a life left behind is not its successor's.
    pub sender: Incarnation,
    /// It is sent until it is acknowledged, and begins with a number ([`Flags::TRACKED`](crate::wire::Flags)). Keep it for
    /// [`Node::give_back`](super::Node::give_back).
    pub tracked: bool,
    /// Of a message of this node: it was answered [`Sent::Queued`] and still counts as pending.
    pub(crate) pending: bool,
    /// Of a long one: what it adds to what is here. Keep it with the body for as long as that is kept.
    pub weight: Option<Weight>,
}

impl<B> Message<B> {
    /// A message of this node.
    pub const fn new(id: EntityKey, body: B, ask: Option<Ask>) -> Self {
        Self {
            id,
            body,
            ask,
            correlation: 0,
            sender: Incarnation(0),
            tracked: false,
            pending: false,
            weight: None,
        }
    }
}

/// Where a reply to another node goes: that node, in that life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplyTo {
    /// Who asked.
    pub node: NodeId,
    /// In which life.
    pub incarnation: Incarnation,
    /// Names the ask.
    pub correlation: u64,
}

/// Status of a reply: what follows is the entity's answer.
pub const REPLY_ANSWER: u8 = 0;
/// Status of a reply: the entity handled the message and did not answer.
pub const REPLY_NONE: u8 = 1;
/// Status of a reply: the entity failed while it handled the message.
pub const REPLY_FAILED: u8 = 2;
/// Status of a reply: the entity could not be started, or could not decode the message.
pub const REPLY_REFUSED: u8 = 3;

/// What became of a message given to [`Node::send`](super::Node::send).
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an outcome nobody handles must not compile"
)]
pub enum Sent<B> {
    /// The entity's home is here: deliver it now. Nothing else will be heard of it; its ask is the adapter's.
    Local {
        /// The shard's allocation.
        epoch: Epoch,
        /// The message.
        message: Message<B>,
    },
    /// It is in the buffer of the link to its home.
    Remote,
    /// The node keeps it. Exactly one later command says where it went: [`NodeCommand::Handed`], or
    /// [`NodeCommand::Deliver`] or [`NodeCommand::Reject`] with `pending`.
    Queued,
}

/// Why a message was not taken. The node's state is unchanged; the body is handed back.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError<B> {
    /// The buffer of the shard or of the region is full. Try again after a [`NodeCommand::Handed`] of the type.
    BufferFull(B),
    /// The type was stopped, or the node left.
    Stopped(B),
    /// No such type, or a shard out of its range.
    UnknownShard(B),
    /// The message is larger than what the cluster takes.
    TooLarge {
        /// Bytes of id and body; a lower bound if only the hint is known.
        size: usize,
        /// The limit.
        limit: usize,
        /// The body.
        body: B,
    },
    /// The limit of asks that wait for other nodes is reached.
    TooManyAsks(B),
    /// The body has no encoding.
    Body {
        /// Why.
        error: BodyError,
        /// The body.
        body: B,
    },
}

impl<B> SendError<B> {
    /// The body that was not taken.
    pub fn into_body(self) -> B {
        match self {
            Self::BufferFull(body)
            | Self::Stopped(body)
            | Self::UnknownShard(body)
            | Self::TooManyAsks(body)
            | Self::TooLarge { body, .. }
            | Self::Body { body, .. } => body,
        }
    }
}

impl<B> fmt::Display for SendError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferFull(_) => f.write_str("the buffer is full"),
            Self::Stopped(_) => f.write_str("the entity type is stopped"),
            Self::UnknownShard(_) => f.write_str("no such entity type or shard"),
            Self::TooLarge { size, limit, .. } => {
                write!(f, "a message of {size} bytes is over the limit of {limit}")
            }
            Self::TooManyAsks(_) => f.write_str("too many asks wait for other nodes"),
            Self::Body { error, .. } => error.fmt(f),
        }
    }
}

impl<B: fmt::Debug> core::error::Error for SendError<B> {}

/// What [`Node::read`](super::Node::read) found for the application.
#[derive(Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a delivery nobody handles must not compile"
)]
pub enum Delivery<B> {
    /// A message to an entity that runs here: deliver it now.
    Message {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// Where it came from.
        origin: NodeId,
        /// The message.
        message: Message<B>,
        /// Where the reply goes, if one is awaited.
        reply: Option<ReplyTo>,
    },
    /// The answer to an ask.
    Answer {
        /// Of which ask. The key is free again.
        key: AskKey,
        /// [`REPLY_ANSWER`] or why there is none.
        status: u8,
        /// The answer.
        payload: B,
    },
}

/// Why an ask has no answer. A message that was certainly not delivered is in a [`NodeCommand::Reject`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AskFailure {
    /// Its deadline passed. The message may still be delivered.
    Timeout,
    /// The home's life ended: the message was perhaps delivered.
    PerhapsDelivered,
    /// This node, or the type, stopped.
    Stopped,
}

/// Something a person should read, typed; the adapter logs it. Repetitions are limited and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A node sent what only the leader may send, or under a term that is not adopted.
    NotTheLeader {
        /// Who.
        peer: NodeId,
        /// The type, if it is known here.
        ty: Option<TypeIndex>,
        /// The term it claimed.
        term: Term,
    },
    /// A frame that its sender may not send, or that is malformed.
    Unexpected {
        /// Who.
        peer: NodeId,
        /// The type, if it is known here.
        ty: Option<TypeIndex>,
        /// What it was.
        what: &'static str,
    },
    /// A node wants to register a type that is not started here, on the leading node.
    UnknownType {
        /// Who.
        peer: NodeId,
        /// The type's name there.
        name: String,
    },
    /// A handoff was not completed in time.
    HandOffTimedOut {
        /// The type.
        ty: TypeIndex,
        /// Who did not answer.
        node: NodeId,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// A region opened another store than the others of its type, and takes part all the same.
    OtherStorage {
        /// The type.
        ty: TypeIndex,
        /// The region's node.
        node: NodeId,
        /// The store of the others.
        expected: u64,
        /// Its store.
        found: u64,
    },
    /// A table for nodes is full: the node is not taken in.
    NodesFull {
        /// Which node.
        node: NodeId,
    },
    /// A life of a node ended with messages that it never acknowledged: perhaps delivered.
    Unacknowledged {
        /// Which node.
        node: NodeId,
        /// Which life.
        incarnation: Incarnation,
        /// How many data frames.
        frames: u64,
    },
}

/// What the adapter shall do. Poll until `None`.
///
/// Nothing in here may be dropped; commands about one shard must be done in order.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a missing arm must not compile")]
pub enum NodeCommand<B> {
    /// Connect to an address, then [`Node::handle_dialed`](super::Node::handle_dialed) or
    /// [`Node::handle_dial_failed`](super::Node::handle_dial_failed).
    Dial {
        /// Names the dial.
        dial: DialId,
        /// Where to.
        address: String,
    },
    /// Write what [`Node::poll_transmit`](super::Node::poll_transmit) still has for the link, then close it. Its id is
    /// no longer valid for anything else; `handle_closed` is not needed.
    Close {
        /// Which.
        link: LinkId,
        /// Why, for logs.
        reason: &'static str,
    },
    /// Deliver a message that was buffered to its entity, which runs here.
    Deliver {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// Where it came from.
        origin: Origin,
        /// The message.
        message: Message<B>,
        /// Where the reply goes, if another node awaits one.
        reply: Option<ReplyTo>,
        /// It was answered [`Sent::Queued`]: it is no longer pending.
        pending: bool,
    },
    /// A message that was answered [`Sent::Queued`] went to another node: it is no longer pending.
    Handed {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
    },
    /// A message was not delivered, and never will be: report it to its caller.
    Reject {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Where it came from; only `Origin::Local` has a caller here.
        origin: Origin,
        /// Why.
        reason: RejectReason,
        /// The message; its `ask` has failed.
        message: Message<B>,
        /// It was answered [`Sent::Queued`]: it is no longer pending.
        pending: bool,
    },
    /// An ask has no answer. The key is free again.
    AskFailed {
        /// Which.
        key: AskKey,
        /// Why.
        reason: AskFailure,
    },
    /// Start the shard; answer with [`Node::shard_started`](super::Node::shard_started).
    StartShard {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// Until `StopShard`, messages of this node's callers may go to the running entities without `send`.
    Open {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
    },
    /// Stop everything of the shard: [`Node::give_back`](super::Node::give_back) what its entities have not handled,
    /// in order, then [`Node::shard_stopped`](super::Node::shard_stopped). Comes again, with an earlier `abort_at`, if
    /// there is less time than was said.
    StopShard {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Its allocation.
        epoch: Epoch,
        /// When to abort what has not stopped.
        abort_at: Instant,
    },
    /// The home that this node uses for a shard changed. `None`: unknown.
    HomeChanged {
        /// The type.
        ty: TypeIndex,
        /// The shard.
        shard: ShardId,
        /// Where it lives now.
        home: Option<Home>,
    },
    /// The type's region is registered with its coordinator.
    Registered {
        /// The type.
        ty: TypeIndex,
        /// For which reign.
        term: Term,
    },
    /// The coordinator refuses the type's region; it hosts nothing and keeps buffering. Log it as an error.
    TypeRefused {
        /// The type.
        ty: TypeIndex,
        /// Why.
        reason: RegisterRefusal,
    },
    /// A member appeared, or its state changed.
    MemberUp(Member),
    /// A member is gone for good.
    MemberGone {
        /// The node.
        node: NodeId,
        /// The life that ended.
        incarnation: Incarnation,
        /// Why.
        cause: RemovalCause,
    },
    /// This node adopted a reign, or none.
    Leader(Option<Leader>),
    /// Until when entities of this node may handle messages, by the clock that `now` is taken from; `None`: not at
    /// all. Whoever delivers without asking the node checks it before each message. Grows with every beat; after
    /// `None` it comes only when every [`NodeCommand::StopShard`] that follows from the loss was given.
    Lease(Option<Instant>),
    /// [`Node::leave`](super::Node::leave) is done: flush the links and stop.
    Left,
    /// This life of the node is over, and everything is stopped. Comes in place of `Left` if it happens while the node
    /// leaves.
    Removed {
        /// [`RemovalCause::Down`]: the others declared it dead; start again with a new incarnation.
        /// [`RemovalCause::Replaced`]: a newer incarnation of the node has started.
        cause: RemovalCause,
    },
    /// Log it.
    Warn(Warning),
}

/// One connection. Never reused: a later connection in the same place has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
