//! How a coordinator chooses homes.
//!
//! | strategy | a shard's home | moves when the nodes change |
//! |---|---|---|
//! | [`LeastShards`] (default) | the node with the fewest shards | as few as even out the counts |
//! | [`LeastShardsLimits`] | the same | the same, bounded per round by two limits |
//! | [`Modulo`] | `shard mod n` of the sorted nodes | nearly all |
//! | [`Rendezvous`] | the highest hash of (shard, node) | only those of the node that came or went |
//! | [`Pinned`] | given from outside, with a fallback | those whose pin changed, and the fallback's |
//!
//! A strategy must be deterministic: same inputs, same choices. The built-in ones reach a fixpoint (a balanced cluster
//! moves nothing, for any number of shards and nodes), never propose more moves than needed, count moves in flight
//! against their ceiling, and order candidates totally. None of them allocates, recurses or decides with floats.

use crate::{NodeId, ShardId, membership::Roles};

mod least_shards;
mod least_shards_limits;
mod modulo;
mod pinned;
mod quota;
mod rendezvous;
#[cfg(test)]
mod tests;

pub use least_shards::LeastShards;
pub use least_shards_limits::LeastShardsLimits;
pub use modulo::Modulo;
pub use pinned::{Pinned, Pins};
pub use rendezvous::Rendezvous;

/// Index of a node in the coordinator's table; stable as long as the node is a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSlot(pub u16);

/// A node that may be given shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Where the coordinator keeps it.
    pub slot: NodeSlot,
    /// The node.
    pub node: NodeId,
    /// Its roles.
    pub roles: Roles,
    /// Shards it owns, pending allocations counted, shards in flight away from it not counted.
    pub shards: u32,
    /// How many of those a strategy may move; fewer than `shards` where some are pinned.
    pub movable: u32,
    /// Free for the strategy during [`AllocationStrategy::rebalance`]; not zeroed before.
    pub scratch: u64,
}

impl Candidate {
    /// Fills tables before use.
    pub const EMPTY: Self = Self::new(NodeSlot(0), NodeId(0), Roles::NONE, 0);

    /// A node that owns `shards` shards, all of which may be moved.
    #[must_use]
    pub const fn new(slot: NodeSlot, node: NodeId, roles: Roles, shards: u32) -> Self {
        Self {
            slot,
            node,
            roles,
            shards,
            movable: shards,
            scratch: 0,
        }
    }
}

/// The nodes that may be given a shard, sorted by [`NodeId`] and unique.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    list: &'a [Candidate],
    avoided: Option<NodeSlot>,
}

impl<'a> Candidates<'a> {
    /// From a list that is sorted by node and unique.
    #[must_use]
    pub const fn new(list: &'a [Candidate]) -> Self {
        Self {
            list,
            avoided: None,
        }
    }

    /// The node that the shard was just taken from: not given it back unless it is the only one.
    ///
    /// It stays in the list, so that a strategy which computes a home from the position of the nodes computes the same
    /// one as at rebalance.
    #[must_use]
    pub const fn avoiding(mut self, slot: NodeSlot) -> Self {
        self.avoided = Some(slot);
        self
    }

    /// All of them, the avoided one too.
    #[must_use]
    pub const fn as_slice(&self) -> &'a [Candidate] {
        self.list
    }

    /// Whether this shard may be given to the node.
    #[must_use]
    pub fn may_have(&self, candidate: &Candidate) -> bool {
        self.avoided != Some(candidate.slot) || self.list.len() == 1
    }

    /// Those that may be given the shard, in order of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = &'a Candidate> + use<'a> {
        let all = *self;
        self.list
            .iter()
            .filter(move |candidate| all.may_have(candidate))
    }

    /// A node by name, if it may be given the shard. O(log nodes).
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&'a Candidate> {
        let at = self
            .list
            .binary_search_by_key(&node, |candidate| candidate.node)
            .ok()?;
        self.list
            .get(at)
            .filter(|candidate| self.may_have(candidate))
    }
}

