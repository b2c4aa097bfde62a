//! The policies, one file each.

use crate::balance::{Candidate, PickContext, SplitMix64};

mod configured;
mod election;
mod first_available;
mod identical;
mod least_outstanding;
mod peak_ewma;
mod random_robin;
mod rendezvous;
mod round_robin;
mod weighted;

pub use configured::{Configured, Policy, UnknownPolicy};
#[cfg(target_has_atomic = "64")]
pub use election::AtomicElection;
pub use election::{Election, LocalElection};
pub use first_available::FirstAvailable;
pub use identical::FirstAvailableIdenticalAllProxies;
pub use least_outstanding::LeastOutstanding;
pub use peak_ewma::PeakEwma;
pub use random_robin::RandomRobin;
pub use rendezvous::Rendezvous;
pub use round_robin::RoundRobin;
#[cfg(feature = "alloc")]
pub use weighted::WeightHeap;
pub use weighted::{WeightArray, WeightSlices, WeightStorage, WeightTables, WeightedRoundRobin};

/// An index below `count`; no draw for one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "below a number that is a usize"
)]
fn draw(rng: &mut SplitMix64, count: usize) -> usize {
    rng.below(count as u64) as usize
}

/// The index of the candidate with the lower cost of two random ones, the first drawn if they are equal.
#[expect(
    clippy::cast_possible_truncation,
    reason = "below a number that is a usize"
)]
fn better_of_two(
    cx: &PickContext<'_>,
    rng: &mut SplitMix64,
    cost: impl Fn(&Candidate) -> u64,
) -> Option<usize> {
    if cx.candidates.is_empty() {
        return None;
    }
    let (first, second) = rng.two(cx.candidates.len() as u64);
    let (first, second) = (first as usize, second as usize);
    let cost = |at| cx.candidates.get(at).map(&cost);
    if cost(first)? <= cost(second)? {
        Some(first)
    } else {
        Some(second)
    }
}
