//! Shards that move while their entities are passivated, or start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use shard_proto::allocation::{LeastShards, Pinned};
use shard_tokio::{EntityTypeBuilder, NodeId};
use tokio::sync::Semaphore;

use crate::common::{all, builder, free_address, undelivered, until, within};
use crate::house::{Guest, House, guests, last, note};

/// Scenario 15: a shard of which nothing runs is owned, and handed off like any other, at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s15_a_shard_whose_entities_are_passivated_moves() {
    within(60, "a passivated shard", async {
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, set).await;
        let on_b = guests(&b, &house, set).await;
        on_b.ready().await.unwrap();
        on_b.entity("e").ask(last(0)).await.unwrap();
        until(|| house.lives("e").last() == Some(&"stopped")).await;
        until(|| on_a.running() == 0).await;
        assert_eq!(on_a.shards().len(), 1, "it is owned");
        course.store(b.id().0, SeqCst);
        until(|| on_b.shards().len() == 1).await;
        assert_eq!(on_a.shards(), []);
        assert_eq!(on_a.entity("e").ask(note(1)).await, Ok(1));
        assert_eq!(on_b.running(), 1);
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}

/// Scenario 19 for one that was being passivated: it does not stop in time, is aborted, and what waits for it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s19_a_passivation_that_takes_too_long_is_aborted_when_its_shard_moves() {
    within(60, "a slow passivation", async {
        let house = Arc::new(House {
            stop: Some(Semaphore::new(0)),
            ..House::default()
        });
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .handoff(Duration::from_secs(2), Duration::from_millis(500))
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, set).await;
        let on_b = guests(&b, &house, set).await;
        on_b.ready().await.unwrap();
        on_b.entity("e").ask(last(0)).await.unwrap();
        until(|| house.lives("e").last() == Some(&"stopping")).await;
        for n in 1..=20 {
            on_a.entity("e").tell(note(n)).await.unwrap();
        }
        course.store(b.id().0, SeqCst);
        until(|| house.count() == 21).await;
        assert_eq!(house.assert_in_order(), 21);
        assert_eq!(house.lives("e"), ["started", "stopping", "started"]);
        assert_eq!(on_a.shards(), []);
        assert_eq!(on_a.stats().aborted, 1);
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}

/// Scenario 16 for an entity: the move is complete only after its start was really cancelled, and what waits for it goes
/// on elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_start_that_hangs_is_cancelled_when_its_shard_moves() {
    within(60, "a start that hangs", async {
        let house = Arc::new(House::default());
        house.hangs.store(true, SeqCst);
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, set).await;
        let on_b = guests(&b, &house, set).await;
        on_b.ready().await.unwrap();
        for n in 0..5 {
            on_b.entity("e").tell(note(n)).await.unwrap();
        }
        until(|| house.starts.load(SeqCst) == 1).await;
        house.hangs.store(false, SeqCst);
        course.store(b.id().0, SeqCst);
        until(|| house.starts.load(SeqCst) == 2).await;
        assert_eq!(house.cancelled.load(SeqCst), 1);
        until(|| house.count() == 5).await;
        assert_eq!(house.assert_in_order(), 5);
        assert_eq!(on_a.shards(), []);
        assert_eq!(on_a.stats().aborted, 0);
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}
