//! Entities that fail.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use shard_tokio::{AskError, EntityTypeBuilder, Reason};

use crate::common::{all, builder, free_address, log::log, until, within};
use crate::house::{Do, Guest, House, alone, guests, note};

/// A failed message is reported, and those behind it are handled by the next life, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_that_fails_is_made_again() {
    within(30, "fail", async {
        let house = Arc::new(House::default());
        let (node, guests) = alone(&house, |it| it).await;
        let mut reports = node.undelivered();
        let (one, other) = (guests.entity("one"), guests.entity("other"));
        other.ask(note(0)).await.unwrap();
        for n in 0..30 {
            one.tell(note(n)).await.unwrap();
            if n % 10 == 5 {
                one.tell(Do::Fail).await.unwrap();
            }
        }
        assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        assert_eq!(one.ask(note(30)).await, Ok(1));
        assert_eq!(house.assert_in_order(), 32);
        for _ in 0..4 {
            assert_eq!(reports.next().await.unwrap().reason, Reason::Failed);
        }
        // It does not run when it failed.
        assert_eq!(house.lives("one"), ["started"; 5]);
        assert_eq!(
            other.ask(note(1)).await,
            Ok(2),
            "a neighbour does not notice"
        );
        until(|| guests.stats().failures == 4).await;
        assert_eq!(guests.stats().restarts, 4);
    })
    .await;
}

/// Only one that does nothing but fail is parked.
#[tokio::test]
async fn an_entity_that_fails_now_and_then_goes_on() {
    within(30, "now and then", async {
        let house = Arc::new(House::default());
        let (_node, guests) = alone(&house, |it| it.restarts(2, Duration::from_secs(60))).await;
        let one = guests.entity("one");
        for n in 0..20 {
            assert_eq!(one.ask(note(n)).await, Ok(1));
            assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        }
        assert_eq!(guests.stats().parked, 0);
    })
    .await;
}

/// One that fails again and again waits longer each time, and is parked then, until a message comes after the window.
#[tokio::test]
async fn an_entity_that_fails_too_often_is_parked() {
    within(30, "park", async {
        let (log, _guard) = log();
        let house = Arc::new(House::default());
        let window = Duration::from_secs(2);
        let (node, guests) = alone(&house, |it| it.restarts(3, window)).await;
        house.bad_starts.store(4, SeqCst);
        let one = guests.entity("one");
        let began = Instant::now();
        let mut reports = node.undelivered();
        one.tell(note(7)).await.unwrap();
        assert_eq!(one.ask(note(8)).await, Err(AskError::EntityFailed));
        // 10 + 20 + 40 ms, of which half is certain.
        assert!(began.elapsed() >= Duration::from_millis(30));
        assert_eq!(house.starts.load(SeqCst), 4);
        for _ in 0..2 {
            let report = reports.next().await.unwrap();
            assert_eq!(report.reason, Reason::Parked);
            assert_eq!(report.entity.as_bytes(), b"one");
        }
        assert_eq!(one.ask(note(9)).await, Err(AskError::EntityFailed));
        assert_eq!(house.starts.load(SeqCst), 4, "it is not tried");
        assert_eq!(guests.entity("two").ask(note(0)).await, Ok(1));
        let parked = Instant::now();
        while let Err(error) = one.ask(note(0)).await {
            assert_eq!(error, AskError::EntityFailed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(parked.elapsed() >= window / 2);
        assert_eq!(guests.stats().parked, 1);
        log.line(&["WARN", "did not start", "the store is not there"])
            .await;
    })
    .await;
}

/// Callers on other nodes are told that a parked entity failed, or that there was no room for what they told it.
#[tokio::test]
async fn a_parked_entity_answers_other_nodes() {
    within(30, "parked, remote", async {
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let p = builder("p", &addresses[1], seeds).start().await.unwrap();
        let once = |it: EntityTypeBuilder<Guest>| it.restarts(0, Duration::from_secs(600));
        let _here = guests(&a, &house, once).await;
        let there = guests(&p, &house, EntityTypeBuilder::proxy).await;
        let one = there.entity("one");
        one.ask(note(0)).await.unwrap();
        // No panic: to print its backtrace takes so long that the node could lose its lease, and what is parked goes
        // with its shard.
        assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        assert_eq!(one.ask(note(1)).await, Err(AskError::EntityFailed));
        let mut reports = p.undelivered();
        one.tell(note(2)).await.unwrap();
        let report = reports.next().await.unwrap();
        assert_eq!(report.reason, Reason::BufferFull);
        assert_eq!(house.starts.load(SeqCst), 1);
    })
    .await;
}
