//! Plain TCP.

use core::net::SocketAddr;
use std::io;

use tokio::net::{TcpListener, TcpStream, lookup_host};

use super::{Arriving, BoxFuture, Connection, Listener, Stream, Transport};

/// TCP without encryption or authentication: for one machine, and for networks that protect it themselves.
///
/// It takes loopback addresses only, unless [`TcpTransport::allow_insecure`] is called: on any other network whoever
/// reaches the port is believed to be the node it says it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpTransport {
    insecure: bool,
}

impl TcpTransport {
    /// Loopback only.
    #[must_use]
    pub const fn new() -> Self {
        Self { insecure: false }
    }

    /// Takes every address.
    #[must_use]
    pub const fn allow_insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    async fn resolve(self, address: &str) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = lookup_host(address).await?.collect();
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

fn connection(stream: TcpStream, peer: String) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok(Connection::new(peer, Stream::new(reader, writer)))
}

impl Transport for TcpTransport {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let addresses = self.resolve(address).await?;
            let listener = TcpListener::bind(&*addresses).await?;
            let address = listener.local_addr()?.to_string();
            let listener: Box<dyn Listener> = Box::new(Tcp { listener, address });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let addresses = self.resolve(address).await?;
            let stream = TcpStream::connect(&*addresses).await?;
            connection(stream, address.to_owned())
        })
    }
}

struct Tcp {
    listener: TcpListener,
    address: String,
}

impl Listener for Tcp {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let (stream, peer) = self.listener.accept().await?;
            let peer = peer.to_string();
            Ok(Arriving::ready(connection(stream, peer.clone()), peer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_networks_have_to_be_allowed() {
        let closed = TcpTransport::new();
        let Err(error) = closed.listen("0.0.0.0:0").await else {
            panic!("listens everywhere");
        };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("allow_insecure"));
        let error = closed.dial("192.0.2.1:9").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(closed.listen("127.0.0.1:0").await.is_ok());
        assert!(closed.allow_insecure().listen("0.0.0.0:0").await.is_ok());
    }
}
