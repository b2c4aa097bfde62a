//! Where a coordinator keeps its tables.

use crate::{
    allocation::Candidate,
    coordinator::{CoordNodeSlot, CoordShardSlot},
};

/// The tables of a coordinator, borrowed in one go.
#[derive(Debug)]
#[non_exhaustive]
pub struct CoordinatorTables<'a> {
    /// One slot per shard.
    pub shards: &'a mut [CoordShardSlot],
    /// One slot per member.
    pub nodes: &'a mut [CoordNodeSlot],
    /// Scratch, as many as there are node slots.
    pub candidates: &'a mut [Candidate],
}

impl<'a> CoordinatorTables<'a> {
    /// From slices.
    pub const fn new(
        shards: &'a mut [CoordShardSlot],
        nodes: &'a mut [CoordNodeSlot],
        candidates: &'a mut [Candidate],
    ) -> Self {
        Self {
            shards,
            nodes,
            candidates,
        }
    }
}

/// Storage of a [`Coordinator`](crate::coordinator::Coordinator): slices whose lengths never change.
///
/// A coordinator needs one shard slot (64 bytes) per shard of its type, and one node slot (about 300 bytes) and one
/// candidate per member of the cluster, members that host nothing too.
pub trait CoordinatorStorage {
    /// The tables, to write to.
    fn tables(&mut self) -> CoordinatorTables<'_>;
    /// The shard slots.
    fn shards(&self) -> &[CoordShardSlot];
    /// The node slots.
    fn nodes(&self) -> &[CoordNodeSlot];
}

impl<S: CoordinatorStorage + ?Sized> CoordinatorStorage for &mut S {
    fn tables(&mut self) -> CoordinatorTables<'_> {
        (**self).tables()
    }

    fn shards(&self) -> &[CoordShardSlot] {
        (**self).shards()
    }

    fn nodes(&self) -> &[CoordNodeSlot] {
        (**self).nodes()
    }
}

/// Tables of fixed sizes, by value. Fits a `static`.
#[derive(Clone, Debug)]
pub struct CoordinatorArray<const SHARDS: usize, const NODES: usize> {
    shards: [CoordShardSlot; SHARDS],
    nodes: [CoordNodeSlot; NODES],
    candidates: [Candidate; NODES],
}

impl<const SHARDS: usize, const NODES: usize> CoordinatorArray<SHARDS, NODES> {
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shards: [CoordShardSlot::EMPTY; SHARDS],
            nodes: [CoordNodeSlot::EMPTY; NODES],
            candidates: [Candidate::EMPTY; NODES],
        }
    }
}

impl<const SHARDS: usize, const NODES: usize> Default for CoordinatorArray<SHARDS, NODES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SHARDS: usize, const NODES: usize> CoordinatorStorage
    for CoordinatorArray<SHARDS, NODES>
{
    fn tables(&mut self) -> CoordinatorTables<'_> {
        CoordinatorTables::new(&mut self.shards, &mut self.nodes, &mut self.candidates)
    }

    fn shards(&self) -> &[CoordShardSlot] {
        &self.shards
    }

    fn nodes(&self) -> &[CoordNodeSlot] {
        &self.nodes
    }
}

/// Borrowed tables. [`Coordinator::new`](crate::coordinator::Coordinator::new) empties them.
#[derive(Debug)]
pub struct CoordinatorSlices<'a>(CoordinatorTables<'a>);

impl<'a> CoordinatorSlices<'a> {
    /// From slices; what they contain does not matter.
    #[must_use]
    pub const fn new(
        shards: &'a mut [CoordShardSlot],
        nodes: &'a mut [CoordNodeSlot],
        candidates: &'a mut [Candidate],
    ) -> Self {
        Self(CoordinatorTables::new(shards, nodes, candidates))
    }
}

impl CoordinatorStorage for CoordinatorSlices<'_> {
    fn tables(&mut self) -> CoordinatorTables<'_> {
        CoordinatorTables::new(self.0.shards, self.0.nodes, self.0.candidates)
    }

    fn shards(&self) -> &[CoordShardSlot] {
        self.0.shards
    }

    fn nodes(&self) -> &[CoordNodeSlot] {
        self.0.nodes
    }
}

/// Tables on the heap, sized once.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct CoordinatorHeap {
    shards: alloc::boxed::Box<[CoordShardSlot]>,
    nodes: alloc::boxed::Box<[CoordNodeSlot]>,
    candidates: alloc::boxed::Box<[Candidate]>,
}

#[cfg(feature = "alloc")]
impl CoordinatorHeap {
    /// Empty tables for so many shards and members.
    #[must_use]
    pub fn new(shards: u32, nodes: u16) -> Self {
        let (shards, nodes) = (shards as usize, usize::from(nodes));
        Self {
            shards: alloc::vec![CoordShardSlot::EMPTY; shards].into_boxed_slice(),
            nodes: alloc::vec![CoordNodeSlot::EMPTY; nodes].into_boxed_slice(),
            candidates: alloc::vec![Candidate::EMPTY; nodes].into_boxed_slice(),
        }
    }
}

#[cfg(feature = "alloc")]
impl CoordinatorStorage for CoordinatorHeap {
    fn tables(&mut self) -> CoordinatorTables<'_> {
        CoordinatorTables::new(&mut self.shards, &mut self.nodes, &mut self.candidates)
    }

    fn shards(&self) -> &[CoordShardSlot] {
        &self.shards
    }

    fn nodes(&self) -> &[CoordNodeSlot] {
        &self.nodes
    }
}
