//! Losing a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shard_tokio::store::postgres::PostgresConfig;
use shard_tokio::store::{EntityId, Journal, PostgresStore, StoreError};
use tokio::task::JoinSet;

use super::{Place, append, epoch, events, waiting};
use crate::server::Server;

#[tokio::test]
async fn a_lost_connection_is_unknown_for_what_was_on_its_way_and_made_again() {
    let Some(place) = Place::shared() else { return };
    let (store, client) = (place.store().await, place.client().await);
    store.append(append("a", 1, 1, "one")).await.unwrap();
    store.append(append("b", 1, 1, "one")).await.unwrap();
    client
        .batch_execute("BEGIN; SELECT FROM fence WHERE id = 'a' FOR UPDATE")
        .await
        .unwrap();
    let (writing, opening) = (store.clone(), store.clone());
    let write = tokio::spawn(async move { writing.append(append("a", 1, 2, "two")).await });
    waiting(&client, 1).await;
    let terminate = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%\"{}\".write%' AND pid <> pg_backend_pid()",
        place.schema
    );
    client.query(&terminate, &[]).await.unwrap();
    let error = write.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");

    // The next one finds a new connection. What only asks is worth another try in any case.
    store.append(append("b", 1, 2, "two")).await.unwrap();
    let open =
        tokio::spawn(async move { opening.open(EntityId::new("cart", "a"), epoch(1)).await });
    waiting(&client, 1).await;
    client.query(&terminate, &[]).await.unwrap();
    let error = open.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        store
            .open(EntityId::new("cart", "a"), epoch(1))
            .await
            .unwrap()
            .last_seq,
        1
    );

    // Also the connection that reads.
    client
        .query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()",
            &[&format!("%\"{}\".%", place.schema)],
        )
        .await
        .unwrap();
    assert_eq!(events(&store, "b").await, ["one", "two"]);
    store.append(append("b", 1, 3, "three")).await.unwrap();
}

#[tokio::test]
async fn what_takes_too_long_is_undone() {
    let Some(place) = Place::shared() else { return };
    drop(place.store().await);
    let client = place.client().await;
    let config = PostgresConfig::new().with_schema(&place.schema);
    let config = config.with_statement_timeout(Duration::from_secs(2));
    let store = PostgresStore::connect_with(&place.server.url(), config)
        .await
        .unwrap();
    store.append(append("a", 1, 1, "one")).await.unwrap();
    client
        .batch_execute("BEGIN; SELECT FROM fence WHERE id = 'a' FOR UPDATE")
        .await
        .unwrap();
    let error = store.append(append("a", 1, 2, "two")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    client.batch_execute("COMMIT").await.unwrap();
    store.append(append("a", 1, 2, "two")).await.unwrap();
    assert_eq!(events(&store, "a").await, ["one", "two"]);
}

/// Eight entities are written to, each by one who recovers as an entity would, while the server crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_crashes_of_the_server() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = Place::on(Arc::new(server));
    let store = place.store().await;
    let acknowledged = Arc::new(AtomicU32::new(0));
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let (store, acknowledged) = (store.clone(), Arc::clone(&acknowledged));
        writers.spawn(async move { write_on(&store, number, 400, &acknowledged).await });
    }
    for part in 1..=4 {
        while acknowledged.load(Ordering::Relaxed) < part * 500 {
            tokio::task::yield_now().await;
        }
        let server = Arc::clone(&place.server);
        tokio::task::spawn_blocking(move || server.crash_and_start())
            .await
            .unwrap();
    }
    while let Some(written) = writers.join_next().await {
        let (id, written) = written.unwrap();
        // All that was acknowledged, once and in order; what nobody knew of is there or was tried again.
        assert_eq!(events(&store, &id).await, written);
    }
}

/// Writes events 1, 2, 3, … of one entity. Each is in the store when the next is tried.
async fn write_on(
    store: &PostgresStore,
    number: u32,
    count: u64,
    acknowledged: &AtomicU32,
) -> (String, Vec<String>) {
    let id = format!("entity {number}");
    let mut last = 0;
    while last < count {
        match store
            .append(append(&id, 1, last + 1, &format!("event {}", last + 1)))
            .await
        {
            Ok(()) => {
                last += 1;
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // Surely not written: the same number must still be right.
            Err(StoreError::Unavailable(_)) => {}
            Err(StoreError::Unknown(_)) => {
                let opened = loop {
                    match store.open(EntityId::new("cart", &*id), epoch(1)).await {
                        Err(StoreError::Unavailable(_)) => {}
                        opened => break opened.unwrap(),
                    }
                };
                assert!(
                    [last, last + 1].contains(&opened.last_seq),
                    "{last} {opened:?}"
                );
                last = opened.last_seq;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    (id, (1..=count).map(|n| format!("event {n}")).collect())
}
