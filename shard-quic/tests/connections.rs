//! Connections, without nodes.
#![cfg(feature = "tokio")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

#[path = "../../shard-tokio/tests/common/mod.rs"]
mod common;

use std::io;
use std::net::UdpSocket;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::certs::Authority;
use common::within;
use shard_quic::QuicTransport;
use shard_tokio::transport::{Arriving, Connection, Listener};
use shard_tokio::{Peer, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const WINDOW: usize = 64 << 10;
/// What goes into it: the number of the lane is there.
const SENT: usize = WINDOW - 1;

/// Whether it has to wait.
fn waits<F: Future>(future: F) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(pin!(future).poll(&mut cx), Poll::Pending)
}

/// Two transports, one of which listens.
struct Two {
    dialer: QuicTransport,
    listener: Box<dyn Listener>,
    acceptor: QuicTransport,
}

impl Two {
    async fn new(
        dialer: impl FnOnce(QuicTransport) -> QuicTransport,
        acceptor: impl FnOnce(QuicTransport) -> QuicTransport,
    ) -> Self {
        let ca = Authority::new();
        let acceptor = acceptor(QuicTransport::tokio(ca.tls("acceptor")));
        Self {
            dialer: dialer(QuicTransport::tokio(ca.tls("dialer"))),
            listener: acceptor.listen("127.0.0.1:0").await.unwrap(),
            acceptor,
        }
    }

    async fn connect(&mut self) -> (Connection, Connection) {
        let address = self.listener.address();
        let accept = async { self.listener.accept().await.unwrap().connection.await };
        let (dialed, accepted) = tokio::join!(self.dialer.dial(&address), accept);
        (dialed.unwrap(), accepted.unwrap())
    }
}

async fn connected() -> (Two, Connection, Connection) {
    let narrow = |it: QuicTransport| it.stream_window(WINDOW as u32);
    let mut two = Two::new(narrow, narrow).await;
    let (dialed, accepted) = two.connect().await;
    (two, dialed, accepted)
}

/// Something there and back on a stream.
async fn echo(dialed: &mut Connection, accepted: &mut Connection, stream: usize) {
    let (near, far) = (&mut dialed.streams[stream], &mut accepted.streams[stream]);
    let mut bytes = [0; 5];
    near.writer.write_all(b"there").await.unwrap();
    far.reader.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"there");
    far.writer.write_all(b"back!").await.unwrap();
    near.reader.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"back!");
}

#[tokio::test]
async fn there_are_as_many_streams_as_the_dialer_has_lanes_and_they_are_the_same_on_both_sides() {
    within(30, "streams", async {
        let mut two = Two::new(|it| it.lanes(3), |it| it).await;
        let (mut dialed, mut accepted) = two.connect().await;
        let lanes = [&two.dialer, &two.acceptor].map(Transport::lanes);
        assert_eq!(lanes, [3, 8]);
        assert_eq!((dialed.streams.len(), accepted.streams.len()), (4, 4));
        for (connection, name) in [(&dialed, "acceptor"), (&accepted, "dialer")] {
            let identity = connection.identity.as_ref().unwrap();
            assert_eq!((identity.kind(), identity.name()), (Peer::Node, name));
            assert_eq!(identity.cluster(), "test");
        }
        assert_eq!(dialed.peer, two.listener.address());
        for stream in [3, 0, 2, 1] {
            echo(&mut dialed, &mut accepted, stream).await;
        }
    })
    .await;
}

/// Whoever closes may be gone before the other side has read anything.
#[tokio::test]
async fn what_is_written_last_arrives() {
    within(30, "the end", async {
        let (_two, mut dialed, accepted) = connected().await;
        let expected = |stream: usize| vec![stream as u8; 1000 * (stream + 1)];
        for (number, stream) in dialed.streams.iter_mut().enumerate() {
            stream.writer.write_all(&expected(number)).await.unwrap();
        }
        for stream in dialed.streams.iter_mut().rev() {
            stream.writer.shutdown().await.unwrap();
        }
        drop(dialed);
        let mut reading = JoinSet::new();
        for (number, mut stream) in accepted.streams.into_iter().enumerate() {
            reading.spawn(async move {
                let mut read = Vec::new();
                stream.reader.read_to_end(&mut read).await.unwrap();
                assert!(read == expected(number), "{number}");
            });
        }
        assert_eq!(reading.join_all().await.len(), 9);
    })
    .await;
}

