//! One node without a network.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::time::Duration;

use common::{Answer, Say, World, scribes, within};
use shard_tokio::{AskError, Node, Reason, TellError};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tell_and_ask() {
    within(20, "tell and ask", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        let scribes = scribes(&node, &world, |it| it).await;
        scribes.ready().await.unwrap();
        let one = scribes.entity("one");
        one.tell(Say::Add(40)).await.unwrap();
        assert_eq!(one.ask(Say::Add(2)).await, Ok(Answer::Sum(42)));
        one.try_tell(Say::Add(1)).unwrap();
        assert_eq!(
            scribes.entity("one").ask(Say::Add(0)).await,
            Ok(Answer::Sum(43))
        );
        assert_eq!(
            scribes.entity("two").ask(Say::Add(0)).await,
            Ok(Answer::Sum(0))
        );
        assert_eq!(scribes.running(), 2);
        assert_eq!(one.ask(Say::Silence).await, Err(AskError::NoReply));
        let short = Duration::from_millis(50);
        let late = one.ask_for(Say::Slow(300), short).await;
        assert_eq!(late, Err(AskError::Timeout));
        node.shutdown().await;
        assert!(matches!(
            one.tell(Say::Add(1)).await,
            Err(TellError::Stopped(Say::Add(1)))
        ));
        assert_eq!(one.ask(Say::Add(1)).await, Err(AskError::Stopped));
        let lives = world.lives.lock().unwrap();
        assert_eq!(lives.iter().filter(|life| life.1 == "stopped").count(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_keep_their_order() {
    within(60, "order", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        let scribes = scribes(&node, &world, |it| it.mailbox(16)).await;
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..8 {
            let scribes = scribes.clone();
            callers.spawn(async move {
                let entities: Vec<_> = (0..4).map(|e| scribes.entity(format!("e{e}"))).collect();
                for n in 0..2000 {
                    for entity in &entities {
                        entity.tell(Say::Note { caller, n }).await.unwrap();
                    }
                }
                for entity in &entities {
                    entity.ask(Say::Add(0)).await.unwrap();
                }
            });
        }
        callers.join_all().await;
        world.assert_in_order(2000);
        assert_eq!(world.all_notes().len(), 4);
    })
    .await;
}

#[tokio::test]
async fn a_panic_is_reported_and_the_entity_comes_back() {
    within(20, "panic", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        let mut undelivered = node.undelivered();
        let scribes = scribes(&node, &world, |it| it).await;
        let one = scribes.entity("one");
        one.ask(Say::Add(5)).await.unwrap();
        assert_eq!(one.ask(Say::Panic).await, Err(AskError::EntityFailed));
        let report = undelivered.next().await.unwrap();
        assert_eq!(report.reason, Reason::Panicked);
        assert_eq!(report.entity.as_bytes(), b"one");
        // A new instance, and what was sent behind the panic waits for it.
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(1)));
        one.tell(Say::Panic).await.unwrap();
        one.tell(Say::Add(3)).await.unwrap();
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(4)));
        let panicked = (Reason::Panicked, 2);
        assert!(node.stats().undelivered.contains(&panicked));
    })
    .await;
}

#[tokio::test]
async fn a_start_that_fails_is_tried_again() {
    within(20, "start", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        world
            .bad_starts
            .store(3, std::sync::atomic::Ordering::SeqCst);
        let scribes = scribes(&node, &world, |it| it).await;
        let sum = scribes.entity("one").ask(Say::Add(1)).await;
        assert_eq!(sum, Ok(Answer::Sum(1)));
        assert_eq!(world.lives.lock().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_mailbox_holds_callers_back() {
    within(20, "mailbox", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        let scribes = scribes(&node, &world, |it| it.mailbox(2)).await;
        let one = scribes.entity("one");
        one.ask(Say::Add(0)).await.unwrap();
        let blocked = tokio::spawn({
            let one = one.clone();
            async move { one.ask(Say::Block).await }
        });
        // The entity takes everything there is at once, then handles it: fill until it is busy and full.
        let mut sent = 0;
        let busy = loop {
            match one.try_tell(Say::Add(1)) {
                Ok(()) => sent += 1,
                Err(busy) => break busy,
            }
            tokio::task::yield_now().await;
        };
        assert!(matches!(busy, TellError::Busy(Say::Add(1))));
        let waiting = tokio::spawn({
            let one = one.clone();
            async move { one.tell(Say::Add(100)).await }
        });
        world.door.add_permits(1);
        blocked.await.unwrap().unwrap();
        waiting.await.unwrap().unwrap();
        assert_eq!(one.ask(Say::Add(0)).await, Ok(Answer::Sum(sent + 100)));
    })
    .await;
}

#[tokio::test]
async fn a_name_can_be_started_once() {
    let node = Node::standalone().await.unwrap();
    let world = World::new();
    let _first = scribes(&node, &world, |it| it).await;
    let again = node.entity_type::<common::Scribe>().start().await;
    let error = again.unwrap_err().to_string();
    assert!(
        error.contains("scribe") && error.contains("already"),
        "{error}"
    );
}
