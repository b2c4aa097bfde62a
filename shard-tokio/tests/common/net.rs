//! A network within the process whose directions can be held up.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use shard_tokio::transport::{Arriving, BoxFuture, Connection, Listener};
use shard_tokio::{MemoryTransport, Transport};
use tokio::io::AsyncWrite;

/// What happens to what a node sends.
#[derive(Default)]
pub struct Line {
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Nothing of it arrives, until it is healed.
    cut: bool,
    /// Whoever sends is stuck in the call.
    stuck: bool,
    wakers: Vec<Waker>,
}

impl Line {
    pub fn cut(&self) {
        self.state.lock().unwrap().cut = true;
    }

    pub fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        state.cut = false;
        state.wakers.drain(..).for_each(Waker::wake);
    }

    pub fn stick(&self) {
        self.state.lock().unwrap().stuck = true;
    }

    pub fn free(&self) {
        self.state.lock().unwrap().stuck = false;
        self.freed.notify_all();
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let state = self.state.lock().unwrap();
        let mut state = self.freed.wait_while(state, |state| state.stuck).unwrap();
        if state.cut {
            state.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// A node's way into a network.
#[derive(Clone)]
pub struct Port {
    pub network: MemoryTransport,
    pub line: Arc<Line>,
}

impl Port {
    pub fn new(network: &MemoryTransport) -> Self {
        Self {
            network: network.clone(),
            line: Arc::default(),
        }
    }

    fn wrap(&self, mut connection: Connection) -> Connection {
        for stream in &mut connection.streams {
            let open = Box::new(tokio::io::sink());
            stream.writer = Box::new(Held {
                inner: std::mem::replace(&mut stream.writer, open),
                line: Arc::clone(&self.line),
            });
        }
        connection
    }
}

impl Transport for Port {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(PortListener {
                inner: self.network.listen(address).await?,
                port: self.clone(),
            });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move { Ok(self.wrap(self.network.dial(address).await?)) })
    }
}

struct PortListener {
    inner: Box<dyn Listener>,
    port: Port,
}

impl Listener for PortListener {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let arriving = self.inner.accept().await?;
            let port = self.port.clone();
            Ok(Arriving {
                peer: arriving.peer,
                connection: Box::pin(async move { Ok(port.wrap(arriving.connection.await?)) }),
            })
        })
    }
}

struct Held {
    inner: Box<dyn AsyncWrite + Send + Unpin>,
    line: Arc<Line>,
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.line.poll(cx).is_pending() {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
