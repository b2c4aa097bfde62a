//! Entities that keep one value, and a store that fails.

use shard_tokio::store::{EntityId, Store};
use shard_tokio::{AskError, Epoch};

use crate::faulty::{Fault, Faulty, Op};
use crate::ledger::{Put, cells, stats};

#[tokio::test]
async fn a_value_is_there_after_a_restart() {
    let store = Faulty::new();
    let (node, of) = cells(store.clone()).await;
    let a = of.entity("a");
    assert_eq!(a.ask(Put::Get).await, Ok(0));
    assert_eq!(a.ask(Put::Add(3)).await, Ok(3));
    assert_eq!(a.ask(Put::Add(4)).await, Ok(7));
    of.entity("b").ask(Put::Add(1)).await.unwrap();
    assert_eq!(of.entity("b").ask(Put::Delete).await, Ok(0));
    node.shutdown().await;
    let (node, of) = cells(store.clone()).await;
    assert_eq!(of.entity("a").ask(Put::Get).await, Ok(7));
    assert_eq!(of.entity("b").ask(Put::Get).await, Ok(0));
    // Revisions go on after a deletion.
    assert_eq!(of.entity("b").ask(Put::Add(2)).await, Ok(2));
    assert_eq!(store.began(Op::Save), 5);
    assert_eq!((stats(&node).writes, stats(&node).recoveries), (1, 2));
}

#[tokio::test]
async fn an_answer_comes_after_the_write() {
    let store = Faulty::new();
    let (_node, of) = cells(store.clone()).await;
    let a = of.entity("a");
    a.ask(Put::Add(1)).await.unwrap();
    store.hold(Op::Save);
    let answer = a.begin_ask(Put::Add(2)).await.unwrap();
    let answer = tokio::spawn(answer);
    store.until_began(Op::Save, 2).await;
    assert!(!answer.is_finished());
    assert_eq!(store.done(Op::Save), 1);
    store.release(Op::Save);
    assert_eq!(answer.await.unwrap(), Ok(3));
}

#[tokio::test]
async fn failures_of_the_store() {
    let store = Faulty::new();
    let (node, of) = cells(store.clone()).await;
    let a = of.entity("a");
    store.fail(Op::Load, Fault::Unavailable, 1);
    store.fail(Op::Save, Fault::Unavailable, 2);
    assert_eq!(a.ask(Put::Add(1)).await, Ok(1));
    assert_eq!(stats(&node).retried, 2);

    store.fail(Op::Save, Fault::UnknownWritten, 1);
    assert_eq!(a.ask(Put::Add(2)).await, Err(AskError::EntityFailed));
    assert_eq!(a.ask(Put::Add(4)).await, Ok(7));
    store.fail(Op::Save, Fault::UnknownLost, 1);
    assert_eq!(a.ask(Put::Add(8)).await, Err(AskError::EntityFailed));
    assert_eq!(a.ask(Put::Add(16)).await, Ok(23));

    store.fail(Op::Save, Fault::TooLarge, 1);
    assert_eq!(a.ask(Put::Add(1)).await, Err(AskError::Refused));
    assert_eq!(a.ask(Put::Odd).await, Err(AskError::Refused));
    assert_eq!(a.ask(Put::Get).await, Ok(23));
    assert_eq!(stats(&node).recoveries, 3);

    let epoch = Epoch::from_bits(u64::MAX);
    let id = EntityId::new("cell", "a");
    let before = Store::load(&store.inner, id.clone(), epoch).await.unwrap();
    assert_eq!(a.ask(Put::Add(1)).await, Err(AskError::Refused));
    assert_eq!(a.ask(Put::Get).await, Err(AskError::Refused));
    let after = Store::load(&store.inner, id, epoch).await.unwrap();
    assert_eq!(before, after);
    assert_eq!(stats(&node).fenced, 1);
    // At the start, too.
    let b = EntityId::new("cell", "b");
    Store::load(&store.inner, b, epoch).await.unwrap();
    let told = of.entity("b").ask(Put::Get).await;
    assert_eq!(told, Err(AskError::Refused));
}
