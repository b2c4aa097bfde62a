//! One after the other.

use crate::{
    NodeId,
    balance::{LoadBalancePolicy, PickContext, SplitMix64},
};

/// The candidates in order of their nodes, from a random one on.
///
/// It remembers the node it picked last, not a position: when nodes come and go, nobody is skipped and nobody is picked
/// twice. A node that restarted keeps its place.
///
/// *Pick*: O(1) as long as the candidates are the same, otherwise O(log n). One draw in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundRobin {
    last: Option<NodeId>,
    /// Where `last` was.
    at: usize,
}

impl RoundRobin {
    /// Starts at a random candidate.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None, at: 0 }
    }

    /// Starts behind a node.
    #[must_use]
    pub const fn after(node: NodeId) -> Self {
        Self {
            last: Some(node),
            at: 0,
        }
    }

    /// The node that was picked last.
    #[must_use]
    pub const fn last(&self) -> Option<NodeId> {
        self.last
    }
}

impl LoadBalancePolicy for RoundRobin {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        let count = cx.candidates.len();
        if count == 0 {
            return None;
        }
        let at = match self.last {
            None => super::draw(rng, count),
            Some(last) => match cx.candidates.get(self.at) {
                Some(there) if there.node.node == last => {
                    let next = self.at.saturating_add(1);
                    if next < count { next } else { 0 }
                }
                _ => cx.candidates.after(last),
            },
        };
        self.last = Some(cx.candidates.get(at)?.node.node);
        self.at = at;
        Some(at)
    }
}
