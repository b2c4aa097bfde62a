//! Who is passivated when a node has as many entities as it may have.
//!
//! Policies know entities by the indices of their slots, which are dense: tables of links grow to the highest index and
//! stay. Every operation is O(1), without scans, and allocates only while the tables grow.

use alloc::vec::Vec;

use crate::table::list::{Link, Linked};

mod lfu;
mod lru;
mod segmented;
#[cfg(test)]
mod tests;

use lfu::Lfu;
use lru::Lru;
use segmented::Segmented;

/// Which entity is passivated for a new one when as many live as may.
///
/// A new entity is never the one that is passivated for itself. Whatever the choice, admitting an entity, using it and
/// forgetting it cost O(1), whether ten thousand entities live or a million. An entity is used when it takes messages
/// out of its mailbox, however many it takes at once.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Passivation {
    /// The one that was used longest ago. The default; 8 bytes per entity. A burst of entities that are used once each
    /// drives out what is used all the time, but not at that moment.
    #[default]
    LeastRecentlyUsed,
    /// The one that was used least often; among those, the one that was used longest ago. 16 bytes per entity.
    ///
    /// Uses are counted up to 127, and all counts are halved (O(1), too) whenever there were ten uses for each entity
    /// that may live: what was popular once gives way to what is popular now. Where popularity changes faster than
    /// that, new entities drive each other out; take [`Passivation::SegmentedLru`] then.
    LeastFrequentlyUsed,
    /// The one that was used longest ago in the lowest segment. 12 bytes per entity.
    ///
    /// New entities start in the lowest segment. Each further use moves them to the next higher one, which gives the
    /// one that was used longest ago back to the segment below if it has more than its share. The lowest segment may
    /// use what the others leave free. So a burst of entities that are used once drives out others of its kind only.
    SegmentedLru {
        /// The segments' shares of the limit, lowest first: 1 to 16 of them, each above 0, whose sum is 1. `[0.2, 0.8]`
        /// is a good start: more for the lowest segment gives new entities more time to be used again, less protects
        /// the others better. Shares are rounded to whole entities; the lowest segment has one at least.
        proportions: Vec<f32>,
    },
}

impl Passivation {
    /// How many segments there may be: each bounds the work of a use.
    const MAX_SEGMENTS: usize = 16;
    /// How far the sum of `proportions` may be from 1: decimals are not exact.
    const TOLERANCE: f64 = 0.001;

    /// Whether `proportions` are what they must be.
    pub(crate) fn is_valid(&self) -> bool {
        let Self::SegmentedLru { proportions } = self else {
            return true;
        };
        let mut sum = 0.0;
        for proportion in proportions {
            // Written so that it is false for what is not a number.
            if !(*proportion > 0.0 && *proportion <= 1.0) {
                return false;
            }
            sum += f64::from(*proportion);
        }
        proportions.len() <= Self::MAX_SEGMENTS && (sum - 1.0).abs() <= Self::TOLERANCE
    }
}

/// Orders the live entities of a type on a node by what [`Passivation`] says.
///
/// An index that is not in it is ignored by everything but [`Policy::admit`].
#[derive(Debug)]
pub(crate) struct Policy {
    limit: u32,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Lru(Lru),
    Lfu(Lfu),
    Segmented(Segmented),
}

impl Policy {
    /// For so many entities, one at least.
    pub(crate) fn new(passivation: &Passivation, limit: u32) -> Self {
        let limit = limit.max(1);
        let order = match passivation {
            Passivation::LeastRecentlyUsed => Order::Lru(Lru::new()),
            Passivation::LeastFrequentlyUsed => Order::Lfu(Lfu::new(limit)),
            Passivation::SegmentedLru { proportions } => {
                Order::Segmented(Segmented::new(proportions, limit))
            }
        };
        Self { limit, order }
    }

    /// Puts a new one in; a use of it, if it is in already. Names the one that has to go for it, which is out by then.
    pub(crate) fn admit(&mut self, index: u32) -> Option<u32> {
        if self.contains(index) {
            self.touch(index);
            return None;
        }
        // Chosen first, so that it cannot be the new one.
        let victim = if self.is_full() { self.evict() } else { None };
        match &mut self.order {
            Order::Lru(order) => order.insert(index),
            Order::Lfu(order) => order.insert(index),
            Order::Segmented(order) => order.insert(index),
        }
        victim
    }

    fn evict(&mut self) -> Option<u32> {
        match &mut self.order {
            Order::Lru(order) => order.evict(),
            Order::Lfu(order) => order.evict(),
            Order::Segmented(order) => order.evict(),
        }
    }

    /// It was used.
    pub(crate) fn touch(&mut self, index: u32) {
        match &mut self.order {
            Order::Lru(order) => order.touch(index),
            Order::Lfu(order) => order.touch(index),
            Order::Segmented(order) => order.touch(index),
        }
    }

    /// It no longer lives.
    pub(crate) fn remove(&mut self, index: u32) {
        match &mut self.order {
            Order::Lru(order) => order.remove(index),
            Order::Lfu(order) => order.remove(index),
            Order::Segmented(order) => order.remove(index),
        };
    }

    /// Whether it is in.
    pub(crate) fn contains(&self, index: u32) -> bool {
        match &self.order {
            Order::Lru(order) => order.contains(index),
            Order::Lfu(order) => order.contains(index),
            Order::Segmented(order) => order.contains(index),
        }
    }

    /// How many are in.
    pub(crate) fn len(&self) -> u32 {
        match &self.order {
            Order::Lru(order) => order.len(),
            Order::Lfu(order) => order.len(),
            Order::Segmented(order) => order.len(),
        }
    }

    /// Whether the next new one costs another its place.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }
}

/// The class of lists in the order of use: first is what was used longest ago.
#[derive(Debug)]
struct Used;

/// Makes room for an index.
fn grow<T: Clone + Default + Linked<Used>>(slots: &mut Vec<T>, index: u32) {
    let needed = (index as usize).saturating_add(1);
    if slots.len() < needed {
        slots.resize(needed, T::default());
    }
}

fn is_linked<T: Linked<Used>>(slots: &[T], index: u32) -> bool {
    let slot = slots.get(index as usize);
    slot.is_some_and(|slot| slot.link().is_linked())
}

impl Linked<Used> for Link {
    fn link(&self) -> &Link {
        self
    }
    fn link_mut(&mut self) -> &mut Link {
        self
    }
}
