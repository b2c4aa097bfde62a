//! Storage of the tables.
//!
//! State machines own no memory: a storage hands them slices of opaque slots, whose lengths are their limits. There
//! are three of each kind: arrays by value, borrowed slices, boxed slices (feature `alloc`).

mod coordinator;
pub(crate) mod list;
mod region;

#[cfg(feature = "alloc")]
pub use coordinator::CoordinatorHeap;
pub use coordinator::{CoordinatorArray, CoordinatorSlices, CoordinatorStorage, CoordinatorTables};
#[cfg(feature = "alloc")]
pub use region::HeapStorage;
pub use region::{ArrayStorage, RegionStorage, RegionTables, SliceStorage};
