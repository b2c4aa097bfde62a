//! Where entities keep what must survive them.
//!
//! Three traits, which every backend has: a [`Journal`] of events, a [`Store`] of values that are replaced, and
//! [`Remember`] for the ids of entities that live. All of them fence: the epoch of a write is compared with the highest
//! one seen for that entity (or shard), in the same transaction, so that a former home that was paused or cut off can
//! never write over its successor. And all of them number: what is not exactly the next event or revision is an error.
//!
//! | backend | for | feature |
//! |---|---|---|
//! | [`MemoryStore`] | tests; a process and what it knows end together | – |
//! | `SqliteStore` | one file, no server: all processes of one machine | `sqlite` |
//! | `PostgresStore` | a cluster of several machines | `postgres` |
//!
//! # Futures
//!
//! A request is on its way when its future was first polled. A future that is dropped afterwards takes nothing back: it
//! may have been written, and may still be. What one task asks for, one after the other, is done in that order.
//!
//! # Pages
//!
//! [`Journal::read`] and [`Remember::load`] answer in pages, which end at the caller's limit or after [`PAGE_BYTES`]. So
//! a page may be shorter than asked for; the end is where a page is empty.

#[expect(missing_docs, reason = "for the stores of this project")]
pub(crate) mod check;
mod error;
mod memory;
#[expect(missing_docs, reason = "for the stores of this project")]
pub(crate) mod queue;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use std::sync::Arc;

use shard_proto::{Epoch, ShardId};

pub use error::StoreError;
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;

/// So many senders are kept per entity; beyond it the one that was heard of longest ago is forgotten. See [`Sequence`].
pub const MAX_SENDERS: usize = 1024;
/// The longest id and the longest name of an entity type that a store takes, in bytes.
pub const MAX_NAME: usize = 64 * 1024;
/// A page is over when it has this many bytes, and has one item at least.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// What one request may write unless the backend's settings say otherwise, in bytes: names, and events or state.
pub const MAX_WRITE: usize = 64 * 1024 * 1024;

/// What a store answers with.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Names an entity in a store. Any strings of up to [`MAX_NAME`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityId {
    /// The type's name, or the one its state is kept under.
    pub entity_type: Arc<str>,
    /// The entity's id.
    pub id: Arc<str>,
}

impl EntityId {
    /// Names an entity.
    pub fn new(entity_type: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        Self {
            entity_type: entity_type.into(),
            id: id.into(),
        }
    }
}

/// Sender and number of a message that must be handled once: kept with the state, in the same transaction.
///
/// The highest number of each sender is kept, for [`MAX_SENDERS`] senders per entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Who sent it.
    pub sender: u64,
    /// The sender's number for it, which grows.
    pub seq: u64,
}

/// What every store has.
pub trait Storage: Send + Sync + fmt::Debug + 'static {
    /// The store itself: a random number that was made together with it and is kept in it. Never 0. Two nodes that see
    /// different numbers do not share a store, whatever their settings say.
    fn id(&self) -> u64;

    /// For people: kind and place, no secret.
    fn describe(&self) -> String;

    /// What it has done since this process opened it.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

/// Events of entities, in order, and snapshots of the state they lead to.
pub trait Journal: Storage {
    /// Raises the entity's fence to `epoch` and says what there is. An entity that was never heard of has nothing.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced) if a higher epoch was seen.
    fn open(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Opened>;

    /// Events after `after` (0: from the first), at most `limit`, in order. [Empty](self#pages) at the end.
    ///
    /// Not fenced: opens nothing, and anybody may read.
    fn read(&self, entity: EntityId, after: u64, limit: usize) -> StoreFuture<'_, Vec<Recorded>>;

    /// Appends events: all of them, in one transaction with [`Append::sequence`], or nothing. They are durable when this
    /// returns. Raises the fence.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced), and [`Sequence`](StoreError::Sequence) unless `first_seq` is the last one + 1.
    fn append(&self, append: Append) -> StoreFuture<'_, ()>;

    /// Replaces the snapshot: the state after the event `seq`. Events stay. Raises the fence.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced), and [`Sequence`](StoreError::Sequence) if there is no such event yet, or a later
    /// snapshot.
    fn snapshot(
        &self,
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) -> StoreFuture<'_, ()>;
}

/// What a journal has of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The last snapshot.
    pub snapshot: Option<Snapshot>,
    /// The number of the last event, 0: none.
    pub last_seq: u64,
    /// The last message of each sender, the one heard of longest ago first.
    pub senders: Vec<Sequence>,
}

