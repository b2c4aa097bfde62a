//! How a coordinator chooses homes.
//!
//! A strategy must be deterministic: same inputs, same choices. Built-in ones reach a fixpoint (a balanced cluster
//! moves nothing), never propose more moves than needed, count moves in flight against their ceiling, and order
//! candidates totally.

use crate::{NodeId, ShardId, membership::Roles};

/// Index of a node in the coordinator's table; stable as long as the node is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSlot(pub u16);

/// A node that may be given shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where the coordinator keeps it.
    pub slot: NodeSlot,
    /// The node.
    pub node: NodeId,
    /// Its roles.
    pub roles: Roles,
    /// Shards it owns, pending allocations counted, shards in flight away from it not counted.
    pub shards: u32,
}

/// The nodes that may be given shards, sorted by [`NodeId`] and unique.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    list: &'a [Candidate],
}

impl<'a> Candidates<'a> {
    /// From a list that is sorted by node and unique.
    #[must_use]
    pub const fn new(list: &'a [Candidate]) -> Self {
        Self { list }
    }

    /// All of them.
    #[must_use]
    pub const fn as_slice(&self) -> &'a [Candidate] {
        self.list
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
    candidates: &'a [Candidate],
    table: &'a mut dyn Placements,
}

impl<'a> RebalancePlan<'a> {
    /// A round over `candidates` (sorted by node, unique; counts as they were before the round) and a table.
    pub fn new(candidates: &'a [Candidate], table: &'a mut dyn Placements) -> Self {
        Self { candidates, table }
    }

    /// The nodes that may be given shards, sorted by node, with their counts before the round.
    #[must_use]
    pub const fn candidates(&self) -> &'a [Candidate] {
        self.candidates
    }

    /// The shard table.
    #[must_use]
    pub fn table(&self) -> &dyn Placements {
        self.table
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
    fn rebalance(&mut self, plan: &mut RebalancePlan<'_>);
}
