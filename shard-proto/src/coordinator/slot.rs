//! One slot per shard, one per node.

use crate::{
    Epoch, Incarnation, NodeId, Session,
    membership::{MemberState, Roles},
    table::list::{Link, Linked, List, NIL},
    wire::control::RegisterRefusal,
};

/// No node, in a field that holds a node's index.
pub(super) const NOBODY: u16 = u16::MAX;

/// Class of the lists of a node's shards.
#[derive(Debug)]
pub(crate) struct Owned;
/// Class of the list of slots that have something to say.
#[derive(Debug)]
pub(crate) struct Dirty;
/// Class of the list of shards that have something to repeat.
#[derive(Debug)]
pub(crate) struct Retry;
/// Class of the lists a shard is in by its state: wanted (unallocated), changed (allocated), deadlines (handing off).
#[derive(Debug)]
pub(crate) struct Timed;
/// Class of the list of nodes that are being sent the full map.
#[derive(Debug)]
pub(crate) struct Mapping;
/// Class of the list of nodes whose ended sessions still have shards.
#[derive(Debug)]
pub(crate) struct Vacating;
/// Class of the list of leaving nodes that still own shards.
#[derive(Debug)]
pub(crate) struct Leaving;

/// State of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Unallocated,
    Allocated,
    HandingOff,
}

/// The phase of a shard, what it has, and what it has to say; bits of [`CoordShardSlot::flags`].
pub(super) mod flag {
    /// The owner serves the shard.
    pub(in super::super) const STARTED: u16 = 1;
    /// Equal to the owner's `parity` while the shard belongs to the owner's session, different once that has ended.
    pub(in super::super) const PARITY: u16 = 1 << 1;
    /// The allocation before this one lapsed.
    pub(in super::super) const LAPSED: u16 = 1 << 2;
    /// Freed under this reign by its owner's word: allocated before the barrier is over too.
    pub(in super::super) const FREED: u16 = 1 << 3;
    /// Moved on purpose; once unallocated, `owner` is the node it was taken from.
    pub(in super::super) const PLANNED: u16 = 1 << 4;
    /// The deadline of the handoff has passed.
    pub(in super::super) const OVERDUE: u16 = 1 << 5;
    /// [`super::Phase::Allocated`].
    pub(in super::super) const ALLOCATED: u16 = 1 << 6;
    /// [`super::Phase::HandingOff`].
    pub(in super::super) const HANDING_OFF: u16 = 1 << 7;
    /// To say: the handoff timed out.
    pub(in super::super) const SAY_OVERDUE: u16 = 1 << 8;
    /// To say: the home, to the owner.
    pub(in super::super) const SAY_GRANT: u16 = 1 << 9;
    /// To say: the home, to `asker`.
    pub(in super::super) const SAY_HOME: u16 = 1 << 10;
    /// To say: hand off, to the owner.
    pub(in super::super) const SAY_HANDOFF: u16 = 1 << 11;
    /// To say: give up `evict_epoch`, to `evict`.
    pub(in super::super) const SAY_EVICT: u16 = 1 << 12;
    /// Everything there is to say.
    pub(in super::super) const SAY: u16 =
        SAY_OVERDUE | SAY_GRANT | SAY_HOME | SAY_HANDOFF | SAY_EVICT;
}

/// A shard in the coordinator's table. 64 bytes, opaque.
#[derive(Clone, Copy, Debug)]
pub struct CoordShardSlot {
    /// Of the allocation; the highest that has ended while there is none.
    pub(super) epoch: Epoch,
    /// Which allocation `evict` has to give up.
    pub(super) evict_epoch: Epoch,
    pub(super) owned: Link,
    pub(super) dirty: Link,
    pub(super) retry: Link,
    pub(super) timed: Link,
    /// When to repeat, in milliseconds, wrapping.
    pub(super) retry_at: u32,
    /// When the handoff is overdue, the same way.
    pub(super) deadline: u32,
    /// The owner; see [`flag::PLANNED`].
    pub(super) owner: u16,
    /// A node that has to give up a former allocation, or [`NOBODY`].
    pub(super) evict: u16,
    /// A node that asked, or [`NOBODY`].
    pub(super) asker: u16,
    flags: u16,
}

