//! One cluster over QUIC of nodes on tokio, async-std and smol.
#![cfg(all(feature = "tokio", feature = "async-std", feature = "smol"))]

#[path = "../../shard-tokio/tests/common/certs.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod certs;
#[path = "../../shard-asyncstd/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use certs::Authority;
use common::{Scribe, World, ask_all, builder, hosted, map_that, run, scribes};
use shard_adapter::runtime::Runtime;
use shard_adapter::{EntityType, Node};
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_quic::QuicTransport;
use shard_tokio::Tokio;

const VOTERS: [&str; 3] = ["async-std", "smol", "tokio"];

struct Peer<R> {
    node: Node<R>,
    scribes: EntityType<Scribe>,
}

async fn peer<R: Runtime>(
    name: &str,
    seeds: &[&str],
    transport: QuicTransport,
    world: &Arc<World>,
) -> Peer<R> {
    let node = builder::<R>(name, &VOTERS, seeds).transport(transport);
    let node = node.start().await.unwrap();
    let scribes = scribes(&node, world).await;
    Peer { node, scribes }
}

#[test]
fn shards_move_between_runtimes() {
    run(async {
        let (world, ca) = (Arc::<World>::default(), Authority::new());
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let a = QuicTransport::async_std(ca.tls("async-std"));
        let a = peer::<AsyncStd>("async-std", &[], a, &world).await;
        let seeds = [a.node.address()];
        let b = QuicTransport::smol(ca.tls("smol"));
        let b = peer::<Smol>("smol", &seeds, b, &world).await;
        let c = QuicTransport::tokio(ca.tls("tokio"));
        let c = tokio.block_on(peer::<Tokio>("tokio", &seeds, c, &world));
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
        for scribes in [&a.scribes, &b.scribes, &c.scribes] {
            ask_all(scribes).await;
        }
        a.node.leave().await.unwrap();
        map_that(&b.scribes, |map| {
            hosted(map, &a.node) == 0 && hosted(map, &b.node) + hosted(map, &c.node) == 32
        })
        .await;
        for scribes in [&b.scribes, &c.scribes] {
            ask_all(scribes).await;
        }
        b.node.shutdown().await;
        tokio.block_on(c.node.shutdown());
    });
}
