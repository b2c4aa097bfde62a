//! The highest random weight.

use core::hint::select_unpredictable;

use crate::{
    balance::{LoadBalancePolicy, PickContext, SplitMix64},
    hash::mix,
};

/// The candidate with the highest score for the call's [key](PickContext::key): calls with the same key have the same
/// node, on all clients, as long as that node is a candidate.
///
/// The score is `(mix(key) ^ mix(node)) × 0x94D049BB133111EB mod 2^64`, where [`mix`] is one output of SplitMix64. When a
/// node goes, its keys spread evenly over the others and no other key moves; when one comes, keys move only to it. (Thaler and
/// Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM Transactions on Networking 6(1), 1998.)
///
/// With a load bound a node is passed over while it has more than so many percent of the mean of calls in flight, so that
/// a popular key spills over to the node with the next highest score. (Mirrokni, Thorup and Zadimoghaddam, "Consistent
/// hashing with bounded loads", SODA 2018, for rings.) Only this client's calls are counted.
///
/// A call without a key goes to a random candidate.
///
/// *Pick*: O(n), without a draw if there is a key; with a load bound twice that for calls that spill over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rendezvous {
    load_bound: Option<u32>,
}

impl Rendezvous {
    /// No load bound.
    #[must_use]
    pub const fn new() -> Self {
        Self { load_bound: None }
    }

    /// How many percent of the mean of calls in flight a node may have, the call at hand counted. Default: no bound.
    /// 125 is a usual one; what is below 100 counts as 100, with which keys hardly stay where they belong.
    #[must_use]
    pub const fn with_load_bound(self, percent: u32) -> Self {
        Self {
            load_bound: Some(percent),
        }
    }
}

impl LoadBalancePolicy for Rendezvous {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        let count = cx.candidates.len();
        if count == 0 {
            return None;
        }
        let Some(key) = cx.key else {
            return Some(super::draw(rng, count));
        };
        let key = mix(key);
        let first = cx.candidates.highest_hash(|hash| score(key, hash));
        let Some(percent) = self.load_bound else {
            return first;
        };
        let calls = cx.candidates.outstanding().saturating_add(1);
        let most = most_calls(calls, count as u64, percent);
        // As a rule it is the first choice that may.
        let first = first?;
        if cx.candidates.get(first)?.outstanding < most {
            return Some(first);
        }
        // There is always one below: the mean without this call is.
        cx.candidates.highest(|candidate| {
            let may = candidate.outstanding < most;
            let score = score(key, candidate.hash()).max(1);
            select_unpredictable(may, score, 0)
        })
    }
}

/// What a node may have in flight of `calls` if it is to stay below so many percent of the mean: rounded up, at least 1.
fn most_calls(calls: u64, nodes: u64, percent: u32) -> u32 {
    let percent = u64::from(percent.max(100));
    let nodes = nodes.saturating_mul(100);
    let most = calls
        .saturating_mul(percent)
        .checked_add(nodes.saturating_sub(1));
    let most = most.and_then(|most| most.checked_div(nodes));
    most.map_or(u32::MAX, |most| {
        u32::try_from(most).unwrap_or(u32::MAX).max(1)
    })
}

/// One multiplication, which is what a pick among 100 nodes has time for. Both sides are mixed already: whom it prefers
/// first and second is as even as with a full [`mix`] of them.
const fn score(key: u64, node: u64) -> u64 {
    (key ^ node).wrapping_mul(0x94D0_49BB_1331_11EB)
}
