//! How nodes reach each other.

mod memory;
mod tcp;

use core::fmt;
use core::pin::Pin;
use std::io;

use shard_proto::NodeId;
use tokio::io::{AsyncRead, AsyncWrite};

pub use memory::MemoryTransport;
pub use tcp::TcpTransport;

/// A future in a box: the trait is used as an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections. Swapping it is one line: [`NodeBuilder::transport`](crate::NodeBuilder::transport).
pub trait Transport: Send + Sync + 'static {
    /// Listens on an address.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;

    /// Connects to an address under which another node can be reached. Bounded in time by the caller.
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>>;
}

/// Accepts connections.
pub trait Listener: Send + 'static {
    /// The address others dial, with a port that was chosen filled in.
    fn address(&self) -> String;

    /// The next connection. An error is logged and followed by a pause.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>>;
}

/// A reliable, ordered stream of bytes in both directions, and whom it leads to.
pub struct Connection {
    /// Where it leads, for logs.
    pub peer: String,
    /// Whom the transport proved the peer to be, if it can. Without it the peer is believed.
    pub authenticated: Option<NodeId>,
    /// What the peer sends.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What it is sent. Dropping both closes the connection.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("authenticated", &self.authenticated)
            .finish_non_exhaustive()
    }
}
