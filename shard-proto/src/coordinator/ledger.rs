//! The tables of a coordinator and what keeps them consistent: who owns what, who is due, who has something to say.

use super::{
    CoordPhase, CoordinatorConfig, CoordinatorStats,
    slot::{
        CoordNodeSlot, CoordShardSlot, Dirty, Leaving, Mapping, NOBODY, Phase, Retry, Timed,
        Vacating, flag,
    },
    stats::count,
};
use crate::{Epoch, Instant, Term, allocation::Candidate, table::list::List, wire::control::Size};

/// What a coordinator knows beside its tables.
#[derive(Clone, Debug)]
pub(super) struct Book {
    pub(super) now: Instant,
    pub(super) phase: CoordPhase,
    pub(super) term: Term,
    /// Of the newest allocation of this term.
    pub(super) round: u32,
    pub(super) say_exhausted: bool,
    /// Grows with every change of the map.
    pub(super) version: u64,
    /// Shards allocated to sessions that have not ended.
    pub(super) allocated: u32,
    /// Shards being handed off by sessions that have not ended.
    pub(super) in_flight: u32,
    /// Members that are joining or unreachable.
    pub(super) unsettled: u32,
    /// Slots in the order of nodes.
    pub(super) order_len: u16,
    pub(super) candidates_len: u16,
    /// Hosts that do not hear, when the list of candidates was made.
    pub(super) deaf: u16,
    /// The list of candidates has to be made anew before its next use.
    pub(super) candidates_stale: bool,
    /// The store that the registered regions of this type use, and how many do.
    pub(super) storage_id: u64,
    pub(super) storage_users: u32,
    /// Registered hosts that do not remember who lives, and those that do.
    pub(super) hosts: [u32; 2],
    pub(super) dirty: List<Dirty>,
    pub(super) retry: List<Retry>,
    pub(super) deadlines: List<Timed>,
    /// Unallocated and asked for, or allocated before.
    pub(super) wanted: List<Timed>,
    /// Allocated and not yet announced.
    pub(super) changed: List<Timed>,
    pub(super) dirty_nodes: List<Dirty>,
    pub(super) mapping: List<Mapping>,
    pub(super) vacating: List<Vacating>,
    pub(super) leaving: List<Leaving>,
    /// When to try the wanted shards again, and how many are left of the pass that has begun.
    pub(super) wanted_at: Option<Instant>,
    pub(super) wanted_left: u32,
    /// How many shards are used, if that was decided and not configured.
    pub(super) size: Size,
    /// The next shard to look at, whether it has to have a home, or none.
    pub(super) keep_next: u32,
    pub(super) rebalance_at: Option<Instant>,
    /// Changes before this time wait for it.
    pub(super) announce_at: Instant,
    /// What is in `changed` is announced now.
    pub(super) announcing: bool,
    /// Bytes of the announcement in the scratch, and the next node to get it, or [`NOBODY`].
    pub(super) frame_len: usize,
    pub(super) frame_version: u64,
    pub(super) frame_next: u16,
    pub(super) stats: CoordinatorStats,
}

