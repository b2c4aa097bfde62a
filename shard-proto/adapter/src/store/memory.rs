//! A store in memory.

use core::fmt;
use core::hash::BuildHasher;
use core::ops::Bound;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shard_proto::{Epoch, ShardId};

use super::check::{self, Counters};
use super::{
    Append, EntityId, Journal, Loaded, MAX_SENDERS, MAX_WRITE, Opened, PAGE_BYTES, Recorded,
    Remember, Save, Sequence, Snapshot, Storage, Store, StoreError, StoreFuture, StoreStats,
};

/// A store in memory: as long as the process, or one of its clones, lives. For tests, and for trying things out.
///
/// Clones share what they hold. It fences and numbers as the others do. Memory grows with what is written, as a file
/// would.
///
/// ```
/// # use shard_tokio::{Epoch, store::{Append, EntityId, Journal, MemoryStore, StoreError}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let cart = EntityId::new("cart", "user-42");
/// let (old, new) = (Epoch::from_bits(1), Epoch::from_bits(2));
/// let append = |epoch, first_seq| Append {
///     entity: cart.clone(),
///     epoch,
///     first_seq,
///     events: vec![b"added".to_vec()],
///     sequence: None,
/// };
/// assert_eq!(store.open(cart.clone(), old).await?.last_seq, 0);
/// store.append(append(old, 1)).await?;
///
/// // The cart moved. Its former home wakes up and goes on writing:
/// assert_eq!(store.open(cart.clone(), new).await?.last_seq, 1);
/// assert!(matches!(store.append(append(old, 2)).await, Err(StoreError::Fenced { .. })));
/// store.append(append(new, 2)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
    max_write: usize,
}

struct Inner {
    id: u64,
    tables: Mutex<Tables>,
    counters: Counters,
}

#[derive(Default)]
struct Tables {
    journals: HashMap<EntityId, Events>,
    values: HashMap<EntityId, Value>,
    shards: HashMap<(Arc<str>, ShardId), Living>,
}

#[derive(Default)]
struct Events {
    fence: Epoch,
    events: Vec<Vec<u8>>,
    snapshot: Option<Snapshot>,
    senders: Senders,
}

#[derive(Default)]
struct Value {
    fence: Epoch,
    revision: u64,
    state: Option<Vec<u8>>,
    senders: Senders,
}

#[derive(Default)]
struct Living {
    fence: Epoch,
    ids: BTreeSet<Box<str>>,
}

/// The one heard of longest ago first.
#[derive(Default)]
struct Senders(Vec<Sequence>);

impl Senders {
    fn keep(&mut self, sequence: Option<Sequence>) {
        let Some(mut sequence) = sequence else {
            return;
        };
        if let Some(at) = self.0.iter().position(|s| s.sender == sequence.sender) {
            let known = self.0.remove(at);
            sequence.seq = sequence.seq.max(known.seq);
        } else if self.0.len() >= MAX_SENDERS {
            self.0.remove(0);
        }
        self.0.push(sequence);
    }
}

impl MemoryStore {
    /// An empty store with an id of its own.
    #[must_use]
    pub fn new() -> Self {
        let random = RandomState::new().hash_one(core::any::type_name::<Self>());
        Self {
            inner: Arc::new(Inner {
                id: random.max(1),
                tables: Mutex::default(),
                counters: Counters::default(),
            }),
            max_write: MAX_WRITE,
        }
    }

