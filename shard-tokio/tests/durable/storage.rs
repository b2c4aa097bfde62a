//! Two nodes on two stores.

use shard_tokio::store::Storage;
use shard_tokio::{MemoryStore, Node, NotReady, StorageMismatch};

use crate::common::log::log;
use crate::common::{builder, free_address, within};
use crate::ledger::{Say, Tally, sum};

async fn two_nodes() -> (Node, Node) {
    let seeds = [free_address()];
    let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
    let b = builder("b", &free_address(), &seeds).start().await.unwrap();
    (a, b)
}

#[tokio::test]
async fn a_node_with_another_store_is_refused_with_both_ids() {
    within(30, "refusal", async {
        let (log, _guard) = log();
        let (a, b) = two_nodes().await;
        let (ours, theirs) = (MemoryStore::new(), MemoryStore::new());
        let on_a = a.event_sourced::<Tally>(ours.clone()).shards(8);
        let on_a = on_a.start().await.unwrap();
        on_a.ready().await.unwrap();
        let on_b = b.event_sourced::<Tally>(theirs.clone()).shards(8);
        let on_b = on_b.start().await.unwrap();
        let error = on_b.ready().await.unwrap_err();
        let expected = NotReady::Storage {
            name: "tally",
            cluster: ours.id(),
            here: theirs.id(),
            place: theirs.describe(),
        };
        assert_eq!(error, expected);
        let ids = [&ours, &theirs].map(|store| format!("{:016x}", store.id()));
        let text = error.to_string();
        for part in [
            &*ids[0],
            &*ids[1],
            "tally",
            &*theirs.describe(),
            "a file per node is not one store",
        ] {
            assert!(text.contains(part), "{text}");
        }
        log.line(&["ERROR", &ids[0], &ids[1]]).await;
        assert_eq!(on_b.shards(), []);
        for e in 0..32 {
            let told = on_a.entity(format!("e{e}")).ask(Say::Add(1)).await;
            assert_eq!(told, Ok(sum(1, 1)));
        }
        assert_eq!((on_a.running(), on_b.running()), (32, 0));
    })
    .await;
}

#[tokio::test]
async fn or_warned_of() {
    within(30, "warning", async {
        let (log, _guard) = log();
        let (a, b) = two_nodes().await;
        let (ours, theirs) = (MemoryStore::new(), MemoryStore::new());
        let set = |node: &Node, store: &MemoryStore| {
            let of = node.event_sourced::<Tally>(store.clone()).shards(8);
            of.storage_mismatch(StorageMismatch::Warn)
        };
        let on_a = set(&a, &ours).start().await.unwrap();
        on_a.ready().await.unwrap();
        let on_b = set(&b, &theirs).start().await.unwrap();
        on_b.ready().await.unwrap();
        let ids = [&ours, &theirs].map(|store| format!("{:016x}", store.id()));
        let place = format!("the leading node: {}", ours.describe());
        log.line(&["WARN", "tally", &ids[0], &ids[1], &place]).await;
        let told = on_b.entity("e").ask(Say::Add(1)).await;
        assert_eq!(told, Ok(sum(1, 1)));
    })
    .await;
}

/// A proxy opens no store, and need not have one.
#[tokio::test]
async fn a_proxy_has_none() {
    within(30, "proxy", async {
        let (a, b) = two_nodes().await;
        let on_a = a.event_sourced::<Tally>(MemoryStore::new()).shards(8);
        let on_a = on_a.start().await.unwrap();
        on_a.ready().await.unwrap();
        let on_b = b.event_sourced::<Tally>(MemoryStore::new()).shards(8);
        let on_b = on_b.proxy().start().await.unwrap();
        on_b.ready().await.unwrap();
        assert_eq!(on_b.entity("e").ask(Say::Add(1)).await, Ok(sum(1, 1)));
        assert_eq!(on_a.entity("e").ask(Say::Sum).await, Ok(sum(1, 1)));
    })
    .await;
}
