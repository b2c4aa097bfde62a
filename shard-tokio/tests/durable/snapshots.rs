//! When snapshots are written, and that nothing waits for them.

use shard_tokio::store::{EntityId, Journal};
use shard_tokio::{Epoch, MemoryStore};

use crate::common::until;
use crate::faulty::{Fault, Faulty, Op};
use crate::ledger::{Say, stats, sum, tallies};

async fn snapshot_of(store: &MemoryStore) -> Option<u64> {
    // The end of these tests: nobody writes any more.
    let epoch = Epoch::from_bits(u64::MAX);
    let opened = store.open(EntityId::new("tally", "a"), epoch).await;
    opened.unwrap().snapshot.map(|snapshot| snapshot.seq)
}

#[tokio::test]
async fn every_so_many_events() {
    for (events, snapshot, left) in [
        (9, None, 9),
        (10, Some(10), 0),
        (11, Some(10), 1),
        (19, Some(10), 9),
        (20, Some(20), 0),
        (21, Some(20), 1),
    ] {
        let store = Faulty::new();
        let (node, of) = tallies(store.clone(), |it| it.snapshot_every(10)).await;
        let a = of.entity("a");
        for n in 1..=events {
            a.ask(Say::Add(1)).await.unwrap();
            // One at a time: the next is not due while the one before is being written.
            until(|| stats(&node).snapshots == n / 10).await;
        }
        node.shutdown().await;

        let (node, of) = tallies(store.clone(), |it| it.snapshot_every(10)).await;
        let told = of.entity("a").ask(Say::Sum).await;
        assert_eq!(told, Ok(sum(events, events)));
        assert_eq!(stats(&node).recovered_events, left, "{events} events");
        node.shutdown().await;
        assert_eq!(snapshot_of(&store.inner).await, snapshot, "{events} events");
    }
}

#[tokio::test]
async fn of_whole_commands_only_and_never_if_told_so() {
    for (every, events, snapshot) in [(10, 9, None), (10, 14, Some(14)), (0, 500, None)] {
        let store = Faulty::new();
        let (node, of) = tallies(store.clone(), |it| it.snapshot_every(every)).await;
        let all = Say::AddAll(vec![1; events]);
        of.entity("a").ask(all).await.unwrap();
        node.shutdown().await;
        assert_eq!(snapshot_of(&store.inner).await, snapshot);
    }
    // The default.
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    of.entity("a").ask(Say::AddAll(vec![1; 99])).await.unwrap();
    of.entity("a").ask(Say::Add(1)).await.unwrap();
    node.shutdown().await;
    assert_eq!(snapshot_of(&store.inner).await, Some(100));
}

#[tokio::test]
async fn answers_do_not_wait_for_them_but_the_end_does() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it.snapshot_every(2)).await;
    store.hold(Op::Snapshot);
    let a = of.entity("a");
    for n in 1..=7 {
        assert_eq!(a.ask(Say::Add(1)).await, Ok(sum(n, n)));
    }
    // One at a time.
    store.until_began(Op::Snapshot, 1).await;
    assert_eq!(store.began(Op::Snapshot), 1);
    let end = tokio::spawn({
        let node = node.clone();
        async move { node.shutdown().await }
    });
    // The entity is stopping by now: it takes no more.
    until(|| of.running() == 0).await;
    assert!(!end.is_finished());
    assert_eq!(store.done(Op::Snapshot), 0);
    store.release(Op::Snapshot);
    end.await.unwrap();
    assert_eq!(store.done(Op::Snapshot), 1);
    assert_eq!(snapshot_of(&store.inner).await, Some(2));
}

#[tokio::test]
async fn one_that_fails_is_counted_and_the_next_one_comes() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it.snapshot_every(2)).await;
    store.fail(Op::Snapshot, Fault::Unavailable, 1);
    let a = of.entity("a");
    for _ in 0..2 {
        a.ask(Say::Add(1)).await.unwrap();
    }
    until(|| stats(&node).failed_snapshots == 1).await;
    a.ask(Say::Add(1)).await.unwrap();
    assert_eq!(store.began(Op::Snapshot), 1);
    a.ask(Say::Add(1)).await.unwrap();
    until(|| stats(&node).snapshots == 1).await;
    node.shutdown().await;
    assert_eq!(snapshot_of(&store.inner).await, Some(4));
}
