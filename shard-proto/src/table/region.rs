//! Where a region keeps its tables.

use crate::region::{BufferSlot, NodeSlot, ShardSlot};

/// The tables of a region, borrowed in one go.
#[derive(Debug)]
#[non_exhaustive]
pub struct RegionTables<'a, P> {
    /// One slot per shard.
    pub shards: &'a mut [ShardSlot],
    /// One slot per incarnation of another member.
    pub nodes: &'a mut [NodeSlot],
    /// One slot per buffered message.
    pub buffer: &'a mut [BufferSlot<P>],
}

impl<'a, P> RegionTables<'a, P> {
    /// From slices.
    pub const fn new(
        shards: &'a mut [ShardSlot],
        nodes: &'a mut [NodeSlot],
        buffer: &'a mut [BufferSlot<P>],
    ) -> Self {
        Self {
            shards,
            nodes,
            buffer,
        }
    }
}

/// Storage of a [`Region`](crate::region::Region): slices whose lengths never change.
///
/// A region needs one shard slot (64 bytes) per shard of its type; one node slot (32 bytes) per other member, and a
/// few more, since the slot of an incarnation that ended is free again only after the shards were gone through; and
/// one buffer slot (32 bytes and a payload) per message that it may buffer. Buffer slots beyond
/// [`RegionConfig::with_buffer`](crate::region::RegionConfig::with_buffer) are for messages that come back and for
/// markers: a link window of them is plenty.
pub trait RegionStorage<P> {
    /// The tables, to write to.
    fn tables(&mut self) -> RegionTables<'_, P>;
    /// The shard slots.
    fn shards(&self) -> &[ShardSlot];
    /// The node slots.
    fn nodes(&self) -> &[NodeSlot];
}

impl<P, S: RegionStorage<P> + ?Sized> RegionStorage<P> for &mut S {
    fn tables(&mut self) -> RegionTables<'_, P> {
        (**self).tables()
    }

    fn shards(&self) -> &[ShardSlot] {
        (**self).shards()
    }

    fn nodes(&self) -> &[NodeSlot] {
        (**self).nodes()
    }
}

/// Tables of fixed sizes, by value. Fits a `static`.
#[derive(Clone, Debug)]
pub struct ArrayStorage<P, const SHARDS: usize, const NODES: usize, const QUEUE: usize> {
    shards: [ShardSlot; SHARDS],
    nodes: [NodeSlot; NODES],
    buffer: [BufferSlot<P>; QUEUE],
}

impl<P, const SHARDS: usize, const NODES: usize, const QUEUE: usize>
    ArrayStorage<P, SHARDS, NODES, QUEUE>
{
    /// Empty tables.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            shards: [ShardSlot::EMPTY; SHARDS],
            nodes: [NodeSlot::EMPTY; NODES],
            buffer: [const { BufferSlot::EMPTY }; QUEUE],
        }
    }
}

impl<P, const SHARDS: usize, const NODES: usize, const QUEUE: usize> Default
    for ArrayStorage<P, SHARDS, NODES, QUEUE>
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P, const SHARDS: usize, const NODES: usize, const QUEUE: usize> RegionStorage<P>
    for ArrayStorage<P, SHARDS, NODES, QUEUE>
{
    fn tables(&mut self) -> RegionTables<'_, P> {
        RegionTables::new(&mut self.shards, &mut self.nodes, &mut self.buffer)
    }

    fn shards(&self) -> &[ShardSlot] {
        &self.shards
    }

    fn nodes(&self) -> &[NodeSlot] {
        &self.nodes
    }
}

/// Borrowed tables. [`Region::new`](crate::region::Region::new) empties them.
#[derive(Debug)]
pub struct SliceStorage<'a, P>(RegionTables<'a, P>);

impl<'a, P> SliceStorage<'a, P> {
    /// From slices; what they contain does not matter.
    #[must_use]
    pub const fn new(
        shards: &'a mut [ShardSlot],
        nodes: &'a mut [NodeSlot],
        buffer: &'a mut [BufferSlot<P>],
    ) -> Self {
        Self(RegionTables::new(shards, nodes, buffer))
    }
}

impl<P> RegionStorage<P> for SliceStorage<'_, P> {
    fn tables(&mut self) -> RegionTables<'_, P> {
        RegionTables::new(self.0.shards, self.0.nodes, self.0.buffer)
    }

    fn shards(&self) -> &[ShardSlot] {
        self.0.shards
    }

    fn nodes(&self) -> &[NodeSlot] {
        self.0.nodes
    }
}

/// Tables on the heap, sized once.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct HeapStorage<P> {
    shards: alloc::boxed::Box<[ShardSlot]>,
    nodes: alloc::boxed::Box<[NodeSlot]>,
    buffer: alloc::boxed::Box<[BufferSlot<P>]>,
}

#[cfg(feature = "alloc")]
impl<P> HeapStorage<P> {
    /// Empty tables for so many shards, members and buffered messages.
    #[must_use]
    pub fn new(shards: u32, nodes: u16, queue: u32) -> Self {
        let (shards, nodes) = (shards as usize, usize::from(nodes));
        let buffer = (0..queue).map(|_| BufferSlot::EMPTY);
        Self {
            shards: alloc::vec![ShardSlot::EMPTY; shards].into_boxed_slice(),
            nodes: alloc::vec![NodeSlot::EMPTY; nodes].into_boxed_slice(),
            buffer: buffer.collect(),
        }
    }
}

#[cfg(feature = "alloc")]
impl<P> RegionStorage<P> for HeapStorage<P> {
    fn tables(&mut self) -> RegionTables<'_, P> {
        RegionTables::new(&mut self.shards, &mut self.nodes, &mut self.buffer)
    }

    fn shards(&self) -> &[ShardSlot] {
        &self.shards
    }

    fn nodes(&self) -> &[NodeSlot] {
        &self.nodes
    }
}
