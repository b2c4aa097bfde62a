//! Streams of one connection, which end together.

use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};

use quinn::{Connection, ReadError, RecvStream, SendStream, VarInt, WriteError};
use shard_adapter::transport::tls::Handshake;
use shard_adapter::transport::{BoxFuture, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::endpoint::lock;
use crate::error::{self, BROKEN, CLOSED};

/// What the streams of a connection share.
pub(crate) struct Shared {
    connection: Connection,
    handshake: Handshake,
    ends: Mutex<Ends>,
    /// Ready when the other side has all of a stream that was finished, or wants no more of it.
    finishing: Mutex<Vec<BoxFuture<'static, ()>>>,
}

/// Streams that were not read to their end.
struct Ends {
    left: usize,
    /// By stream: those that were.
    waiting: Vec<Option<Waker>>,
}

impl Shared {
    pub(crate) fn new(connection: Connection, handshake: Handshake, streams: usize) -> Self {
        Self {
            connection,
            handshake,
            ends: Mutex::new(Ends {
                left: streams,
                waiting: vec![None; streams],
            }),
            finishing: Mutex::default(),
        }
    }

    /// One stream is broken: all are.
    fn give_up(&self, why: &'static str) {
        self.connection
            .close(VarInt::from_u32(BROKEN), why.as_bytes());
    }

    fn read_error(&self, error: ReadError) -> io::Error {
        if !matches!(error, ReadError::ConnectionLost(_)) {
            self.give_up("a stream was given up");
        }
        error::read(error, &self.handshake)
    }

    fn write_error(&self, error: WriteError) -> io::Error {
        if matches!(error, WriteError::Stopped(_)) {
            self.give_up("a stream is not read any more");
        }
        error::write(error, &self.handshake)
    }

    /// A stream was read to its end.
    fn end(&self) {
        let mut ends = lock(&self.ends);
        ends.left -= 1;
        if ends.left == 0 {
            ends.waiting.drain(..).flatten().for_each(Waker::wake);
        }
    }

    /// Ready when all streams were: what came last on one must not be lost because another one ended first. So all of them
    /// have to be read.
    fn poll_ended(&self, stream: usize, cx: &Context<'_>) -> Poll<()> {
        let mut ends = lock(&self.ends);
        if ends.left == 0 {
            return Poll::Ready(());
        }
        if let Some(waiting) = ends.waiting.get_mut(stream) {
            *waiting = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn poll_finished(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut finishing = lock(&self.finishing);
        finishing.retain_mut(|stream| stream.as_mut().poll(cx).is_pending());
        if finishing.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.connection.close(VarInt::from_u32(CLOSED), b"");
    }
}

/// As the driver of a node takes them; the first is control.
pub(crate) fn streams(shared: &Arc<Shared>, pairs: Vec<(SendStream, RecvStream)>) -> Vec<Stream> {
    let of = |(number, (send, receive))| {
        let reader = Reader {
            shared: Arc::clone(shared),
            number,
            receive,
            is_over: false,
        };
        let writer = Writer {
            shared: Arc::clone(shared),
            number,
            send,
            is_finished: false,
        };
        Stream::new(reader, writer)
    };
    pairs.into_iter().enumerate().map(of).collect()
}

struct Reader {
    receive: RecvStream,
    number: usize,
    is_over: bool,
    shared: Arc<Shared>,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_over {
            let before = buf.remaining();
            let read = ready!(this.receive.poll_read_buf(cx, buf));
            read.map_err(|error| this.shared.read_error(error))?;
            if before == 0 || buf.remaining() < before {
                return Poll::Ready(Ok(()));
            }
            this.is_over = true;
            this.shared.end();
        }
        this.shared.poll_ended(this.number, cx).map(Ok)
    }
}

struct Writer {
    send: SendStream,
    number: usize,
    is_finished: bool,
    shared: Arc<Shared>,
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let wrote = ready!(Pin::new(&mut this.send).poll_write(cx, buf));
        Poll::Ready(wrote.map_err(|error| this.shared.write_error(error)))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
            match self.as_mut().poll_write(cx, buf) {
                Poll::Ready(Ok(count)) => {
                    written += count;
                    if count < buf.len() {
                        break;
                    }
                }
                // What is wrong, the next call finds as well.
                _ if written > 0 => break,
                other => return other,
            }
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Of control, which is last: waits until the other side has all that was written to streams that are shut down.
    /// Others do not wait: acknowledgements come late when there is nothing to answer, and all of them together.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.is_finished {
            this.is_finished = true;
            let finished = this.send.finish();
            finished.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error))?;
            let stopped = this.send.stopped();
            let done: BoxFuture<'static, ()> = Box::pin(async move {
                let _ = stopped.await;
            });
            lock(&this.shared.finishing).push(done);
        }
        if this.number > 0 {
            return Poll::Ready(Ok(()));
        }
        this.shared.poll_finished(cx).map(Ok)
    }
}