impl Book {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            now,
            phase: CoordPhase::Idle,
            term: Term::NONE,
            round: 0,
            say_exhausted: false,
            version: 0,
            allocated: 0,
            in_flight: 0,
            unsettled: 0,
            order_len: 0,
            candidates_len: 0,
            deaf: 0,
            candidates_stale: true,
            storage_id: 0,
            storage_users: 0,
            hosts: [0; 2],
            dirty: List::new(),
            retry: List::new(),
            deadlines: List::new(),
            wanted: List::new(),
            changed: List::new(),
            dirty_nodes: List::new(),
            mapping: List::new(),
            vacating: List::new(),
            leaving: List::new(),
            wanted_at: None,
            wanted_left: 0,
            size: Size::default(),
            keep_next: 0,
            rebalance_at: None,
            announce_at: Instant::ZERO,
            announcing: false,
            frame_len: 0,
            frame_version: 0,
            frame_next: NOBODY,
            stats: CoordinatorStats::default(),
        }
    }

    /// Forgets a reign. Members stay.
    pub(super) fn forget_reign(&mut self) {
        *self = Self {
            now: self.now,
            unsettled: self.unsettled,
            order_len: self.order_len,
            stats: self.stats,
            ..Self::new(self.now)
        };
    }

    /// Whether anything but acknowledgements may be said.
    pub(super) const fn acts(&self) -> bool {
        matches!(self.phase, CoordPhase::Acting | CoordPhase::Open)
    }

    /// Milliseconds, wrapping, of a time from now, not before it.
    pub(super) const fn stamp(&self, after: core::time::Duration) -> u32 {
        low_bits(self.now.after(after).as_micros().div_ceil(1000))
    }

    /// Whether the time of a stamp has come.
    pub(super) const fn is_due(&self, stamp: u32) -> bool {
        stamp.wrapping_sub(low_bits(self.now_ms())).cast_signed() <= 0
    }

    /// The time of a stamp.
    pub(super) const fn time_of(&self, stamp: u32) -> Instant {
        let ahead = stamp.wrapping_sub(low_bits(self.now_ms())).cast_signed();
        let ms = self.now_ms().saturating_add_signed(ahead as i64);
        Instant::from_micros(ms.saturating_mul(1000))
    }

    const fn now_ms(&self) -> u64 {
        self.now.as_micros() / 1000
    }
}

#[expect(clippy::cast_possible_truncation, reason = "stamps wrap")]
const fn low_bits(ms: u64) -> u32 {
    ms as u32
}

/// The tables, the book and the settings, borrowed for one input.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    pub(super) config: &'a CoordinatorConfig,
    pub(super) book: &'a mut Book,
    pub(super) shards: &'a mut [CoordShardSlot],
    pub(super) nodes: &'a mut [CoordNodeSlot],
    pub(super) candidates: &'a mut [Candidate],
}

