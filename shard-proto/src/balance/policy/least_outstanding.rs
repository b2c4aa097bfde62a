//! The less busy of two.

use crate::balance::{LoadBalancePolicy, PickContext, SplitMix64};

/// Of two random candidates the one with fewer calls of this client in flight; the first drawn if they have as many.
///
/// Two choices are enough to keep the longest queue short, and unlike the minimum of all they do not send everybody to
/// the node that just became idle. (Mitzenmacher, "The power of two choices in randomized load balancing", IEEE TPDS
/// 12(10), 2001.)
///
/// A node that fails fast is never busy. Suspicion and ejection are what keeps calls away from it;
/// [`PeakEwma`](super::PeakEwma) does so by itself.
///
/// *Pick*: O(1), two draws; one among two candidates, none for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeastOutstanding;

impl LeastOutstanding {
    /// There is nothing to set.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl LoadBalancePolicy for LeastOutstanding {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        super::better_of_two(cx, rng, |candidate| u64::from(candidate.outstanding))
    }
}
