//! What all backends check, and what they count.

use core::sync::atomic::{AtomicU64, Ordering};

use shard_proto::Epoch;

use super::{Append, EntityId, MAX_NAME, Save, StoreError, StoreStats};

/// What a request weighs besides its bytes.
const OVERHEAD: usize = 64;
/// What an event or an id of a list weighs besides its bytes.
const ITEM: usize = 32;

/// Refuses an epoch below the highest one seen.
pub fn fence(seen: Epoch, given: Epoch) -> Result<(), StoreError> {
    if given < seen {
        return Err(StoreError::Fenced { seen, given });
    }
    Ok(())
}

/// Refuses what is not the number after `last`.
pub fn next(last: u64, given: u64) -> Result<(), StoreError> {
    let expected = last.saturating_add(1);
    if given != expected {
        return Err(StoreError::Sequence { expected, given });
    }
    Ok(())
}

/// Refuses a snapshot of what is not there yet, and one that is older than the one there is.
pub fn snapshot(last_seq: u64, present: Option<u64>, given: u64) -> Result<(), StoreError> {
    let lowest = present.unwrap_or(0);
    if given > last_seq || given < lowest {
        let expected = if given < lowest { lowest } else { last_seq };
        return Err(StoreError::Sequence { expected, given });
    }
    Ok(())
}

/// Refuses names that are too long.
pub fn names(entity_type: &str, id: &str) -> Result<(), StoreError> {
    for name in [entity_type, id] {
        size(name.len(), MAX_NAME)?;
    }
    Ok(())
}

pub fn size(size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit {
        return Err(StoreError::TooLarge { size, limit });
    }
    Ok(())
}

pub fn entity_size(entity: &EntityId) -> usize {
    OVERHEAD + entity.entity_type.len() + entity.id.len()
}

pub fn append_size(append: &Append) -> usize {
    let events: usize = append.events.iter().map(|event| ITEM + event.len()).sum();
    entity_size(&append.entity).saturating_add(events)
}

pub fn save_size(save: &Save) -> usize {
    entity_size(&save.entity).saturating_add(save.state.as_ref().map_or(0, Vec::len))
}

pub fn changes_size(entity_type: &str, changes: &[(Box<str>, bool)]) -> usize {
    let ids = changes.iter().map(|(id, _)| &**id);
    (OVERHEAD + entity_type.len()).saturating_add(ids_size(ids))
}

/// Of a list of ids.
pub(crate) fn ids_size<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    ids.map(|id| ITEM + id.len()).sum()
}

/// What [`StoreStats`] is made from.
#[derive(Debug, Default)]
pub struct Counters {
    transactions: AtomicU64,
    writes: AtomicU64,
    largest_group: AtomicU64,
    fenced: AtomicU64,
    out_of_sequence: AtomicU64,
    too_large: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    /// One transaction was committed, with so many requests in it.
    pub fn committed(&self, writes: usize) {
        let writes = writes as u64;
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.writes.fetch_add(writes, Ordering::Relaxed);
        self.largest_group.fetch_max(writes, Ordering::Relaxed);
    }

    pub fn refused(&self, error: &StoreError) {
        let counter = match error {
            StoreError::Fenced { .. } => &self.fenced,
            StoreError::Sequence { .. } => &self.out_of_sequence,
            StoreError::TooLarge { .. } => &self.too_large,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn stats(&self) -> StoreStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            transactions: read(&self.transactions),
            writes: read(&self.writes),
            largest_group: read(&self.largest_group),
            fenced: read(&self.fenced),
            out_of_sequence: read(&self.out_of_sequence),
            too_large: read(&self.too_large),
            failed: read(&self.failed),
        }
    }
}
