//! Always the same one.

use crate::balance::{LoadBalancePolicy, NodeRef, PickContext, SplitMix64};

/// A node elected at random, and kept until it is gone; each stub elects for itself.
///
/// Gone is a node that is no candidate any more: it left, restarted, is suspected or has failed the call at hand. It is
/// not gone because there is no candidate at all. A node that comes back is not gone back to.
///
/// The call's [hint](PickContext::hint) is elected, without a draw, if it is a candidate when there is something to
/// elect.
///
/// *Pick*: O(1) as long as the candidates are the same, otherwise O(log n). One draw per election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstAvailable {
    elected: Option<NodeRef>,
    /// Where it was.
    at: usize,
}

impl FirstAvailable {
    /// Nobody is elected.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            elected: None,
            at: 0,
        }
    }

    /// Who is elected.
    #[must_use]
    pub const fn elected(&self) -> Option<NodeRef> {
        self.elected
    }
}

impl LoadBalancePolicy for FirstAvailable {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        let stays = self
            .elected
            .and_then(|elected| cx.candidates.position_near(elected, self.at));
        let at = match stays {
            Some(at) => at,
            None => elect(cx, rng)?,
        };
        self.elected = Some(cx.candidates.get(at)?.node);
        self.at = at;
        Some(at)
    }
}

/// The hint, or a random one. `None` if there is no candidate.
pub(super) fn elect(cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
    if cx.candidates.is_empty() {
        return None;
    }
    let hinted = cx.hint.and_then(|hint| cx.candidates.position_of(hint));
    Some(hinted.unwrap_or_else(|| super::draw(rng, cx.candidates.len())))
}
