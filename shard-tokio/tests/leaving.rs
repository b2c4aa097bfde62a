//! Nodes that leave or stop, and entities that do not want to.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::time::{Duration, Instant};

use common::{
    Answer, Peer, Say, World, builder, free_address, hosted_by, map_that, scribes, within,
};
use shard_tokio::{AskError, Node, Reason};

/// Scenario 19: what does not stop in time is aborted and reported; what waited behind it is handled at the new home.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_that_does_not_stop_is_aborted() {
    within(60, "abort", async {
        let world = World::new();
        let seeds = common::all(1, |_| free_address());
        let short = (Duration::from_millis(1500), Duration::from_millis(500));
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a_scribes = scribes(&a, &world, |it| it.handoff(short.0, short.1).proxy()).await;
        let b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let b_scribes = scribes(&b, &world, |it| it.handoff(short.0, short.1)).await;
        b_scribes.ready().await.unwrap();
        let one = a_scribes.entity("one");
        one.ask(Say::Add(1)).await.unwrap();
        let stuck = one.begin_ask(Say::Block).await.unwrap();
        let mut behind = Vec::new();
        for n in 0..10 {
            behind.push(one.begin_ask(Say::Note { caller: 0, n }).await.unwrap());
        }
        let mut undelivered = b.undelivered();
        let c = builder("c", &free_address(), &seeds).start().await.unwrap();
        let c_scribes = scribes(&c, &world, |it| it.handoff(short.0, short.1)).await;
        c_scribes.ready().await.unwrap();
        let start = Instant::now();
        b.leave().await.unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(stuck.await, Err(AskError::EntityFailed));
        for answer in behind {
            assert_eq!(answer.await, Ok(Answer::Done));
        }
        world.assert_in_order(10);
        assert_eq!(undelivered.next().await.unwrap().reason, Reason::Aborted);
        let Ok(Answer::Who { node, sum, .. }) = one.ask(Say::Who).await else {
            panic!("no answer");
        };
        assert_eq!((node.as_str(), sum), ("c", 0));
    })
    .await;
}

/// Scenario 41: a thousand messages each to entities whose shards move again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_over_many_moves() {
    within(120, "many moves", async {
        let world = World::new();
        let seeds = common::all(1, |_| free_address());
        let a = Peer::proxy("a", &seeds[0], &seeds, &world).await;
        let mut host = Peer::start("h0", &free_address(), &seeds, &world).await;
        host.scribes.ready().await.unwrap();
        let scribes = a.scribes.clone();
        let each = 1000;
        let teller = tokio::spawn(async move {
            let entities: Vec<_> = (0..8).map(|e| scribes.entity(format!("e{e}"))).collect();
            for n in 0..each {
                for entity in &entities {
                    entity.tell(Say::Note { caller: 0, n }).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for entity in &entities {
                entity.ask(Say::Add(0)).await.unwrap();
            }
        });
        // All shards move to the next node, three times, because the one before leaves.
        for next in 1..=3 {
            let name = format!("h{next}");
            let next = Peer::start(&name, &free_address(), &seeds, &world).await;
            next.scribes.ready().await.unwrap();
            host.node.leave().await.unwrap();
            map_that(&a.scribes, |map| hosted_by(map, &host.node) == 0).await;
            host = next;
        }
        teller.await.unwrap();
        world.assert_in_order(each);
        assert_eq!(world.all_notes().len(), 8);
        let stats = a.node.stats();
        assert!(stats.undelivered.iter().all(|it| it.1 == 0), "{stats:?}");
    })
    .await;
}

/// Scenario 26: a node that stops without handing over; those who had cached it as a home get through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_hosted_that_shut_down_gets_new_homes_at_once() {
    within(60, "shutdown", async {
        let world = World::new();
        let seeds = common::all(1, |_| free_address());
        let a = Peer::start("a", &seeds[0], &seeds, &world).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        a.scribes.ready().await.unwrap();
        b.scribes.ready().await.unwrap();
        let entities: Vec<_> = (0..64).map(|e| a.scribes.entity(format!("e{e}"))).collect();
        for entity in &entities {
            entity.ask(Say::Add(1)).await.unwrap();
        }
        map_that(&a.scribes, |map| hosted_by(map, &b.node) >= 8).await;
        let start = Instant::now();
        b.node.shutdown().await;
        for entity in &entities {
            let answer = entity.ask(Say::Who).await;
            assert!(matches!(answer, Ok(Answer::Who { node, .. }) if node == "a"));
        }
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{:?}",
            start.elapsed()
        );
        let lives = world.lives.lock().unwrap();
        assert!(lives.iter().any(|life| life.1 == "stopped"));
    })
    .await;
}

/// Scenario 38: there is nobody to hand over to.
#[tokio::test]
async fn the_last_node_leaves_as_soon_as_its_entities_have_stopped() {
    within(20, "last", async {
        let world = World::new();
        let address = free_address();
        let last = Peer::start("a", &address, &[], &world).await;
        last.scribes.entity("one").ask(Say::Add(1)).await.unwrap();
        let alone = Node::standalone().await.unwrap();
        let other = scribes(&alone, &world, |it| it).await;
        other.entity("two").ask(Say::Add(1)).await.unwrap();
        let start = Instant::now();
        last.node.leave().await.unwrap();
        alone.leave().await.unwrap();
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "{:?}",
            start.elapsed()
        );
        let stopped = |life: &&(String, &str)| life.1 == "stopped";
        assert_eq!(
            world.lives.lock().unwrap().iter().filter(stopped).count(),
            2
        );
        assert!(last.node.leave().await.is_err());
    })
    .await;
}