impl CoordShardSlot {
    /// Fills tables before use.
    pub const EMPTY: Self = Self {
        epoch: Epoch::NONE,
        evict_epoch: Epoch::NONE,
        owned: Link::UNLINKED,
        dirty: Link::UNLINKED,
        retry: Link::UNLINKED,
        timed: Link::UNLINKED,
        retry_at: 0,
        deadline: 0,
        owner: NOBODY,
        evict: NOBODY,
        asker: NOBODY,
        flags: 0,
    };

    pub(super) const fn phase(&self) -> Phase {
        if self.has(flag::ALLOCATED) {
            Phase::Allocated
        } else if self.has(flag::HANDING_OFF) {
            Phase::HandingOff
        } else {
            Phase::Unallocated
        }
    }

    pub(super) const fn set_phase(&mut self, phase: Phase) {
        self.clear(flag::ALLOCATED | flag::HANDING_OFF);
        self.set(match phase {
            Phase::Unallocated => 0,
            Phase::Allocated => flag::ALLOCATED,
            Phase::HandingOff => flag::HANDING_OFF,
        });
    }

    pub(super) const fn has(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }

    pub(super) const fn set(&mut self, flags: u16) {
        self.flags |= flags;
    }

    /// Takes the lowest flag that is set of those.
    pub(super) const fn take_lowest(&mut self, flags: u16) -> Option<u16> {
        let set = self.flags & flags;
        if set == 0 {
            return None;
        }
        let lowest = set & set.wrapping_neg();
        self.flags &= !lowest;
        Some(lowest)
    }

    pub(super) const fn toggle(&mut self, flags: u16) {
        self.flags ^= flags;
    }

    pub(super) const fn clear(&mut self, flags: u16) {
        self.flags &= !flags;
    }
}

const _: () = assert!(size_of::<CoordShardSlot>() <= 64);

impl Linked<Owned> for CoordShardSlot {
    fn link(&self) -> &Link {
        &self.owned
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.owned
    }
}

impl Linked<Dirty> for CoordShardSlot {
    fn link(&self) -> &Link {
        &self.dirty
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.dirty
    }
}

impl Linked<Retry> for CoordShardSlot {
    fn link(&self) -> &Link {
        &self.retry
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.retry
    }
}

impl Linked<Timed> for CoordShardSlot {
    fn link(&self) -> &Link {
        &self.timed
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.timed
    }
}

/// A node in the coordinator's table. Opaque.
#[derive(Clone, Copy, Debug)]
pub struct CoordNodeSlot {
    /// Index of the node that comes at this place in the order of [`NodeId`]s; a column of its own.
    pub(super) order: u16,
    pub(super) used: bool,
    pub(super) member: bool,
    /// A former member: the slot stays until its shards are freed.
    pub(super) gone: bool,
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) state: MemberState,
    pub(super) roles: Roles,
    /// It has echoed a beat lately.
    pub(super) hears: bool,
    /// Its session was ended because it does not complete. Until the next one, which begins when nothing of this one runs
    /// any more, or its lease is over.
    pub(super) given_up: bool,
    /// It was registered in this reign, so its lease may have been extended.
    pub(super) was_registered: bool,
    /// The newest session that registered or began to.
    pub(super) session: Option<Session>,
    /// Sessions up to this one have ended.
    pub(super) ended: Option<Session>,
    /// All parts of `session` are there.
    pub(super) registered: bool,
    pub(super) proxy: bool,
    pub(super) next_part: u32,
    pub(super) parts: u32,
    pub(super) storage_id: u64,
    /// It counts among the hosts of [`Book::hosts`](super::ledger::Book::hosts): whether it remembers who lives.
    pub(super) remembers: Option<bool>,
    /// See [`flag::PARITY`].
    pub(super) parity: bool,
    /// `stale` waits for the last part of `session`, which may claim some of it.
    pub(super) hold: bool,
    /// What is in `stale` was given up by `Deregister`, so nobody needs to wait for a lease.
    pub(super) released: bool,
    /// Allocated to the current session.
    pub(super) owned: List<Owned>,
    /// Being handed off by the current session.
    pub(super) moving: List<Owned>,
    /// Of sessions that have ended; freed bit by bit.
    pub(super) stale: List<Owned>,
    /// Place in the list of candidates, or [`NOBODY`].
    pub(super) candidate: u16,
    /// Next shard of the full map that goes to this node, or `NIL`.
    pub(super) map_next: u32,
    pub(super) say_ack: bool,
    pub(super) say_size: bool,
    pub(super) say_registered: Option<u64>,
    pub(super) say_refused: Option<(Session, RegisterRefusal)>,
    pub(super) say_end_sessions: bool,
    pub(super) say_other_storage: bool,
    pub(super) dirty: Link,
    pub(super) mapping: Link,
    pub(super) vacating: Link,
    pub(super) leaving: Link,
}

