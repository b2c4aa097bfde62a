//! The default strategy: the node with the fewest shards gets the next one.

use super::{AllocationStrategy, Candidate, Candidates, NodeSlot, RebalancePlan, quota};
use crate::ShardId;

/// The node with the fewest shards gets the next one; nodes with too many give some up. The default.
///
/// *Allocate*: fewest shards, pending allocations counted; ties: lowest node. O(nodes).
///
/// *Rebalance*: a shard in flight no longer counts for its old owner; each one in flight is first credited to the least
/// loaded node. Then, while the most loaded node has more than `threshold` shards more than the least loaded one, and
/// fewer than `max_simultaneous` shards are in flight: the lowest-numbered shard of the most loaded node is proposed.
/// Ties: lowest node. A node is never both giver and taker, so the number of moves is the least possible, and the
/// cluster comes to rest with counts at most `max(threshold, 1)` apart.
///
/// Costs O(nodes × log² shards), and O(shards × log nodes) if anything moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastShards {
    threshold: u32,
    max_simultaneous: u32,
}

impl LeastShards {
    /// A threshold of 1 shard, at most 64 shards in flight.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            threshold: 1,
            max_simultaneous: 64,
        }
    }

    /// How many shards more than the least loaded node the most loaded one may keep. Default 1; 0 counts as 1, since
    /// counts that do not divide would never come to rest. Large values save moves and keep nodes uneven.
    #[must_use]
    pub const fn with_threshold(mut self, shards: u32) -> Self {
        self.threshold = shards;
        self
    }

    /// How many shards may be in flight at once. Default 64. 0 never moves anything; large values make a joining node
    /// useful sooner and delay messages of more shards at a time.
    #[must_use]
    pub const fn with_max_simultaneous(mut self, shards: u32) -> Self {
        self.max_simultaneous = shards;
        self
    }
}

impl Default for LeastShards {
    fn default() -> Self {
        Self::new()
    }
}

impl AllocationStrategy for LeastShards {
    fn allocate(&mut self, _shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        fewest(candidates)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        let (candidates, table) = plan.parts();
        let in_flight = table.in_flight();
        let free = self.max_simultaneous.saturating_sub(in_flight);
        let counts = Counts(candidates);
        let moves = counts.moves(u64::from(in_flight), free, self.threshold.max(1));
        if moves == 0 {
            return;
        }
        let level = counts.level_of_move(moves.saturating_sub(1));
        // Everything above the level of the last move goes, and of what lies on it the first nodes' share.
        let mut partial = moves.saturating_sub(counts.movable_above(level));
        for candidate in candidates.iter_mut() {
            candidate.scratch = movable_above(candidate, level);
            if partial > 0 && movable_above(candidate, level.saturating_sub(1)) > candidate.scratch
            {
                partial = partial.saturating_sub(1);
                candidate.scratch = candidate.scratch.saturating_add(1);
            }
        }
        quota::propose(candidates, table, |giver| {
            let rank = u32::MAX.saturating_sub(giver.shards);
            giver.shards = giver.shards.saturating_sub(1);
            rank
        });
    }
}

/// Fewest shards; ties: lowest node, which comes first.
pub(super) fn fewest(candidates: &Candidates<'_>) -> Option<NodeSlot> {
    candidates
        .iter()
        .min_by_key(|candidate| candidate.shards)
        .map(|candidate| candidate.slot)
}

/// How many shards the node can give until it has only `level` left.
fn movable_above(candidate: &Candidate, level: u32) -> u64 {
    u64::from(
        candidate
            .shards
            .saturating_sub(level)
            .min(candidate.movable),
    )
}

/// Levels of load: the rule, move by move, without making the moves.
///
/// Moves take place level by level from the top, credits level by level from the bottom. As long as top and bottom are
/// at least two apart no node is touched by both, so each side can be computed from the counts before the round.
struct Counts<'a>(&'a [Candidate]);

impl Counts<'_> {
    /// How many moves there are that leave a node with at least `level` shards.
    fn movable_above(&self, level: u32) -> u64 {
        self.0
            .iter()
            .map(|candidate| movable_above(candidate, level))
            .fold(0, u64::saturating_add)
    }

    /// How many shards it takes until each node has `level`.
    fn missing_to(&self, level: u32) -> u64 {
        self.0
            .iter()
            .map(|candidate| u64::from(level.saturating_sub(candidate.shards)))
            .fold(0, u64::saturating_add)
    }

    /// The load of the node that makes the move with this number, from 0.
    fn level_of_move(&self, number: u64) -> u32 {
        let top = self.0.iter().map(|candidate| candidate.shards).max();
        first(top.unwrap_or(0), |level| {
            self.movable_above(level) <= number
        })
    }

    /// The least load after so many shards were credited.
    fn least_after(&self, credits: u64) -> u32 {
        let least = self.0.iter().map(|candidate| candidate.shards).min();
        let least = least.unwrap_or(0);
        let most_raised = u32::try_from(credits).unwrap_or(u32::MAX);
        let raised = first(most_raised, |by| {
            self.missing_to(least.saturating_add(by).saturating_add(1)) > credits
        });
        least.saturating_add(raised)
    }

    /// How many moves the rule makes: at most `free`, while top and bottom are more than `threshold` apart.
    fn moves(&self, in_flight: u64, free: u32, threshold: u32) -> u64 {
        let movable = u32::try_from(self.movable_above(0)).unwrap_or(u32::MAX);
        let moves = first(free.min(movable), |made| {
            let made = u64::from(made);
            let most = self.level_of_move(made);
            let least = self.least_after(in_flight.saturating_add(made));
            most.saturating_sub(least) <= threshold
        });
        u64::from(moves)
    }
}

/// The smallest number up to `limit` that satisfies a condition which every larger one satisfies too; else `limit`.
fn first(limit: u32, condition: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0_u32, limit);
    while low < high {
        let middle = low.midpoint(high);
        if condition(middle) {
            high = middle;
        } else {
            low = middle.saturating_add(1);
        }
    }
    low
}