    /// What one request may write, in bytes. Default: [`MAX_WRITE`].
    #[must_use]
    pub const fn with_max_write(mut self, bytes: usize) -> Self {
        self.max_write = bytes;
        self
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Nothing in here panics while the lock is held.
        self.inner
            .tables
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts it, too.
    fn done<'a, T: 'a>(
        &'a self,
        request: impl FnOnce() -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let result = request();
            match &result {
                Ok(_) => self.inner.counters.committed(1),
                Err(error) => self.inner.counters.refused(error),
            }
            result
        })
    }

    fn try_open(&self, entity: EntityId, epoch: Epoch) -> Result<Opened, StoreError> {
        check::names(&entity.entity_type, &entity.id)?;
        let mut tables = self.tables();
        let journal = tables.journals.entry(entity).or_default();
        check::fence(journal.fence, epoch)?;
        journal.fence = epoch;
        Ok(Opened {
            snapshot: journal.snapshot.clone(),
            last_seq: journal.events.len() as u64,
            senders: journal.senders.0.clone(),
        })
    }

    fn try_append(&self, append: Append) -> Result<(), StoreError> {
        check::names(&append.entity.entity_type, &append.entity.id)?;
        check::size(check::append_size(&append), self.max_write)?;
        let mut tables = self.tables();
        let journal = tables.journals.entry(append.entity).or_default();
        check::fence(journal.fence, append.epoch)?;
        check::next(journal.events.len() as u64, append.first_seq)?;
        journal.fence = append.epoch;
        journal.events.extend(append.events);
        journal.senders.keep(append.sequence);
        Ok(())
    }

    fn try_snapshot(
        &self,
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) -> Result<(), StoreError> {
        check::names(&entity.entity_type, &entity.id)?;
        check::size(
            check::entity_size(&entity).saturating_add(state.len()),
            self.max_write,
        )?;
        let mut tables = self.tables();
        let journal = tables.journals.entry(entity).or_default();
        let present = journal.snapshot.as_ref().map(|snapshot| snapshot.seq);
        check::fence(journal.fence, epoch)?;
        check::snapshot(journal.events.len() as u64, present, seq)?;
        journal.fence = epoch;
        journal.snapshot = Some(Snapshot { seq, state });
        Ok(())
    }

    fn page(&self, entity: &EntityId, after: u64, limit: usize) -> Vec<Recorded> {
        let tables = self.tables();
        let events = tables.journals.get(entity).map(|j| &*j.events);
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        let rest = events.and_then(|events| events.get(after..)).unwrap_or(&[]);
        let mut bytes = 0;
        let mut page = Vec::new();
        for (n, event) in rest.iter().enumerate().take(limit) {
            page.push(Recorded {
                seq: (after + n + 1) as u64,
                event: event.clone(),
            });
            bytes += event.len();
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        page
    }

    fn try_load(&self, entity: EntityId, epoch: Epoch) -> Result<Loaded, StoreError> {
        check::names(&entity.entity_type, &entity.id)?;
        let mut tables = self.tables();
        let value = tables.values.entry(entity).or_default();
        check::fence(value.fence, epoch)?;
        value.fence = epoch;
        Ok(Loaded {
            revision: value.revision,
            state: value.state.clone(),
            senders: value.senders.0.clone(),
        })
    }

    fn try_save(&self, save: Save) -> Result<(), StoreError> {
        check::names(&save.entity.entity_type, &save.entity.id)?;
        check::size(check::save_size(&save), self.max_write)?;
        let mut tables = self.tables();
        let value = tables.values.entry(save.entity).or_default();
        check::fence(value.fence, save.epoch)?;
        check::next(value.revision, save.revision)?;
        value.fence = save.epoch;
        value.revision = save.revision;
        value.state = save.state;
        value.senders.keep(save.sequence);
        Ok(())
    }

    fn try_ids(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        after: Option<Box<str>>,
        limit: usize,
    ) -> Result<Vec<Box<str>>, StoreError> {
        check::names(&entity_type, after.as_deref().unwrap_or(""))?;
        let mut tables = self.tables();
        let living = tables.shards.entry((entity_type, shard)).or_default();
        check::fence(living.fence, epoch)?;
        living.fence = epoch;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut bytes = 0;
        let mut page = Vec::new();
        for id in living.ids.range((from, Bound::Unbounded)).take(limit) {
            page.push(id.clone());
            bytes += id.len();
            if bytes >= PAGE_BYTES {
                break;
            }
        }
        Ok(page)
    }

    fn try_record(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        changes: Vec<(Box<str>, bool)>,
    ) -> Result<(), StoreError> {
        for (id, _) in &changes {
            check::names(&entity_type, id)?;
        }
        check::size(check::changes_size(&entity_type, &changes), self.max_write)?;
        let mut tables = self.tables();
        let living = tables.shards.entry((entity_type, shard)).or_default();
        check::fence(living.fence, epoch)?;
        living.fence = epoch;
        for (id, alive) in changes {
            if alive {
                living.ids.insert(id);
            } else {
                living.ids.remove(&id);
            }
        }
        Ok(())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("id", &self.inner.id)
            .finish_non_exhaustive()
    }
}

impl Storage for MemoryStore {
    fn id(&self) -> u64 {
        self.inner.id
    }

    fn describe(&self) -> String {
        "in the memory of this process".to_owned()
    }

    fn stats(&self) -> StoreStats {
        self.inner.counters.stats()
    }
}

impl Journal for MemoryStore {
    fn open(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Opened> {
        self.done(move || self.try_open(entity, epoch))
    }

    fn read(&self, entity: EntityId, after: u64, limit: usize) -> StoreFuture<'_, Vec<Recorded>> {
        Box::pin(async move { Ok(self.page(&entity, after, limit)) })
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        self.done(move || self.try_append(append))
    }

    fn snapshot(
        &self,
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) -> StoreFuture<'_, ()> {
        self.done(move || self.try_snapshot(entity, epoch, seq, state))
    }
}

impl Store for MemoryStore {
    fn load(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Loaded> {
        self.done(move || self.try_load(entity, epoch))
    }

    fn save(&self, save: Save) -> StoreFuture<'_, ()> {
        self.done(move || self.try_save(save))
    }
}

impl Remember for MemoryStore {
    fn load(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        after: Option<Box<str>>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Box<str>>> {
        self.done(move || self.try_ids(entity_type, shard, epoch, after, limit))
    }

    fn record(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        changes: Vec<(Box<str>, bool)>,
    ) -> StoreFuture<'_, ()> {
        self.done(move || self.try_record(entity_type, shard, epoch, changes))
    }
}
