//! One cluster of nodes on tokio, async-std and smol.
#![cfg(all(feature = "async-std", feature = "smol"))]

mod common;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;

use common::{Say, Scribe, World, ask_all, builder, hosted, ids, map_that, run, scribes};
use shard_adapter::runtime::Runtime;
use shard_adapter::{AskError, EntityType, Node};
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_tokio::Tokio;

const VOTERS: [&str; 3] = ["async-std", "smol", "tokio"];

struct Peer<R> {
    node: Node<R>,
    scribes: EntityType<Scribe>,
}

async fn peer<R: Runtime>(name: &str, seeds: &[&str], world: &Arc<World>) -> Peer<R> {
    let node = builder::<R>(name, &VOTERS, seeds).start().await.unwrap();
    let scribes = scribes(&node, world).await;
    Peer { node, scribes }
}

/// Three nodes, each with a third of the shards.
struct Cluster {
    world: Arc<World>,
    tokio: tokio::runtime::Runtime,
    a: Peer<AsyncStd>,
    b: Peer<Smol>,
    c: Peer<Tokio>,
}

impl Cluster {
    async fn start() -> Self {
        let world = Arc::<World>::default();
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let a = peer::<AsyncStd>("async-std", &[], &world).await;
        let seeds = [a.node.address()];
        let b = peer::<Smol>("smol", &seeds, &world).await;
        let c = tokio.block_on(peer::<Tokio>("tokio", &seeds, &world));
        for scribes in [&a.scribes, &b.scribes, &c.scribes] {
            scribes.ready().await.unwrap();
            ask_all(scribes).await;
        }
        map_that(&a.scribes, |map| {
            let each = [
                hosted(map, &a.node),
                hosted(map, &b.node),
                hosted(map, &c.node),
            ];
            each.iter().all(|shards| (10..=11).contains(shards))
        })
        .await;
        Self {
            world,
            tokio,
            a,
            b,
            c,
        }
    }
}

/// Asks entities one after the other, each with the next number, until it is told to stop, or its node has. Returns how
/// often it went through all.
fn caller(
    number: u64,
    scribes: &EntityType<Scribe>,
    over: &Arc<AtomicBool>,
) -> thread::JoinHandle<u64> {
    let (ids, scribes, over) = (ids(scribes), scribes.clone(), Arc::clone(over));
    let ask = async move {
        let mut n = 0;
        while !over.load(Ordering::Relaxed) {
            for id in &ids {
                let note = Say::Note { caller: number, n };
                match scribes.entity(id).ask(note).await {
                    Ok(_) => {}
                    Err(AskError::Stopped) => return n,
                    Err(error) => panic!("{number}: {error}"),
                }
            }
            n += 1;
        }
        n
    };
    thread::spawn(|| run(ask))
}

#[test]
fn shards_move_between_runtimes_and_nothing_is_lost() {
    run(async {
        let Cluster {
            world,
            tokio,
            a,
            b,
            c,
        } = Cluster::start().await;
        let over = Arc::<AtomicBool>::default();
        let callers = [(1, &a.scribes), (2, &b.scribes), (3, &c.scribes)];
        let callers = callers.map(|(number, scribes)| (number, caller(number, scribes, &over)));

        // A fourth one comes, on smol, and takes its share; then the one on async-std leaves.
        let d = peer::<Smol>("d", &[b.node.address()], &world).await;
        map_that(&b.scribes, |map| hosted(map, &d.node) == 8).await;
        a.node.leave().await.unwrap();
        drop(a.scribes);
        map_that(&b.scribes, |map| {
            hosted(map, &a.node) == 0 && map.iter().all(|(_, home)| home.is_some())
        })
        .await;

        over.store(true, Ordering::Relaxed);
        for (number, caller) in callers {
            let rounds = caller.join().unwrap();
            assert!(rounds > 0);
            // The node of the first one left while it asked: what it was not answered may have been handled.
            let more = u64::from(number == 1);
            let notes = world.notes.lock().unwrap();
            for id in ids(&b.scribes) {
                let noted = &notes[&(id.clone(), number)];
                let count = noted.len() as u64;
                assert!(
                    (rounds..=rounds + more).contains(&count),
                    "{id} of {number}"
                );
                assert!(noted.iter().copied().eq(0..count), "{id} of {number}");
            }
        }
        d.node.shutdown().await;
        b.node.shutdown().await;
        tokio.block_on(c.node.shutdown());
    });
}

#[test]
fn the_others_go_on_without_one_that_is_killed() {
    run(async {
        let Cluster { tokio, a, b, c, .. } = Cluster::start().await;
        // All of its tasks end where they are, and its sockets close.
        tokio.shutdown_background();
        for scribes in [&a.scribes, &b.scribes] {
            ask_all(scribes).await;
            let map = scribes.shard_map();
            assert_eq!(hosted(&map, &a.node) + hosted(&map, &b.node), 32);
            assert_eq!(hosted(&map, &c.node), 0);
        }
        a.node.shutdown().await;
        b.node.shutdown().await;
    });
}
