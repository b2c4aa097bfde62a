//! Giving shards a home.

use super::{
    ControlError, CoordPhase,
    ledger::Ledger,
    slot::{NOBODY, Phase, flag},
    stats::count,
};
use crate::{
    Epoch, ShardId,
    allocation::{AllocationStrategy, Candidates, NodeSlot},
};

impl Ledger<'_> {
    pub(super) fn get_shard_home(
        &mut self,
        from: u16,
        shard: ShardId,
        strategy: &mut dyn AllocationStrategy,
    ) -> Result<(), ControlError> {
        let shard = shard.0;
        self.settle(shard);
        let Some(slot) = self.shard(shard) else {
            return Err(ControlError::UnknownShard);
        };
        match slot.phase() {
            Phase::Allocated if self.is_stale(shard) => {}
            Phase::Allocated => self.ask(shard, from),
            // Nobody is told the old home. When it is free it is allocated, and that is announced.
            Phase::HandingOff => {}
            Phase::Unallocated => {
                if self.place(shard, strategy) {
                    self.ask(shard, from);
                }
            }
        }
        Ok(())
    }

    /// Notes who is to be told the home. For the owner it is a grant, whoever else has asked.
    fn ask(&mut self, shard: u32, from: u16) {
        let Some(slot) = self.shard_mut(shard) else {
            return;
        };
        if slot.owner == from {
            self.say(shard, flag::SAY_GRANT);
            return;
        }
        let other = slot.has(flag::SAY_HOME) && slot.asker != from;
        slot.asker = from;
        self.say(shard, flag::SAY_HOME);
        if other {
            // Two have asked since the last poll: tell everybody.
            self.book.changed.push_back(self.shards, shard);
            self.announce_now();
        }
    }

    /// Allocates an unallocated shard, or puts it in the list of wanted ones.
    pub(super) fn place(&mut self, shard: u32, strategy: &mut dyn AllocationStrategy) -> bool {
        let allocated = self.allocate(shard, strategy);
        if !allocated {
            self.want(shard);
        }
        allocated
    }

    /// Allocates an unallocated shard under the next epoch. `false` if that cannot be done now.
    fn allocate(&mut self, shard: u32, strategy: &mut dyn AllocationStrategy) -> bool {
        let Some(slot) = self.shard(shard) else {
            return false;
        };
        if slot.phase() != Phase::Unallocated
            || shard >= self.book.used(self.config)
            || !self.book.acts()
            || (self.book.phase != CoordPhase::Open && !slot.has(flag::FREED))
        {
            return false;
        }
        let taken_from = if slot.has(flag::PLANNED) {
            slot.owner
        } else {
            NOBODY
        };
        let completed = slot.has(flag::FREED) || self.config.trust;
        let Some(owner) = self.choose(shard, taken_from, strategy) else {
            return false;
        };
        let Some(epoch) = self.next_epoch() else {
            return false;
        };
        self.attach(shard, owner, epoch, Phase::Allocated);
        if !completed && let Some(slot) = self.shard_mut(shard) {
            // Nobody said that it completed, and under an earlier reign nobody can any more.
            slot.set(flag::LAPSED);
        }
        if let Some(slot) = self.shard_mut(shard)
            && slot.evict == owner
            && !slot.has(flag::SAY_OVERDUE)
        {
            // The grant replaces what the node held.
            slot.evict = NOBODY;
            slot.clear(flag::SAY_EVICT);
        }
        self.say(shard, flag::SAY_GRANT);
        self.arm_retry(shard);
        self.announce(shard);
        count(&mut self.book.stats.allocations);
        true
    }

    fn choose(
        &mut self,
        shard: u32,
        taken_from: u16,
        strategy: &mut dyn AllocationStrategy,
    ) -> Option<u16> {
        self.refresh_candidates();
        let list = self
            .candidates
            .get(..usize::from(self.book.candidates_len))?;
        if list.is_empty() {
            return None;
        }
        let mut candidates = Candidates::new(list);
        if taken_from != NOBODY {
            candidates = candidates.avoiding(NodeSlot(taken_from));
        }
        let chosen = strategy.allocate(ShardId(shard), &candidates)?.0;
        let place = self.node(chosen).map_or(NOBODY, |slot| slot.candidate);
        let fits = list
            .get(usize::from(place))
            .is_some_and(|candidate| candidates.may_have(candidate));
        if !fits {
            count(&mut self.book.stats.bad_choices);
        }
        fits.then_some(chosen)
    }

    /// The epoch of the next allocation; `None`, and a command says so, when the term has no more.
    pub(super) fn next_epoch(&mut self) -> Option<Epoch> {
        if self.book.round >= Epoch::MAX_ROUND {
            self.book.say_exhausted = true;
            return None;
        }
        self.book.round = self.book.round.saturating_add(1);
        Epoch::new(self.book.term, self.book.round)
    }

    /// Tries wanted shards whose time has come, at most `budget`; what is left of it.
    pub(super) fn place_wanted(
        &mut self,
        mut budget: u32,
        strategy: &mut dyn AllocationStrategy,
    ) -> u32 {
        if self.book.wanted_at.is_none_or(|at| at > self.book.now) {
            return budget;
        }
        self.refresh_candidates();
        if self.book.wanted_left == 0 && self.book.candidates_len > 0 {
            self.book.wanted_left = self.book.wanted.len();
        }
        while budget > 0 && self.book.wanted_left > 0 {
            let Some(shard) = self.book.wanted.pop_front(self.shards) else {
                break;
            };
            budget = budget.saturating_sub(1);
            self.book.wanted_left = self.book.wanted_left.saturating_sub(1);
            self.place(shard, strategy);
        }
        if self.book.wanted.is_empty() {
            self.book.wanted_left = 0;
            self.book.wanted_at = None;
        } else if self.book.wanted_left == 0 {
            self.book.wanted_at = Some(self.book.now.after(self.config.retry_interval));
        }
        budget
    }
}
