//! A store in a file, without a server: for all processes of one machine.
//!
//! # Several processes
//!
//! Any number of processes of one machine may have the file open, and write to it in turns: SQLite's write-ahead log,
//! whose two files (`-wal`, `-shm`) lie beside it. They share memory, so the file must be on a disk of that machine, not
//! on a network's. For several machines there is PostgreSQL. A file per node is a mistake: an entity that moves would
//! leave its state behind; [`Storage::id`] shows it.
//!
//! # What survives what
//!
//! What was acknowledged survives the end of the process, `kill -9` included. With
//! [`Durability::PowerCut`], the default, it also survives that of the machine, if its disk writes what it says it has
//! written: every transaction waits for the disk once. With [`Durability::ProcessCrash`] a power cut may cost the last
//! transactions (those since the last checkpoint, up to some thousand pages), all of them later than what is kept; the
//! file stays sound, and fences that are lost were those of processes that died with the machine.
//!
//! # How it writes
//!
//! One thread per opened store owns the connection that writes. It does everything that waits in one transaction, so
//! under load a transaction holds hundreds of requests, and a single request waits for nobody. A request that is refused
//! fails alone. Another thread, with a connection of its own, answers [`Journal::read`](super::Journal::read).
//!
//! With a disk that takes 4 ms to confirm, on two cores that were busy otherwise, 1 caller wrote 220 events/s, 16 callers
//! 2 000/s, 256 callers 21 000/s; with [`Durability::ProcessCrash`] it was 11 000/s, 16 000/s, and 38 000/s.
//!
//! Both threads end when the store and its clones are dropped and what waited is written; [`SqliteStore::close`] waits
//! for that.

mod apply;
mod fault;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use core::fmt;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot, watch};

use super::check::Counters;
use super::queue::{Limits, WriteQueue};
use super::{EntityId, Recorded, Storage, StoreError, StoreStats};
use reader::Read;

/// So many reads may wait.
const READS: usize = 1024;

/// What an acknowledged write survives. See [what survives what](self#what-survives-what).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The end of the machine: each transaction waits for the disk (`synchronous = FULL`).
    #[default]
    PowerCut,
    /// The end of the process (`synchronous = NORMAL`). Several times as fast where the disk is slow to confirm.
    ProcessCrash,
}

/// Settings of a [`SqliteStore`].
#[derive(Clone, Copy, Debug)]
pub struct SqliteConfig {
    durability: Durability,
    busy_timeout: Duration,
    limits: Limits,
}

impl SqliteConfig {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            durability: Durability::PowerCut,
            busy_timeout: Duration::from_secs(5),
            limits: Limits::DEFAULT,
        }
    }

    /// What an acknowledged write survives. Default: [`Durability::PowerCut`].
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a transaction waits for those of other processes, before its requests are
    /// [`Unavailable`](StoreError::Unavailable). Default: 5 s. Too short: requests fail whenever another process writes
    /// much. Too long: a process that was stopped in the middle of a transaction holds up everybody's answers.
    #[must_use]
    pub const fn with_busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How many requests may wait to be written, and how many bytes; beyond it callers wait for room. Default: 4096 and
    /// 64 MiB. It is also the most that one transaction writes; one that reads ends
    /// with the value that makes it as many bytes.
    #[must_use]
    pub const fn with_queue(mut self, requests: usize, bytes: usize) -> Self {
        self.limits.requests = requests;
        self.limits.bytes = bytes;
        self
    }

    /// What one request may write, in bytes, at most 512 MiB. Beyond it: [`TooLarge`](StoreError::TooLarge). Default:
    /// [`MAX_WRITE`](super::MAX_WRITE).
    #[must_use]
    pub const fn with_max_write(mut self, bytes: usize) -> Self {
        self.limits.max_write = bytes;
        self
    }
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// A store in a file. Clones share it.
///
/// ```
/// # use shard_tokio::{Epoch, store::{EntityId, Save, SqliteStore, Store}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("shard-doc-{}.db", std::process::id()));
/// let store = SqliteStore::open(&path).await?;
/// let cart = EntityId::new("cart", "user-42");
/// let epoch = Epoch::from_bits(1);
/// let before = Store::load(&store, cart.clone(), epoch).await?;
/// store
///     .save(Save {
///         entity: cart.clone(),
///         epoch,
///         revision: before.revision + 1,
///         state: Some(b"one book".to_vec()),
///         sequence: None,
///     })
///     .await?;
/// store.close().await;
///
/// let again = SqliteStore::open(&path).await?;
/// assert_eq!(Store::load(&again, cart, epoch).await?.state.unwrap(), b"one book");
/// # again.close().await;
/// # std::fs::remove_file(path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    path: PathBuf,
    counters: Arc<Counters>,
    writes: WriteQueue,
    /// `None`: closed.
    reads: Mutex<Option<mpsc::Sender<Read>>>,
    /// Its other side is dropped when both threads have ended.
    ended: watch::Receiver<()>,
}

