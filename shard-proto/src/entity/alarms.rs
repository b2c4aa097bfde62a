//! When entities that wait have waited enough: a heap of slots that know their place in it.
//!
//! Pauses are random, so a list would not be in order. Only what failed, or waits for a store that failed, is in here.

use alloc::vec::Vec;

use super::slot::Slot;
use crate::Instant;
use crate::table::list::NIL;

#[derive(Debug, Default)]
pub(super) struct Alarms {
    heap: Vec<u32>,
}

impl Alarms {
    /// The first one to go off.
    pub(super) fn first(&self, slots: &[Slot]) -> Option<(u32, Instant)> {
        let index = *self.heap.first()?;
        Some((index, slots.get(index as usize)?.at))
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[u32] {
        &self.heap
    }

    /// Adds a slot that is not in it; it goes off at [`Slot::at`]. O(log n).
    pub(super) fn set(&mut self, slots: &mut [Slot], index: u32) {
        let place = self.heap.len();
        self.heap.push(index);
        self.note(slots, place);
        self.rise(slots, place);
    }

    /// Takes a slot out, if it is in. O(log n).
    pub(super) fn remove(&mut self, slots: &mut [Slot], index: u32) {
        let Some(slot) = slots.get_mut(index as usize) else {
            return;
        };
        let place = core::mem::replace(&mut slot.alarm, NIL) as usize;
        if self.heap.get(place) != Some(&index) {
            return;
        }
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.note(slots, place);
            self.rise(slots, place);
            self.sink(slots, place);
        }
    }

    fn note(&self, slots: &mut [Slot], place: usize) {
        let slot = self
            .heap
            .get(place)
            .and_then(|index| slots.get_mut(*index as usize));
        if let Some(slot) = slot {
            // No more slots than 32 bits count.
            slot.alarm = u32::try_from(place).unwrap_or(NIL);
        }
    }

    fn key(&self, slots: &[Slot], place: usize) -> Option<(Instant, u32)> {
        let index = *self.heap.get(place)?;
        Some((slots.get(index as usize)?.at, index))
    }

    fn swap(&mut self, slots: &mut [Slot], a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(slots, a);
        self.note(slots, b);
    }

    fn rise(&mut self, slots: &mut [Slot], mut place: usize) {
        while place > 0 {
            let parent = place.saturating_sub(1) / 2;
            if self.key(slots, parent) <= self.key(slots, place) {
                return;
            }
            self.swap(slots, parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, slots: &mut [Slot], mut place: usize) {
        loop {
            let left = place.saturating_mul(2).saturating_add(1);
            let mut least = place;
            for child in [left, left.saturating_add(1)] {
                if child < self.heap.len() && self.key(slots, child) < self.key(slots, least) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(slots, least, place);
            place = least;
        }
    }
}
