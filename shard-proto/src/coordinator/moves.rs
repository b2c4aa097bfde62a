//! Handing shards off: who starts it, how it ends, and what happens when it does not.

use super::{
    ControlError, CoordPhase,
    ledger::{Freed, Ledger},
    slot::{NOBODY, Phase, flag},
    stats::count,
};
use crate::{
    ShardId,
    allocation::{AllocationStrategy, NodeSlot, Placement, Placements, RebalancePlan},
    membership::MemberState,
    wire::control::{HandOffComplete, ShardEpoch},
};

impl Ledger<'_> {
    /// Tells the owner to give an allocated shard up, so that it can move. `false` if it is not allocated.
    pub(super) fn begin_handoff(&mut self, shard: u32) -> bool {
        let Some((owner, epoch, Phase::Allocated)) = self.live_owner(shard) else {
            return false;
        };
        self.detach(shard);
        self.attach(shard, owner, epoch, Phase::HandingOff);
        self.book.version = self.book.version.saturating_add(1);
        self.say(shard, flag::SAY_HANDOFF | flag::PLANNED);
        self.arm_retry(shard);
        count(&mut self.book.stats.handoffs);
        true
    }

    pub(super) fn shard_started(
        &mut self,
        from: u16,
        what: ShardEpoch,
    ) -> Result<(), ControlError> {
        let shard = what.shard.0;
        match self.live_owner(shard) {
            Some((owner, epoch, phase)) if owner == from && epoch == what.epoch => {
                if phase == Phase::Allocated
                    && let Some(slot) = self.shard_mut(shard)
                {
                    slot.set(flag::STARTED);
                    slot.clear(flag::SAY_GRANT);
                    if slot.evict == NOBODY {
                        self.book.retry.remove(self.shards, shard);
                    }
                }
                Ok(())
            }
            _ => Err(ControlError::NotOwner),
        }
    }

    /// From the recorded owner with the recorded epoch it frees the shard in every state, whoever had ordered it.
    pub(super) fn hand_off_complete(
        &mut self,
        from: u16,
        what: HandOffComplete,
        strategy: &mut dyn AllocationStrategy,
    ) -> Result<(), ControlError> {
        let shard = what.shard.0;
        let Some(slot) = self.shard_mut(shard) else {
            return Err(ControlError::UnknownShard);
        };
        let mut known = false;
        if slot.evict == from && slot.evict_epoch == what.epoch {
            slot.evict = NOBODY;
            slot.clear(flag::SAY_EVICT);
            known = true;
        }
        let phase = slot.phase();
        if phase == Phase::Unallocated || slot.owner != from || slot.epoch != what.epoch {
            return if known {
                Ok(())
            } else {
                Err(ControlError::NotOwner)
            };
        }
        let refused = phase == Phase::Allocated && !slot.has(flag::STARTED);
        self.free(shard, Freed::Completed);
        count(&mut self.book.stats.completions);
        if what.forced {
            count(&mut self.book.stats.forced_completions);
        }
        if refused {
            // A grant not taken: granted anew at the speed of the network, it would burn rounds.
            self.want(shard);
        } else {
            self.place(shard, strategy);
            self.book.rebalance_at = Some(self.book.now);
        }
        Ok(())
    }

    /// Whoever drains has the whole time from now on.
    pub(super) fn renew_deadlines(&mut self) {
        let deadline = self.book.stamp(self.config.handoff_timeout);
        for _ in 0..self.book.deadlines.len() {
            if let Some(shard) = self.book.deadlines.rotate(self.shards)
                && let Some(slot) = self.shard_mut(shard)
            {
                slot.deadline = deadline;
            }
        }
    }

    /// Repeats what is unconfirmed and due, at most `budget`; what is left of it.
    pub(super) fn repeat(&mut self, mut budget: u32) -> u32 {
        while budget > 0 {
            let Some(shard) = self.book.retry.front() else {
                break;
            };
            if !self
                .shard(shard)
                .is_some_and(|slot| self.book.is_due(slot.retry_at))
            {
                break;
            }
            budget = budget.saturating_sub(1);
            self.book.retry.remove(self.shards, shard);
            let stale = self.is_stale(shard);
            let evicting = self
                .shard(shard)
                .and_then(|slot| self.node(slot.evict))
                .is_some_and(|node| node.member);
            let Some(slot) = self.shard_mut(shard) else {
                continue;
            };
            let mut again = match slot.phase() {
                Phase::Allocated if !stale && !slot.has(flag::STARTED) => flag::SAY_GRANT,
                Phase::HandingOff if !stale => flag::SAY_HANDOFF,
                _ => 0,
            };
            if evicting {
                again |= flag::SAY_EVICT;
            } else {
                slot.evict = NOBODY;
            }
            if again != 0 {
                self.say(shard, again);
                self.arm_retry(shard);
            }
        }
        budget
    }

    /// Gives up on handoffs that are overdue, at most `budget`; what is left of it.
    pub(super) fn give_up_overdue(
        &mut self,
        mut budget: u32,
        strategy: &mut dyn AllocationStrategy,
    ) -> u32 {
        while budget > 0 {
            let Some(shard) = self.book.deadlines.front() else {
                break;
            };
            if !self
                .shard(shard)
                .is_some_and(|slot| self.book.is_due(slot.deadline))
            {
                break;
            }
            budget = budget.saturating_sub(1);
            self.book.deadlines.remove(self.shards, shard);
            let Some((owner, epoch, Phase::HandingOff)) = self.live_owner(shard) else {
                continue;
            };
            count(&mut self.book.stats.handoff_timeouts);
            if self.config.trust {
                self.free(shard, Freed::TimedOut);
                self.lose(shard, owner, epoch);
                self.say(shard, flag::SAY_OVERDUE);
                self.place(shard, strategy);
                self.book.rebalance_at = Some(self.book.now);
            } else {
                self.say(shard, flag::SAY_OVERDUE | flag::OVERDUE);
                self.give_up_node(owner);
            }
        }
        budget
    }

    /// Protocol 5.5: the sessions of a node that does not complete are ended; when its lease is over, leadership says
    /// so, and its shards are freed.
    fn give_up_node(&mut self, owner: u16) {
        if self
            .node(owner)
            .is_none_or(|node| node.given_up || !node.member)
        {
            return;
        }
        self.unregister(owner);
        if let Some(node) = self.node_mut(owner) {
            node.ended = node.ended.max(node.session);
            node.given_up = true;
            node.say_end_sessions = true;
        }
        self.say_node(owner);
    }

    /// Frees shards of ended sessions, at most `budget`; what is left of it.
    pub(super) fn vacate(&mut self, mut budget: u32, strategy: &mut dyn AllocationStrategy) -> u32 {
        while budget > 0 {
            let Some(at) = self.book.vacating.front() else {
                break;
            };
            let index = u16::try_from(at).unwrap_or(NOBODY);
            let Some((shard, released)) = self
                .node(index)
                .and_then(|node| Some((node.stale.front()?, node.released)))
            else {
                self.book.vacating.remove(self.nodes, at);
                self.vacated(index);
                continue;
            };
            budget = budget.saturating_sub(1);
            self.free(shard, Freed::of_session(released));
            self.place(shard, strategy);
            self.vacated(index);
        }
        budget
    }

    /// Hands off shards of leaving members, outside of a strategy's limits, at most `budget`; what is left of it.
    pub(super) fn drain_leaving(&mut self, mut budget: u32) -> u32 {
        while budget > 0 {
            let Some(at) = self.book.leaving.front() else {
                break;
            };
            let shard = u16::try_from(at)
                .ok()
                .and_then(|index| self.node(index))
                .filter(|node| node.member && node.state == MemberState::Leaving)
                .and_then(|node| node.owned.front());
            let Some(shard) = shard else {
                self.book.leaving.remove(self.nodes, at);
                continue;
            };
            budget = budget.saturating_sub(1);
            self.begin_handoff(shard);
        }
        budget
    }

    /// Lets the strategy look for moves, if it is time and the view and the table are at rest.
    pub(super) fn rebalance(&mut self, strategy: &mut dyn AllocationStrategy) {
        if self.book.rebalance_at.is_none_or(|at| at > self.book.now) {
            return;
        }
        let allocating = self.book.wanted_at.is_some_and(|at| at <= self.book.now);
        if allocating
            || self.book.is_keeping(self.config)
            || !self.book.vacating.is_empty()
            || !self.book.leaving.is_empty()
        {
            // Counts would be of a moment in between. All of these are due now.
            return;
        }
        self.book.rebalance_at = Some(self.book.now.after(self.config.rebalance_interval));
        if self.book.phase != CoordPhase::Open || self.book.unsettled > 0 {
            return;
        }
        self.refresh_candidates();
        if self.book.deaf > 0 {
            // As with one that is unreachable.
            return;
        }
        let candidates = core::mem::take(&mut self.candidates);
        let len = usize::from(self.book.candidates_len);
        if let Some(list) = candidates.get_mut(..len)
            && !list.is_empty()
        {
            // The list is the strategy's scratch from here on.
            self.book.candidates_stale = true;
            strategy.rebalance(&mut RebalancePlan::new(list, self));
            count(&mut self.book.stats.rebalances);
        }
        self.candidates = candidates;
    }
}

impl Placements for Ledger<'_> {
    fn shard_count(&self) -> u32 {
        self.config.shard_count
    }

    fn placement(&self, shard: ShardId) -> Placement {
        match self.live_owner(shard.0) {
            Some((owner, _, Phase::Allocated)) => Placement::On(NodeSlot(owner)),
            Some((owner, _, _)) => Placement::InFlight(NodeSlot(owner)),
            None => Placement::Unallocated,
        }
    }

    fn in_flight(&self) -> u32 {
        self.book.in_flight
    }

    fn propose(&mut self, shard: ShardId) -> bool {
        self.begin_handoff(shard.0)
    }
}
