//! Meeting a server: addresses, users, tables that are there or not.

use std::sync::Arc;

use shard_tokio::ShardId;
use shard_tokio::store::postgres::PostgresConfig;
use shard_tokio::store::{
    EntityId, Journal, PostgresStore, Remember, Save, Sequence, Storage, Store, StoreError,
};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use super::{Place, append, epoch, events};
use crate::server;

#[tokio::test]
async fn several_processes_may_make_the_tables_at_once() {
    let Some(place) = Place::shared() else { return };
    let place = Arc::new(place);
    let mut starts = JoinSet::new();
    for _ in 0..8 {
        let place = Arc::clone(&place);
        starts.spawn(async move { place.store().await.id() });
    }
    let ids = starts.join_all().await;
    assert_ne!(ids[0], 0);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let other = Place::on(Arc::clone(&place.server)).store().await;
    assert_ne!(other.id(), ids[0]);
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_neither_password_nor_user() {
    let Some(place) = Place::shared() else { return };
    let (server, client) = (&place.server, place.client().await);
    let secret = "wrong-secret";
    client
        .batch_execute(
            "CREATE ROLE jane_doe PASSWORD 'jane'; CREATE ROLE jane_roe LOGIN PASSWORD 'jane' CONNECTION LIMIT 0",
        )
        .await
        .unwrap();
    let crowded = place
        .try_store(&server.tcp_url("jane_roe", "jane", "postgres"))
        .await
        .unwrap_err();
    let text = format!("{crowded} {crowded:?}");
    assert!(text.contains("too many connections"), "{text}");
    assert!(!text.contains("jane"), "{text}");
    for (url, expected) in [
        (
            server.tcp_url("jane_nobody", secret, "postgres"),
            "password authentication failed",
        ),
        (
            server.tcp_url("jane_roe", secret, "postgres"),
            "password authentication failed",
        ),
        (
            server.tcp_url("jane_doe", "jane", "postgres"),
            "does not let this user in",
        ),
        (
            server.tcp_url("shard", server::PASSWORD, "nowhere"),
            "\"nowhere\" does not exist",
        ),
        (
            format!("postgres://shard:{secret}@db.example.org/d"),
            ".with_plaintext(true)",
        ),
        (
            format!("postgres://shard:{secret}@{secret}@localhost/d"),
            "%40",
        ),
    ] {
        let error = place.try_store(&url).await.unwrap_err();
        assert!(matches!(error, StoreError::Setting(_)), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected), "{text}");
        assert!(
            !text.contains(secret) && !text.contains(server::PASSWORD) && !text.contains("jane"),
            "{text}"
        );
    }
    client
        .batch_execute("DROP ROLE jane_doe; DROP ROLE jane_roe")
        .await
        .unwrap();
    // Nobody listens on this one.
    let error = place
        .try_store(&format!("postgres://shard:{secret}@127.0.0.1:1/d"))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    let config = PostgresConfig::new().with_schema("Bad-Name");
    let error = PostgresStore::connect_with(&server.url(), config)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("`schema`"), "{error}");

    let url = server.tcp_url("shard", server::PASSWORD, "postgres");
    let store = place.try_store(&url).await.unwrap();
    let text = format!("{} {store:?}", store.describe());
    assert!(
        text.contains("PostgreSQL database \"postgres\" at 127.0.0.1"),
        "{text}"
    );
    assert!(!text.contains(server::PASSWORD), "{text}");
}

#[tokio::test]
async fn encryption_that_was_asked_for_is_never_left_out() {
    let Some(place) = Place::shared() else { return };
    // The server has no TLS, and `sslmode=prefer` would be content.
    let url = place
        .server
        .tcp_url("shard", server::PASSWORD, "postgres?sslmode=prefer");
    let config = PostgresConfig::new()
        .with_schema(&place.schema)
        .with_tls(NoTls);
    assert!(matches!(
        PostgresStore::connect_with(&url, config).await,
        Err(StoreError::Unavailable(_))
    ));
}

