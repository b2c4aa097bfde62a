//! Idle, too many, asked for: entities go and come back.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use shard_tokio::{EntityTypeBuilder, Node, Passivation, TypeError};
use tokio::sync::Semaphore;

use crate::common::{undelivered, until, within};
use crate::house::{Do, Guest, House, alone, guests, last, note};

#[tokio::test]
async fn an_idle_entity_is_passivated_and_comes_back() {
    within(20, "idle", async {
        let house = Arc::new(House::default());
        let idle = Duration::from_millis(50);
        let (node, guests) = alone(&house, |it| it.passivate_after(idle)).await;
        let one = guests.entity("one");
        assert_eq!(one.ask(note(0)).await, Ok(1));
        let asked = Instant::now();
        until(|| house.lives("one").last() == Some(&"stopped")).await;
        assert!(asked.elapsed() >= idle - Duration::from_millis(30));
        until(|| guests.stats().passivated_idle == 1 && guests.running() == 0).await;
        assert_eq!(guests.shards().len(), 1, "its shard stays");
        assert_eq!(one.ask(note(1)).await, Ok(1), "a new life");
        assert_eq!(
            house.lives("one"),
            ["started", "stopping", "stopped", "started"]
        );
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn an_entity_in_use_is_not_passivated() {
    within(20, "in use", async {
        let house = Arc::new(House::default());
        let idle = Duration::from_secs(1);
        let (_node, guests) = alone(&house, |it| it.passivate_after(idle)).await;
        let (busy, idle) = (guests.entity("busy"), guests.entity("idle"));
        idle.ask(note(0)).await.unwrap();
        let mut n = 0;
        while house.lives("idle").last() != Some(&"stopped") {
            busy.ask(note(n)).await.unwrap();
            n += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(house.lives("busy"), ["started"]);
        assert_eq!(guests.running(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_entity_stops_when_it_wants_to() {
    within(20, "by itself", async {
        let house = Arc::new(House::default());
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        one.ask(note(0)).await.unwrap();
        assert_eq!(one.ask(last(1)).await, Ok(2));
        until(|| guests.stats().passivated_asked == 1 && guests.running() == 0).await;
        assert_eq!(house.lives("one"), ["started", "stopping", "stopped"]);
        // What waits behind it is for the next life, in order.
        for n in 2..100 {
            let message = if n % 3 == 0 { last(n) } else { note(n) };
            one.tell(message).await.unwrap();
        }
        until(|| house.count() == 100).await;
        assert_eq!(house.assert_in_order(), 100);
        until(|| guests.stats().passivated_asked == 34 && guests.running() == 0).await;
        assert_eq!(house.lives("one").len(), 34 * 3);
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn an_entity_that_wants_to_stop_from_its_start_handles_one_message() {
    within(20, "restless", async {
        let house = Arc::new(House {
            restless: true,
            ..House::default()
        });
        let (_node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        for n in 0..10 {
            one.tell(note(n)).await.unwrap();
        }
        until(|| house.lives("one").len() == 30).await;
        assert_eq!(house.assert_in_order(), 10);
    })
    .await;
}

#[tokio::test]
async fn somebody_passivates_an_entity() {
    within(20, "by call", async {
        let house = Arc::new(House {
            door: Some(Semaphore::new(0)),
            ..House::default()
        });
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        assert!(!guests.passivate("one").await, "it does not run");
        one.ask(note(0)).await.unwrap();
        one.tell(Do::Block).await.unwrap();
        one.tell(note(1)).await.unwrap();
        assert!(guests.passivate("one").await);
        one.tell(note(2)).await.unwrap();
        assert_eq!(house.lives("one"), ["started"], "it finishes what it does");
        house.door.as_ref().unwrap().add_permits(1);
        until(|| house.count() == 3).await;
        assert_eq!(house.assert_in_order(), 3);
        assert_eq!(
            house.lives("one"),
            ["started", "stopping", "stopped", "started"]
        );
        assert_eq!(undelivered(&node), 0);
        node.shutdown().await;
        assert!(!guests.passivate("one").await);
    })
    .await;
}

/// Beyond the limit the one that was used least recently goes. Uses count in the order in which they came since the
/// last one went.
#[tokio::test]
async fn too_many_entities_make_the_oldest_go() {
    within(20, "limit", async {
        let house = Arc::new(House::default());
        let set = |it: EntityTypeBuilder<Guest>| {
            it.max_entities(3)
                .passivation(Passivation::LeastRecentlyUsed)
        };
        let (node, guests) = alone(&house, set).await;
        let uses = async |id: &str| {
            guests.entity(id).ask(note(0)).await.unwrap();
            // The answer may be here before the mark of use: the second one is behind it.
            guests.entity(id).ask(note(1)).await.unwrap();
        };
        let stopped = async |id: &str, count| {
            until(|| house.lives(id).last() == Some(&"stopped")).await;
            until(|| guests.stats().passivated_limit == count).await;
        };
        for id in ["a", "b", "c", "d"] {
            uses(id).await;
        }
        stopped("a", 1).await;
        uses("b").await;
        uses("e").await;
        stopped("c", 2).await;
        uses("f").await;
        stopped("d", 3).await;
        for id in ["b", "e", "f"] {
            assert_eq!(house.lives(id), ["started"]);
        }
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_cannot_be_is_refused() {
    let node = Node::standalone().await.unwrap();
    let house = Arc::new(House::default());
    let proportions = vec![0.5, 0.2];
    let builder = node.entity_type::<Guest>();
    let builder = builder.passivation(Passivation::SegmentedLru { proportions });
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, TypeError::Entities { .. }), "{error:?}");
    assert!(error.to_string().contains("proportions"), "{error}");
    // It can be set right.
    guests(&node, &house, |it| it).await.ready().await.unwrap();
}

/// A start that hangs does not take up room for ever: when the entity is to go, it has as long for it as one whose
/// shard stops.
#[tokio::test]
async fn a_start_that_hangs_is_cancelled_when_there_are_too_many() {
    within(20, "a start that hangs", async {
        let house = Arc::new(House::default());
        let set = |it: EntityTypeBuilder<Guest>| {
            it.max_entities(1)
                .handoff(Duration::from_secs(2), Duration::from_millis(100))
        };
        let (_node, guests) = alone(&house, set).await;
        house.hangs.store(true, SeqCst);
        guests.entity("a").tell(note(0)).await.unwrap();
        until(|| house.starts.load(SeqCst) == 1).await;
        house.hangs.store(false, SeqCst);
        assert_eq!(guests.entity("b").ask(note(0)).await, Ok(1));
        until(|| house.cancelled.load(SeqCst) == 1).await;
        // It failed, and is tried again with what waits for it.
        until(|| house.lives("a").first() == Some(&"started")).await;
        until(|| guests.stats().starts_given_up == 1).await;
        until(|| house.count() == 2).await;
    })
    .await;
}
