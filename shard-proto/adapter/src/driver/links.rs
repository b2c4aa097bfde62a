//! Connections: a task that reads for each, and writing, which the driver does itself.

use core::convert::Infallible;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use shard_proto::Instant;
use shard_proto::node::{LinkError, LinkId, Node as Core};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{Semaphore, mpsc};

use crate::arrivals::Place;
use crate::body::Body;
use crate::faults::Faults;
use crate::host::Crowded;
use crate::shared::{Input, NodeShared};
use crate::supervise::AbortHandle;
use crate::transport::Stream;

use super::NetEvent;

/// Read at once, at most.
const CHUNK: usize = 256 * 1024;
/// What is left of a chunk below this is not read into any more.
const SCRAP: usize = 16 * 1024;
/// Chunks of a connection that wait for the driver.
const AHEAD: usize = 2;
/// Bytes taken from the core before they are written.
const WRITE: usize = 256 * 1024;
/// Slices written at once.
const SLICES: usize = 64;
/// How long a link is held up at most for entities that do not keep up, and how long it is not after that. Beats come
/// over it, too.
const HOLD_UP: Duration = Duration::from_millis(20);
/// How long a connection is written to that is to be closed.
const CLOSING: Duration = Duration::from_secs(1);

/// A connection. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnId(u64);

pub(super) struct Conn {
    pub(super) link: LinkId,
    pub(super) peer: String,
    /// Read and not taken: a part of a frame, or what is held up.
    pub(super) unread: BytesMut,
    /// How many chunks that was.
    pub(super) chunks: usize,
    /// An entity cannot keep up with what comes from here.
    pub(super) held_up: bool,
    /// Not held up before.
    go_on_until: Instant,
    ahead: Arc<Semaphore>,
    reader: AbortHandle,
    out: Out,
    /// It arrived, and its link does not stand yet.
    place: Option<Place>,
}

struct Out {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    chunks: VecDeque<Bytes>,
    bytes: usize,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Conn {
    /// What there was is dealt with: read on.
    pub(super) fn more(&mut self) {
        self.ahead.add_permits(mem::take(&mut self.chunks));
    }

    /// Makes room for others that arrive, once its link stands.
    pub(super) fn settle(&mut self, core: &Core<Body>) {
        if self.place.is_some() && core.is_linked(self.link) {
            self.place = None;
        }
    }
}

pub(super) struct Links {
    shared: Arc<NodeShared>,
    next: u64,
    conns: HashMap<ConnId, Conn, foldhash::fast::RandomState>,
    by_link: HashMap<LinkId, ConnId, foldhash::fast::RandomState>,
    /// Their peers read too slowly.
    blocked: Vec<ConnId>,
    unblocked: Vec<ConnId>,
    /// Not read from until an entity has caught up, or the time is over.
    held_up: Vec<HeldUp>,
    /// Those that are closed and write what was left to write have the sender.
    closing: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
    faults: Faults,
}

struct HeldUp {
    id: ConnId,
    crowded: Crowded,
    until: Instant,
    over: bool,
}

impl Links {
    pub(super) fn new(shared: Arc<NodeShared>) -> Self {
        Self {
            shared,
            next: 0,
            conns: HashMap::default(),
            by_link: HashMap::default(),
            blocked: Vec::new(),
            unblocked: Vec::new(),
            held_up: Vec::new(),
            closing: mpsc::channel(1),
            faults: Faults::default(),
        }
    }

    /// Reads no more from a connection until an entity has caught up with what came from it; not long, because other
    /// things come from there, too. Whether it does.
    pub(super) fn hold_up(&mut self, id: ConnId, crowded: Crowded, now: Instant) -> bool {
        match self.conns.get_mut(&id) {
            Some(conn) if conn.go_on_until <= now => conn.held_up = true,
            _ => return false,
        }
        self.held_up.push(HeldUp {
            id,
            crowded,
            until: now.after(HOLD_UP),
            over: false,
        });
        true
    }

    /// When the first of them is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held_up.iter().map(|held_up| held_up.until).min()
    }

