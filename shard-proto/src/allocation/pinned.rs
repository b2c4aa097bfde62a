//! Placement given from outside.

use super::{
    AllocationStrategy, Candidate, Candidates, NodeSlot, Placement, Placements, RebalancePlan,
    shards,
};
use crate::{NodeId, ShardId};

/// Says which node a shard belongs to.
///
/// Implemented by functions, and by tables sorted by shard.
pub trait Pins {
    /// The node that the shard is pinned to. `None`: the fallback decides. Called once per shard and round.
    fn pin(&self, shard: ShardId) -> Option<NodeId>;
}

impl<F: Fn(ShardId) -> Option<NodeId>> Pins for F {
    fn pin(&self, shard: ShardId) -> Option<NodeId> {
        self(shard)
    }
}

impl Pins for [(ShardId, NodeId)] {
    fn pin(&self, shard: ShardId) -> Option<NodeId> {
        let at = self.binary_search_by_key(&shard, |(pinned, _)| *pinned);
        at.ok().and_then(|at| self.get(at)).map(|(_, node)| *node)
    }
}

impl Pins for &[(ShardId, NodeId)] {
    fn pin(&self, shard: ShardId) -> Option<NodeId> {
        (**self).pin(shard)
    }
}

/// Placement given from outside, with a fallback for shards that have no pin or whose node is not there.
///
/// *Allocate*: the pinned node, else what the fallback says.
///
/// *Rebalance*: each shard that lives elsewhere than on the node it is pinned to is proposed, if that node is a candidate.
/// Once all of those are where they belong, the fallback has its turn. It sees pinned shards in the counts, but does not
/// move them: one that got its home from the fallback stays there until its node comes. O(shards × log nodes), three
/// calls of [`Pins::pin`] per shard, and what the fallback costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned<P, F> {
    pins: P,
    fallback: F,
    max_simultaneous: u32,
}

impl<P: Pins, F: AllocationStrategy> Pinned<P, F> {
    /// At most 64 shards in flight on their way to their pins.
    #[must_use]
    pub const fn new(pins: P, fallback: F) -> Self {
        Self {
            pins,
            fallback,
            max_simultaneous: 64,
        }
    }

    /// How many shards may be in flight at once for another one to be sent to its pin. Default 64. The fallback has its
    /// own ceiling.
    #[must_use]
    pub const fn with_max_simultaneous(mut self, shards: u32) -> Self {
        self.max_simultaneous = shards;
        self
    }

    /// The pins, to change them. Takes effect at the next round.
    pub const fn pins_mut(&mut self) -> &mut P {
        &mut self.pins
    }
}

/// The slot of a node; candidates are sorted by node.
fn slot_of(candidates: &[Candidate], node: NodeId) -> Option<NodeSlot> {
    Candidates::new(candidates)
        .get(node)
        .map(|candidate| candidate.slot)
}

impl<P: Pins, F: AllocationStrategy> AllocationStrategy for Pinned<P, F> {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        self.pins
            .pin(shard)
            .and_then(|node| candidates.get(node))
            .map(|candidate| candidate.slot)
            .or_else(|| self.fallback.allocate(shard, candidates))
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        let pins = &self.pins;
        let (candidates, table) = plan.parts();
        let mut settled = true;
        for shard in shards(table) {
            let pinned = pins.pin(shard).and_then(|node| slot_of(candidates, node));
            let Some(home) = pinned else { continue };
            match table.placement(shard) {
                Placement::On(owner) if owner != home => {
                    settled = false;
                    if table.in_flight() < self.max_simultaneous {
                        table.propose(shard);
                    }
                }
                Placement::InFlight(_) => settled = false,
                Placement::On(_) | Placement::Unallocated => {}
            }
        }
        // While pinned shards are on their way, the fallback would credit them to the wrong nodes.
        if !settled {
            return;
        }
        candidates.sort_unstable_by_key(|candidate| candidate.slot);
        for shard in shards(table).filter(|shard| pins.pin(*shard).is_some()) {
            if let Placement::On(owner) = table.placement(shard)
                && let Ok(at) = candidates.binary_search_by_key(&owner, |candidate| candidate.slot)
                && let Some(candidate) = candidates.get_mut(at)
            {
                candidate.movable = candidate.movable.saturating_sub(1);
            }
        }
        candidates.sort_unstable_by_key(|candidate| candidate.node);
        let mut unpinned = Unpinned { table, pins };
        self.fallback
            .rebalance(&mut RebalancePlan::new(candidates, &mut unpinned));
    }
}

/// The table with pinned shards hidden.
struct Unpinned<'a, P> {
    table: &'a mut dyn Placements,
    pins: &'a P,
}

impl<P: Pins> Placements for Unpinned<'_, P> {
    fn shard_count(&self) -> u32 {
        self.table.shard_count()
    }

    fn placement(&self, shard: ShardId) -> Placement {
        if self.pins.pin(shard).is_some() {
            return Placement::Unallocated;
        }
        self.table.placement(shard)
    }

    fn in_flight(&self) -> u32 {
        self.table.in_flight()
    }

    fn propose(&mut self, shard: ShardId) -> bool {
        self.pins.pin(shard).is_none() && self.table.propose(shard)
    }
}
