//! How nodes reach each other.

mod identity;
mod memory;
mod refused;
mod tcp;
pub mod tls;

use core::fmt;
use core::pin::Pin;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

pub use identity::{Identity, IdentityError, Peer};
pub use memory::MemoryTransport;
pub use refused::Refused;
pub use tcp::{Sockets, Tcp};
pub use tls::{Tls, TlsConfig, TlsError, TlsTransport};

/// A future in a box: the trait is used as an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections. Swapping it is one line: [`NodeBuilder::transport`](crate::NodeBuilder::transport).
pub trait Transport: Send + Sync + 'static {
    /// Listens on an address.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;

    /// Connects to an address under which another node can be reached, its own handshake included. Bounded in time by
    /// the caller.
    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>>;

    /// The same transport for use under one that encrypts and authenticates ([`TlsTransport`]): without rules that are
    /// there because it does neither. `None`: it has no such rules. Default: `None`.
    fn secured(&self) -> Option<Arc<dyn Transport>> {
        None
    }

    /// Lanes of data that travel independently. 1: everything shares one stream. Default: 1.
    fn lanes(&self) -> u8 {
        1
    }

    /// Who this node is for others, if the transport proves that to them; a node of another name or cluster does not
    /// start. `None`: peers are believed. Default: `None`.
    fn identity(&self) -> Option<Identity> {
        None
    }
}

/// Accepts connections.
pub trait Listener: Send + 'static {
    /// The address others dial, with a port that was chosen filled in.
    fn address(&self) -> String;

    /// What arrives next. It must not wait for anything that the peer has to say: that is for [`Arriving::connection`],
    /// of which many run at once. An error is logged and followed by a pause.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>>;
}

/// Something that arrived at a [`Listener`], and may be anybody. How many of them there are, of one host and in all, and
/// how long they may take, is bounded by the node.
pub struct Arriving {
    /// Where it comes from, as `host:port`: the host is what is counted.
    pub peer: String,
    /// The transport's handshake. Dropping it closes the connection.
    pub connection: BoxFuture<'static, io::Result<Connection>>,
}

impl Arriving {
    /// Of a transport without a handshake.
    #[must_use]
    pub fn ready(connection: io::Result<Connection>, peer: String) -> Self {
        Self {
            peer,
            connection: Box::pin(core::future::ready(connection)),
        }
    }
}

impl fmt::Debug for Arriving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arriving")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

/// Reliable, ordered streams of bytes in both directions, and whom they lead to.
pub struct Connection {
    /// Where it leads, for logs.
    pub peer: String,
    /// Whom the transport proved the peer to be, if it can. Without it the peer is believed.
    pub identity: Option<Identity>,
    /// The first carries control, and everything if there is no other; then one per lane. A connection without any is
    /// refused.
    pub streams: Vec<Stream>,
}

impl Connection {
    /// Of one stream, with a peer that is believed.
    #[must_use]
    pub fn new(peer: String, stream: Stream) -> Self {
        Self {
            peer,
            identity: None,
            streams: vec![stream],
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("identity", &self.identity)
            .field("streams", &self.streams.len())
            .finish()
    }
}

/// A reliable, ordered stream of bytes in both directions.
pub struct Stream {
    /// What the peer sends.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What it is sent. Dropping both closes the stream.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stream {
    /// Of the two halves.
    #[must_use]
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self {
            reader: Box::new(reader),
            writer: Box::new(writer),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
