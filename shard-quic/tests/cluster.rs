//! Nodes over QUIC, on tokio.
#![cfg(feature = "tokio")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

#[path = "../../shard-tokio/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::thread;

use common::certs::Authority;
use common::{
    Answer, Peer, Say, World, builder_on, free_address, hosted_by, map_that, scribes, within,
};
use shard_quic::QuicTransport;
use shard_tokio::{MemberState, Tls};

async fn start(name: &str, address: &str, seed: &str, tls: Tls, world: &Arc<World>) -> Peer {
    let seeds = [seed.to_owned()];
    let transport = QuicTransport::tokio(tls);
    let node = builder_on(name, address, &seeds, transport);
    let node = node.start().await.unwrap();
    let scribes = scribes(&node, world, |it| it).await;
    Peer { node, scribes }
}

/// A node whose process can be killed.
struct Process {
    runtime: tokio::runtime::Runtime,
    peer: Peer,
}

impl Process {
    async fn start(name: &str, address: &str, seed: &str, tls: Tls, world: &Arc<World>) -> Self {
        let (name, address, seed) = (name.to_owned(), address.to_owned(), seed.to_owned());
        let world = Arc::clone(world);
        let starting = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let peer = runtime.block_on(start(&name, &address, &seed, tls, &world));
            Self { runtime, peer }
        });
        let joined = tokio::task::spawn_blocking(|| starting.join().unwrap());
        joined.await.unwrap()
    }

    /// Its tasks end where they are, and its sockets close.
    fn kill(self) {
        self.runtime.shutdown_background();
    }
}

async fn ask_all(peer: &Peer) {
    for e in 0..64 {
        let entity = peer.scribes.entity(format!("e{e}"));
        while entity.ask(Say::Who).await.is_err() {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_join_and_answer_for_each_other_and_leave() {
    within(60, "three nodes", async {
        let (ca, world) = (Authority::new(), World::new());
        let addresses = common::all(3, |_| free_address());
        let mut peers = Vec::new();
        for (name, address) in ["a", "b", "c"].iter().zip(&addresses) {
            peers.push(start(name, address, &addresses[0], ca.tls(name), &world).await);
        }
        for peer in &peers {
            peer.scribes.ready().await.unwrap();
        }
        for round in 1..=3 {
            for e in 0..96 {
                let entity = peers[e % 3].scribes.entity(format!("e{e}"));
                assert_eq!(entity.ask(Say::Add(1)).await, Ok(Answer::Sum(round)));
            }
        }
        let map = |map: &_| hosted_by(map, &peers[2].node) >= 8;
        map_that(&peers[0].scribes, map).await;
        // What does not fit a window, a frame or a fragment.
        let entity = peers[0].scribes.entity("large");
        let answer = entity.ask(Say::Blob(vec![1; 20 << 20])).await;
        assert_eq!(answer, Ok(Answer::Sum(20 << 20)));
        peers[2].node.leave().await.unwrap();
        let map = |map: &_| hosted_by(map, &peers[2].node) == 0;
        map_that(&peers[0].scribes, map).await;
        ask_all(&peers[1]).await;
        peers[1].node.shutdown().await;
        peers[0].node.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_killed_is_replaced_and_comes_back() {
    within(120, "a kill", async {
        let (ca, world) = (Authority::new(), World::new());
        let addresses = common::all(2, |_| free_address());
        let a = start("a", &addresses[0], &addresses[0], ca.tls("a"), &world).await;
        a.scribes.ready().await.unwrap();
        for _ in 0..2 {
            let [seed, address] = [&addresses[0], &addresses[1]];
            let b = Process::start("b", address, seed, ca.tls("b"), &world).await;
            ask_all(&a).await;
            let id = b.peer.node.id();
            let map = |map: &shard_tokio::ShardMap| {
                map.iter()
                    .filter(|it| it.1.is_some_and(|home| home.node == id))
                    .count()
                    >= 10
            };
            map_that(&a.scribes, map).await;
            b.kill();
            ask_all(&a).await;
            let map = a.scribes.shard_map();
            assert!(map.iter().all(|it| it.1.is_none_or(|home| home.node != id)));
        }
        a.node.shutdown().await;
    })
    .await;
}

/// What a node says last is that it has left. If that were lost, the others would wait for it, and declare it down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_left_is_not_declared_down() {
    within(60, "a node that ends", async {
        let (ca, world) = (Authority::new(), World::new());
        let addresses = common::all(6, |_| free_address());
        let a = start("a", &addresses[0], &addresses[0], ca.tls("a"), &world).await;
        a.scribes.ready().await.unwrap();
        for (life, address) in addresses[1..].iter().enumerate() {
            let (name, address, seed) = (format!("b{life}"), address.clone(), addresses[0].clone());
            let (tls, world) = (ca.tls(&name), Arc::clone(&world));
            let leaver = thread::spawn(move || {
                let process = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build();
                process.unwrap().block_on(async {
                    let b = start(&name, &address, &seed, tls, &world).await;
                    b.scribes.ready().await.unwrap();
                    b.node.leave().await.unwrap();
                });
            });
            while !leaver.is_finished() || a.node.members().len() > 1 {
                for member in a.node.members() {
                    assert_ne!(member.state, MemberState::Unreachable, "{member:?}");
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            leaver.join().unwrap();
        }
        a.node.shutdown().await;
    })
    .await;
}
