//! Connections: a task that reads for each, and writing, which the driver does itself.

use core::convert::Infallible;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use shard_proto::Instant;
use shard_proto::node::{LinkError, LinkId, Node as Core, StreamIndex};
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
/// Chunks of a connection of one stream that wait for the driver. Of several streams each has one, and together they are
/// as long.
const AHEAD: usize = 2;
/// Bytes taken from the core before they are written. What the core puts in front waits behind them.
const WRITE: usize = 128 * 1024;
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
    pub(super) streams: Vec<Channel>,
    /// It arrived, and its link does not stand yet.
    place: Option<Place>,
}

/// One stream of a connection, and the task that reads from it.
pub(super) struct Channel {
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
}

struct Out {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    chunks: VecDeque<Bytes>,
    bytes: usize,
    /// It failed before the link stood. What the other side said before it closed is perhaps not read yet, such as why
    /// it did: the reader ends the connection, or the core when the time for a handshake is over.
    broken: bool,
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Channel {
    /// What there was is dealt with: read on.
    pub(super) fn more(&mut self) {
        self.ahead.add_permits(mem::take(&mut self.chunks));
    }
}

impl Conn {
    /// Takes what is still to be said.
    fn take_rest(&mut self, core: &mut Core<Body>) {
        while let Some((stream, chunk)) = core.poll_transmit(self.link) {
            if let Some(channel) = self.streams.get_mut(usize::from(stream.0)) {
                channel.out.chunks.push_back(chunk);
            }
        }
    }

    async fn finish(&mut self) -> io::Result<()> {
        // Control last: what it says is the end.
        for channel in self.streams.iter_mut().rev() {
            channel.out.finish().await?;
        }
        Ok(())
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
    conns: Conns,
    by_link: HashMap<LinkId, ConnId, foldhash::fast::RandomState>,
    /// Their peers read too slowly.
    blocked: Vec<(ConnId, StreamIndex)>,
    unblocked: Vec<(ConnId, StreamIndex)>,
    /// Not read from until an entity has caught up, or the time is over.
    held_up: Vec<HeldUp>,
    /// Those that are closed and write what was left to write have the sender.
    closing: (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>),
    faults: Faults,
}

struct HeldUp {
    id: ConnId,
    stream: StreamIndex,
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