/// What a plan sees of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a placement nobody handles must not compile"
)]
pub enum Placement {
    /// Nobody's.
    Unallocated,
    /// Owned and not moving.
    On(NodeSlot),
    /// Being handed off by this node.
    InFlight(NodeSlot),
}

/// The shard table as a strategy sees it.
pub trait Placements {
    /// How many shards there are.
    fn shard_count(&self) -> u32;
    /// Where a shard is. O(1).
    fn placement(&self, shard: ShardId) -> Placement;
    /// How many shards are in flight, those proposed in this round included.
    fn in_flight(&self) -> u32;
    /// Starts to hand a shard off. `false`, and nothing happens, if it is not [`Placement::On`] a node.
    fn propose(&mut self, shard: ShardId) -> bool;
}

/// One round of rebalancing.
pub struct RebalancePlan<'a> {
    candidates: &'a mut [Candidate],
    table: &'a mut dyn Placements,
}

impl<'a> RebalancePlan<'a> {
    /// A round over `candidates` (sorted by node, unique; counts as they were before the round) and a table.
    ///
    /// The list is scratch space for the strategy: what it contains after the round, and in which order, is unspecified.
    pub fn new(candidates: &'a mut [Candidate], table: &'a mut dyn Placements) -> Self {
        Self { candidates, table }
    }

    /// The nodes that may be given shards, sorted by node, with their counts before the round.
    #[must_use]
    pub const fn candidates(&self) -> &[Candidate] {
        self.candidates
    }

    /// The shard table.
    #[must_use]
    pub fn table(&self) -> &dyn Placements {
        self.table
    }

    /// Both, to write to: a strategy may reorder the list and use its `scratch` fields.
    pub fn parts(&mut self) -> (&mut [Candidate], &mut dyn Placements) {
        (self.candidates, self.table)
    }

    /// Starts to hand a shard off; see [`Placements::propose`].
    pub fn propose(&mut self, shard: ShardId) -> bool {
        self.table.propose(shard)
    }
}

impl core::fmt::Debug for RebalancePlan<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RebalancePlan")
            .field("candidates", &self.candidates)
            .finish_non_exhaustive()
    }
}

/// Chooses homes. One per entity type, on the leading node.
pub trait AllocationStrategy {
    /// Picks the home of a shard. `None`: no candidate fits now; it is asked again when something changes.
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot>;

    /// Proposes moves. Called at each interval, when a move completes and on membership changes; never while a member
    /// is unreachable or joining.
    ///
    /// A shard that is proposed is handed off and then allocated anew, by [`Self::allocate`], to whatever node fits best
    /// at that time.
    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>);
}

impl<A: AllocationStrategy + ?Sized> AllocationStrategy for &mut A {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        (**self).allocate(shard, candidates)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        (**self).rebalance(plan);
    }
}

#[cfg(feature = "alloc")]
impl<A: AllocationStrategy + ?Sized> AllocationStrategy for alloc::boxed::Box<A> {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        (**self).allocate(shard, candidates)
    }

    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>) {
        (**self).rebalance(plan);
    }
}

/// The shards `0..shard_count`.
fn shards(table: &dyn Placements) -> impl Iterator<Item = ShardId> + use<> {
    (0..table.shard_count()).map(ShardId)
}

/// Proposes each shard that is not where `home` wants it, as long as fewer than `ceiling` are in flight.
///
/// `home` gives `None` for a shard that is to stay where it is. O(shards × cost of `home`).
fn move_home(
    table: &mut dyn Placements,
    ceiling: u32,
    mut home: impl FnMut(ShardId) -> Option<NodeSlot>,
) {
    for shard in shards(table) {
        if table.in_flight() >= ceiling {
            return;
        }
        if let Placement::On(owner) = table.placement(shard)
            && home(shard).is_some_and(|wanted| wanted != owner)
        {
            table.propose(shard);
        }
    }
}
