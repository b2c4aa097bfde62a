//! The shard's number modulo the nodes.

use super::{AllocationStrategy, Candidate, Candidates, NodeSlot, RebalancePlan, move_home};
use crate::ShardId;

/// `shard mod n` of the sorted nodes: a home that anybody can compute who knows the nodes.
///
/// Nearly every shard moves when a node comes or goes; [`super::Rendezvous`] has the same virtue without that.
///
/// *Allocate*: O(1); if the shard was just taken from the node that the rule names, the node after it.
/// *Rebalance*: each shard whose computed home is another one. O(shards).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulo {
    max_simultaneous: u32,
}

impl Modulo {
    /// At most 8 shards in flight.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_simultaneous: 8,
        }
    }

    /// How many shards may be in flight at once. Default 8; 0 never moves anything.
    #[must_use]
    pub const fn with_max_simultaneous(mut self, shards: u32) -> Self {
        self.max_simultaneous = shards;
        self
    }
}

impl Default for Modulo {
    fn default() -> Self {
        Self::new()
    }
}

fn nth(list: &[Candidate], number: u64) -> Option<&Candidate> {
    let nodes = u64::try_from(list.len()).ok()?;
    let at = number.checked_rem(nodes)?;
    list.get(usize::try_from(at).ok()?)
}

impl AllocationStrategy for Modulo {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        let list = candidates.as_slice();
        let number = u64::from(shard.0);
        let home = nth(list, number)?;
        if candidates.may_have(home) {
            return Some(home.slot);
        }
        nth(list, number.saturating_add(1)).map(|next| next.slot)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        let (candidates, table) = plan.parts();
        move_home(table, self.max_simultaneous, |shard| {
            nth(candidates, u64::from(shard.0)).map(|home| home.slot)
        });
    }
}
