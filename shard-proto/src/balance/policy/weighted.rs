//! In proportion to weights, evenly spread.

use crate::balance::{Candidates, LoadBalancePolicy, NodeRef, PickContext, SplitMix64};

/// Each candidate as often as its weight says, and its turns spread evenly: weights 5, 1, 1 give A A B A C A A.
///
/// Each pick raises every candidate's balance by its weight, takes the highest (ties: the lowest node), and lowers that
/// one's by the sum of all weights. That is the "smooth" weighted round robin of nginx 1.3.0 (2012,
/// <https://github.com/nginx/nginx/commit/52327e0627f49dbda1e8db695e63a4b0af4448b1>).
///
/// It starts at the lowest node, which is the order that the example has. Of a fleet whose clients start at once all would
/// call that node first, then the next one: [`WeightedRoundRobin::with_random_start`] is for them, and is what
/// [`Policy`](super::Policy) builds.
///
/// The balance of a node that is no candidate for a while is kept. Weights above [`WeightedRoundRobin::MAX_WEIGHT`] count
/// as that, 0 as 1. There is one slot per node, 24 bytes; with more candidates than slots it picks at random in
/// proportion to the weights.
///
/// *Pick*: O(n), a walk over two arrays of numbers as long as the candidates are the same. No draw;
/// with a random start as many as candidates, less one, for the first pick.
#[derive(Clone, Debug)]
pub struct WeightedRoundRobin<S> {
    slots: S,
    /// How many slots are in use, those of nodes that are no candidates behind the others.
    used: usize,
    /// The candidates that the first slots are for.
    generation: Option<u64>,
    /// Whether the first balances are yet to be drawn.
    scatter: bool,
}

impl<S: WeightStorage> WeightedRoundRobin<S> {
    /// The highest weight that counts.
    pub const MAX_WEIGHT: u32 = 10_000;

    /// Balances of 0. What the storage contains does not matter; it has one slot per node that may be a candidate, of
    /// which 65 535 are used.
    #[must_use]
    pub const fn new(slots: S) -> Self {
        Self {
            slots,
            used: 0,
            generation: None,
            scatter: false,
        }
    }

    /// The same with balances that are random for the candidates of the first pick, so that clients which start at once
    /// begin with different nodes. The shares are those of the weights all the same.
    #[must_use]
    pub const fn with_random_start(mut self) -> Self {
        self.scatter = true;
        self
    }

    /// Draws the first balances: as many different ones as there are candidates, around 0, evenly over as far as a
    /// balance goes.
    fn scatter(&mut self, rng: &mut SplitMix64, count: usize) {
        let WeightTables {
            weights, balances, ..
        } = self.slots.tables();
        let all = weights.iter().take(count);
        let sum = all.fold(0_i32, |sum, weight| sum.wrapping_add(*weight));
        let Some(balances) = balances.get_mut(..count) else {
            return;
        };
        let mut next = (sum / 2).wrapping_neg();
        let mean = i32::try_from(count)
            .ok()
            .and_then(|count| sum.checked_div(count));
        for balance in balances.iter_mut() {
            (*balance, next) = (next, next.wrapping_add(mean.unwrap_or(0)));
        }
        for at in 1..count {
            balances.swap(at, super::draw(rng, at.saturating_add(1)));
        }
    }

    /// Brings slots in the order of the candidates. `None`: there are too few of them.
    ///
    /// O(n) if few nodes changed.
    fn arrange(&mut self, candidates: &Candidates<'_>) -> Option<()> {
        let WeightTables {
            nodes,
            weights,
            balances,
        } = self.slots.tables();
        let capacity = nodes
            .len()
            .min(weights.len())
            .min(balances.len())
            .min(u16::MAX.into());
        if candidates.len() > capacity {
            return None;
        }
        for (at, candidate) in candidates.iter().enumerate() {
            let there = nodes
                .get(at..self.used)?
                .iter()
                .position(|node| *node == candidate.node);
            let from = match there {
                Some(distance) => at.saturating_add(distance),
                None if self.used < capacity => {
                    let free = self.used;
                    self.used = self.used.saturating_add(1);
                    free
                }
                // Of all that are no candidates, or not yet known to be.
                None => self.used.saturating_sub(1),
            };
            nodes.get_mut(at..=from)?.rotate_right(1);
            balances.get_mut(at..=from)?.rotate_right(1);
            if there.is_none() {
                *nodes.get_mut(at)? = candidate.node;
                *balances.get_mut(at)? = 0;
            }
            *weights.get_mut(at)? = weight(candidate.weight);
        }
        Some(())
    }
}

/// From 1 to 10 000, so that 65 535 of them add up to less than `i32::MAX`.
fn weight(weight: u32) -> i32 {
    let weight = weight.clamp(1, WeightedRoundRobin::<WeightArray<0>>::MAX_WEIGHT);
    weight.cast_signed()
}

