//! Connections and their table.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::lane::Limits;
use super::{PeerIdentity, PeerSlot};
use crate::node::{Authenticated, LinkId};
use crate::wire::header::MIN_VERSION;
use crate::{Incarnation, Instant, NodeId};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Accepted; the dialer has said nothing yet.
    Accepted,
    /// Dialed, `Hello` sent; waits for the other side's `Hello`.
    Dialed,
    /// Dialed; the other side's `Hello` was good, waits for its `Welcome`.
    Greeted,
    /// Accepted; `Hello` and `Welcome` were sent, waits for the dialer's `Welcome`.
    Offered,
    /// Attached to a pair.
    Up,
    /// To be closed once what is left is written.
    Closing,
}

/// One transport connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) phase: Phase,
    /// This side dialed it.
    pub(super) dialed: bool,
    pub(super) authenticated: Option<Authenticated>,
    /// When it was greeted, relative to other events of this kind: the dialer's `Hello` was sent or received.
    pub(super) order: u64,
    /// Who the other side's `Hello` said it is.
    pub(super) who: Option<(NodeId, Incarnation)>,
    /// The rest of it, until the connection is attached.
    pub(super) identity: Option<Box<PeerIdentity>>,
    pub(super) version: u8,
    /// What both sides agreed on for data.
    pub(super) limits: Limits,
    pub(super) lanes: u8,
    /// 1, or 1 and one for each lane.
    pub(super) streams: u8,
    /// The pair it is attached to.
    pub(super) peer: Option<PeerSlot>,
    /// What was attached to the pair when this side made its offer.
    pub(super) offered_over: Option<LinkId>,
    /// What the offer said is expected next, per lane.
    pub(super) offered: Vec<u64>,
    /// Frames that are not data, to be written before it.
    pub(super) control: BytesMut,
    pub(super) last_heard: Instant,
    pub(super) last_sent: Instant,
    /// When the handshake, or closing, must be done.
    pub(super) deadline: Instant,
    /// It is in the list of those that have something to transmit.
    pub(super) dirty: bool,
}

impl Connection {
    pub(super) fn new(
        now: Instant,
        deadline: Instant,
        dialed: bool,
        streams: u8,
        authenticated: Option<Authenticated>,
        limits: Limits,
    ) -> Self {
        Self {
            phase: if dialed {
                Phase::Dialed
            } else {
                Phase::Accepted
            },
            dialed,
            authenticated,
            order: 0,
            who: None,
            identity: None,
            version: MIN_VERSION,
            limits,
            lanes: 1,
            streams: streams.max(1),
            peer: None,
            offered_over: None,
            offered: Vec::new(),
            control: BytesMut::new(),
            last_heard: now,
            last_sent: now,
            deadline,
            dirty: false,
        }
    }

    /// With which node, if it came to light.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.who.map(|(node, _)| node)
    }

    pub(super) const fn in_handshake(&self) -> bool {
        !matches!(self.phase, Phase::Up | Phase::Closing)
    }
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// The table of connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Connections {
    #[inline]
    pub(super) fn get(&self, link: LinkId) -> Option<&Connection> {
        let entry = self.entries.get(link.index as usize)?;
        if entry.generation != link.generation {
            return None;
        }
        entry.connection.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Connection> {
        let entry = self.entries.get_mut(link.index as usize)?;
        if entry.generation != link.generation {
            return None;
        }
        entry.connection.as_deref_mut()
    }

    /// `None` if there are `max` already.
    pub(super) fn insert(&mut self, connection: Connection, max: u16) -> Option<LinkId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.entries.len() >= usize::from(max) => return None,
            None => {
                let index = u32::try_from(self.entries.len()).ok()?;
                self.entries.push(Entry::default());
                index
            }
        };
        let entry = self.entries.get_mut(index as usize)?;
        entry.connection = Some(Box::new(connection));
        Some(LinkId {
            index,
            generation: entry.generation,
        })
    }

    pub(super) fn remove(&mut self, link: LinkId) -> Option<Box<Connection>> {
        let entry = self.entries.get_mut(link.index as usize)?;
        if entry.generation != link.generation {
            return None;
        }
        let connection = entry.connection.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(link.index);
        Some(connection)
    }

    /// The connection at an index, if it is taken.
    pub(super) fn at(&self, index: usize) -> Option<LinkId> {
        let entry = self.entries.get(index)?;
        entry.connection.as_ref()?;
        Some(LinkId {
            index: u32::try_from(index).ok()?,
            generation: entry.generation,
        })
    }

    /// One past the highest index in use.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.entries
            .iter()
            .filter_map(|entry| entry.connection.as_deref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.entries
            .iter_mut()
            .filter_map(|entry| entry.connection.as_deref_mut())
    }
}
