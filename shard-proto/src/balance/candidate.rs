//! What a policy sees of the nodes it may pick.

use core::{fmt, hint::select_unpredictable};

use serde::{Deserialize, Serialize};

use super::Latency;
use crate::{Incarnation, NodeId, hash::mix};

/// One life of a node. A node that restarted is another one: what was believed of the former says nothing of it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct NodeRef {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
}

impl NodeRef {
    /// No node: what tables are filled with.
    pub const NONE: Self = Self::new(NodeId(0), Incarnation(0));

    /// A life of a node.
    #[must_use]
    pub const fn new(node: NodeId, incarnation: Incarnation) -> Self {
        Self { node, incarnation }
    }

    /// 64 bits that stand for this life of this node; never 0. Two of 100 nodes share theirs once in 10^15.
    #[must_use]
    pub const fn mark(self) -> u64 {
        match mix(mix(self.node.0) ^ self.incarnation.0) {
            0 => 1,
            mark => mark,
        }
    }
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.incarnation)
    }
}

/// A node that may be picked, and what this client believes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The node.
    pub node: NodeRef,
    /// Its share, relative to the others'. 1 unless the view says otherwise.
    pub weight: u32,
    /// This client's calls that it has not answered yet.
    pub outstanding: u32,
    /// Failures since it last answered.
    pub failures: u32,
    /// How long it takes to answer.
    pub latency: Latency,
    hash: u64,
}

impl Candidate {
    /// Fills tables before use.
    pub const EMPTY: Self = Self::new(NodeRef::NONE);

    /// A node of weight 1 of which nothing is known.
    #[must_use]
    pub const fn new(node: NodeRef) -> Self {
        Self {
            node,
            weight: 1,
            outstanding: 0,
            failures: 0,
            latency: Latency::UNKNOWN,
            hash: mix(node.node.0),
        }
    }

    /// The same with another weight.
    #[must_use]
    pub const fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same with so many calls in flight.
    #[must_use]
    pub const fn with_outstanding(self, outstanding: u32) -> Self {
        Self {
            outstanding,
            ..self
        }
    }

    /// The same with another latency.
    #[must_use]
    pub const fn with_latency(self, latency: Latency) -> Self {
        Self { latency, ..self }
    }

    /// [`mix`] of the node's id, computed once.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }
}

/// The nodes that may be picked: eligible, sorted by [`NodeId`] and unique.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    nodes: &'a [Candidate],
    /// Which of them; all if `None`.
    eligible: Option<&'a [u16]>,
    /// The hashes of all that are eligible, if somebody has put them side by side.
    hashes: Option<&'a [u64]>,
    /// The calls in flight to all that are eligible, if somebody has kept count.
    outstanding: Option<u64>,
    generation: u64,
}

impl<'a> Candidates<'a> {
    /// All of a list that is sorted by node and unique.
    #[must_use]
    pub const fn new(nodes: &'a [Candidate]) -> Self {
        Self {
            nodes,
            eligible: None,
            hashes: None,
            outstanding: None,
            generation: 0,
        }
    }

