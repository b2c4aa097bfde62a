//! Event sourced entities on one node, and a store that fails.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use shard_tokio::durable::Sourced;
use shard_tokio::store::{Append, EntityId, Journal, Storage};
use shard_tokio::{AskError, Epoch, Message, Payload, Reason};

use crate::common::log::log;
use crate::common::{until, within};
use crate::faulty::{Fault, Faulty, Op};
use crate::ledger::{Event, Say, Tally, Tally2, shared, stats, sum, tallies};

async fn is_pending(future: impl Future + Unpin) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

fn undelivered(node: &shard_tokio::Node, reason: Reason) -> u64 {
    let counts = node.stats().undelivered;
    counts.iter().find(|(of, _)| *of == reason).unwrap().1
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let store = Faulty::new();
    let (node, tallies_of) = tallies(store.clone(), |it| it).await;
    let a = tallies_of.entity("a");
    assert_eq!(a.ask(Say::Sum).await, Ok(sum(0, 0)));
    assert_eq!(a.ask(Say::Add(3)).await, Ok(sum(3, 1)));
    assert_eq!(a.ask(Say::AddAll(vec![1, 2, 3])).await, Ok(sum(9, 4)));
    assert_eq!(a.ask(Say::AddAll(vec![])).await, Ok(sum(9, 4)));
    tallies_of.entity("b").ask(Say::Add(1)).await.unwrap();
    node.shutdown().await;
    let told = stats(&node);
    assert_eq!((told.writes, told.events, told.recoveries), (3, 5, 2));

    // Chosen at run time.
    let (node, tallies_of) = tallies(shared(&store), |it| it).await;
    assert_eq!(tallies_of.entity("a").ask(Say::Sum).await, Ok(sum(9, 4)));
    assert_eq!(tallies_of.entity("b").ask(Say::Sum).await, Ok(sum(1, 1)));
    assert_eq!(stats(&node).recovered_events, 5);
    let seqs: Vec<_> = store.events("tally", "a").await;
    let seqs: Vec<_> = seqs.iter().map(|it| it.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
}

#[tokio::test]
async fn an_answer_comes_after_the_write_and_what_follows_waits() {
    let store = Faulty::new();
    let (_node, tallies) = tallies(store.clone(), |it| it).await;
    let a = tallies.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    store.hold(Op::Append);
    let mut answer = a.begin_ask(Say::Add(2)).await.unwrap();
    let mut read = a.begin_ask(Say::Sum).await.unwrap();
    store.until_began(Op::Append, 2).await;
    assert!(is_pending(&mut answer).await && is_pending(&mut read).await);
    assert_eq!(store.events("tally", "a").await.len(), 1);
    // Another entity does not wait for it.
    assert_eq!(tallies.entity("b").ask(Say::Sum).await, Ok(sum(0, 0)));
    store.release(Op::Append);
    assert_eq!(answer.await, Ok(sum(3, 2)));
    assert_eq!(read.await, Ok(sum(3, 2)));
}

#[tokio::test]
async fn the_first_message_waits_for_the_recovery() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    of.entity("a").ask(Say::Add(5)).await.unwrap();
    node.shutdown().await;
    for op in [Op::Open, Op::Read] {
        store.hold(op);
        let began = store.began(op);
        let (node, of) = tallies(store.clone(), |it| it).await;
        let mut answer = of.entity("a").begin_ask(Say::Sum).await.unwrap();
        store.until_began(op, began + 1).await;
        assert!(is_pending(&mut answer).await);
        store.release(op);
        assert_eq!(answer.await, Ok(sum(5, 1)));
        node.shutdown().await;
    }
}

#[tokio::test]
async fn many_pages_are_read_to_the_end() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it.snapshot_every(0)).await;
    let many: Vec<u64> = (0..1000).collect();
    of.entity("a").ask(Say::AddAll(many)).await.unwrap();
    node.shutdown().await;
    let (node, of) = tallies(store.clone(), |it| it).await;
    let told = of.entity("a").ask(Say::Sum).await;
    assert_eq!(told, Ok(sum(499_500, 1000)));
    assert_eq!(stats(&node).recovered_events, 1000);
    assert!(store.began(Op::Read) > 3);
}

#[tokio::test]
async fn a_store_that_is_unavailable_for_a_while_delays() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    store.fail(Op::Open, Fault::Unavailable, 2);
    store.fail(Op::Append, Fault::Unavailable, 3);
    assert_eq!(a.ask(Say::Add(1)).await, Ok(sum(1, 1)));
    assert_eq!(store.began(Op::Append), 4);
    assert_eq!(store.events("tally", "a").await.len(), 1);
    let told = stats(&node);
    assert_eq!((told.retried, told.failed), (3, 0));
    assert_eq!((told.failed_recoveries, told.recoveries), (2, 1));
}

