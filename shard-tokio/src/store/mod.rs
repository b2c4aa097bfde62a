//! Where entities keep what must survive them.

#[doc(inline)]
pub use shard_adapter::store::*;

#[cfg(feature = "postgres")]
pub mod postgres;

#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
