//! A member that lies, over real sockets.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use common::{
    Answer, Peer, Say, World, builder, free_address, hosted_by, map_that, scribes, until,
};
use shard_proto::wire::control::*;
use shard_proto::wire::{Control, Decoded, EntityIdsBuilder, Frame, HomeEntry, HomesBuilder};
use shard_proto::{EntityTypeId, Epoch, Incarnation, NodeId, Session, ShardId, Term, Token, hash};
use shard_tokio::{Home, Membership, ShardMap};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAX_FRAME: u32 = 1 << 20;
/// Younger than every node that takes the clock.
const YOUNG: Incarnation = Incarnation(u64::MAX / 2);

/// A member that shook hands as every node does, and says what it likes.
struct Impostor {
    stream: TcpStream,
    unread: Vec<u8>,
    me: NodeId,
    peer: Incarnation,
}

impl Impostor {
    async fn connect(name: &str, address: &str) -> Self {
        let me = hash::node_id(name);
        let mut it = Self {
            stream: TcpStream::connect(address).await.unwrap(),
            unread: Vec::new(),
            me,
            peer: Incarnation(0),
        };
        let hello = Hello {
            min_version: 1,
            max_version: 1,
            cluster: hash::cluster_id(""),
            voters: 0,
            node: me,
            incarnation: YOUNG,
            name,
            address: "127.0.0.1:1",
            roles: Default::default(),
            lanes: 1,
            max_frame: MAX_FRAME,
            dialer: true,
        };
        it.say(EntityTypeId(0), Term(0), &Control::Hello(hello))
            .await;
        it.peer = it
            .hear(|_, control| match control {
                Control::Hello(hello) => Some(hello.incarnation),
                _ => None,
            })
            .await;
        it.hear(|_, control| matches!(control, Control::Welcome(_)).then_some(()))
            .await;
        let welcome = Welcome {
            version: 1,
            incarnation: it.peer,
            expected: &[0; 8],
        };
        it.say(EntityTypeId(0), Term(0), &Control::Welcome(welcome))
            .await;
        it
    }

    async fn say(&mut self, ty: EntityTypeId, term: Term, control: &Control<'_>) {
        let mut frame = vec![0; 4096];
        let len = control.encode(ty, term, 1, &mut frame).unwrap();
        self.stream.write_all(&frame[..len]).await.unwrap();
    }

    /// Reads control frames up to one of interest.
    async fn hear<T>(&mut self, mut of_interest: impl FnMut(Term, Control<'_>) -> Option<T>) -> T {
        loop {
            while let Decoded::Frame(frame) = Frame::decode(&self.unread, MAX_FRAME).unwrap() {
                let len = frame.encoded_len();
                let heard = frame
                    .control()
                    .ok()
                    .and_then(|control| of_interest(frame.header.term(), control));
                self.unread.drain(..len);
                if let Some(heard) = heard {
                    return heard;
                }
            }
            let read = self.stream.read_buf(&mut self.unread).await.unwrap();
            assert!(read > 0, "it closed the connection");
        }
    }
}

/// Keeps what is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Scenarios 1, 5, 7, 8 and 10: it sends everything that only a leader or another region may say, about every shard.
#[tokio::test]
async fn s1_directives_of_a_hostile_member_change_nothing() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    common::within(60, "a hostile member", lies(&log)).await;
}

async fn start(name: &str, address: &str, seeds: &[String], world: &Arc<World>) -> Peer {
    let node = builder(name, address, seeds).membership(Membership::Links);
    let node = node.start().await.unwrap();
    let scribes = scribes(&node, world, |it| it).await;
    scribes.ready().await.unwrap();
    Peer { node, scribes }
}

