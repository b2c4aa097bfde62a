//! Tables that are as small as a handful of hosts allows: they are copied and compared all the time.

use alloc::boxed::Box;
use alloc::vec;

use crate::leadership::PeerSlot;
use crate::sim::{Message, Store};
use crate::table::{CoordinatorHeap, HeapStorage};

/// Room for hosts, and for lives that ended.
const NODES: u16 = 6;

/// Small tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallStore;

impl Store for SmallStore {
    type Region = HeapStorage<Message>;
    type Coordinator = CoordinatorHeap;
    type Peers = Box<[PeerSlot]>;

    fn region(shards: u32, queue: u32) -> Self::Region {
        HeapStorage::new(shards, NODES, queue)
    }

    fn coordinator(shards: u32) -> Self::Coordinator {
        CoordinatorHeap::new(shards, NODES)
    }

    fn peers() -> Self::Peers {
        vec![PeerSlot::EMPTY; usize::from(NODES)].into_boxed_slice()
    }
}