impl SqliteStore {
    /// Opens the file, or makes it, with the default settings.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with(path, SqliteConfig::new()).await
    }

    /// Opens the file, or makes it. Its folder must be there.
    ///
    /// # Errors
    /// - [`Setting`](StoreError::Setting): the file is read-only for this user.
    /// - [`Unavailable`](StoreError::Unavailable): its folder does not exist, those that SQLite makes beside it cannot
    ///   be made, or it is busy for too long.
    /// - [`Version`](StoreError::Version): a newer version of this crate made it.
    /// - [`Corrupt`](StoreError::Corrupt): it is something else.
    pub async fn open_with(
        path: impl AsRef<Path>,
        config: SqliteConfig,
    ) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let counters = Arc::new(Counters::default());
        let (writes, queued) = WriteQueue::new(config.limits, Arc::clone(&counters));
        let (running, ended) = watch::channel(());
        let running = Arc::new(running);

        let (opened, opening) = oneshot::channel();
        spawn("shard-store-write", {
            let (path, counters, running) =
                (path.clone(), Arc::clone(&counters), Arc::clone(&running));
            move || {
                match schema::open(&path, config) {
                    Ok((connection, rest)) => {
                        if opened.send(Ok(rest)).is_ok() {
                            writer::run(connection, queued, &config, &counters);
                        }
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
                drop(running);
            }
        })?;
        let rest = opening.await.map_err(|_| StoreError::Closed)??;

        let (reads, asked) = mpsc::channel(READS);
        spawn("shard-store-read", move || {
            reader::run(&rest.reader, asked);
            drop((rest.reader, running));
        })?;
        Ok(Self {
            inner: Arc::new(Inner {
                id: rest.id,
                path: path.canonicalize().unwrap_or(path),
                counters,
                writes,
                reads: Mutex::new(Some(reads)),
                ended,
            }),
        })
    }

    /// Takes no more requests from this and its clones, writes what waits, and closes the file. Later requests are
    /// answered with [`Closed`](StoreError::Closed).
    pub async fn close(&self) {
        self.inner.writes.close();
        self.reads_slot().take();
        let mut ended = self.inner.ended.clone();
        // Nothing is ever sent: this waits until the other side is gone.
        while ended.changed().await.is_ok() {}
    }

    fn reads_slot(&self) -> std::sync::MutexGuard<'_, Option<mpsc::Sender<Read>>> {
        self.inner
            .reads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn events(
        &self,
        entity: EntityId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let reads = self.reads_slot().clone().ok_or(StoreError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let read = Read {
            entity,
            after,
            limit,
            answer,
        };
        reads.send(read).await.map_err(|_| StoreError::Closed)?;
        drop(reads);
        answered.await.unwrap_or(Err(StoreError::Closed))
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
        .map_err(|error| StoreError::Unavailable(format!("cannot start a thread: {error}").into()))
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("id", &self.inner.id)
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}

impl Storage for SqliteStore {
    fn id(&self) -> u64 {
        self.inner.id
    }

    fn describe(&self) -> String {
        format!("SQLite file {}", self.inner.path.display())
    }

    fn stats(&self) -> StoreStats {
        self.inner.counters.stats()
    }
}

impl SqliteStore {
    fn queue(&self) -> &WriteQueue {
        &self.inner.writes
    }
}

crate::grouped_store!(SqliteStore);
