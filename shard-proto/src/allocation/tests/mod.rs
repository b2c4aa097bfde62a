#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod pinned;
mod properties;
mod vectors;

use alloc::vec::Vec;

use super::*;

/// A shard table and its nodes; node `i` has slot `1000 - i`, so that nothing relies on slots being in node order.
#[derive(Clone, Debug)]
struct Cluster {
    nodes: Vec<NodeId>,
    shards: Vec<Placement>,
    in_flight: u32,
    proposed: Vec<u32>,
}

fn slot(node: usize) -> NodeSlot {
    NodeSlot(1000 - node as u16)
}

fn node_of(slot: NodeSlot) -> usize {
    1000 - slot.0 as usize
}

impl Placements for Cluster {
    fn shard_count(&self) -> u32 {
        self.shards.len() as u32
    }

    fn placement(&self, shard: ShardId) -> Placement {
        self.shards[shard.0 as usize]
    }

    fn in_flight(&self) -> u32 {
        self.in_flight
    }

    fn propose(&mut self, shard: ShardId) -> bool {
        let Placement::On(owner) = self.placement(shard) else {
            return false;
        };
        self.shards[shard.0 as usize] = Placement::InFlight(owner);
        self.in_flight += 1;
        self.proposed.push(shard.0);
        true
    }
}

impl Cluster {
    /// Consecutive shards from 0: first all of the first node, then of the second.
    fn with_loads(loads: &[u32]) -> Self {
        let owners = loads.iter().enumerate();
        let shards = owners.flat_map(|(node, load)| (0..*load).map(move |_| node));
        Self::with_owners(loads.len(), shards)
    }

    fn with_owners(nodes: usize, owners: impl Iterator<Item = usize>) -> Self {
        Self {
            nodes: (0..nodes as u64).map(|node| NodeId(node * 7 + 3)).collect(),
            shards: owners.map(|node| Placement::On(slot(node))).collect(),
            in_flight: 0,
            proposed: Vec::new(),
        }
    }

    fn unallocated(nodes: usize, shards: usize) -> Self {
        let mut cluster = Self::with_owners(nodes, core::iter::empty());
        cluster.shards = alloc::vec![Placement::Unallocated; shards];
        cluster
    }

    fn with_in_flight(mut self, shards: &[u32]) -> Self {
        for shard in shards {
            assert!(self.propose(ShardId(*shard)));
        }
        self
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut loads = alloc::vec![0; self.nodes.len()];
        for shard in &self.shards {
            if let Placement::On(owner) = shard
                && let Some(load) = loads.get_mut(node_of(*owner))
            {
                *load += 1;
            }
        }
        let nodes = self.nodes.iter().zip(loads).enumerate();
        nodes
            .map(|(index, (node, load))| Candidate::new(slot(index), *node, Roles::NONE, load))
            .collect()
    }

    fn loads(&self) -> Vec<u32> {
        self.candidates().iter().map(|node| node.shards).collect()
    }

    /// Lets the strategy propose moves.
    fn round(&mut self, strategy: &mut impl AllocationStrategy) -> Vec<u32> {
        self.proposed.clear();
        let mut candidates = self.candidates();
        strategy.rebalance(&mut RebalancePlan::new(&mut candidates, self));
        self.proposed.clone()
    }

    fn allocate(&mut self, strategy: &mut impl AllocationStrategy, shard: u32) -> NodeSlot {
        let list = self.candidates();
        let mut candidates = Candidates::new(&list);
        if let Placement::InFlight(from) = self.shards[shard as usize] {
            candidates = candidates.avoiding(from);
            self.in_flight -= 1;
        }
        let home = strategy.allocate(ShardId(shard), &candidates).unwrap();
        self.shards[shard as usize] = Placement::On(home);
        home
    }

    /// Completes every move in flight. Returns (shard, from, to).
    fn complete(&mut self, strategy: &mut impl AllocationStrategy) -> Vec<(u32, usize, usize)> {
        let mut moves = Vec::new();
        for shard in 0..self.shard_count() {
            if let Placement::InFlight(from) = self.placement(ShardId(shard)) {
                let to = self.allocate(strategy, shard);
                moves.push((shard, node_of(from), node_of(to)));
            }
        }
        moves
    }

    /// Rounds until nothing is proposed any more, each completed before the next.
    fn settle(&mut self, strategy: &mut impl AllocationStrategy) -> Vec<(u32, usize, usize)> {
        let mut moves = self.complete(strategy);
        for _ in 0..100_000 {
            if self.round(strategy).is_empty() {
                return moves;
            }
            moves.extend(self.complete(strategy));
        }
        panic!("does not come to rest: {:?}", self.loads());
    }
}