    /// Reads no more from a stream until an entity has caught up with what came from it; not long, because other things
    /// come from there, too. Whether it does.
    pub(super) fn hold_up(
        &mut self,
        id: ConnId,
        stream: StreamIndex,
        crowded: Crowded,
        now: Instant,
    ) -> bool {
        match self.channel(id, stream) {
            Some(channel) if channel.go_on_until <= now => channel.held_up = true,
            _ => return false,
        }
        self.held_up.push(HeldUp {
            id,
            stream,
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

    /// The streams to read from again.
    pub(super) fn released(&mut self, now: Instant) -> Vec<(ConnId, StreamIndex)> {
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
            let (id, stream) = (held_up.id, held_up.stream);
            if let Some(channel) = channel(conns, id, stream) {
                channel.held_up = false;
                if !held_up.over {
                    channel.go_on_until = now.after(HOLD_UP);
                }
                released.push((id, stream));
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

    pub(super) fn add(
        &mut self,
        link: LinkId,
        peer: String,
        streams: Vec<Stream>,
        place: Option<Place>,
    ) {
        let id = ConnId(self.next);
        self.next += 1;
        let (ahead, chunk) = match streams.len() {
            0 | 1 => (AHEAD, CHUNK),
            several => (1, (AHEAD * CHUNK / several).max(SCRAP)),
        };
        let streams = (0..).map(StreamIndex).zip(streams).map(|(index, stream)| {
            let ahead = Arc::new(Semaphore::new(ahead));
            let shared = Arc::clone(&self.shared);
            let read = read(
                stream.reader,
                (id, index),
                chunk,
                Arc::clone(&ahead),
                shared,
            );
            Channel {
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
                    broken: false,
                },
            }
        });
        let conn = Conn {
            link,
            peer,
            streams: streams.collect(),
            place,
        };
        self.conns.insert(id, conn);
        self.by_link.insert(link, id);
    }

    pub(super) fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    pub(super) fn channel(&mut self, id: ConnId, stream: StreamIndex) -> Option<&mut Channel> {
        channel(&mut self.conns, id, stream)
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
        conn.take_rest(core);
        let (runtime, closing) = (self.shared.runtime.clone(), self.closing.0.clone());
        self.shared.runtime.spawn(async move {
            let _ = runtime.timeout(CLOSING, conn.finish()).await;
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
        let streams = self.conns.get(&id).map_or(0, |conn| conn.streams.len());
        for (stream, _) in (0..).map(StreamIndex).zip(0..streams) {
            if !self.blocked.contains(&(id, stream)) {
                self.write_to(id, stream, core, cx);
            }
        }
    }

    fn write_to(
        &mut self,
        id: ConnId,
        stream: StreamIndex,
        core: &mut Core<Body>,
        cx: &mut Context<'_>,
    ) {
        let Some(conn) = self.conns.get_mut(&id) else {
            return;
        };
        let Some(Channel { out, .. }) = conn.streams.get_mut(usize::from(stream.0)) else {
            return;
        };
        loop {
            let mut more = true;
            while more && out.bytes < WRITE {
                match core.poll_stream(conn.link, stream) {
                    Some(chunk) => {
                        out.bytes += chunk.len();
                        out.chunks.push_back(chunk);
                    }
                    None => more = false,
                }
            }
            match out.poll_write(cx) {
                Poll::Ready(Ok(())) if more => {}
                Poll::Ready(Ok(())) => return,
                Poll::Pending => {
                    self.blocked.push((id, stream));
                    return;
                }
                Poll::Ready(Err(_)) if !core.is_linked(conn.link) => {
                    out.broken = true;
                    self.blocked.push((id, stream));
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
        blocked.retain(|&(id, stream)| {
            let pending = channel(conns, id, stream)
                .is_some_and(|channel| channel.out.poll_write(cx).is_pending());
            if !pending {
                unblocked.push((id, stream));
            }
            pending
        });
        !unblocked.is_empty()
    }

    pub(super) fn write_unblocked(&mut self, core: &mut Core<Body>, cx: &mut Context<'_>) {
        for (id, stream) in mem::take(&mut self.unblocked) {
            self.write_to(id, stream, core, cx);
        }
    }

    /// Writes everything and closes, for the end of the node. Waits for links that were closed just now, too: what a
    /// node says last is that it has left, and its process may end when this returns.
    pub(super) async fn finish(&mut self, core: &mut Core<Body>) {
        self.by_link.clear();
        let mut closing: Vec<_> = self.conns.drain().map(|(_, conn)| conn).collect();
        for conn in &mut closing {
            conn.take_rest(core);
        }
        let (sender, mut closed) = mem::replace(&mut self.closing, mpsc::channel(1));
        drop(sender);
        let finish = async {
            for conn in &mut closing {
                let _ = conn.finish().await;
            }
            // Nothing is ever sent: this waits until the last sender is gone.
            closed.recv().await;
        };
        let _ = self.shared.runtime.timeout(CLOSING, finish).await;
    }
}

type Conns = HashMap<ConnId, Conn, foldhash::fast::RandomState>;

fn channel(conns: &mut Conns, id: ConnId, stream: StreamIndex) -> Option<&mut Channel> {
    conns.get_mut(&id)?.streams.get_mut(usize::from(stream.0))
}

impl Out {
    /// Ready when all is written. Never again once it is broken.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.broken {
            return Poll::Pending;
        }
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
        if self.broken {
            return Ok(());
        }
        core::future::poll_fn(|cx| self.poll_write(cx)).await?;
        core::future::poll_fn(|cx| Pin::new(&mut *self.writer).poll_shutdown(cx)).await
    }
}

/// Reads until the stream, and with it the connection, ends.
async fn read(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    (id, stream): (ConnId, StreamIndex),
    most: usize,
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
        match reader.read_buf(&mut (&mut buffer).limit(most)).await {
            Ok(0) => break None,
            Ok(_) => {
                let chunk = NetEvent::Read(id, stream, buffer.split());
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
