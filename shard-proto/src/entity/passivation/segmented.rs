//! Segmented least recently used: a list for each segment.

use alloc::vec::Vec;

use super::{Used, grow, is_linked};
use crate::table::list::{Link, Linked, List};

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    link: Link,
    segment: u8,
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
struct Segment {
    list: List<Used>,
    /// What it may hold; the lowest one holds more while others hold less.
    share: u32,
}

#[derive(Debug)]
pub(super) struct Segmented {
    slots: Vec<Slot>,
    /// Lowest first, one at least.
    segments: Vec<Segment>,
    len: u32,
}

impl Segmented {
    pub(super) fn new(proportions: &[f32], limit: u32) -> Self {
        let segments = shares(proportions, limit).into_iter().map(|share| Segment {
            list: List::new(),
            share,
        });
        Self {
            slots: Vec::new(),
            segments: segments.collect(),
            len: 0,
        }
    }

    pub(super) fn insert(&mut self, index: u32) {
        grow(&mut self.slots, index);
        self.put(index, 0);
    }

    pub(super) fn evict(&mut self) -> Option<u32> {
        // The lowest one holds something when the limit is reached: its share is one at least.
        let index = self
            .segments
            .iter()
            .find_map(|segment| segment.list.front())?;
        self.remove(index).then_some(index)
    }

    pub(super) fn touch(&mut self, index: u32) {
        let Some(segment) = self.take(index) else {
            return;
        };
        let next = segment.saturating_add(1);
        let mut segment = if usize::from(next) < self.segments.len() {
            next
        } else {
            segment
        };
        self.put(index, segment);
        while let Some(below) = segment.checked_sub(1) {
            let Some(demoted) = self.surplus(segment) else {
                break;
            };
            self.take(demoted);
            self.put(demoted, below);
            segment = below;
        }
    }

    /// What the segment holds above its share: the one that was used longest ago.
    fn surplus(&self, segment: u8) -> Option<u32> {
        let segment = self.segments.get(usize::from(segment))?;
        if segment.list.len() > segment.share {
            segment.list.front()
        } else {
            None
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

    fn put(&mut self, index: u32, segment: u8) {
        let (slot, to) = (
            self.slots.get_mut(index as usize),
            self.segments.get_mut(usize::from(segment)),
        );
        let (Some(slot), Some(to)) = (slot, to) else {
            return;
        };
        slot.segment = segment;
        if to.list.push_back(&mut self.slots, index) {
            self.len = self.len.saturating_add(1);
        }
    }

    /// Takes it out, and says of which segment it was.
    fn take(&mut self, index: u32) -> Option<u8> {
        let segment = self.slots.get(index as usize)?.segment;
        let from = self.segments.get_mut(usize::from(segment))?;
        if !from.list.remove(&mut self.slots, index) {
            return None;
        }
        self.len = self.len.saturating_sub(1);
        Some(segment)
    }

    #[cfg(test)]
    pub(super) fn order(&self) -> Vec<Vec<u32>> {
        let each = self.segments.iter().map(|segment| {
            assert!(segment.list.is_intact(&self.slots));
            segment.list.iter(&self.slots).collect()
        });
        each.collect()
    }
}

/// How many of so many entities each segment may hold. Segments too small for one are left out, the lowest has one at
/// least; the sum is the limit.
pub(super) fn shares(proportions: &[f32], limit: u32) -> Vec<u32> {
    let mut shares = Vec::new();
    let (mut sum, mut below) = (0.0, 0);
    for (number, proportion) in proportions.iter().enumerate() {
        sum += f64::from(*proportion);
        // Sums are rounded, not shares, so that nothing is lost between them.
        let up_to = if number.saturating_add(1) == proportions.len() {
            limit
        } else {
            rounded(sum * f64::from(limit)).clamp(below, limit)
        };
        let up_to = if number == 0 { up_to.max(1) } else { up_to };
        let share = up_to.saturating_sub(below);
        if share > 0 {
            shares.push(share);
        }
        below = up_to.max(below);
    }
    if shares.is_empty() {
        shares.push(limit);
    }
    shares
}

/// To the nearest whole number; what is out of range becomes the end of the range.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
const fn rounded(number: f64) -> u32 {
    (number + 0.5) as u32
}