/// It is tried for five seconds, which pass at once here.
#[tokio::test]
async fn a_store_that_stays_unavailable_fails_the_entity() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    store.fail(Op::Append, Fault::Unavailable, 1_000);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let failed = a.ask(Say::Add(2)).await;
    assert_eq!(failed, Err(AskError::EntityFailed));
    let took = began.elapsed().as_millis();
    assert!((2_000..5_100).contains(&took), "{took} ms");
    assert!(stats(&node).retried >= 7);
    tokio::time::resume();
    assert_eq!(stats(&node).failed, 1);
    store.well();
    assert_eq!(a.ask(Say::Add(4)).await, Ok(sum(5, 2)));
    assert_eq!(stats(&node).recoveries, 2);
}

#[tokio::test]
async fn after_an_unknown_write_it_recovers_what_was_written() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    store.fail(Op::Append, Fault::UnknownWritten, 1);
    assert_eq!(a.ask(Say::Add(2)).await, Err(AskError::EntityFailed));
    assert_eq!(a.ask(Say::Add(4)).await, Ok(sum(7, 3)));
    store.fail(Op::Append, Fault::UnknownLost, 1);
    assert_eq!(a.ask(Say::Add(8)).await, Err(AskError::EntityFailed));
    assert_eq!(a.ask(Say::Add(16)).await, Ok(sum(23, 4)));
    let told = stats(&node);
    assert_eq!((told.failed, told.retried, told.recoveries), (2, 0, 3));
}

#[tokio::test]
async fn an_event_that_somebody_else_wrote_is_found() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    let first = store.events("tally", "a").await.remove(0).event;
    let epoch = epoch_of(&first);
    let append = Append {
        entity: EntityId::new("tally", "a"),
        epoch,
        first_seq: 2,
        events: vec![first],
        sequence: None,
    };
    store.inner.append(append).await.unwrap();
    assert_eq!(a.ask(Say::Add(2)).await, Err(AskError::EntityFailed));
    assert_eq!(a.ask(Say::Add(4)).await, Ok(sum(6, 3)));
    assert_eq!(stats(&node).failed, 1);
}

/// After the version.
fn epoch_of(event: &[u8]) -> Epoch {
    match Event::decode(Payload::new(&event[1..])).unwrap() {
        Event::Added { epoch, .. } => Epoch::from_bits(epoch),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_former_home_is_fenced_and_writes_nothing() {
    let (log, _guard) = log();
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    let mine = epoch_of(&store.events("tally", "a").await[0].event);
    let next = Epoch::from_bits(mine.to_bits() + 1);
    let id = EntityId::new("tally", "a");
    store.inner.open(id.clone(), next).await.unwrap();

    assert_eq!(a.ask(Say::Add(2)).await, Err(AskError::Refused));
    // What only reads is refused as well by now, and what nobody waits for is reported.
    assert_eq!(a.ask(Say::Sum).await, Err(AskError::Refused));
    a.tell(Say::Add(4)).await.unwrap();
    until(|| undelivered(&node, Reason::Fenced) == 3).await;
    assert_eq!(store.events("tally", "a").await.len(), 1);
    assert_eq!(stats(&node).fenced, 1);
    assert_eq!(stats(&node).failed, 0);

    // Another one finds out when it starts; the log is not filled.
    let b = EntityId::new("tally", "b");
    store
        .inner
        .open(b, Epoch::from_bits(u64::MAX))
        .await
        .unwrap();
    let b = of.entity("b");
    assert_eq!(b.ask(Say::Add(1)).await, Err(AskError::Refused));
    assert_eq!(b.ask(Say::Add(1)).await, Err(AskError::Refused));
    assert_eq!(stats(&node).fenced, 2);
    let (seen, given) = (format!("seen={next}"), format!("given={mine}"));
    assert_eq!(
        log.lines_with(&["WARN", "higher epoch", "tally", &seen, &given]),
        1
    );
    assert_eq!(log.lines_with(&["WARN", "higher epoch"]), 1);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let d = EntityId::new("tally", "d");
    store
        .inner
        .open(d, Epoch::from_bits(u64::MAX))
        .await
        .unwrap();
    let told = of.entity("d").ask(Say::Sum).await;
    assert_eq!(told, Err(AskError::Refused));
    assert_eq!(log.lines_with(&["WARN", "higher epoch"]), 2);
    // Others are not concerned.
    assert_eq!(of.entity("c").ask(Say::Add(1)).await, Ok(sum(1, 1)));
}

#[tokio::test]
async fn what_cannot_be_written_is_refused_and_leaves_no_trace() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    store.fail(Op::Append, Fault::TooLarge, 1);
    assert_eq!(a.ask(Say::Add(2)).await, Err(AskError::Refused));
    assert_eq!(a.ask(Say::Odd).await, Err(AskError::Refused));
    assert_eq!(a.ask(Say::Sum).await, Ok(sum(1, 1)));
    assert_eq!(undelivered(&node, Reason::TooLarge), 1);
    assert_eq!(undelivered(&node, Reason::Codec), 1);
    assert_eq!(a.ask(Say::Add(4)).await, Ok(sum(5, 2)));
    assert_eq!(stats(&node).failed, 0);
}

#[tokio::test]
async fn an_event_that_cannot_be_applied_is_never_written() {
    let store = Faulty::new();
    let (_node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    a.ask(Say::Add(1)).await.unwrap();
    for bad in [Say::Poison, Say::Panic] {
        assert_eq!(a.ask(bad).await, Err(AskError::EntityFailed));
        assert_eq!(a.ask(Say::Sum).await, Ok(sum(1, 1)));
    }
    assert_eq!(store.events("tally", "a").await.len(), 1);
}

#[tokio::test]
async fn a_later_version_reads_former_events_and_no_former_snapshot() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it.snapshot_every(2)).await;
    for n in 1..=3 {
        of.entity("a").ask(Say::Add(n)).await.unwrap();
    }
    until(|| stats(&node).snapshots == 1).await;
    node.shutdown().await;

    let start = async |every| {
        let node = shard_tokio::Node::standalone().await.unwrap();
        let of = node.event_sourced::<Tally2>(store.clone());
        let of = of.shards(4).snapshot_every(every).start().await.unwrap();
        (node, of)
    };
    let (node, of) = start(3).await;
    let a = of.entity("a");
    assert_eq!(a.ask(Say::Sum).await, Ok(sum(60, 3)));
    assert_eq!(stats(&node).recovered_events, 3);
    // It makes one of its own as soon as it has recovered.
    until(|| stats(&node).snapshots == 1).await;
    assert_eq!(a.ask(Say::Add(1)).await, Ok(sum(61, 4)));
    node.shutdown().await;
    let (node, of) = start(3).await;
    assert_eq!(of.entity("a").ask(Say::Sum).await, Ok(sum(61, 4)));
    assert_eq!(stats(&node).recovered_events, 1);
}

