//! Least recently used: one list.

use alloc::vec::Vec;

use super::{Used, grow, is_linked};
use crate::table::list::{Link, List};

#[derive(Debug)]
pub(super) struct Lru {
    slots: Vec<Link>,
    list: List<Used>,
}

impl Lru {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            list: List::new(),
        }
    }

    pub(super) fn insert(&mut self, index: u32) {
        grow(&mut self.slots, index);
        self.list.push_back(&mut self.slots, index);
    }

    pub(super) fn evict(&mut self) -> Option<u32> {
        self.list.pop_front(&mut self.slots)
    }

    pub(super) fn touch(&mut self, index: u32) {
        if self.remove(index) {
            self.list.push_back(&mut self.slots, index);
        }
    }

    pub(super) fn remove(&mut self, index: u32) -> bool {
        self.list.remove(&mut self.slots, index)
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        is_linked(&self.slots, index)
    }

    pub(super) const fn len(&self) -> u32 {
        self.list.len()
    }

    #[cfg(test)]
    pub(super) fn order(&self) -> Vec<Vec<u32>> {
        assert!(self.list.is_intact(&self.slots));
        alloc::vec![self.list.iter(&self.slots).collect()]
    }
}
