//! The sockets of tokio.

use core::net::SocketAddr;
use std::io;

use shard_adapter::transport::{Sockets, Stream, Tcp};
use tokio::net::{TcpListener, TcpStream, lookup_host};

use crate::Tokio;

/// [`Tcp`] on tokio's sockets.
pub type TcpTransport = Tcp<Tokio>;

/// Bytes that the system takes of a connection before it sends them.
#[cfg(any(target_os = "android", target_os = "linux"))]
const NOT_SENT: u32 = 128 * 1024;

impl Sockets for Tokio {
    type Listener = TcpListener;

    async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host(address).await?.collect())
    }

    async fn listen(addresses: &[SocketAddr]) -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(addresses).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }

    async fn accept(listener: &TcpListener) -> io::Result<(io::Result<Stream>, SocketAddr)> {
        let (accepted, peer) = listener.accept().await?;
        Ok((stream(accepted), peer))
    }

    async fn connect(addresses: &[SocketAddr]) -> io::Result<Stream> {
        stream(TcpStream::connect(addresses).await?)
    }
}

fn stream(stream: TcpStream) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    // What comes later, and goes first, waits behind what the system took.
    #[cfg(any(target_os = "android", target_os = "linux"))]
    socket2::SockRef::from(&stream).set_tcp_notsent_lowat(NOT_SENT)?;
    let (reader, writer) = stream.into_split();
    Ok(Stream::new(reader, writer))
}

#[cfg(test)]
mod tests {
    use shard_adapter::transport::Transport;

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