#[tokio::test]
async fn a_user_who_may_make_nothing_can_use_what_is_there() {
    let Some(place) = Place::shared() else { return };
    let (owner, client, schema) = (place.store().await, place.client().await, &place.schema);
    let url = place.server.tcp_url("guest", "guest", "postgres");
    client
        .batch_execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        .await
        .unwrap();
    let error = place.try_store(&url).await.unwrap_err();
    assert!(matches!(error, StoreError::Setting(_)), "{error:?}");
    assert!(error.to_string().contains("permission denied"), "{error}");
    client
        .batch_execute(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO guest; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO guest; \
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO guest"
        ))
        .await
        .unwrap();
    let guest = place.try_store(&url).await.unwrap();
    assert_eq!(guest.id(), owner.id());
    let mut first = append("a", 1, 1, "one");
    first.sequence = Some(Sequence { sender: 1, seq: 1 });
    guest.append(first).await.unwrap();
    assert_eq!(events(&owner, "a").await, ["one"]);
    client
        .batch_execute("DROP OWNED BY guest; DROP ROLE guest")
        .await
        .unwrap();
}

#[tokio::test]
async fn tables_of_a_newer_program_are_left_alone() {
    let Some(place) = Place::shared() else { return };
    drop(place.store().await);
    let client = place.client().await;
    client
        .batch_execute("UPDATE store SET version = 99")
        .await
        .unwrap();
    let error = place.try_store(&place.server.url()).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Version {
                found: 99,
                known: 1
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn another_store_behind_the_same_address_is_not_written_to() {
    let Some(place) = Place::shared() else { return };
    let (store, client) = (place.store().await, place.client().await);
    store.append(append("a", 1, 1, "one")).await.unwrap();
    client
        .batch_execute(&format!("DROP SCHEMA {} CASCADE", place.schema))
        .await
        .unwrap();
    drop(place.store().await);
    // The connection has to be made anew first.
    let mut error = store.append(append("a", 1, 2, "two")).await.unwrap_err();
    while !error.to_string().contains("another store") {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        error = store.append(append("a", 1, 2, "two")).await.unwrap_err();
    }
}

#[tokio::test]
async fn names_of_any_length_and_bytes_are_told_apart() {
    let Some(place) = Place::shared() else { return };
    let store = place.store().await;
    let long = "x".repeat(2000);
    let names = [
        "",
        "\0",
        "a\0b",
        "ä",
        "\u{10ffff}",
        &long,
        &format!("{long}y"),
        &"z".repeat(64 * 1024),
    ];
    for (name, seq) in names.iter().zip(1_u8..) {
        let entity = EntityId::new(*name, *name);
        let save = Save {
            entity: entity.clone(),
            epoch: epoch(u64::MAX),
            revision: 1,
            state: Some(vec![seq]),
            sequence: None,
        };
        store.save(save).await.unwrap();
    }
    for (name, seq) in names.iter().zip(1_u8..) {
        let entity = EntityId::new(*name, *name);
        let loaded = Store::load(&store, entity.clone(), epoch(u64::MAX))
            .await
            .unwrap();
        assert_eq!(loaded.state, Some(vec![seq]));
        // As unsigned numbers.
        let error = Store::load(&store, entity, epoch(1)).await.unwrap_err();
        assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    }
    let changes = names.iter().map(|name| (Box::from(*name), true)).collect();
    store
        .record("cart".into(), ShardId(7), epoch(1), changes)
        .await
        .unwrap();
    let mut sorted: Vec<_> = names
        .iter()
        .map(|name| Box::from(*name))
        .collect::<Vec<Box<str>>>();
    sorted.sort();
    let mut found: Vec<Box<str>> = Vec::new();
    loop {
        let after = found.last().cloned();
        let page = Remember::load(&store, "cart".into(), ShardId(7), epoch(1), after, 3)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, sorted);
    let changes = vec![(Box::from(&*long), false)];
    store
        .record("cart".into(), ShardId(7), epoch(1), changes)
        .await
        .unwrap();
    let left = Remember::load(&store, "cart".into(), ShardId(7), epoch(1), None, 100)
        .await
        .unwrap();
    assert_eq!(left.len(), names.len() - 1);
}
