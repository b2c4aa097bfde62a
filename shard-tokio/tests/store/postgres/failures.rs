//! Losing a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shard_tokio::ShardId;
use shard_tokio::store::postgres::PostgresConfig;
use shard_tokio::store::{EntityId, Journal, PostgresStore, Remember, StoreError};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Place, append, epoch, events, waiting, waiting_for};
use crate::server::{PASSWORD, Server};

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

/// A way to the server by TCP, which breaks without the server's knowing while it is busy.
struct Relay {
    url: String,
    resets: watch::Sender<()>,
}

impl Relay {
    async fn start(place: &Place) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let resets = watch::Sender::new(());
        let target = ("127.0.0.1", place.server.port());
        tokio::spawn({
            let resets = resets.clone();
            async move {
                while let Ok((mut dialer, _)) = listener.accept().await {
                    let mut reset = resets.subscribe();
                    tokio::spawn(async move {
                        let mut server = TcpStream::connect(target).await.unwrap();
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut dialer, &mut server) => {}
                            _ = reset.changed() => {}
                        }
                    });
                }
            }
        });
        let url = format!("postgres://shard:{PASSWORD}@127.0.0.1:{port}/postgres");
        Self { url, resets }
    }
}

/// What was on its way when the connection broke is done before what is asked for later, or never.
#[tokio::test]
async fn what_comes_late_forgets_nobody_who_lives_by_now() {
    let Some(place) = Place::shared() else { return };
    let relay = Relay::start(&place).await;
    let store = place.try_store(&relay.url).await.unwrap();
    let client = place.client().await;
    let record = |shard: u32, alive: bool| {
        let changes = vec![(Box::from("a"), alive)];
        store.record("cart".into(), ShardId(shard), epoch(1), changes)
    };
    record(1, true).await.unwrap();
    record(2, true).await.unwrap();
    client
        .batch_execute("BEGIN; SELECT FROM fence WHERE space = 2 AND id = '1' FOR UPDATE")
        .await
        .unwrap();
    // One group: the server comes to the second one when it has the lock for the first.
    let forgets = async { tokio::join!(record(1, false), record(2, false)) };
    let breaks = async {
        waiting(&client, 1).await;
        relay.resets.send_replace(());
    };
    let ((first, second), ()) = tokio::join!(forgets, breaks);
    for answer in [first, second] {
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "{answer:?}"
        );
    }
    // It lives again.
    record(2, true).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    let late = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%\"{}\".write%' \
         AND pid <> pg_backend_pid()",
        place.schema
    );
    while client.query_one(&late, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
    let living = Remember::load(&store, "cart".into(), ShardId(2), epoch(1), None, 10).await;
    assert_eq!(living.unwrap(), ["a".into()]);
}

/// Between the raise and the reading of what there is.
#[tokio::test]
async fn who_is_fenced_while_it_reads_who_lived_is_told() {
    let Some(place) = Place::shared() else { return };
    let (store, client) = (place.store().await, place.client().await);
    let changes = vec![(Box::from("a"), true)];
    let record = store.record("cart".into(), ShardId(1), epoch(5), changes);
    record.await.unwrap();
    for after in [None, Some(Box::from("a"))] {
        // The first in a transaction of its own.
        for statement in [
            "UPDATE fence SET epoch = 5",
            "BEGIN; LOCK TABLE remembered IN ACCESS EXCLUSIVE MODE",
        ] {
            client.batch_execute(statement).await.unwrap();
        }
        let load = Remember::load(&store, "cart".into(), ShardId(1), epoch(5), after, 10);
        let raise = async {
            waiting_for(&client, "remembered", 1).await;
            client
                .batch_execute("UPDATE fence SET epoch = 6; COMMIT")
                .await
                .unwrap();
        };
        let (loaded, ()) = tokio::join!(load, raise);
        let error = loaded.unwrap_err();
        let StoreError::Fenced { seen, given } = error else {
            panic!("{error:?}");
        };
        assert_eq!((seen, given), (epoch(6), epoch(5)));
    }
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