    /// The connections to read from again.
    pub(super) fn released(&mut self, now: Instant) -> Vec<ConnId> {
        if self.held_up.is_empty() {
            return Vec::new();
        }
        let mut released = Vec::new();
        let conns = &mut self.conns;
        self.held_up.retain(|held_up| {
            let out_of_time = held_up.until <= now;
            if !held_up.over && !out_of_time {
                return true;
            }
            if let Some(conn) = conns.get_mut(&held_up.id) {
                conn.held_up = false;
                if !held_up.over {
                    conn.go_on_until = now.after(HOLD_UP);
                }
                released.push(held_up.id);
            }
            false
        });
        released
    }

    /// Goes on where something was in the way. Whether the driver should have a turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let mut over = false;
        for held_up in &mut self.held_up {
            let Crowded { mailbox, limit } = &held_up.crowded;
            held_up.over = mailbox.poll_room(cx, *limit).is_ready();
            over |= held_up.over;
        }
        self.poll_blocked(cx) || over
    }

    pub(super) fn add(&mut self, link: LinkId, peer: String, stream: Stream, place: Option<Place>) {
        let id = ConnId(self.next);
        self.next += 1;
        let ahead = Arc::new(Semaphore::new(AHEAD));
        let read = read(
            stream.reader,
            id,
            Arc::clone(&ahead),
            Arc::clone(&self.shared),
        );
        let conn = Conn {
            link,
            peer,
            unread: BytesMut::new(),
            chunks: 0,
            held_up: false,
            go_on_until: Instant::ZERO,
            ahead,
            reader: self.shared.runtime.spawn(read),
            out: Out {
                writer: stream.writer,
                chunks: VecDeque::new(),
                bytes: 0,
            },
            place,
        };
        self.conns.insert(id, conn);
        self.by_link.insert(link, id);
    }

    pub(super) fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<Conn> {
        let conn = self.conns.remove(&id)?;
        self.by_link.remove(&conn.link);
        Some(conn)
    }

    /// Writes what there is, in the background, then closes.
    pub(super) fn close(&mut self, link: LinkId, core: &mut Core<Body>) {
        let id = self.by_link.get(&link).copied();
        let Some(mut conn) = id.and_then(|id| self.remove(id)) else {
            return;
        };
        while let Some(chunk) = core.poll_transmit(link) {
            conn.out.chunks.push_back(chunk);
        }
        let (runtime, closing) = (self.shared.runtime.clone(), self.closing.0.clone());
        self.shared.runtime.spawn(async move {
            let _ = runtime.timeout(CLOSING, conn.out.finish()).await;
            drop((conn, closing));
        });
    }

    /// A link is to be closed for what came from there.
    pub(super) fn failed(&mut self, link: LinkId, error: LinkError, now: Instant) {
        let peer = self.peer(link).to_owned();
        let node = error.node().map(|node| node.0);
        let so_far = error
            .is_news()
            .then(|| self.faults.count(&peer, error.node(), error.reason(), now));
        if so_far.is_some_and(u64::is_power_of_two) {
            tracing::warn!(peer, node, so_far, "closing a link: {error}");
        } else {
            tracing::debug!(peer, node, "closing a link: {error}");
        }
    }

    pub(super) fn peer(&self, link: LinkId) -> &str {
        let conn = self.by_link.get(&link).and_then(|id| self.conns.get(id));
        conn.map_or("?", |conn| &conn.peer)
    }

    /// Writes to a link as much as it takes.
    pub(super) fn write(&mut self, link: LinkId, core: &mut Core<Body>, cx: &mut Context<'_>) {
        let Some(id) = self.by_link.get(&link).copied() else {
            return;
        };
        if !self.blocked.contains(&id) {
            self.write_to(id, core, cx);
        }
    }

    fn write_to(&mut self, id: ConnId, core: &mut Core<Body>, cx: &mut Context<'_>) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        loop {
            let mut more = true;
            while more && conn.out.bytes < WRITE {
                match core.poll_transmit(conn.link) {
                    Some(chunk) => {
                        conn.out.bytes += chunk.len();
                        conn.out.chunks.push_back(chunk);
                    }
                    None => more = false,
                }
            }
            match conn.out.poll_write(cx) {
                Poll::Ready(Ok(())) if more => {}
                Poll::Ready(Ok(())) => return,
                Poll::Pending => {
                    self.blocked.push(id);
                    return;
                }
                Poll::Ready(Err(error)) => {
                    let closed = NetEvent::Closed(id, Some(error));
                    let _ = self.shared.inbox.push(Input::Net(closed), usize::MAX);
                    return;
                }
            }
        }
    }

    /// Goes on writing where there was no room. Whether some of it went out.
    fn poll_blocked(&mut self, cx: &mut Context<'_>) -> bool {
        let Self {
            conns,
            blocked,
            unblocked,
            ..
        } = self;
        blocked.retain(|id| {
            let pending = conns
                .get_mut(id)
                .is_some_and(|conn| conn.out.poll_write(cx).is_pending());
            if !pending {
                unblocked.push(*id);
            }
            pending
        });
        !unblocked.is_empty()
    }

    pub(super) fn write_unblocked(&mut self, core: &mut Core<Body>, cx: &mut Context<'_>) {
        for id in mem::take(&mut self.unblocked) {
            self.write_to(id, core, cx);
        }
    }

    /// Writes everything and closes, for the end of the node. Waits for links that were closed just now, too: what a
    /// node says last is that it has left, and its process may end when this returns.
    pub(super) async fn finish(&mut self, core: &mut Core<Body>) {
        self.by_link.clear();
        let mut closing: Vec<_> = self.conns.drain().map(|(_, conn)| conn).collect();
        for conn in &mut closing {
            while let Some(chunk) = core.poll_transmit(conn.link) {
                conn.out.chunks.push_back(chunk);
            }
        }
        let (sender, mut closed) = mem::replace(&mut self.closing, mpsc::channel(1));
        drop(sender);
        let finish = async {
            for conn in &mut closing {
                let _ = conn.out.finish().await;
            }
            // Nothing is ever sent: this waits until the last sender is gone.
            closed.recv().await;
        };
        let _ = self.shared.runtime.timeout(CLOSING, finish).await;
    }
}

