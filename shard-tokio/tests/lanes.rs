//! Several lanes, and messages longer than a frame, over real connections.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use core::time::Duration;

use common::{Answer, Peer, Say, World, builder, builder_on, free_address, scribes, within};
use shard_tokio::{AskError, MemoryTransport};

/// Every shard in order, over a transport in which each lane has a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_runs_over_several_lanes() {
    within(60, "lanes", async {
        let world = World::new();
        let network = MemoryTransport::new().with_lanes(4);
        let seeds = ["a".to_owned()];
        let mut peers = Vec::new();
        for name in ["a", "b"] {
            let node = builder_on(name, name, &seeds, network.clone());
            let node = node.start().await.unwrap();
            let scribes = scribes(&node, &world, |it| it).await;
            peers.push(Peer { node, scribes });
        }
        for peer in &peers {
            peer.scribes.ready().await.unwrap();
        }
        for round in 1..=20 {
            for e in 0..32 {
                let entity = peers[e % 2].scribes.entity(format!("e{e}"));
                assert_eq!(entity.ask(Say::Add(1)).await, Ok(Answer::Sum(round)));
            }
            // One that is longer than what a stream holds.
            let blob = Say::Blob(vec![7; 1 << 20]);
            let entity = peers[0].scribes.entity(format!("blob{round}"));
            assert_eq!(entity.ask(blob).await, Ok(Answer::Sum(1 << 20)));
        }
        let stats = peers[0].node.stats().core;
        assert_eq!(
            (stats.link_faults, stats.asks_timed_out),
            (0, 0),
            "{stats:?}"
        );
    })
    .await;
}

/// A message of many frames arrives whole over one connection, and others do not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_message_travels_in_fragments() {
    within(60, "a long message", async {
        let world = World::new();
        let seeds = common::all(2, |_| free_address());
        let a = Peer::start("a", &seeds[0], &seeds[..1], &world).await;
        let p = Peer::proxy("p", &seeds[1], &seeds[..1], &world).await;
        a.scribes.ready().await.unwrap();
        p.scribes.ready().await.unwrap();
        let size = 2 << 20;
        let sink = p.scribes.entity("sink");
        let long = sink.ask_for(Say::Blob(vec![7; size]), Duration::from_secs(30));
        let long = async { long.await.unwrap() };
        let short = async {
            for sum in 1..=100 {
                let entity = p.scribes.entity("other");
                assert_eq!(entity.ask(Say::Add(1)).await, Ok(Answer::Sum(sum)));
            }
        };
        let (answer, ()) = tokio::join!(long, short);
        assert_eq!(answer, Answer::Sum(size as u64));
        let stats = p.node.stats().core;
        assert_eq!(stats.link_faults, 0, "{stats:?}");
    })
    .await;
}

/// The lower limit of both nodes counts, and the caller is told the limit of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_beyond_the_limit_is_refused() {
    within(60, "the limit", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::start("a", &seeds[0], &seeds, &world).await;
        let node = builder("p", &free_address(), &seeds).max_message(2 << 20);
        let node = node.start().await.unwrap();
        let scribes = scribes(&node, &world, |it| it.proxy()).await;
        a.scribes.ready().await.unwrap();
        scribes.ready().await.unwrap();
        let sink = scribes.entity("sink");
        let bytes = (2 << 20) - 100;
        let fits = sink.ask(Say::Blob(vec![7; bytes])).await;
        assert_eq!(fits, Ok(Answer::Sum(bytes as u64)));
        let Err(AskError::TooLarge { size, limit }) = sink.ask(Say::Blob(vec![7; 3 << 20])).await
        else {
            panic!("it is too large");
        };
        assert!(size > 3 << 20 && limit == 2 << 20, "{size} {limit}");
    })
    .await;
}
