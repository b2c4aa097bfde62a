//! Which slot is whose.

use hashbrown::HashTable;

use super::slot::{Phase, Shard, Slot};
use crate::ShardId;
use crate::hash::mix;
use crate::node::EntityKey;

/// An index over a table. Its hash is keyed by a seed, since ids come from outside.
#[derive(Debug)]
pub(super) struct Index {
    table: HashTable<u32>,
    seed: u64,
}

fn hash_key(seed: u64, key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let mut hash = mix(seed ^ key.len() as u64);
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(rest) {
            *to = *from;
        }
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    hash
}

fn hash_shard(seed: u64, shard: ShardId) -> u64 {
    mix(seed ^ u64::from(shard.0))
}

impl Index {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            table: HashTable::new(),
            seed,
        }
    }

    pub(super) fn clear(&mut self) {
        self.table = HashTable::new();
    }

    pub(super) fn entity(&self, slots: &[Slot], key: &EntityKey) -> Option<u32> {
        let hash = hash_key(self.seed, key.as_bytes());
        let is_it = |index: &u32| slots.get(*index as usize).is_some_and(|it| it.key == *key);
        self.table.find(hash, is_it).copied()
    }

    /// Adds a slot, whose key is in no other.
    pub(super) fn insert_entity(&mut self, slots: &[Slot], index: u32) {
        let seed = self.seed;
        let hash = |index: &u32| {
            let key = slots.get(*index as usize).map(|slot| slot.key.as_bytes());
            hash_key(seed, key.unwrap_or_default())
        };
        self.table.insert_unique(hash(&index), index, hash);
    }

    pub(super) fn remove_entity(&mut self, slots: &[Slot], index: u32) {
        let Some(slot) = slots.get(index as usize) else {
            return;
        };
        let hash = hash_key(self.seed, slot.key.as_bytes());
        if let Ok(entry) = self.table.find_entry(hash, |at| *at == index) {
            entry.remove();
        }
    }

    pub(super) fn shard(&self, shards: &[Shard], shard: ShardId) -> Option<u32> {
        let is_it = |index: &u32| {
            shards
                .get(*index as usize)
                .is_some_and(|it| it.shard == shard && it.phase != Phase::Free)
        };
        self.table
            .find(hash_shard(self.seed, shard), is_it)
            .copied()
    }

    pub(super) fn insert_shard(&mut self, shards: &[Shard], index: u32) {
        let seed = self.seed;
        let hash = |index: &u32| {
            let shard = shards.get(*index as usize).map(|slot| slot.shard);
            hash_shard(seed, shard.unwrap_or_default())
        };
        self.table.insert_unique(hash(&index), index, hash);
    }

    pub(super) fn remove_shard(&mut self, shards: &[Shard], index: u32) {
        let Some(slot) = shards.get(index as usize) else {
            return;
        };
        let hash = hash_shard(self.seed, slot.shard);
        if let Ok(entry) = self.table.find_entry(hash, |at| *at == index) {
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}
