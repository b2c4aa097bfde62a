//! What the tables of a region are made of.

use crate::table::list::{Link, Linked};
use crate::{Epoch, Incarnation, NodeId, Token};

/// No node slot.
pub(super) const NO_NODE: u16 = u16::MAX;

/// Marker of the lists a shard takes turns in: it is in one of them at a time, or in none.
#[derive(Debug)]
pub(super) struct Agenda;

/// Which list a shard is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// None.
    Idle,
    /// Has commands to give.
    Dirty,
    /// Does something each `retry_interval`.
    Retry,
    /// Waits for `Flushed` from a node whose lease lapsed.
    Lapse,
    /// Waits for a congested home.
    Blocked,
}

/// What this region is to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Home not known.
    None,
    /// Lives on another node.
    Remote,
    /// Granted; its host has not said that it started.
    Starting,
    /// Served here.
    Active,
    /// Served here until now; its host has not said that it stopped.
    Draining,
}

impl State {
    /// Whether something of the shard may run here.
    pub(super) const fn is_owned(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Draining)
    }
}

/// Bits of [`ShardSlot::flags`].
pub(super) mod flag {
    /// `GetShardHome` is due.
    pub(in super::super) const ASK: u16 = 1;
    /// `StartShard` is due.
    pub(in super::super) const START: u16 = 1 << 1;
    /// `StopShard` is due.
    pub(in super::super) const STOP: u16 = 1 << 2;
    /// `ShardStarted` is due.
    pub(in super::super) const STARTED: u16 = 1 << 3;
    /// `HandOffComplete` for `epoch` is due.
    pub(in super::super) const COMPLETE: u16 = 1 << 4;
    /// ... and says that something was aborted.
    pub(in super::super) const FORCED: u16 = 1 << 5;
    /// `path_*` is a path on which `Flushed` is awaited; nothing is sent for the shard.
    pub(in super::super) const FLUSHING: u16 = 1 << 6;
    /// ... whose `Flush` is due.
    pub(in super::super) const FLUSH: u16 = 1 << 7;
    /// ... and the epoch before the home's is said to have lapsed: wait until `due` at most.
    pub(in super::super) const LAPSED: u16 = 1 << 8;
    /// `HomeChanged` is due.
    pub(in super::super) const HOME: u16 = 1 << 9;
    /// `Open` was given.
    pub(in super::super) const OPENED: u16 = 1 << 10;
    /// The home was learnt under a lower term, or not from a `ShardHome`.
    pub(in super::super) const UNCONFIRMED: u16 = 1 << 11;
    /// Messages for an epoch that is news wait here.
    pub(in super::super) const NEWS: u16 = 1 << 12;
    /// What drains belongs to a session that is over: no claim any more.
    pub(in super::super) const VOID: u16 = 1 << 13;
    /// Once stopped, the answer is for the floor and not for the held epoch.
    pub(in super::super) const ANSWER_FLOOR: u16 = 1 << 14;
    /// A path was given up once: what comes back late is reported.
    pub(in super::super) const GAVE_UP: u16 = 1 << 15;
}

/// A shard as a region sees it. Opaque; [`ShardSlot::EMPTY`] to make tables of.
///
/// It fills a cache line, and lies in one.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct ShardSlot {
    /// Of the home. Without one: the epoch that `COMPLETE` is for.
    pub(super) epoch: Epoch,
    /// A grant below it is not taken: one above the floor, or the highest epoch that a directive named.
    pub(super) bar: Epoch,
    /// While `FLUSHING`.
    pub(super) path_epoch: Epoch,
    /// The list it is in.
    pub(super) link: Link,
    /// Buffered messages of this node, see [`super::buffer::Fifo`].
    pub(super) local: u32,
    /// Buffered messages and markers of other nodes.
    pub(super) remote: u32,
    /// Messages sent on the path in use, and not come back.
    pub(super) sent: u32,
    /// When its turn in a timed list comes, in wrapping milliseconds.
    pub(super) due: u32,
    /// `Draining`: when the host aborts, in wrapping milliseconds.
    pub(super) abort_at: u32,
    pub(super) flags: u16,
    /// Node slot of the home.
    pub(super) node: u16,
    /// While `FLUSHING`.
    pub(super) path_node: u16,
    /// While `FLUSHING`: retries until a silent path may be given up.
    pub(super) patience: u16,
    pub(super) state: State,
    pub(super) place: Place,
    /// `due` is that of `Place::Retry`, also while the shard is elsewhere for a moment.
    pub(super) armed: bool,
    /// How many flushes were begun, wrapping.
    pub(super) flush: u8,
}