/// A driver takes the end of any stream for the end of all.
#[tokio::test]
async fn no_stream_ends_before_the_others_are_read() {
    within(30, "the end of one", async {
        let (_two, mut dialed, mut accepted) = connected().await;
        dialed.streams[2].writer.shutdown().await.unwrap();
        // What is sent later has come, so the end has, too, or it is not lost what was on the way.
        echo(&mut dialed, &mut accepted, 1).await;
        let mut byte = [0];
        assert!(waits(accepted.streams[2].reader.read(&mut byte)));
        dialed.streams[0].writer.write_all(b"bye").await.unwrap();
        for stream in dialed.streams.iter_mut().rev() {
            let _ = stream.writer.shutdown().await;
        }
        let (first, rest) = accepted.streams.split_at_mut(1);
        for stream in rest.iter_mut() {
            assert!(waits(stream.reader.read(&mut byte)));
        }
        let mut said = [0; 3];
        first[0].reader.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"bye");
        let ends = first
            .iter_mut()
            .chain(rest)
            .map(|stream| async { stream.reader.read(&mut [0]).await.unwrap() });
        let mut ended = 0;
        // All at once, as a driver has a task for each.
        let mut ends: Vec<_> = ends.map(Box::pin).collect();
        std::future::poll_fn(|cx| {
            ends.retain_mut(|end| match end.as_mut().poll(cx) {
                Poll::Ready(count) => {
                    assert_eq!(count, 0);
                    ended += 1;
                    false
                }
                Poll::Pending => true,
            });
            if ends.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        assert_eq!(ended, 9);
    })
    .await;
}

#[tokio::test]
async fn one_that_is_dropped_ends_the_other_side() {
    within(30, "a drop", async {
        let (_two, dialed, mut accepted) = connected().await;
        drop(dialed);
        let mut bytes = [0; 8];
        let error: io::Error = loop {
            match accepted.streams[0].writer.write(&bytes).await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("the other side"), "{error}");
        // Nothing hangs, whatever was said last.
        for stream in &mut accepted.streams {
            let _ = stream.reader.read(&mut bytes).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lanes_that_are_not_read_stop_no_other() {
    within(60, "stalled lanes", async {
        let (_two, mut dialed, mut accepted) = connected().await;
        let chunk = [7; 4096];
        let mut cx = Context::from_waker(Waker::noop());
        // All but control and the last lane, as far as they go.
        for stream in &mut dialed.streams[1..8] {
            let mut sent = 0;
            while let Poll::Ready(wrote) = pin!(stream.writer.write(&chunk)).poll(&mut cx) {
                sent += wrote.unwrap();
            }
            assert_eq!(sent, SENT);
        }
        for _ in 0..100 {
            echo(&mut dialed, &mut accepted, 8).await;
            echo(&mut dialed, &mut accepted, 0).await;
        }
        // And they go on where they were.
        for lane in 1..8 {
            let mut read = vec![0; SENT];
            accepted.streams[lane]
                .reader
                .read_exact(&mut read)
                .await
                .unwrap();
            assert!(read.iter().all(|byte| *byte == 7));
            echo(&mut dialed, &mut accepted, lane).await;
        }
    })
    .await;
}

/// What arrives, taken up to where the other side has to say something.
async fn arrive(two: &mut Two) -> Arriving {
    two.listener.accept().await.unwrap()
}

#[tokio::test]
async fn while_many_have_not_shown_that_they_are_there_others_must() {
    within(30, "retry", async {
        let mut two = Two::new(|it| it, |it| it.retry_above(2)).await;
        let (address, dialer) = (two.listener.address(), two.dialer.clone());
        let mut dialing = JoinSet::new();
        for _ in 0..3 {
            let (address, dialer) = (address.clone(), dialer.clone());
            dialing.spawn(async move { dialer.dial(&address).await });
        }
        let (first, second) = (arrive(&mut two).await, arrive(&mut two).await);
        let stats = two.acceptor.stats();
        assert_eq!((stats.unvalidated, stats.retries), (2, 0));
        // The third one is asked, and comes again.
        let third = arrive(&mut two).await;
        let stats = two.acceptor.stats();
        assert_eq!((stats.unvalidated, stats.retries), (2, 1));
        let (a, b, c) = tokio::join!(first.connection, second.connection, third.connection);
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert!(dialing.join_all().await.iter().all(Result::is_ok));
        assert_eq!(two.acceptor.stats().unvalidated, 0);
        // One that is turned away is counted no more.
        let dialing = tokio::spawn(async move { dialer.dial(&address).await });
        drop(arrive(&mut two).await);
        let error = dialing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{error}");
        assert_eq!(two.acceptor.stats().unvalidated, 0);
    })
    .await;
}

#[tokio::test]
async fn always_asked_is_a_way_to_run() {
    within(30, "retry", async {
        let mut two = Two::new(|it| it, |it| it.retry_above(0)).await;
        let (mut dialed, mut accepted) = two.connect().await;
        echo(&mut dialed, &mut accepted, 1).await;
        assert_eq!(two.acceptor.stats().retries, 1);
    })
    .await;
}

#[tokio::test]
async fn connections_go_on_from_another_address() {
    within(30, "migration", async {
        let (two, mut dialed, mut accepted) = connected().await;
        echo(&mut dialed, &mut accepted, 1).await;
        two.dialer
            .rebind(UdpSocket::bind("127.0.0.1:0").unwrap())
            .unwrap();
        for stream in 0..9 {
            echo(&mut dialed, &mut accepted, stream).await;
        }
    })
    .await;
}

#[tokio::test]
async fn names_are_looked_up() {
    within(30, "a name", async {
        let mut two = Two::new(|it| it, |it| it).await;
        let port = two
            .listener
            .address()
            .rsplit_once(':')
            .unwrap()
            .1
            .to_owned();
        let address = format!("localhost:{port}");
        // Of two families the one that the dialer's socket has.
        let _listening = two.dialer.listen("127.0.0.1:0").await.unwrap();
        let accept = async { two.listener.accept().await.unwrap().connection.await };
        let (dialed, accepted) = tokio::join!(two.dialer.dial(&address), accept);
        assert_eq!(dialed.unwrap().peer, address);
        accepted.unwrap();
        two.dialer.dial("nowhere").await.unwrap_err();
    })
    .await;
}