impl Out {
    /// Ready when all is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(chunk);
                count += 1;
            }
            let writer = Pin::new(&mut *self.writer);
            let mut written = match writer.poll_write_vectored(cx, &slices[..count]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            };
            self.bytes = self.bytes.saturating_sub(written);
            while let Some(chunk) = self.chunks.front_mut().filter(|_| written > 0) {
                if written < chunk.len() {
                    chunk.advance(written);
                    break;
                }
                written -= chunk.len();
                self.chunks.pop_front();
            }
        }
        Pin::new(&mut *self.writer).poll_flush(cx)
    }

    async fn finish(&mut self) -> io::Result<()> {
        core::future::poll_fn(|cx| self.poll_write(cx)).await?;
        core::future::poll_fn(|cx| Pin::new(&mut *self.writer).poll_shutdown(cx)).await
    }
}

/// Reads until the connection ends.
async fn read(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    id: ConnId,
    ahead: Arc<Semaphore>,
    shared: Arc<NodeShared>,
) {
    let mut buffer = BytesMut::new();
    let error = loop {
        if let Ok(permit) = ahead.acquire().await {
            permit.forget();
        }
        if buffer.capacity() < SCRAP {
            buffer.reserve(CHUNK);
        }
        match reader.read_buf(&mut buffer).await {
            Ok(0) => break None,
            Ok(_) => {
                let chunk = NetEvent::Read(id, buffer.split());
                if shared.inbox.push(Input::Net(chunk), usize::MAX).is_err() {
                    return;
                }
            }
            Err(error) => break Some(error),
        }
    };
    let closed = NetEvent::Closed(id, error);
    let _ = shared.inbox.push(Input::Net(closed), usize::MAX);
}
