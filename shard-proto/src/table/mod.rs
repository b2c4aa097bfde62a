//! Storage of the tables.

mod coordinator;
pub(crate) mod list;

#[cfg(feature = "alloc")]
pub use coordinator::CoordinatorHeap;
pub use coordinator::{CoordinatorArray, CoordinatorSlices, CoordinatorStorage, CoordinatorTables};