async fn lies(log: &Log) {
    let world = World::new();
    let seeds = [free_address(), free_address()];
    let a = start("a", &seeds[0], &seeds, &world).await;
    let b = start("b", &seeds[1], &seeds, &world).await;
    let ids: Vec<_> = (0..64).map(|e| format!("e{e}")).collect();
    for id in &ids {
        a.scribes.entity(id).ask(Say::Add(1)).await.unwrap();
    }
    // At rest: every shard that has an entity has a home, and both nodes as many of them.
    let shards: BTreeSet<_> = ids.iter().map(|id| a.scribes.shard_of(id)).collect();
    let half = shards.len() / 2;
    let at_rest = |map: &ShardMap| {
        map.known() == shards.len() && (half..=half + 1).contains(&hosted_by(map, &a.node))
    };
    let map = map_that(&b.scribes, at_rest).await;
    map_that(&a.scribes, |now| *now == map).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(b.scribes.entity(id).ask(Say::Add(1)).await.unwrap());
    }
    let lives = world.lives.lock().unwrap().len();
    let running = (a.scribes.running(), b.scribes.running());

    let mut to_a = Impostor::connect("x", &seeds[0]).await;
    let term = to_a
        .hear(|term, control| matches!(control, Control::LeaderBeat(_)).then_some(term))
        .await;
    let mut to_b = Impostor::connect("x", &seeds[1]).await;
    let x = to_b.me;
    let cart = hash::entity_type_id("scribe");
    let session_of = |incarnation| Session {
        incarnation,
        ..Session::default()
    };
    let session = session_of(to_b.peer);
    let newer = Epoch::new(term, 1_000).unwrap();
    let mut homes = [0; 1024];
    let mut homes = HomesBuilder::new(&mut homes);
    for shard in (0..32).map(ShardId) {
        let (epoch, node) = (newer, x);
        homes.push(HomeEntry { shard, epoch, node }).unwrap();
    }
    let update = ShardMapUpdate {
        version: 1_000,
        last: true,
        homes: homes.finish(),
    };
    let mut ghosts = [0; 64];
    let mut ghosts = EntityIdsBuilder::new(&mut ghosts);
    ghosts.push(b"ghost").unwrap();
    let ghosts = ghosts.finish();
    let mut directives = 0;
    for (shard, home) in map.iter() {
        let Some(Home { epoch, .. }) = home else {
            continue;
        };
        let lies = [
            Control::HandOff(HandOff {
                shard,
                epoch,
                drain: 1_000_000,
            }),
            Control::ShardHome(ShardHome {
                shard,
                epoch: newer,
                node: x,
                session,
                previous: Previous::Completed,
            }),
            Control::RememberedEntities(RememberedEntities {
                shard,
                epoch,
                more: false,
                ids: ghosts,
            }),
            Control::RegisterAck(RegisterAck { session }),
            Control::ShardMapUpdate(update),
        ];
        for lie in &lies {
            to_b.say(cart, term, lie).await;
            to_b.say(cart, term.next(), lie).await;
            directives += 2;
        }
        // The leader is lied to about what others have done.
        for lie in [
            Control::HandOffComplete(HandOffComplete {
                shard,
                epoch,
                forced: false,
            }),
            Control::EntityStopped(EntityNote {
                shard,
                epoch,
                id: b"e0",
            }),
            Control::Deregister(Deregister { session }),
            Control::GetShardHome(GetShardHome {
                shard: ShardId(shard.0 + 32),
            }),
        ] {
            to_a.say(cart, term, &lie).await;
        }
    }
    // Behind everything else, and counted.
    to_a.say(
        cart,
        term,
        &Control::StatsQuery(StatsQuery { token: Token(1) }),
    )
    .await;
    until(|| b.node.stats().core.directives_refused == directives).await;
    until(|| a.node.stats().core.directives_refused == 1).await;

    // Every entity still lives where it lived, and goes on counting; both nodes still know where.
    for (id, before) in ids.iter().zip(&before) {
        let Answer::Sum(sum) = before else {
            panic!("{before:?}")
        };
        for (more, peer) in [(1, &a), (2, &b)] {
            let now = peer.scribes.entity(id).ask(Say::Add(1)).await;
            assert_eq!(now, Ok(Answer::Sum(sum + more)), "{id}");
        }
    }
    assert_eq!(a.scribes.shard_map(), map);
    assert_eq!(b.scribes.shard_map(), map);
    assert_eq!(world.lives.lock().unwrap().len(), lives);
    assert_eq!((a.scribes.running(), b.scribes.running()), running);

    // One warning per kind of directive, however many there were, and it names the peer.
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let named = format!("peer={}", x.0);
    let warned = |line: &&str| line.contains("does not lead") && line.contains(&named);
    let warnings = text.lines().filter(warned).count();
    assert_eq!(warnings, 5 + 1, "{text}");
}
