//! Where the state machines of a world keep their tables.

use alloc::boxed::Box;
use alloc::vec;

use super::Message;
use crate::leadership::PeerSlot;
use crate::table::{
    ArrayStorage, CoordinatorArray, CoordinatorHeap, CoordinatorStorage, CoordinatorTables,
    HeapStorage, RegionStorage, RegionTables,
};

/// Most shards of a type.
pub(super) const MAX_SHARDS: usize = 64;
/// Most hosts.
pub(super) const MAX_HOSTS: usize = 16;
/// Room for hosts, and for lives that ended.
const NODES: usize = 2 * MAX_HOSTS;
/// Most buffered messages of a region, with what comes back.
pub(super) const MAX_QUEUE: usize = 2048;

/// Storage of the state machines. All kinds give the same run.
pub trait Store: 'static {
    /// For regions.
    type Region: RegionStorage<Message>;
    /// For coordinators.
    type Coordinator: CoordinatorStorage;
    /// For leadership.
    type Peers: AsRef<[PeerSlot]> + AsMut<[PeerSlot]>;

    /// Tables of a region with room for so many shards and buffered messages.
    fn region(shards: u32, queue: u32) -> Self::Region;
    /// Tables of a coordinator.
    fn coordinator(shards: u32) -> Self::Coordinator;
    /// Tables of leadership.
    fn peers() -> Self::Peers;
}

/// Tables on the heap, as large as they need to be.
#[derive(Clone, Copy, Debug)]
pub struct HeapStore;

impl Store for HeapStore {
    type Region = HeapStorage<Message>;
    type Coordinator = CoordinatorHeap;
    type Peers = Box<[PeerSlot]>;

    fn region(shards: u32, queue: u32) -> Self::Region {
        HeapStorage::new(shards, NODES as u16, queue)
    }

    fn coordinator(shards: u32) -> Self::Coordinator {
        CoordinatorHeap::new(shards, NODES as u16)
    }

    fn peers() -> Self::Peers {
        vec![PeerSlot::EMPTY; NODES].into_boxed_slice()
    }
}

/// Tables of fixed size, as on a machine without a heap: larger than they need to be.
#[derive(Clone, Copy, Debug)]
pub struct ArrayStore;

/// An array of which not all buffer slots are used: how many there are decides when a buffer is full.
#[derive(Debug)]
pub struct ArrayRegion {
    tables: Box<ArrayStorage<Message, MAX_SHARDS, NODES, MAX_QUEUE>>,
    queue: usize,
}

impl RegionStorage<Message> for ArrayRegion {
    fn tables(&mut self) -> RegionTables<'_, Message> {
        let all = self.tables.tables();
        RegionTables::new(all.shards, all.nodes, &mut all.buffer[..self.queue])
    }

    fn shards(&self) -> &[crate::region::ShardSlot] {
        self.tables.shards()
    }

    fn nodes(&self) -> &[crate::region::NodeSlot] {
        self.tables.nodes()
    }
}

/// A boxed array.
#[derive(Debug)]
pub struct ArrayCoordinator(Box<CoordinatorArray<MAX_SHARDS, NODES>>);

impl CoordinatorStorage for ArrayCoordinator {
    fn tables(&mut self) -> CoordinatorTables<'_> {
        self.0.tables()
    }

    fn shards(&self) -> &[crate::coordinator::CoordShardSlot] {
        self.0.shards()
    }

    fn nodes(&self) -> &[crate::coordinator::CoordNodeSlot] {
        self.0.nodes()
    }
}

impl Store for ArrayStore {
    type Region = ArrayRegion;
    type Coordinator = ArrayCoordinator;
    type Peers = [PeerSlot; NODES];

    fn region(_shards: u32, queue: u32) -> Self::Region {
        ArrayRegion {
            tables: Box::new(ArrayStorage::new()),
            queue: (queue as usize).min(MAX_QUEUE),
        }
    }

    fn coordinator(_shards: u32) -> Self::Coordinator {
        ArrayCoordinator(Box::new(CoordinatorArray::new()))
    }

    fn peers() -> Self::Peers {
        [PeerSlot::EMPTY; NODES]
    }
}
