//! What durable entities count, and the warning that is not to fill the log.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use shard_proto::Epoch;

use crate::lock::lock;

/// The least time between two warnings of one entity type.
const QUIET: Duration = Duration::from_secs(60);

/// What the durable entities of a type counted on this node since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableStats {
    /// Writes that were done: of one command's events, or of a value.
    pub writes: u64,
    /// Events in them.
    pub events: u64,
    /// Writes that were tried again, because the store was unavailable.
    pub retried: u64,
    /// Writes that failed for another reason, or too often: the entity recovered anew.
    pub failed: u64,
    /// Entities that recovered.
    pub recoveries: u64,
    /// Events that they read for it.
    pub recovered_events: u64,
    /// Recoveries that failed; each is tried again.
    pub failed_recoveries: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
    /// Snapshots that were not. The next one is due as many events later.
    pub failed_snapshots: u64,
    /// Writes and recoveries that the store refused, because it had seen a higher epoch of the entity.
    pub fenced: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(super) $name: AtomicU64,)*
            warned: Mutex<Option<Instant>>,
        }

        impl Counters {
            pub(crate) fn read(&self) -> DurableStats {
                DurableStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters!(
    writes,
    events,
    retried,
    failed,
    recoveries,
    recovered_events,
    failed_recoveries,
    snapshots,
    failed_snapshots,
    fenced
);

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Counters {
    /// How many there are now.
    pub(super) fn count_failed_snapshot(&self) -> u64 {
        self.failed_snapshots.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A store refused an entity of this node.
    pub(super) fn fence(
        &self,
        now: Instant,
        entity_type: &'static str,
        id: &str,
        (seen, given): (Epoch, Epoch),
    ) {
        add(&self.fenced, 1);
        let mut warned = lock(&self.warned);
        if warned.is_some_and(|at| now.duration_since(at) < QUIET) {
            return;
        }
        *warned = Some(now);
        drop(warned);
        tracing::warn!(
            entity_type,
            id,
            %seen,
            %given,
            so_far = self.fenced.load(Ordering::Relaxed),
            "the store has seen a higher epoch of an entity than this node's: its home is elsewhere by now, and here it \
             takes no more messages. If there is no such home, the wall clock was set back, or the store is another \
             cluster's"
        );
    }
}