impl CoordNodeSlot {
    /// Fills tables before use.
    pub const EMPTY: Self = Self {
        order: NOBODY,
        used: false,
        member: false,
        gone: false,
        node: NodeId(0),
        incarnation: Incarnation(0),
        state: MemberState::Joining,
        roles: Roles::NONE,
        hears: false,
        given_up: false,
        was_registered: false,
        session: None,
        ended: None,
        registered: false,
        proxy: false,
        next_part: 0,
        parts: 0,
        storage_id: 0,
        remembers: None,
        parity: false,
        hold: false,
        released: false,
        owned: List::new(),
        moving: List::new(),
        stale: List::new(),
        candidate: NOBODY,
        map_next: NIL,
        say_ack: false,
        say_size: false,
        say_registered: None,
        say_refused: None,
        say_end_sessions: false,
        say_other_storage: false,
        dirty: Link::UNLINKED,
        mapping: Link::UNLINKED,
        vacating: Link::UNLINKED,
        leaving: Link::UNLINKED,
    };

    /// Forgets the reign: sessions, shards, what there was to say. Members stay members.
    pub(super) fn forget_reign(&mut self, hears: bool) {
        *self = Self {
            order: self.order,
            used: self.used,
            member: self.member,
            gone: self.gone,
            node: self.node,
            incarnation: self.incarnation,
            state: self.state,
            roles: self.roles,
            hears,
            ..Self::EMPTY
        };
    }

    /// Whether it may be given shards.
    pub(super) fn may_host(&self, role: u32) -> bool {
        self.hears && self.is_host(role)
    }

    /// Whether it may be given shards once it hears.
    pub(super) fn is_host(&self, role: u32) -> bool {
        self.member
            && self.registered
            && !self.proxy
            && self.state == MemberState::Up
            && self.roles.has(role)
    }

    /// Whether it is a former member whose shards may be freed.
    pub(super) const fn is_over(&self) -> bool {
        self.gone && !self.hold && self.owned.is_empty() && self.moving.is_empty()
    }

    /// While one lasts, nothing is rebalanced.
    pub(super) const fn is_unsettled(&self) -> bool {
        self.member && matches!(self.state, MemberState::Joining | MemberState::Unreachable)
    }
}

impl Linked<Dirty> for CoordNodeSlot {
    fn link(&self) -> &Link {
        &self.dirty
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.dirty
    }
}

impl Linked<Mapping> for CoordNodeSlot {
    fn link(&self) -> &Link {
        &self.mapping
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.mapping
    }
}

impl Linked<Vacating> for CoordNodeSlot {
    fn link(&self) -> &Link {
        &self.vacating
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.vacating
    }
}

impl Linked<Leaving> for CoordNodeSlot {
    fn link(&self) -> &Link {
        &self.leaving
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.leaving
    }
}
