//! Plain TCP, on whichever sockets.

use core::marker::PhantomData;
use core::net::SocketAddr;
use std::io;
use std::sync::Arc;

use super::{Arriving, BoxFuture, Connection, Listener, Stream, Transport};

/// The sockets of a runtime. Each connection is without delay (`TCP_NODELAY`): what is written is sent at once.
pub trait Sockets: Send + Sync + 'static {
    /// A socket that accepts.
    type Listener: Send + Sync + 'static;

    /// The addresses behind `host:port`.
    ///
    /// # Errors
    /// There are none, or nobody can say.
    fn resolve(address: &str) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    /// Listens on the first of them that is free, and says on which, with a port that was chosen filled in.
    ///
    /// # Errors
    /// None is.
    fn listen(
        addresses: &[SocketAddr],
    ) -> impl Future<Output = io::Result<(Self::Listener, SocketAddr)>> + Send;

    /// The next connection, which may be broken by now, and where it comes from.
    ///
    /// # Errors
    /// None can be accepted at the moment.
    fn accept(
        listener: &Self::Listener,
    ) -> impl Future<Output = io::Result<(io::Result<Stream>, SocketAddr)>> + Send;

    /// Connects to the first of them that answers.
    ///
    /// # Errors
    /// None does.
    fn connect(addresses: &[SocketAddr]) -> impl Future<Output = io::Result<Stream>> + Send;
}

/// TCP without encryption or authentication: for one machine, and for networks that protect it themselves.
///
/// It takes loopback addresses only, unless [`Tcp::allow_insecure`] is called: on any other network whoever
/// reaches the port is believed to be the node it says it is.
///
/// `S` are the [`Sockets`] of a runtime: the crate of an adapter has `TcpTransport` as a name for this on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp<S> {
    insecure: bool,
    sockets: PhantomData<S>,
}

impl<S: Sockets> Tcp<S> {
    /// Loopback only.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            insecure: false,
            sockets: PhantomData,
        }
    }

    /// Takes every address.
    #[must_use]
    pub const fn allow_insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    async fn resolve(&self, address: &str) -> io::Result<Vec<SocketAddr>> {
        let found = S::resolve(address).await?;
        let Some(foreign) = found.iter().find(|found| !found.ip().is_loopback()) else {
            return Ok(found);
        };
        if self.insecure {
            return Ok(found);
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{foreign} is not a loopback address, and plain TCP is neither encrypted nor authenticated: \
                 call `TcpTransport::allow_insecure()` if the network protects it"
            ),
        ))
    }
}

impl<S: Sockets> Transport for Tcp<S> {
    fn secured(&self) -> Option<Arc<dyn Transport>> {
        Some(Arc::new(Self::new().allow_insecure()))
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let addresses = self.resolve(address).await?;
            let (listener, address) = S::listen(&addresses).await?;
            let listener: Box<dyn Listener> = Box::new(Listening::<S> { listener, address });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let addresses = self.resolve(address).await?;
            let stream = S::connect(&addresses).await?;
            Ok(Connection::new(address.to_owned(), stream))
        })
    }
}

struct Listening<S: Sockets> {
    listener: S::Listener,
    address: SocketAddr,
}

impl<S: Sockets> Listener for Listening<S> {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let (stream, peer) = S::accept(&self.listener).await?;
            let peer = peer.to_string();
            let connection = stream.map(|stream| Connection::new(peer.clone(), stream));
            Ok(Arriving::ready(connection, peer))
        })
    }
}