/// The state of an entity after one of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The event.
    pub seq: u64,
    /// The state.
    pub state: Vec<u8>,
}

/// An event of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number: 1, 2, 3, …
    pub seq: u64,
    /// The event.
    pub event: Vec<u8>,
}

/// Events to be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// Whose events.
    pub entity: EntityId,
    /// The epoch under which the entity's shard lives here.
    pub epoch: Epoch,
    /// The number of the first event: the last one's + 1.
    pub first_seq: u64,
    /// The events. May be empty, if only [`sequence`](Self::sequence) is to be kept.
    pub events: Vec<Vec<u8>>,
    /// The message that led to them, if it was numbered.
    pub sequence: Option<Sequence>,
}

/// The values of entities.
pub trait Store: Storage {
    /// Raises the entity's fence to `epoch` and says what there is. An entity that was never heard of has nothing.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced) if a higher epoch was seen.
    fn load(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Loaded>;

    /// Replaces the value, in one transaction with [`Save::sequence`]. It is durable when this returns. Raises the fence.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced), and [`Sequence`](StoreError::Sequence) unless `revision` is the last one + 1.
    fn save(&self, save: Save) -> StoreFuture<'_, ()>;
}

/// What a store has of an entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// How often it was saved, deletions included.
    pub revision: u64,
    /// The value; `None`: never saved, or deleted.
    pub state: Option<Vec<u8>>,
    /// The last message of each sender, the one heard of longest ago first.
    pub senders: Vec<Sequence>,
}

/// A value to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Save {
    /// Whose value.
    pub entity: EntityId,
    /// The epoch under which the entity's shard lives here.
    pub epoch: Epoch,
    /// The revision loaded or saved last, + 1.
    pub revision: u64,
    /// The value; `None` deletes it. Fence, revision and senders stay.
    pub state: Option<Vec<u8>>,
    /// The message that led to it, if it was numbered.
    pub sequence: Option<Sequence>,
}

/// The ids of the entities that live, per shard.
pub trait Remember: Storage {
    /// Raises the shard's fence to `epoch`. Says the ids after `after`, at most `limit`, in the order of their bytes.
    /// [Empty](self#pages) at the end.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced) if a higher epoch was seen.
    fn load(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        after: Option<Box<str>>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Box<str>>>;

    /// Adds (`true`) and removes (`false`) ids, in order, all of them or nothing. What is so already stays so. Raises
    /// the fence. When it failed and nobody knows whether it was done, it is asked for again, if it is still so: a store
    /// must not do the first one after what was asked for later.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced) if a higher epoch was seen.
    fn record(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        changes: Vec<(Box<str>, bool)>,
    ) -> StoreFuture<'_, ()>;
}

/// What a store has done since this process opened it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Transactions that were committed.
    pub transactions: u64,
    /// Requests that were done in them. All but [`Journal::read`] are.
    pub writes: u64,
    /// The most requests that one transaction held.
    pub largest_group: u64,
    /// Requests refused as [`Fenced`](StoreError::Fenced).
    pub fenced: u64,
    /// Requests refused for their [`Sequence`](StoreError::Sequence).
    pub out_of_sequence: u64,
    /// Requests refused as [`TooLarge`](StoreError::TooLarge).
    pub too_large: u64,
    /// Requests that failed otherwise.
    pub failed: u64,
}
