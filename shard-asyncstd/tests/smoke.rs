//! What a runtime has to do, on async-std and on smol.
#![cfg(all(feature = "async-std", feature = "smol"))]

#[path = "../../shard-tokio/tests/common/certs.rs"]
#[allow(dead_code, missing_docs, unreachable_pub)]
mod certs;
mod common;

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use certs::Authority;
use common::{Say, World, ask_all, builder, hosted, map_that, run, scribes, until};
use shard_adapter::runtime::Runtime;
use shard_adapter::{AskError, Node};
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_asyncstd::transport::Transport;
use shard_asyncstd::{Reason, TcpTransport};

/// One test for each runtime.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod async_std {
            $(#[test]
            fn $test() {
                super::run(super::$test::<super::AsyncStd>());
            })*
        }
        mod smol {
            $(#[test]
            fn $test() {
                super::run(super::$test::<super::Smol>());
            })*
        }
    };
}

on_both!(
    entities_answer_and_go_on_after_a_panic,
    an_ask_ends_in_time,
    an_entity_that_hangs_is_aborted,
    whoever_sends_without_waiting_lets_others_run,
    nodes_find_each_other_and_leave,
    nodes_find_each_other_over_tls,
    other_networks_have_to_be_allowed,
);

async fn entities_answer_and_go_on_after_a_panic<R: Runtime>() {
    let world = Arc::<World>::default();
    let node = Node::<R>::standalone().await.unwrap();
    let scribes = scribes(&node, &world).await;
    let one = scribes.entity("one");
    for n in 0..1000 {
        one.tell(Say::Note { caller: 0, n }).await.unwrap();
    }
    assert_eq!(one.ask(Say::Who).await.unwrap().1, 1000);
    // More of them than the executor has threads.
    for id in 0..16 {
        let panics = scribes.entity(format!("panics-{id}"));
        assert!(panics.ask(Say::Panic).await.is_err());
        // It is made again, after a pause, and so has another life.
        assert_eq!(panics.ask(Say::Who).await.unwrap().1, 0);
    }
    let undelivered = node.stats().undelivered;
    assert!(undelivered.contains(&(Reason::Panicked, 16)));
    assert_eq!(one.ask(Say::Who).await.unwrap().1, 1000);
    node.shutdown().await;
    assert_eq!(one.ask(Say::Who).await, Err(AskError::Stopped));
}

async fn an_ask_ends_in_time<R: Runtime>() {
    let node = Node::<R>::standalone().await.unwrap();
    let scribes = scribes(&node, &Arc::default()).await;
    let (one, timeout) = (scribes.entity("one"), Duration::from_millis(50));
    let start = Instant::now();
    let answer = one.ask_for(Say::Hang, timeout).await;
    assert!(matches!(answer, Err(AskError::Timeout)), "{answer:?}");
    assert!(start.elapsed() >= timeout, "{:?}", start.elapsed());
    node.shutdown().await;
}

async fn an_entity_that_hangs_is_aborted<R: Runtime>() {
    let world = Arc::<World>::default();
    let node = Node::<R>::standalone().await.unwrap();
    let scribes = scribes(&node, &world).await;
    scribes.entity("one").tell(Say::Hang).await.unwrap();
    until("it hangs", || *world.hanging.lock().unwrap() == 1).await;
    assert_eq!(*world.aborted.lock().unwrap(), 0);
    scribes.stop().await;
    until("it is dropped", || *world.aborted.lock().unwrap() == 1).await;
    node.shutdown().await;
}

async fn whoever_sends_without_waiting_lets_others_run<R: Runtime>() {
    let world = Arc::<World>::default();
    let node = Node::<R>::standalone().await.unwrap();
    let scribes = scribes(&node, &world).await;
    // Each entity's mailbox has room for all: nothing but the budget makes the sender pause.
    let one = scribes.entity("one");
    one.ask(Say::Who).await.unwrap();
    let mut send = Box::pin(async {
        for n in 0..100_000 {
            one.tell(Say::Note { caller: 0, n }).await.unwrap();
        }
    });
    let mut pauses = 0;
    core::future::poll_fn(|cx| {
        let polled = send.as_mut().poll(cx);
        pauses += u32::from(polled.is_pending());
        polled
    })
    .await;
    // Every eighth message is asked about, and every 129th question is a pause.
    assert!(pauses >= 100_000 / 8 / 129 - 1, "{pauses}");
    drop(send);
    assert_eq!(one.ask(Say::Who).await.unwrap().1, 100_000);
    node.shutdown().await;
}

async fn nodes_find_each_other_and_leave<R: Runtime>() {
    let world = Arc::<World>::default();
    let a = builder::<R>("a", &["a"], &[]).start().await.unwrap();
    let seeds = [a.address()];
    let b = builder::<R>("b", &["a"], &seeds).start().await.unwrap();
    let on_a = scribes(&a, &world).await;
    let on_b = scribes(&b, &world).await;
    on_b.ready().await.unwrap();
    ask_all(&on_a).await;
    map_that(&on_a, |map| hosted(map, &a) == 16 && hosted(map, &b) == 16).await;
    // There is nobody else to go on with them.
    b.leave().await.unwrap();
    ask_all(&on_a).await;
    assert_eq!(hosted(&on_a.shard_map(), &a), 32);
    a.shutdown().await;
}

async fn nodes_find_each_other_over_tls<R: Runtime>() {
    let world = Arc::<World>::default();
    let ca = Authority::new();
    let start = async |name, seeds: &[&str]| {
        let node = builder::<R>(name, &["a"], seeds).security(ca.tls(name));
        node.start().await.unwrap()
    };
    let a = start("a", &[]).await;
    let b = start("b", &[a.address()]).await;
    let on_a = scribes(&a, &world).await;
    let on_b = scribes(&b, &world).await;
    on_b.ready().await.unwrap();
    ask_all(&on_a).await;
    map_that(&on_a, |map| hosted(map, &a) == 16 && hosted(map, &b) == 16).await;
    ask_all(&on_b).await;
    // Another authority's node is none of this cluster's.
    let stranger = builder::<R>("c", &["a"], &[a.address()]).security(Authority::new().tls("c"));
    let stranger = stranger.start().await.unwrap();
    until("the stranger is refused", || {
        a.stats().connections.refused > 0
    })
    .await;
    assert_eq!((a.members().len(), stranger.members().len()), (2, 1));
    stranger.shutdown().await;
    b.leave().await.unwrap();
    a.shutdown().await;
}

async fn other_networks_have_to_be_allowed<R: Runtime>() {
    let closed = TcpTransport::new();
    let Err(error) = closed.listen("0.0.0.0:0").await else {
        panic!("listens everywhere");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    // Names are looked up.
    let listener = closed.listen("localhost:0").await.unwrap();
    let open = closed.allow_insecure();
    assert!(open.listen("0.0.0.0:0").await.is_ok());
    closed.dial(&listener.address()).await.unwrap();
    assert!(R::default().transport().listen("0.0.0.0:0").await.is_err());
}