impl Ledger<'_> {
    pub(super) fn shard(&self, shard: u32) -> Option<&CoordShardSlot> {
        self.shards.get(shard as usize)
    }

    pub(super) fn shard_mut(&mut self, shard: u32) -> Option<&mut CoordShardSlot> {
        self.shards.get_mut(shard as usize)
    }

    pub(super) fn node(&self, node: u16) -> Option<&CoordNodeSlot> {
        self.nodes.get(usize::from(node))
    }

    pub(super) fn node_mut(&mut self, node: u16) -> Option<&mut CoordNodeSlot> {
        self.nodes.get_mut(usize::from(node))
    }

    /// Whether the shard belongs to a session of its owner that has ended.
    pub(super) fn is_stale(&self, shard: u32) -> bool {
        self.shard(shard)
            .is_some_and(|slot| is_stale(slot, self.nodes))
    }

    /// The owner, if the shard belongs to a session that has not ended.
    pub(super) fn live_owner(&self, shard: u32) -> Option<(u16, Epoch, Phase)> {
        let slot = self.shard(shard)?;
        let phase = slot.phase();
        (phase != Phase::Unallocated && !is_stale(slot, self.nodes))
            .then_some((slot.owner, slot.epoch, phase))
    }

    /// Notes that the shard has something to say.
    pub(super) fn say(&mut self, shard: u32, flags: u16) {
        if let Some(slot) = self.shard_mut(shard) {
            slot.set(flags);
            self.book.dirty.push_back(self.shards, shard);
        }
    }

    /// Notes that the node's slot has something to say.
    pub(super) fn say_node(&mut self, node: u16) {
        self.book.dirty_nodes.push_back(self.nodes, u32::from(node));
    }

    /// Repeats what is unconfirmed of the shard one interval from now.
    pub(super) fn arm_retry(&mut self, shard: u32) {
        let at = self.book.stamp(self.config.retry_interval);
        self.book.retry.remove(self.shards, shard);
        if let Some(slot) = self.shard_mut(shard) {
            slot.retry_at = at;
            self.book.retry.push_back(self.shards, shard);
        }
    }

    /// Takes the shard from its owner, or out of the list of wanted ones. Its epoch and its owner's name stay.
    pub(super) fn detach(&mut self, shard: u32) {
        let stale = self.is_stale(shard);
        let Some(slot) = self.shards.get_mut(shard as usize) else {
            return;
        };
        let (owner, phase) = (slot.owner, slot.phase());
        if phase == Phase::Unallocated {
            self.book.wanted.remove(self.shards, shard);
            return;
        }
        slot.set_phase(Phase::Unallocated);
        slot.clear(
            flag::STARTED
                | flag::OVERDUE
                | flag::SAY_OVERDUE
                | flag::SAY_GRANT
                | flag::SAY_HOME
                | flag::SAY_HANDOFF,
        );
        slot.asker = NOBODY;
        let book = &mut *self.book;
        if let Some(node) = self.nodes.get_mut(usize::from(owner)) {
            match (stale, phase) {
                (true, _) => {
                    node.stale.remove(self.shards, shard);
                }
                (false, Phase::HandingOff) => {
                    node.moving.remove(self.shards, shard);
                    book.in_flight = book.in_flight.saturating_sub(1);
                }
                (false, _) => {
                    node.owned.remove(self.shards, shard);
                    book.allocated = book.allocated.saturating_sub(1);
                }
            }
        }
        if phase == Phase::HandingOff {
            book.deadlines.remove(self.shards, shard);
        } else {
            book.changed.remove(self.shards, shard);
        }
        self.count_shards(owner);
    }

    /// Gives an unallocated shard to the current session of a node.
    pub(super) fn attach(&mut self, shard: u32, owner: u16, epoch: Epoch, phase: Phase) {
        let deadline = self.book.stamp(self.config.handoff_timeout);
        self.book.wanted.remove(self.shards, shard);
        let (Some(node), Some(slot)) = (
            self.nodes.get_mut(usize::from(owner)),
            self.shards.get_mut(shard as usize),
        ) else {
            return;
        };
        slot.owner = owner;
        slot.epoch = epoch;
        slot.set_phase(phase);
        slot.clear(flag::PARITY | flag::FREED | flag::PLANNED);
        if node.parity {
            slot.set(flag::PARITY);
        }
        let book = &mut *self.book;
        if phase == Phase::HandingOff {
            slot.deadline = deadline;
            node.moving.push_back(self.shards, shard);
            book.in_flight = book.in_flight.saturating_add(1);
            book.deadlines.push_back(self.shards, shard);
        } else {
            node.owned.push_back(self.shards, shard);
            book.allocated = book.allocated.saturating_add(1);
            if node.state == crate::membership::MemberState::Leaving {
                book.leaving.push_back(self.nodes, u32::from(owner));
            }
        }
        self.count_shards(owner);
    }

    /// Ends an allocation. The shard is wanted: it had a home before.
    pub(super) fn free(&mut self, shard: u32, how: Freed) {
        let Some(slot) = self.shard(shard) else {
            return;
        };
        let taken_from = match how {
            Freed::Completed if slot.phase() == Phase::HandingOff && slot.has(flag::PLANNED) => {
                slot.owner
            }
            Freed::TimedOut => slot.owner,
            _ => NOBODY,
        };
        self.detach(shard);
        self.book.version = self.book.version.saturating_add(1);
        if let Some(slot) = self.shard_mut(shard) {
            slot.owner = taken_from;
            slot.clear(flag::LAPSED | flag::FREED | flag::PLANNED);
            if taken_from != NOBODY {
                slot.set(flag::PLANNED);
            }
            slot.set(match how {
                Freed::Completed => flag::FREED,
                Freed::Released => flag::FREED | flag::LAPSED,
                Freed::Lapsed | Freed::TimedOut => flag::LAPSED,
            });
        }
        if how != Freed::Completed {
            count(&mut self.book.stats.lapses);
        }
    }

    /// Frees a shard of an ended session, whose turn has not come, because it is needed now.
    pub(super) fn settle(&mut self, shard: u32) {
        if !self.is_stale(shard) {
            return;
        }
        let Some(slot) = self.shard(shard) else {
            return;
        };
        match self.node(slot.owner) {
            Some(node) if node.hold => {}
            Some(node) => {
                self.free(shard, Freed::of_session(node.released));
                self.want(shard);
            }
            None => {}
        }
    }

    /// Puts an unallocated shard in the list of wanted ones, to be tried again after one interval.
    pub(super) fn want(&mut self, shard: u32) {
        if shard < self.book.used(self.config)
            && self
                .shard(shard)
                .is_some_and(|slot| slot.phase() == Phase::Unallocated)
        {
            self.book.wanted.push_back(self.shards, shard);
            if self.book.wanted_at.is_none() {
                self.book.wanted_at = Some(self.book.now.after(self.config.retry_interval));
                self.book.wanted_left = 0;
            }
        }
    }

    /// Tries all wanted shards again, now.
    pub(super) const fn try_wanted(&mut self) {
        if !self.book.wanted.is_empty() {
            self.book.wanted_at = Some(self.book.now);
            self.book.wanted_left = 0;
        }
    }

    /// What may be given shards has changed.
    pub(super) const fn candidates_changed(&mut self) {
        self.book.candidates_stale = true;
        self.try_wanted();
        self.book.rebalance_at = Some(self.book.now);
    }

    /// Brings a node's count in the list of candidates up to date.
    fn count_shards(&mut self, node: u16) {
        if self.book.candidates_stale {
            return;
        }
        let Some(slot) = self.nodes.get(usize::from(node)) else {
            return;
        };
        if let Some(candidate) = self.candidates.get_mut(usize::from(slot.candidate)) {
            candidate.shards = slot.owned.len();
            candidate.movable = slot.owned.len();
        }
    }

    /// Makes the list of candidates anew if it has to be. O(nodes) then.
    pub(super) fn refresh_candidates(&mut self) {
        if !self.book.candidates_stale {
            return;
        }
        let mut len = 0_u16;
        let mut deaf = 0_u16;
        for rank in 0..self.book.order_len {
            let Some(index) = self.node(rank).map(|slot| slot.order) else {
                continue;
            };
            let role = self.config.role;
            let Some(slot) = self.nodes.get_mut(usize::from(index)) else {
                continue;
            };
            slot.candidate = NOBODY;
            if slot.is_host(role) && !slot.hears {
                deaf = deaf.saturating_add(1);
            }
            if let Some(place) = self.candidates.get_mut(usize::from(len))
                && slot.may_host(role)
            {
                *place = Candidate::new(
                    crate::allocation::NodeSlot(index),
                    slot.node,
                    slot.roles,
                    slot.owned.len(),
                );
                slot.candidate = len;
                len = len.saturating_add(1);
            }
        }
        self.book.candidates_len = len;
        self.book.deaf = deaf;
        self.book.candidates_stale = false;
    }
}

pub(super) fn is_stale(slot: &CoordShardSlot, nodes: &[CoordNodeSlot]) -> bool {
    slot.phase() != Phase::Unallocated
        && nodes
            .get(usize::from(slot.owner))
            .is_none_or(|node| node.parity != slot.has(flag::PARITY))
}

/// How an allocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// The owner said so.
    Completed,
    /// The owner's region stopped: nothing runs, nothing answers.
    Released,
    /// The owner's session ended.
    Lapsed,
    /// The handoff took too long, and membership is all there is to believe.
    TimedOut,
}

impl Freed {
    pub(super) const fn of_session(released: bool) -> Self {
        if released {
            Self::Released
        } else {
            Self::Lapsed
        }
    }
}