    /// Some of a list. Whoever gives a generation other than 0 promises that nodes and weights are those of the last
    /// time it was given.
    pub(super) const fn some(
        nodes: &'a [Candidate],
        eligible: Option<&'a [u16]>,
        hashes: Option<&'a [u64]>,
        outstanding: u64,
        generation: u64,
    ) -> Self {
        Self {
            nodes,
            eligible,
            hashes,
            outstanding: Some(outstanding),
            generation,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.eligible {
            Some(eligible) => eligible.len(),
            None => self.nodes.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number for this set of nodes with these weights, if it has one: the same number, the same set.
    ///
    /// A policy that prepares something per set need not look at each node for whether it is still the same one.
    #[must_use]
    pub const fn generation(&self) -> Option<u64> {
        if self.generation == 0 {
            None
        } else {
            Some(self.generation)
        }
    }

    /// This client's calls in flight to all of them. O(1) for those of a [`Stub`](super::Stub), otherwise O(n).
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.outstanding.unwrap_or_else(|| {
            self.iter().fold(0_u64, |sum, candidate| {
                sum.saturating_add(candidate.outstanding.into())
            })
        })
    }

    /// The one at an index. O(1).
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a Candidate> {
        match self.eligible {
            Some(eligible) => self.nodes.get(usize::from(*eligible.get(index)?)),
            None => self.nodes.get(index),
        }
    }

    /// All of them, in order of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = &'a Candidate> + use<'a> {
        let nodes = self.nodes;
        // One of the two is empty.
        let (all, some) = match self.eligible {
            None => (nodes, &[][..]),
            Some(eligible) => (&[][..], eligible),
        };
        let some = some.iter();
        all.iter()
            .chain(some.filter_map(|at| nodes.get(usize::from(*at))))
    }

    /// The first of those whose [`hash`](Candidate::hash) has the highest score. O(n).
    pub(super) fn highest_hash(&self, score: impl Fn(u64) -> u64) -> Option<usize> {
        match self.hashes {
            Some(hashes) => highest(hashes, |hash| score(*hash)),
            None => self.highest(|candidate| score(candidate.hash)),
        }
    }

    /// The first of those with the highest score. O(n).
    pub(super) fn highest(&self, score: impl Fn(&Candidate) -> u64) -> Option<usize> {
        match self.eligible {
            None => highest(self.nodes, score),
            Some(eligible) => highest(eligible, |at| {
                self.nodes.get(usize::from(*at)).map_or(0, &score)
            }),
        }
    }

    /// Where a life of a node is. O(log n).
    #[must_use]
    pub fn position(&self, node: NodeRef) -> Option<usize> {
        let at = self.partition(|candidate| candidate.node < node);
        (self.get(at)?.node == node).then_some(at)
    }

    /// Where a node is, in whatever life. O(log n).
    #[must_use]
    pub fn position_of(&self, node: NodeId) -> Option<usize> {
        let at = self.partition(|candidate| candidate.node.node < node);
        (self.get(at)?.node.node == node).then_some(at)
    }

    /// The first one behind a node, the first of all behind the last. 0 if there is none. O(log n).
    #[must_use]
    pub fn after(&self, node: NodeId) -> usize {
        let at = self.partition(|candidate| candidate.node.node <= node);
        if at < self.len() { at } else { 0 }
    }

    /// As [`Candidates::position`], looking first where it probably is.
    pub(super) fn position_near(&self, node: NodeRef, guess: usize) -> Option<usize> {
        match self.get(guess) {
            Some(there) if there.node == node => Some(guess),
            _ => self.position(node),
        }
    }

    /// How many lead the list of which `before` is true.
    fn partition(&self, before: impl Fn(&Candidate) -> bool) -> usize {
        match self.eligible {
            Some(eligible) => eligible.partition_point(|at| {
                let candidate = self.nodes.get(usize::from(*at));
                candidate.is_some_and(&before)
            }),
            None => self.nodes.partition_point(before),
        }
    }
}

/// The first element with the highest score: by fours, then the one of the four. What is highest so far changes at
/// random, so that branches would be predicted wrong.
fn highest<T>(list: &[T], score: impl Fn(&T) -> u64) -> Option<usize> {
    let (fours, rest) = list.as_chunks::<4>();
    let (mut top, mut found) = (0, 0);
    let mut take = |four, high| {
        let higher = high > top;
        top = select_unpredictable(higher, high, top);
        found = select_unpredictable(higher, four, found);
    };
    for (four, [a, b, c, d]) in fours.iter().enumerate() {
        let high = (score(a).max(score(b))).max(score(c).max(score(d)));
        take(four, high);
    }
    let high = rest.iter().map(&score).fold(0, u64::max);
    take(fours.len(), high);
    let from = found.saturating_mul(4);
    let four = list.get(from..).filter(|four| !four.is_empty())?;
    let mut at = 0;
    for (this, one) in four.iter().take(4).enumerate().rev() {
        at = select_unpredictable(score(one) == top, this, at);
    }
    Some(from.saturating_add(at))
}