impl<S: WeightStorage> LoadBalancePolicy for WeightedRoundRobin<S> {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        let count = cx.candidates.len();
        let generation = cx.candidates.generation();
        if generation.is_none() || generation != self.generation {
            self.generation = None;
            if self.arrange(&cx.candidates).is_none() {
                return draw(&cx.candidates, rng);
            }
            self.generation = generation;
            if self.scatter && count > 0 {
                self.scatter = false;
                self.scatter(rng, count);
            }
        }
        let tables = self.slots.tables();
        let weights = tables.weights.get(..count)?;
        let balances = tables.balances.get_mut(..count)?;
        // Neither loop branches, so that both become vector instructions. A balance stays within the sum of all
        // weights, either way, and half of it more after a random start.
        let (mut sum, mut highest) = (0_i32, i32::MIN);
        for (balance, weight) in balances.iter_mut().zip(weights) {
            *balance = balance.wrapping_add(*weight);
            sum = sum.wrapping_add(*weight);
            highest = highest.max(*balance);
        }
        let at = balances.iter().position(|balance| *balance == highest)?;
        let balance = balances.get_mut(at)?;
        *balance = balance.wrapping_sub(sum);
        Some(at)
    }
}

/// At random, in proportion to the weights.
fn draw(candidates: &Candidates<'_>, rng: &mut SplitMix64) -> Option<usize> {
    let weights = || candidates.iter().map(|candidate| weight(candidate.weight));
    let sum = weights().fold(0_u64, |sum, weight| {
        sum.saturating_add(u64::from(weight.unsigned_abs()))
    });
    let mut drawn = rng.below(sum);
    weights().position(
        |weight| match drawn.checked_sub(u64::from(weight.unsigned_abs())) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        },
    )
}

/// The slots of a [`WeightedRoundRobin`], borrowed in one go; the shortest of the three says how many there are.
#[derive(Debug)]
#[non_exhaustive]
pub struct WeightTables<'a> {
    /// Whose a slot is.
    pub nodes: &'a mut [NodeRef],
    /// Its weight.
    pub weights: &'a mut [i32],
    /// What it is owed, or owes.
    pub balances: &'a mut [i32],
}

impl<'a> WeightTables<'a> {
    /// From slices.
    pub const fn new(
        nodes: &'a mut [NodeRef],
        weights: &'a mut [i32],
        balances: &'a mut [i32],
    ) -> Self {
        Self {
            nodes,
            weights,
            balances,
        }
    }
}

/// Storage of a [`WeightedRoundRobin`]: slices whose lengths never change.
pub trait WeightStorage {
    /// The slots, to write to.
    fn tables(&mut self) -> WeightTables<'_>;
}

impl<S: WeightStorage + ?Sized> WeightStorage for &mut S {
    fn tables(&mut self) -> WeightTables<'_> {
        (**self).tables()
    }
}

/// Slots of a fixed number, by value. Fits a `static`.
#[derive(Clone, Debug)]
pub struct WeightArray<const NODES: usize> {
    nodes: [NodeRef; NODES],
    weights: [i32; NODES],
    balances: [i32; NODES],
}

impl<const NODES: usize> WeightArray<NODES> {
    /// Empty slots.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            nodes: [NodeRef::NONE; NODES],
            weights: [0; NODES],
            balances: [0; NODES],
        }
    }
}

impl<const NODES: usize> Default for WeightArray<NODES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const NODES: usize> WeightStorage for WeightArray<NODES> {
    fn tables(&mut self) -> WeightTables<'_> {
        WeightTables::new(&mut self.nodes, &mut self.weights, &mut self.balances)
    }
}

/// Borrowed slots.
#[derive(Debug)]
pub struct WeightSlices<'a>(WeightTables<'a>);

impl<'a> WeightSlices<'a> {
    /// From slices.
    #[must_use]
    pub const fn new(
        nodes: &'a mut [NodeRef],
        weights: &'a mut [i32],
        balances: &'a mut [i32],
    ) -> Self {
        Self(WeightTables::new(nodes, weights, balances))
    }
}

impl WeightStorage for WeightSlices<'_> {
    fn tables(&mut self) -> WeightTables<'_> {
        WeightTables::new(self.0.nodes, self.0.weights, self.0.balances)
    }
}

/// Slots on the heap, as many as asked for once.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug)]
pub struct WeightHeap {
    nodes: alloc::boxed::Box<[NodeRef]>,
    weights: alloc::boxed::Box<[i32]>,
    balances: alloc::boxed::Box<[i32]>,
}

#[cfg(feature = "alloc")]
impl WeightHeap {
    /// Empty slots for so many nodes.
    #[must_use]
    pub fn new(nodes: u16) -> Self {
        let nodes = usize::from(nodes);
        Self {
            nodes: alloc::vec![NodeRef::NONE; nodes].into_boxed_slice(),
            weights: alloc::vec![0; nodes].into_boxed_slice(),
            balances: alloc::vec![0; nodes].into_boxed_slice(),
        }
    }
}

#[cfg(feature = "alloc")]
impl WeightStorage for WeightHeap {
    fn tables(&mut self) -> WeightTables<'_> {
        WeightTables::new(&mut self.nodes, &mut self.weights, &mut self.balances)
    }
}
