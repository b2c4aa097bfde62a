//! For authors of stores: a queue of requests that a writer does in groups, the checks of [`store`](crate::store), and
//! the counters.
//!
//! Unlike the rest of the crate it may change with every version.

#[doc(hidden)]
pub use crate::grouped_store;
#[doc(hidden)]
pub use crate::store::check::{
    Counters, append_size, changes_size, entity_size, fence, names, next, save_size, size, snapshot,
};
#[doc(hidden)]
pub use crate::store::queue::{Limits, Outcome, Queued, Request, WriteQueue, grouped};
