//! A transport that is looked at, and whose connections are read from only when the test likes.

use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use shard_adapter::transport::{Arriving, BoxFuture, Connection, Identity, Listener, Transport};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Barrier;

/// What a node's transport did.
#[derive(Clone, Default)]
pub struct Probe(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// When it began to dial.
    dials: Mutex<Vec<Instant>>,
    /// Where connections came from.
    arrived: Mutex<Vec<String>>,
    bound: Mutex<String>,
    open: AtomicUsize,
    meeting: Mutex<Option<Arc<Barrier>>>,
    stuck: Mutex<Option<Vec<Waker>>>,
}

impl Probe {
    pub fn over(&self, inner: Arc<dyn Transport>) -> Probed {
        let probe = self.clone();
        Probed { inner, probe }
    }

    pub fn dials(&self) -> Vec<Instant> {
        self.0.dials.lock().unwrap().clone()
    }

    /// Where the connection came from that arrived last.
    pub fn last_arrived(&self) -> String {
        let arrived = self.0.arrived.lock().unwrap();
        arrived.last().cloned().unwrap_or_default()
    }

    /// Where it listens.
    pub fn bound(&self) -> String {
        self.0.bound.lock().unwrap().clone()
    }

    /// Connections at the moment, whoever dialed.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// The next dial waits for that of another node, before and behind it.
    pub fn meet(&self, barrier: &Arc<Barrier>) {
        *self.0.meeting.lock().unwrap() = Some(Arc::clone(barrier));
    }

    /// Reads nothing any more.
    pub fn stick(&self) {
        self.0
            .stuck
            .lock()
            .unwrap()
            .get_or_insert_with(Vec::default);
    }

    pub fn free(&self) {
        let stuck = self.0.stuck.lock().unwrap().take();
        stuck.into_iter().flatten().for_each(Waker::wake);
    }

    fn wrap(&self, mut connection: Connection) -> Connection {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        let open = Arc::new(Open(self.clone()));
        for stream in &mut connection.streams {
            let inner = core::mem::replace(&mut stream.reader, Box::new(tokio::io::empty()));
            stream.reader = Box::new(Reader {
                inner,
                open: Arc::clone(&open),
            });
        }
        connection
    }
}

/// A transport with a probe in it.
#[derive(Clone)]
pub struct Probed {
    inner: Arc<dyn Transport>,
    probe: Probe,
}

impl Transport for Probed {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let inner = self.inner.listen(address).await?;
            *self.probe.0.bound.lock().unwrap() = inner.address();
            let probe = self.probe.clone();
            let listener: Box<dyn Listener> = Box::new(Listening { inner, probe });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            self.probe.0.dials.lock().unwrap().push(Instant::now());
            let meeting = self.probe.0.meeting.lock().unwrap().take();
            if let Some(barrier) = &meeting {
                barrier.wait().await;
            }
            let connection = self.inner.dial(address).await;
            if let Some(barrier) = &meeting {
                barrier.wait().await;
            }
            Ok(self.probe.wrap(connection?))
        })
    }

    fn secured(&self) -> Option<Arc<dyn Transport>> {
        let secured = self.inner.secured()?;
        Some(Arc::new(self.probe.over(secured)))
    }

    fn lanes(&self) -> u8 {
        self.inner.lanes()
    }

    fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }
}

struct Listening {
    inner: Box<dyn Listener>,
    probe: Probe,
}

impl Listener for Listening {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let arriving = self.inner.accept().await?;
            let probe = self.probe.clone();
            let peer = arriving.peer.clone();
            probe.0.arrived.lock().unwrap().push(peer.clone());
            let connection = async move { Ok(probe.wrap(arriving.connection.await?)) };
            Ok(Arriving {
                peer,
                connection: Box::pin(connection),
            })
        })
    }
}

struct Open(Probe);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Reader {
    inner: Box<dyn AsyncRead + Send + Unpin>,
    open: Arc<Open>,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(wakers) = &mut *self.open.0.0.stuck.lock().unwrap() {
            wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}
