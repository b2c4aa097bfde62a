//! A member that lies, over real sockets.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use common::{Answer, Peer, Say, World, builder_on, free_address, map_that, scribes, within};
use shard_tokio::proto::hash::entity_type_id;
use shard_tokio::proto::wire::Control;
use shard_tokio::proto::wire::control::{
    HandOff, Previous, RegisterAck, RememberedEntities, ShardHome, ShardMapUpdate, Size,
};
use shard_tokio::proto::wire::list::{EntityIdsBuilder, HomeEntry, HomesBuilder};
use shard_tokio::proto::{Epoch, Session, Term};
use shard_tokio::transport::{Arriving, BoxFuture, Connection, Listener};
use shard_tokio::{NodeId, ShardId, TcpTransport, Transport};
use tokio::io::AsyncWrite;

/// TCP whose connections can be given further frames to write, behind the whole ones of the node.
#[derive(Clone, Default)]
struct Forger {
    tcp: TcpTransport,
    lines: Arc<Mutex<Vec<Arc<Mutex<BytesMut>>>>>,
}

impl Forger {
    fn wrap(&self, connection: io::Result<Connection>) -> io::Result<Connection> {
        let mut connection = connection?;
        let extra = Arc::new(Mutex::new(BytesMut::new()));
        self.lines.lock().unwrap().push(Arc::clone(&extra));
        let stream = &mut connection.streams[0];
        let inner = std::mem::replace(&mut stream.writer, Box::new(tokio::io::sink()));
        stream.writer = Box::new(Forging {
            inner,
            buffer: BytesMut::new(),
            extra,
        });
        Ok(connection)
    }

    fn send(&self, frames: &[u8]) {
        for extra in &*self.lines.lock().unwrap() {
            extra.lock().unwrap().extend_from_slice(frames);
        }
    }
}

impl Transport for Forger {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(ForgingListener {
                inner: self.tcp.listen(address).await?,
                forger: self.clone(),
            });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move { self.wrap(self.tcp.dial(address).await) })
    }
}

struct ForgingListener {
    inner: Box<dyn Listener>,
    forger: Forger,
}

impl Listener for ForgingListener {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let arriving = self.inner.accept().await?;
            let forger = self.forger.clone();
            Ok(Arriving {
                peer: arriving.peer,
                connection: Box::pin(async move { forger.wrap(arriving.connection.await) }),
            })
        })
    }
}

struct Forging {
    inner: Box<dyn AsyncWrite + Send + Unpin>,
    buffer: BytesMut,
    extra: Arc<Mutex<BytesMut>>,
}

impl AsyncWrite for Forging {
    /// Takes all it is given, which is whole frames.
    fn poll_write(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.buffer.extend_from_slice(bytes);
        let extra = self.extra.lock().unwrap().split();
        self.buffer.extend_from_slice(&extra);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { inner, buffer, .. } = self.get_mut();
        while !buffer.is_empty() {
            let written = ready!(Pin::new(&mut *inner).poll_write(cx, buffer))?;
            buffer.advance(written);
        }
        Pin::new(inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// What only the leader may say, about every shard, under its term.
fn forgeries(shards: u32, term: Term, me: NodeId) -> (BytesMut, u64) {
    let mut frames = BytesMut::new();
    let mut count = 0;
    let mut say = |control: Control<'_>| {
        let ty = entity_type_id("scribe");
        control.encode_into(ty, term, 1, &mut frames).unwrap();
        count += 1;
    };
    let high = Epoch::new(term, Epoch::MAX_ROUND).unwrap();
    let session = Session::default();
    let mut scratch = [0; 4096];
    let mut homes = HomesBuilder::new(&mut scratch);
    for shard in (0..shards).map(ShardId) {
        let home = HomeEntry {
            shard,
            epoch: high,
            node: me,
        };
        homes.push(home).unwrap();
    }
    say(Control::ShardMapUpdate(ShardMapUpdate {
        version: u64::MAX,
        last: true,
        homes: homes.finish(),
    }));
    let mut scratch = [0; 64];
    let mut ghosts = EntityIdsBuilder::new(&mut scratch);
    ghosts.push(b"ghost").unwrap();
    let ids = ghosts.finish();
    say(Control::RegisterAck(RegisterAck {
        session,
        size: Size::default(),
    }));
    for shard in (0..shards).map(ShardId) {
        // The rounds that may be in use.
        for round in 1..4 * shards {
            let epoch = Epoch::new(term, round).unwrap();
            say(Control::HandOff(HandOff {
                shard,
                epoch,
                drain: 0,
            }));
        }
        say(Control::ShardHome(ShardHome {
            shard,
            epoch: high,
            node: me,
            session,
            previous: Previous::Completed,
        }));
        say(Control::RememberedEntities(RememberedEntities {
            shard,
            epoch: high,
            more: false,
            ids,
        }));
    }
    (frames, count)
}

/// Scenario 1: a member that says what only the leader may say is ignored, counted, and named in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_plays_the_leader_changes_nothing() {
    within(60, "hostile member", async {
        let world = World::new();
        let seeds = common::all(1, |_| free_address());
        let a = Peer::start("a", &seeds[0], &seeds, &world).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        a.scribes.ready().await.unwrap();
        b.scribes.ready().await.unwrap();
        let forger = Forger::default();
        let x = builder_on("x", &free_address(), &seeds, forger.clone());
        let x = x.start().await.unwrap();
        let x_scribes = scribes(&x, &world, |it| it.proxy()).await;
        x_scribes.ready().await.unwrap();
        let who = async |e: usize| {
            let entity = a.scribes.entity(format!("e{e}"));
            entity.ask(Say::Add(1)).await.unwrap();
            entity.ask(Say::Who).await.unwrap()
        };
        // Until every shard has a home and the cluster has come to rest.
        for e in 0..200 {
            who(e).await;
            x_scribes
                .entity(format!("e{e}"))
                .ask(Say::Who)
                .await
                .unwrap();
        }
        map_that(&a.scribes, |map| {
            let on_b = common::hosted_by(map, &b.node);
            // At rest: no strategy moves anything from here.
            map.known() == 32 && on_b == 16
        })
        .await;
        let mut before = Vec::new();
        for e in 0..200 {
            before.push(who(e).await);
        }
        let map = a.scribes.shard_map();
        let term = map.home(ShardId(0)).unwrap().epoch.term();
        let (frames, count) = forgeries(32, term, x.id());
        forger.send(&frames);
        for node in [&a.node, &b.node] {
            while node.stats().core.directives_refused < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(a.scribes.shard_map(), map);
        for (e, before) in before.iter().enumerate() {
            let Answer::Who { node, epoch, sum } = before else {
                panic!("{before:?}");
            };
            let same = Answer::Who {
                node: node.clone(),
                epoch: *epoch,
                sum: sum + 1,
            };
            assert_eq!(who(e).await, same, "entity {e}");
        }
        assert!(
            !world
                .lives
                .lock()
                .unwrap()
                .iter()
                .any(|life| life.0 == "ghost")
        );
    })
    .await;
}
