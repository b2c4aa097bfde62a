//! The sockets of async-io.

use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};

use async_net::{TcpListener, TcpStream};
use shard_adapter::transport::{Sockets, Stream, Tcp};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// [`Tcp`] on the sockets of async-io, which has a thread of its own and works on every runtime.
pub type TcpTransport = Tcp<AsyncIo>;

/// The sockets of async-io.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncIo;

impl Sockets for AsyncIo {
    type Listener = TcpListener;

    async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
        async_net::resolve(address).await
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

fn stream(socket: TcpStream) -> io::Result<Stream> {
    socket.set_nodelay(true)?;
    Ok(Stream::new(Half(socket.clone()), Half(socket)))
}

/// A socket, to be read or to be written. It closes with the last half.
struct Half(TcpStream);

impl AsyncRead for Half {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        /// Read at once, at most: it has to be zeroed before.
        const ROOM: usize = 64 * 1024;
        let room = buffer.remaining().min(ROOM);
        let room = buffer.initialize_unfilled_to(room);
        let read = ready!(futures_io::AsyncRead::poll_read(
            Pin::new(&mut self.0),
            cx,
            room
        ))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Half {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        futures_io::AsyncWrite::poll_write(Pin::new(&mut self.0), cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        futures_io::AsyncWrite::poll_write_vectored(Pin::new(&mut self.0), cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        futures_io::AsyncWrite::poll_flush(Pin::new(&mut self.0), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        futures_io::AsyncWrite::poll_close(Pin::new(&mut self.0), cx)
    }
}