#[tokio::test]
async fn entities_are_made_with_what_they_need() {
    let store = Faulty::new();
    let set = |it: shard_tokio::EntityTypeBuilder<Sourced<Tally>>| {
        it.create_with(|_id| Tally { unit: 100 })
    };
    let (_node, of) = tallies(store, set).await;
    assert_eq!(of.entity("a").ask(Say::Add(2)).await, Ok(sum(200, 1)));
}

#[tokio::test]
async fn one_that_stops_after_a_command_comes_back() {
    let store = Faulty::new();
    let (node, of) = tallies(store.clone(), |it| it).await;
    let a = of.entity("a");
    assert_eq!(a.ask(Say::Last(3)).await, Ok(sum(3, 1)));
    until(|| of.running() == 0).await;
    assert_eq!(a.ask(Say::Last(4)).await, Ok(sum(7, 2)));
    // What was sent meanwhile waits for the next life.
    let answers = [Say::Last(1), Say::Last(2), Say::Sum].map(|say| a.begin_ask(say));
    for (answer, expected) in answers.into_iter().zip([sum(8, 3), sum(10, 4), sum(10, 4)]) {
        assert_eq!(answer.await.unwrap().await, Ok(expected));
    }
    assert!(stats(&node).recoveries >= 4);
    assert_eq!(store.events("tally", "a").await.len(), 4);
}

#[tokio::test]
async fn one_that_was_idle_comes_back() {
    let store = Faulty::new();
    let soon = Duration::from_millis(50);
    let (node, of) = tallies(store.clone(), |it| it.passivate_after(soon)).await;
    of.entity("a").ask(Say::Add(3)).await.unwrap();
    until(|| of.running() == 0).await;
    assert_eq!(of.entity("a").ask(Say::Add(4)).await, Ok(sum(7, 2)));
    assert_eq!(stats(&node).recoveries, 2);
}

/// A type without a journal can only send.
#[tokio::test]
async fn without_a_journal_nothing_starts() {
    within(20, "the log", async {
        let (log, _guard) = log();
        let node = shard_tokio::Node::standalone().await.unwrap();
        let of = node.entity_type::<Sourced<Tally>>();
        let of = of.start().await.unwrap();
        of.entity("a").tell(Say::Sum).await.unwrap();
        log.line(&["WARN", "Node::event_sourced"]).await;
    })
    .await;
}

#[test]
fn a_store_says_who_it_is() {
    let store = Faulty::new();
    assert_eq!(shared(&store).id(), store.id());
    assert_eq!(shared(&store).describe(), store.describe());
}
