//! Sharded entities on tokio.
