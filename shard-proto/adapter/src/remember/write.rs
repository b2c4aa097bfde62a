//! Writing who lives: everything that waits for a shard is one write, and none waits for a timer.

use core::mem;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use shard_proto::node::EntityKey;
use shard_proto::{Epoch, ShardId};
use tokio::sync::{Notify, Semaphore};

use super::{Ledger, Told, Written, add};
use crate::lock::lock;
use crate::store::StoreError;

/// Changes of one write.
const GROUP: usize = 1000;
/// Writes under way at once, each of a shard: the store makes one transaction of them.
const UNDER_WAY: usize = 64;

type Changes = Vec<(EntityKey, bool)>;
/// A shard under an epoch.
type Book = (ShardId, Epoch);

/// Takes changes; when the last of them is gone, the task writes what is left, once, and ends.
#[derive(Clone)]
pub(super) struct Writer(Arc<Handle>);

struct Handle {
    queue: Arc<Queue>,
    ledger: Arc<Ledger>,
}

struct Queue {
    waiting: Mutex<Waiting>,
    limit: usize,
    wake: Notify,
}

#[derive(Default)]
struct Waiting {
    /// The core asks for one change of an entity at a time: no key is twice in a list.
    books: HashMap<Book, Changes>,
    turns: VecDeque<Book>,
    count: usize,
    /// Nothing new comes.
    over: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.queue.waiting).over = true;
        self.queue.wake.notify_one();
    }
}

impl Writer {
    pub(super) fn new(ledger: Arc<Ledger>, limit: usize) -> Self {
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            limit,
            wake: Notify::new(),
        });
        let runtime = &ledger.node.runtime;
        runtime.spawn(run(Arc::clone(&queue), Arc::clone(&ledger)));
        Self(Arc::new(Handle { queue, ledger }))
    }

    pub(super) fn record(&self, shard: ShardId, epoch: Epoch, key: EntityKey, alive: bool) {
        let queue = &self.0.queue;
        let mut waiting = lock(&queue.waiting);
        if waiting.count >= queue.limit {
            drop(waiting);
            // Asked for again, after a pause.
            let told = Told::Written(vec![(key, alive)], Written::Failed);
            return self.0.ledger.tell(shard, epoch, told);
        }
        waiting.count += 1;
        let waiting = &mut *waiting;
        let changes = waiting.books.entry((shard, epoch)).or_default();
        if changes.is_empty() {
            waiting.turns.push_back((shard, epoch));
        }
        changes.push((key, alive));
        queue.wake.notify_one();
    }
}

impl Queue {
    fn take(&self) -> Option<(Book, Changes)> {
        let mut waiting = lock(&self.waiting);
        let book = waiting.turns.pop_front()?;
        let changes = waiting.books.get_mut(&book)?;
        let group = if changes.len() > GROUP {
            let rest = changes.split_off(GROUP);
            mem::replace(changes, rest)
        } else {
            waiting.books.remove(&book)?
        };
        if waiting.books.contains_key(&book) {
            waiting.turns.push_back(book);
        }
        waiting.count -= group.len();
        Some((book, group))
    }

    fn is_over(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.over && waiting.turns.is_empty()
    }
}

async fn run(queue: Arc<Queue>, ledger: Arc<Ledger>) {
    let room = Arc::new(Semaphore::new(UNDER_WAY));
    // Never closed.
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let (book, changes) = loop {
            if let Some(next) = queue.take() {
                break next;
            }
            if queue.is_over() {
                return;
            }
            queue.wake.notified().await;
        };
        let written = write(Arc::clone(&ledger), book, changes);
        ledger.node.runtime.spawn(async move {
            written.await;
            drop(place);
        });
    }
}

async fn write(ledger: Arc<Ledger>, (shard, epoch): Book, changes: Changes) {
    // The driver starts none whose id is not UTF-8.
    let ids = changes.iter().filter_map(|(key, alive)| {
        let id = str::from_utf8(key.as_bytes()).ok()?;
        Some((Box::from(id), *alive))
    });
    let count = changes.len();
    let entity_type = Arc::clone(&ledger.entity_type);
    let counters = &ledger.counters;
    let recorded = ledger
        .store
        .record(entity_type, shard, epoch, ids.collect())
        .await;
    let written = match recorded {
        Ok(()) => {
            add(&counters.writes, 1);
            add(&counters.changes, count);
            let largest = &counters.largest_write;
            largest.fetch_max(count as u64, core::sync::atomic::Ordering::Relaxed);
            Written::Done
        }
        Err(error @ StoreError::Fenced { .. }) => {
            ledger.fenced(shard, epoch, &error);
            Written::Fenced
        }
        Err(error) => {
            let failures = add(&counters.write_failures, 1);
            if failures.is_power_of_two() {
                tracing::warn!(
                    entity_type = &*ledger.entity_type,
                    shard = shard.0,
                    store = ledger.store.describe(),
                    failures,
                    "cannot write who lives in a shard; new entities wait until that works: {error}"
                );
            }
            Written::Failed
        }
    };
    ledger.tell(shard, epoch, Told::Written(changes, written));
}
