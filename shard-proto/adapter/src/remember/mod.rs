//! Entities that are remembered: a store knows who lives, and whoever serves a shard next starts them again.
//!
//! Started with [`EntityTypeBuilder::remember`](crate::EntityTypeBuilder::remember). From then on
//!
//! - an entity starts when the store knows of it, and is forgotten when it is passivated. One that crashes, is handed off
//!   or dies with its node is not forgotten;
//! - all shards have homes, whether somebody sends to them or not ([`KeepShards::All`](crate::KeepShards)), and a
//!   shard is served when the ids of those who lived in it are read. They start again one after another, at the
//!   [rate](crate::EntityTypeBuilder::start_rate) that is set; one that is sent a message starts at once;
//! - the owner of a shard alone says who lives in it: it writes under the shard's epoch, and the store refuses a lower one
//!   than it has seen. So neither the leading node nor anybody else has a say, and it is no matter who leads.
//!
//! # When the store fails
//!
//! Running entities are never touched. New ones wait for the store, with their messages, and are asked for again with
//! growing pauses; a shard that cannot be read waits in the same way. A shard that somebody else serves under a higher epoch ([`Fenced`](StoreError::Fenced)) is not
//! written to any more; while it is read, it is given up, for the leading node to grant anew. Each of the three is one WARN, then one for each
//! doubling of their number.

mod load;
mod write;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use shard_proto::node::{EntityKey, TypeIndex};
use shard_proto::{Epoch, ShardId};
use tokio::sync::Semaphore;

use crate::shared::{Input, NodeShared};
use crate::store::{Remember, StoreError};
use crate::supervise::AbortHandle;
use write::Writer;

/// Shards of a type that are read at once.
const READS: usize = 8;

/// What this node did to remember the entities of a type, since the type was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RememberStats {
    /// Shards whose ids were read to the end.
    pub shards_read: u64,
    /// Ids that were read.
    pub ids_read: u64,
    /// Reads that failed, and were tried again.
    pub read_failures: u64,
    /// Groups of changes that were written.
    pub writes: u64,
    /// Changes in them.
    pub changes: u64,
    /// The most changes in one group.
    pub largest_write: u64,
    /// Groups that could not be written. Their changes come again, if they still hold.
    pub write_failures: u64,
    /// Reads and writes refused because another node has the shard under a higher epoch.
    pub fenced: u64,
}

#[derive(Debug, Default)]
struct Counters {
    shards_read: AtomicU64,
    ids_read: AtomicU64,
    read_failures: AtomicU64,
    writes: AtomicU64,
    changes: AtomicU64,
    largest_write: AtomicU64,
    write_failures: AtomicU64,
    fenced: AtomicU64,
}

fn add(counter: &AtomicU64, n: usize) -> u64 {
    let n = n as u64;
    counter.fetch_add(n, Ordering::Relaxed).saturating_add(n)
}

/// How reading a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    All,
    /// The shard stops. From here on nothing of the reading goes on.
    Cancelled,
    /// Another node has it.
    Fenced,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    /// To be asked for again.
    Failed,
    /// Another node has the shard: never.
    Fenced,
}

/// What a host is told of the store.
pub(crate) enum Told {
    Page(Vec<EntityKey>),
    Read(ReadEnd),
    Written(Vec<(EntityKey, bool)>, Written),
}

/// The memory of one entity type on a node.
#[derive(Clone)]
pub(crate) struct Memory {
    ledger: Arc<Ledger>,
    writer: Writer,
}

struct Ledger {
    store: Arc<dyn Remember>,
    entity_type: Arc<str>,
    node: Arc<NodeShared>,
    index: TypeIndex,
    reads: Semaphore,
    counters: Arc<Counters>,
}

/// What outlives the memory: handles read it.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Counters>);

impl Tally {
    pub(crate) fn stats(&self) -> RememberStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RememberStats {
            shards_read: read(&self.0.shards_read),
            ids_read: read(&self.0.ids_read),
            read_failures: read(&self.0.read_failures),
            writes: read(&self.0.writes),
            changes: read(&self.0.changes),
            largest_write: read(&self.0.largest_write),
            write_failures: read(&self.0.write_failures),
            fenced: read(&self.0.fenced),
        }
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stats().fmt(f)
    }
}

impl Memory {
    /// `limit`: changes that may wait to be written.
    pub(crate) fn new(
        store: Arc<dyn Remember>,
        entity_type: &'static str,
        node: Arc<NodeShared>,
        index: TypeIndex,
        tally: &Tally,
        limit: usize,
    ) -> Self {
        let ledger = Arc::new(Ledger {
            store,
            entity_type: entity_type.into(),
            node,
            index,
            reads: Semaphore::new(READS),
            counters: Arc::clone(&tally.0),
        });
        Self {
            writer: Writer::new(Arc::clone(&ledger), limit),
            ledger,
        }
    }

    /// Reads who lived in a shard: [`Told::Page`]s, and [`Told::Read`] in any case, also when it is aborted.
    pub(crate) fn read(&self, shard: ShardId, epoch: Epoch) -> AbortHandle {
        load::spawn(Arc::clone(&self.ledger), shard, epoch)
    }

    /// Writes a change soon, together with others: [`Told::Written`].
    pub(crate) fn record(&self, shard: ShardId, epoch: Epoch, key: EntityKey, alive: bool) {
        self.writer.record(shard, epoch, key, alive);
    }
}

impl Ledger {
    /// Also to a node that has ended: it is nobody's any more.
    fn tell(&self, shard: ShardId, epoch: Epoch, told: Told) {
        let input = Input::Remember(self.index, shard, epoch, Box::new(told));
        let _ = self.node.inbox.push(input, usize::MAX);
    }

    fn fenced(&self, shard: ShardId, epoch: Epoch, error: &StoreError) {
        let fenced = add(&self.counters.fenced, 1);
        if !fenced.is_power_of_two() {
            return;
        }
        tracing::warn!(
            entity_type = &*self.entity_type,
            shard = shard.0,
            epoch = epoch.to_bits(),
            fenced,
            "another node has written who lives in a shard since it was granted to this one: {error}"
        );
    }
}
