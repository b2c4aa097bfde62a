//! The nodes whose majority carries a reign.

use core::fmt;

use crate::NodeId;
use crate::hash::mix;

/// The voters of a cluster: up to [`Voters::CAPACITY`] nodes, the same on every node.
///
/// Voters vote whether they host anything or not, and only they lead. A leader acts only with a majority of them, so
/// a cluster goes on as long as a majority is up and connected. The list is a setting; changing it means stopping the
/// cluster, or going through lists whose majorities overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Voters {
    /// Sorted; only the first `len` count, the others are zero.
    nodes: [NodeId; Self::CAPACITY],
    len: u8,
}

impl Voters {
    /// No voters: for ownerships that need none.
    pub const NONE: Self = Self {
        nodes: [NodeId(0); Self::CAPACITY],
        len: 0,
    };
    /// How many voters a cluster can have.
    pub const CAPACITY: usize = 5;

    /// The voters in any order.
    ///
    /// # Errors
    /// [`VotersError`] unless they are 1, 3 or 5 distinct nodes.
    pub fn new(nodes: &[NodeId]) -> Result<Self, VotersError> {
        if !matches!(nodes.len(), 1 | 3 | 5) {
            return Err(VotersError::Count { got: nodes.len() });
        }
        let mut voters = Self::NONE;
        for (slot, node) in voters.nodes.iter_mut().zip(nodes) {
            *slot = *node;
            voters.len = voters.len.saturating_add(1);
        }
        let len = usize::from(voters.len);
        let used = voters.nodes.get_mut(..len).unwrap_or(&mut []);
        used.sort_unstable();
        let twice = used.windows(2).find(|pair| pair.first() == pair.last());
        match twice.and_then(<[NodeId]>::first) {
            Some(node) => Err(VotersError::Twice { node: *node }),
            None => Ok(voters),
        }
    }

    fn as_slice(&self) -> &[NodeId] {
        self.nodes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Whether the node votes.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.as_slice().contains(&node)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of them are a majority; 1 without voters.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        (self.len() >> 1).saturating_add(1)
    }

    /// The voters, sorted.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.as_slice().iter().copied()
    }

    /// A number that two different lists hardly share, for the handshake; 0 for [`Voters::NONE`].
    #[must_use]
    pub fn digest(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.iter()
            .fold(1, |digest, node| mix(digest ^ node.0))
            .max(1)
    }
}

/// Why a list of voters is none. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VotersError {
    /// Not 1, 3 or 5 of them. An even number stands no more failures than one less.
    Count {
        /// How many there were.
        got: usize,
    },
    /// A node is named twice.
    Twice {
        /// The node.
        node: NodeId,
    },
}

impl fmt::Display for VotersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { got } => write!(f, "voters must be 1, 3 or 5 nodes, not {got}"),
            Self::Twice { node } => write!(f, "voters names node {node} twice"),
        }
    }
}

impl core::error::Error for VotersError {}
