//! Least frequently used: a list for each frequency, and a set of those that are not empty.

use alloc::{boxed::Box, vec, vec::Vec};
use core::mem;

use super::{Used, grow, is_linked};
use crate::table::list::{Link, Linked, List};

/// The highest frequency; what is used more often is equal.
pub(super) const MAX_FREQUENCY: u8 = 127;
/// Frequencies are halved after so many uses for each entity that may live.
pub(super) const USES_PER_AGE: u64 = 10;

/// How often an entity was used: counted up to then, and halved with each age since.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    link: Link,
    age: u32,
    frequency: u8,
}

impl Linked<Used> for Slot {
    fn link(&self) -> &Link {
        &self.link
    }
    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

#[derive(Debug)]
pub(super) struct Lfu {
    slots: Vec<Slot>,
    /// By frequency.
    lists: Box<[List<Used>]>,
    /// Bit `n`: there are entities with frequency `n`.
    present: u128,
    len: u32,
    /// How often frequencies were halved.
    age: u32,
    uses: u64,
    uses_per_age: u64,
}

impl Lfu {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            lists: vec![List::new(); usize::from(MAX_FREQUENCY).saturating_add(1)].into(),
            present: 0,
            len: 0,
            age: 0,
            uses: 0,
            uses_per_age: u64::from(limit).saturating_mul(USES_PER_AGE),
        }
    }

    pub(super) fn insert(&mut self, index: u32) {
        grow(&mut self.slots, index);
        self.put(index, 1);
        self.used();
    }

    pub(super) fn evict(&mut self) -> Option<u32> {
        let lowest = self.present.trailing_zeros();
        let index = self.lists.get(lowest as usize)?.front()?;
        self.remove(index).then_some(index)
    }

    pub(super) fn touch(&mut self, index: u32) {
        if let Some(frequency) = self.take(index) {
            self.put(index, frequency.saturating_add(1).min(MAX_FREQUENCY));
            self.used();
        }
    }

    pub(super) fn remove(&mut self, index: u32) -> bool {
        self.take(index).is_some()
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        is_linked(&self.slots, index)
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    fn put(&mut self, index: u32, frequency: u8) {
        let (slot, list) = (
            self.slots.get_mut(index as usize),
            self.lists.get_mut(usize::from(frequency)),
        );
        let (Some(slot), Some(list)) = (slot, list) else {
            return;
        };
        (slot.age, slot.frequency) = (self.age, frequency);
        if list.push_back(&mut self.slots, index) {
            self.present |= bit(frequency);
            self.len = self.len.saturating_add(1);
        }
    }

    /// Takes it out, and says how often it was used.
    fn take(&mut self, index: u32) -> Option<u8> {
        let slot = self.slots.get(index as usize)?;
        let ages = self.age.saturating_sub(slot.age);
        let frequency = slot.frequency.checked_shr(ages).unwrap_or(0);
        let list = self.lists.get_mut(usize::from(frequency))?;
        if !list.remove(&mut self.slots, index) {
            return None;
        }
        if list.is_empty() {
            self.present &= !bit(frequency);
        }
        self.len = self.len.saturating_sub(1);
        Some(frequency)
    }

    fn used(&mut self) {
        self.uses = self.uses.saturating_add(1);
        if self.uses >= self.uses_per_age {
            self.uses = 0;
            self.halve();
        }
    }

    /// Lists are joined, slots learn of it when they are looked at: as much work as there are frequencies.
    fn halve(&mut self) {
        // Should ages ever run out, frequencies stay as they are: rather old than wrong ones.
        let Some(age) = self.age.checked_add(1) else {
            return;
        };
        self.age = age;
        self.present = 0;
        for frequency in 0..=MAX_FREQUENCY {
            let half = frequency >> 1;
            if half != frequency {
                let Some(list) = self.lists.get_mut(usize::from(frequency)) else {
                    continue;
                };
                let mut list = mem::take(list);
                if let Some(lower) = self.lists.get_mut(usize::from(half)) {
                    // The less frequently used stay in front.
                    lower.append(&mut self.slots, &mut list);
                }
            }
            let lower = self.lists.get(usize::from(half));
            if lower.is_some_and(|list| !list.is_empty()) {
                self.present |= bit(half);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn order(&self) -> Vec<Vec<u32>> {
        let each = self.lists.iter().zip(0..);
        let each = each.map(|(list, frequency)| {
            assert!(list.is_intact(&self.slots));
            assert_eq!(self.present & bit(frequency) != 0, !list.is_empty());
            list.iter(&self.slots).collect()
        });
        each.collect()
    }
}

const fn bit(frequency: u8) -> u128 {
    // Frequencies are below 128.
    1_u128.wrapping_shl(frequency as u32)
}
