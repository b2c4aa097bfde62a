//! Even counts with two limits on the moves of a round.

use super::{AllocationStrategy, Candidates, NodeSlot, RebalancePlan, least_shards::fewest, quota};
use crate::ShardId;

/// Like [`super::LeastShards`], with an absolute and a relative limit on the moves of a round, and no round before the
/// moves of the last one are done.
///
/// *Allocate*: fewest shards; ties: lowest node. O(nodes).
///
/// *Rebalance*: nothing while anything is in flight. With `optimal = ceil(total / nodes)` and
/// `limit = max(1, min(relative × total, absolute))`, nodes in order of their counts: each node above `optimal` gives its
/// first shards beyond it; if there is none, each node at `optimal` or above gives one, as many as are missing for every
/// node to have `optimal − 1`. Either list is cut at `limit`. Comes to rest with counts at most 1 apart.
/// O(nodes × log nodes), and O(shards × log nodes) if anything moves.
///
/// The rule is that of the least-shard strategy of Akka 2.6.10 and later and of Pekko.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastShardsLimits {
    absolute: u32,
    per_mille: u32,
}

impl LeastShardsLimits {
    /// At most 20 shards and a tenth of all shards per round.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            absolute: 20,
            per_mille: 100,
        }
    }

    /// How many shards a round may move. Default 20. 0 counts as 1.
    #[must_use]
    pub const fn with_absolute(mut self, shards: u32) -> Self {
        self.absolute = shards;
        self
    }

    /// Which part of all shards a round may move, in thousandths: 100 (the default) is a tenth, 1 000 or more no limit.
    /// A round may always move one shard. An integer, so that every node of every platform decides alike.
    #[must_use]
    pub const fn with_relative_per_mille(mut self, per_mille: u32) -> Self {
        self.per_mille = per_mille;
        self
    }

    fn limit(self, total: u64) -> u64 {
        let relative = total
            .saturating_mul(u64::from(self.per_mille))
            .checked_div(1000)
            .unwrap_or(0);
        relative.min(u64::from(self.absolute)).max(1)
    }
}

impl Default for LeastShardsLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl AllocationStrategy for LeastShardsLimits {
    fn allocate(&mut self, _shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        fewest(candidates)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        let (candidates, table) = plan.parts();
        if table.in_flight() > 0 {
            return;
        }
        let counts = || candidates.iter().map(|candidate| candidate.shards);
        let total = counts().map(u64::from).fold(0, u64::saturating_add);
        let nodes = u64::try_from(candidates.len()).unwrap_or(u64::MAX);
        if nodes == 0 {
            return;
        }
        let optimal = u32::try_from(total.div_ceil(nodes)).unwrap_or(u32::MAX);
        let limit = self.limit(total);
        let level = optimal.saturating_sub(1);
        let missing = counts()
            .map(|shards| u64::from(level.saturating_sub(shards)))
            .fold(0, u64::saturating_add);
        let surplus = candidates
            .iter()
            .any(|candidate| candidate.shards > optimal && candidate.movable > 0);

        candidates.sort_unstable_by_key(|candidate| (candidate.shards, candidate.node));
        let mut left = if surplus { limit } else { limit.min(missing) };
        for candidate in candidates.iter_mut() {
            let given = if surplus {
                candidate.shards.saturating_sub(optimal)
            } else {
                u32::from(candidate.shards >= optimal)
            };
            candidate.scratch = u64::from(given.min(candidate.movable)).min(left);
            left = left.saturating_sub(candidate.scratch);
        }
        quota::propose(candidates, table, |giver| giver.shards);
    }
}
