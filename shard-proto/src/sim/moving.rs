//! Moves for no reason, and on demand.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Strategy;
use crate::ShardId;
use crate::allocation::{AllocationStrategy, Candidates, NodeSlot, RebalancePlan};

/// Another strategy, and moves that somebody asked for.
pub struct Moving {
    inner: Box<dyn Strategy>,
    wanted: Vec<ShardId>,
}

impl core::fmt::Debug for Moving {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Moving")
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl Clone for Moving {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.boxed(),
            wanted: self.wanted.clone(),
        }
    }
}

impl Moving {
    pub(super) const fn new(inner: Box<dyn Strategy>) -> Self {
        Self {
            inner,
            wanted: Vec::new(),
        }
    }

    /// The next round proposes this shard.
    pub(super) fn want(&mut self, shard: ShardId) {
        self.wanted.push(shard);
    }
}

impl AllocationStrategy for Moving {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        self.inner.allocate(shard, candidates)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        for shard in self.wanted.drain(..) {
            plan.propose(shard);
        }
        self.inner.rebalance(plan);
    }
}
