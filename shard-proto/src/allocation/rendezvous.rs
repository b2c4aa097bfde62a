//! Highest random weight.

use super::{AllocationStrategy, Candidate, Candidates, NodeSlot, RebalancePlan, move_home};
use crate::{ShardId, hash::mix};

/// The node with the highest score `mix(mix(shard) ^ mix(node))`, where [`mix`] is one output of SplitMix64.
///
/// A home that anybody can compute who knows the nodes. Removing a node moves exactly its shards; adding one moves shards
/// only to it, about `total / (n + 1)` of them. Counts vary around the mean as random choices do.
/// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.)
///
/// *Allocate*: O(nodes). *Rebalance*: each shard whose computed home is another one; O(shards × nodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    max_simultaneous: u32,
}

impl Rendezvous {
    /// At most 64 shards in flight.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_simultaneous: 64,
        }
    }

    /// How many shards may be in flight at once. Default 64; 0 never moves anything.
    #[must_use]
    pub const fn with_max_simultaneous(mut self, shards: u32) -> Self {
        self.max_simultaneous = shards;
        self
    }
}

impl Default for Rendezvous {
    fn default() -> Self {
        Self::new()
    }
}

/// The highest score wins; ties (which distinct nodes cannot have): lowest node.
fn best<'a>(
    shard: ShardId,
    candidates: impl Iterator<Item = &'a Candidate>,
    node_hash: impl Fn(&Candidate) -> u64,
) -> Option<NodeSlot> {
    let shard_hash = mix(u64::from(shard.0));
    let score = |candidate: &&Candidate| mix(shard_hash ^ node_hash(candidate));
    candidates.max_by_key(score).map(|winner| winner.slot)
}

impl AllocationStrategy for Rendezvous {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        best(shard, candidates.iter(), |candidate| mix(candidate.node.0))
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        let (candidates, table) = plan.parts();
        for candidate in candidates.iter_mut() {
            candidate.scratch = mix(candidate.node.0);
        }
        move_home(table, self.max_simultaneous, |shard| {
            best(shard, candidates.iter(), |candidate| candidate.scratch)
        });
    }
}
