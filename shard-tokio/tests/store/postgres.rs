//! PostgreSQL: the suite, and what is only about servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shard_tokio::Epoch;
use shard_tokio::store::postgres::PostgresConfig;
use shard_tokio::store::{Append, EntityId, Journal, PostgresStore, Recorded, StoreError};
use tokio_postgres::{Client, NoTls};

use super::server::Server;
use super::suite::{Backend, suite};

#[path = "postgres/failures.rs"]
mod failures;
#[path = "postgres/groups.rs"]
mod groups;
#[path = "postgres/meeting.rs"]
mod meeting;

/// A server, and a schema that no other test uses.
struct Place {
    server: Arc<Server>,
    schema: String,
}

impl Place {
    fn on(server: Arc<Server>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self {
            server,
            schema: format!("test_{number}"),
        }
    }

    fn shared() -> Option<Self> {
        Server::shared().map(Self::on)
    }

    async fn store(&self) -> PostgresStore {
        self.try_store(&self.server.url()).await.unwrap()
    }

    async fn try_store(&self, url: &str) -> Result<PostgresStore, StoreError> {
        let config = PostgresConfig::new().with_schema(&self.schema);
        PostgresStore::connect_with(url, config).await
    }

    /// For what a store does not do.
    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.server.url(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        client
            .batch_execute(&format!("SET search_path = {}", self.schema))
            .await
            .unwrap();
        client
    }
}

impl Backend for Place {
    type Handle = PostgresStore;
    const GROUPS: bool = true;
    const FOREVER: bool = true;

    async fn create() -> Option<Self> {
        Self::shared()
    }

    async fn open_with(&self, max_write: usize) -> PostgresStore {
        let config = PostgresConfig::new().with_schema(&self.schema);
        let config = config.with_max_write(max_write);
        PostgresStore::connect_with(&self.server.url(), config)
            .await
            .unwrap()
    }

    async fn close(handle: PostgresStore) {
        handle.close().await;
    }
}

suite!(suite, Place);

fn epoch(bits: u64) -> Epoch {
    Epoch::from_bits(bits)
}

fn append(id: &str, by: u64, first_seq: u64, event: &str) -> Append {
    Append {
        entity: EntityId::new("cart", id),
        epoch: epoch(by),
        first_seq,
        events: vec![event.as_bytes().to_vec()],
        sequence: None,
    }
}

async fn events(store: &PostgresStore, id: &str) -> Vec<String> {
    let mut all: Vec<Recorded> = Vec::new();
    loop {
        let after = all.last().map_or(0, |last| last.seq);
        let page = store
            .read(EntityId::new("cart", id), after, 1000)
            .await
            .unwrap();
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let numbers: Vec<_> = all.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    all.into_iter()
        .map(|event| String::from_utf8(event.event).unwrap())
        .collect()
}

/// Waits until so many sessions wait for a lock to write.
async fn waiting(client: &Client, sessions: i64) {
    waiting_for(client, "write", sessions).await;
}

/// Waits until so many sessions wait for a lock, in statements that name this of the schema.
async fn waiting_for(client: &Client, what: &str, sessions: i64) {
    let question =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
    let schema: String = client
        .query_one("SHOW search_path", &[])
        .await
        .unwrap()
        .get(0);
    loop {
        // Within a transaction it would stay what it was.
        client
            .batch_execute("SELECT pg_stat_clear_snapshot()")
            .await
            .unwrap();
        let pattern = format!("%\"{schema}\".{what}%");
        let row = client.query_one(question, &[&pattern]).await.unwrap();
        if row.get::<_, i64>(0) == sessions {
            return;
        }
        tokio::task::yield_now().await;
    }
}
