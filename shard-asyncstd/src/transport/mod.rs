//! How nodes reach each other.

mod tcp;

#[doc(inline)]
pub use shard_adapter::transport::*;
pub use tcp::{AsyncIo, TcpTransport};
