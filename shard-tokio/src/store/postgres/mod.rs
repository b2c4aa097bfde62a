//! A store in a PostgreSQL database, version 13 or newer: for a cluster of several machines.
//!
//! # The database
//!
//! The tables are made when the first process connects, in a [schema](PostgresConfig::with_schema) of their own; any
//! number of processes may do so at once. The user needs the right to create a schema then. Later ones need `USAGE` of
//! the schema and its sequence, and `SELECT`, `INSERT`, `UPDATE` and `DELETE` of its tables. A pooler between has to
//! leave each session its connection.
//!
//! # What survives what
//!
//! What was acknowledged is as durable as the server is set to make it: its settings `fsync` and `synchronous_commit`
//! are on unless someone turned them off. With asynchronous replication a failover may lose the last moments; entities
//! that still run find out by [`Sequence`](StoreError::Sequence).
//!
//! # How it writes
//!
//! One task per opened store owns the connection that writes. It does everything that waits in one transaction, which is
//! one statement: a call of the function `write` in the store's schema. So no lock is held while the program thinks, or
//! was stopped, and under load a transaction holds hundreds of requests. A request that is refused fails alone. Another
//! connection reads.
//!
//! It holds an advisory lock of the database, with a random number, as long as it writes. A connection that follows a
//! lost one ends the server's session of that one and waits for this lock: what was on its way is done before or never.
//!
//! # When the server is away
//!
//! A lost connection is made again when the next request comes, with pauses from 50 ms to 2 s between attempts that
//! fail; each of those answers all requests that wait. What was on its way to the server when the connection was lost is
//! [`Unknown`](StoreError::Unknown) if it was an append or a save. All else is [`Unavailable`](StoreError::Unavailable):
//! it surely was not written, or writing it again has it as it was meant. Deadlocks and serialisation failures are tried again
//! at once.
//!
//! Errors and [`describe`](Storage::describe) name the server and the database, never user or password.
//!
//! The tasks of a store belong to the runtime that it was connected on. They wait with real time: not for tests whose
//! clock is paused.

mod address;
mod config;
mod fault;
mod group;
mod reader;
mod session;
mod writer;

use core::fmt;
use core::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::Arc;

use tokio::sync::watch;

use self::address::Address;
pub use self::config::PostgresConfig;
use self::reader::Reader;
use self::session::Door;
use self::writer::Writer;
use super::{EntityId, Recorded, Storage, StoreError, StoreStats};
use shard_adapter::backend::Counters;
use shard_adapter::backend::{WriteQueue, grouped_store};

/// A store in a PostgreSQL database. Clones share it.
///
/// ```no_run
/// # use shard_tokio::store::{PostgresStore, StoreError, postgres::PostgresConfig};
/// # async fn connect() -> Result<(), StoreError> {
/// let here = PostgresStore::connect("postgres://shard:secret@localhost/game").await?;
///
/// // On another machine, encrypted by a connector of `tokio-postgres-rustls` or `postgres-native-tls`:
/// # let connector = tokio_postgres::NoTls;
/// let config = PostgresConfig::new().with_tls(connector);
/// let there = PostgresStore::connect_with("postgres://shard:secret@db.example.org/game", config).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

struct Inner {
    door: Arc<Door>,
    id: u64,
    queue: WriteQueue,
    reader: Arc<Reader>,
    counters: Arc<Counters>,
    /// Its other side is dropped when all is written and answered.
    ended: watch::Receiver<()>,
}

impl PostgresStore {
    /// Connects to where the URL says, `postgres://user:password@host:port/database` or `key=value` pairs, with the
    /// default settings: to a server on this machine.
    ///
    /// # Errors
    /// As [`connect_with`](Self::connect_with).
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, PostgresConfig::new()).await
    }

    /// Connects to where the URL says, and makes the tables if there are none.
    ///
    /// # Errors
    /// - [`Setting`](StoreError::Setting): the URL or another setting cannot work, the server is neither on this machine
    ///   nor reached by [TLS](PostgresConfig::with_tls), or it refuses the user.
    /// - [`Version`](StoreError::Version): a newer version of this crate made the tables.
    /// - [`Unavailable`](StoreError::Unavailable): there is no server at the moment.
    pub async fn connect_with(url: &str, config: PostgresConfig) -> Result<Self, StoreError> {
        config.check()?;
        let mut address = Address::parse(url, config.encrypted, config.plaintext)?;
        address.timeouts(config.connect_timeout, config.statement_timeout);
        let door = Arc::new(Door {
            address,
            dial: config.dial,
            schema: config.schema,
            turn: RandomState::new()
                .hash_one(std::process::id())
                .cast_signed(),
            connect_timeout: config.connect_timeout,
            statement_timeout: config.statement_timeout,
        });
        let session = door.open_to_write(None).await?;
        let id = session.store;
        let counters = Arc::new(Counters::default());
        let (queue, requests) = WriteQueue::new(config.limits, Arc::clone(&counters));
        let reader = Arc::new(Reader::new(Arc::clone(&door), id));
        let (running, ended) = watch::channel(());
        let writer = Writer {
            door: Arc::clone(&door),
            reader: Arc::clone(&reader),
            store: id,
            session: Some(session),
            counters: Arc::clone(&counters),
            running: Arc::new(running),
        };
        tokio::spawn(writer.run(requests));
        Ok(Self {
            inner: Arc::new(Inner {
                door,
                id,
                queue,
                reader,
                counters,
                ended,
            }),
        })
    }

    /// Takes no more requests from this and its clones, writes what waits, and closes the connections. Later requests
    /// are answered with [`Closed`](StoreError::Closed). Dropping all clones does the same, without waiting.
    pub async fn close(&self) {
        self.inner.queue.close();
        let mut ended = self.inner.ended.clone();
        // Nothing is ever sent: this waits until the other side is gone.
        while ended.changed().await.is_ok() {}
        self.inner.reader.close().await;
    }
}

impl PostgresStore {
    fn queue(&self) -> &WriteQueue {
        &self.inner.queue
    }

    async fn events(
        &self,
        entity: EntityId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.inner.reader.events(&entity, after, limit).await
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("id", &self.inner.id)
            .field("door", &self.inner.door)
            .finish_non_exhaustive()
    }
}

impl Storage for PostgresStore {
    fn id(&self) -> u64 {
        self.inner.id
    }

    fn describe(&self) -> String {
        let door = &self.inner.door;
        format!("{}, schema \"{}\"", door.address.place, door.schema)
    }

    fn stats(&self) -> StoreStats {
        self.inner.counters.stats()
    }
}

grouped_store!(PostgresStore);