impl ShardSlot {
    /// A shard nobody has heard of.
    pub const EMPTY: Self = Self {
        epoch: Epoch::NONE,
        bar: Epoch::NONE,
        path_epoch: Epoch::NONE,
        link: Link::UNLINKED,
        local: NIL,
        remote: NIL,
        sent: 0,
        due: 0,
        abort_at: 0,
        flags: 0,
        node: NO_NODE,
        path_node: NO_NODE,
        patience: 0,
        state: State::None,
        place: Place::Idle,
        armed: false,
        flush: 0,
    };

    pub(super) const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    pub(super) const fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    pub(super) const fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
    }

    /// Whether the coordinator is to be asked for the home.
    pub(super) const fn wants_home(&self) -> bool {
        match self.state {
            State::None => self.local != NIL || self.has(flag::NEWS | flag::FLUSHING),
            State::Remote => {
                self.has(flag::NEWS) || (self.has(flag::FLUSHING) && self.has(flag::UNCONFIRMED))
            }
            State::Starting | State::Active | State::Draining => self.has(flag::NEWS),
        }
    }

    /// Whether the path that is flushed is that to the home in use.
    pub(super) fn flushes_home(&self) -> bool {
        self.has(flag::FLUSHING) && self.state == State::Remote && self.epoch == self.path_epoch
    }

    /// Whether messages of this node may leave the buffer.
    pub(super) const fn sends(&self) -> bool {
        matches!(self.state, State::Active | State::Remote) && !self.has(flag::FLUSHING)
    }
}

impl Linked<Agenda> for ShardSlot {
    fn link(&self) -> &Link {
        &self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

/// Whether a node slot is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Nobody.
    Free,
    /// A member.
    Member,
    /// Its incarnation has ended; shards may still point here.
    Ended,
    /// ... and no shard does; buffered messages may.
    Forgotten,
}

/// One incarnation of another node as a region sees it. Opaque; [`NodeSlot::EMPTY`] to make tables of.
#[derive(Clone, Debug)]
pub struct NodeSlot {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    /// Buffer slots that name it as their origin.
    pub(super) buffered: u32,
    /// First slot whose node hashes to this slot's index.
    pub(super) bucket: u16,
    /// Next slot of the same hash, or of the free list.
    pub(super) next: u16,
    pub(super) life: Life,
    pub(super) congested: bool,
}

impl NodeSlot {
    /// Nobody.
    pub const EMPTY: Self = Self {
        node: NodeId(0),
        incarnation: Incarnation(0),
        buffered: 0,
        bucket: NO_NODE,
        next: NO_NODE,
        life: Life::Free,
        congested: false,
    };
}

/// What a buffer slot holds.
#[derive(Clone, Debug)]
pub(super) enum Content<P> {
    Free,
    Message(P),
    /// Of a `Flush`.
    Marker(Token),
}

/// A buffered message. Opaque; [`BufferSlot::EMPTY`] to make tables of.
///
/// Slots form circular singly linked lists, of which a shard keeps only the last; the last keeps what is to know of
/// the whole list.
#[derive(Clone, Debug)]
pub struct BufferSlot<P> {
    pub(super) content: Content<P>,
    /// What a message of another node is addressed to.
    pub(super) epoch: Epoch,
    pub(super) next: u32,
    /// In the last slot of a list: its length.
    pub(super) len: u32,
    /// In the last slot of a list: its cursor, see [`super::buffer::Fifo`].
    pub(super) cursor: u32,
    /// Node slot of the origin; `NO_NODE` for this node.
    pub(super) origin: u16,
}

impl<P> BufferSlot<P> {
    /// No message.
    pub const EMPTY: Self = Self {
        content: Content::Free,
        epoch: Epoch::NONE,
        next: NIL,
        len: 0,
        cursor: NIL,
        origin: NO_NODE,
    };
}

pub(super) use crate::table::list::NIL;
