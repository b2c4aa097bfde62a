//! The same one for all stubs.

use super::{election::Election, first_available::elect};
use crate::balance::{LoadBalancePolicy, NodeRef, PickContext, SplitMix64};

/// As [`FirstAvailable`](super::FirstAvailable), but all stubs of the process for the same service have one node.
///
/// They share an [`Election`]. Whichever stub finds the elected node gone elects another; the others follow with their
/// next call, if they know it. Stubs that never agree on what is gone elect in turns.
///
/// Draws come from the election's generator, none from the stub's.
///
/// *Pick*: O(1) as long as neither the candidates nor the elected node change, otherwise O(n).
#[derive(Clone, Debug)]
pub struct FirstAvailableIdenticalAllProxies<E> {
    election: E,
    /// Whom a mark stands for, and where that node was.
    known: Option<(u64, NodeRef)>,
    at: usize,
}

impl<E: Election> FirstAvailableIdenticalAllProxies<E> {
    /// Takes part in an election.
    #[must_use]
    pub const fn new(election: E) -> Self {
        Self {
            election,
            known: None,
            at: 0,
        }
    }

    /// The election it takes part in.
    #[must_use]
    pub const fn election(&self) -> &E {
        &self.election
    }

    fn position(&self, cx: &PickContext<'_>, mark: u64) -> Option<usize> {
        match self.known {
            Some((known, node)) if known == mark => cx.candidates.position_near(node, self.at),
            _ if mark == 0 => None,
            _ => cx
                .candidates
                .iter()
                .position(|candidate| candidate.node.mark() == mark),
        }
    }
}

impl<E: Election> LoadBalancePolicy for FirstAvailableIdenticalAllProxies<E> {
    fn pick(&mut self, cx: &PickContext<'_>, _rng: &mut SplitMix64) -> Option<usize> {
        // Somebody is faster at most as often as there are stubs that elect at this moment; whoever is not content
        // with their choice after so many tries takes a node of its own for this call.
        const TRIES: u32 = 64;
        for _try in 0..TRIES {
            let seen = self.election.elected();
            if let Some(at) = self.position(cx, seen) {
                let node = cx.candidates.get(at)?.node;
                self.known = Some((seen, node));
                self.at = at;
                return Some(at);
            }
            let mut random = SplitMix64::new(self.election.random());
            let at = elect(cx, &mut random)?;
            let node = cx.candidates.get(at)?.node;
            let mark = node.mark();
            if self.election.elect(seen, mark, random.state()) {
                self.known = Some((mark, node));
                self.at = at;
                return Some(at);
            }
        }
        elect(cx, &mut SplitMix64::new(self.election.random()))
    }
}
