//! Any of them.

use crate::balance::{LoadBalancePolicy, PickContext, SplitMix64};

/// A candidate drawn for each call, all equally likely. No state.
///
/// *Pick*: O(1), one draw; none if there is only one candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RandomRobin;

impl RandomRobin {
    /// There is nothing to set.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl LoadBalancePolicy for RandomRobin {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        match cx.candidates.len() {
            0 => None,
            count => Some(super::draw(rng, count)),
        }
    }
}
