//! The sooner of two to answer.

use crate::balance::{LoadBalancePolicy, PickContext, SplitMix64};

/// Of two random candidates the one that will probably answer sooner: its [latency](crate::balance::Latency), times the
/// calls in flight to it and this one.
///
/// A node of which nothing is known gets one call to find out; until that is answered it comes last.
///
/// A failure counts as a slow answer ([`StubConfig::with_failure_penalty`](crate::balance::StubConfig)), so that a node
/// which fails fast looks slow and does not attract calls. Whoever keeps candidates without a
/// [`Stub`](crate::balance::Stub) does the same.
///
/// After Finagle's `PeakEwma` load metric over its power of two choices
/// (<https://twitter.github.io/finagle/guide/Clients.html>); the penalty for
/// failures is ours.
///
/// *Pick*: O(1), two draws; one among two candidates, none for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakEwma;

impl PeakEwma {
    /// There is nothing to set.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl LoadBalancePolicy for PeakEwma {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        // Above every latency that can be measured, and room for the number of calls above that.
        const UNKNOWN: u64 = 1 << 32;
        super::better_of_two(cx, rng, |candidate| {
            let outstanding = u64::from(candidate.outstanding);
            match candidate.latency.micros(cx.now) {
                0 => outstanding.saturating_mul(UNKNOWN),
                micros => u64::from(micros).saturating_mul(outstanding.saturating_add(1)),
            }
        })
    }
}
