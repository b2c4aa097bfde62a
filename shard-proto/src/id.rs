//! The names of things: nodes, shards, entity types, terms, epochs, sessions.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A process of the cluster, as the transport authenticated it.
    ///
    /// Derived from the node's name with [`crate::hash::node_id`]; never from what a peer says of itself.
    NodeId(u64)
}

number! {
    /// One life of a node. Grows with each start: the start time in microseconds of the wall clock.
    Incarnation(u64)
}

number! {
    /// A group of entities of one type that move together. Dense: `0..shard_count`.
    ShardId(u32)
}

number! {
    /// An entity type on the wire: [`crate::hash::entity_type_id`] of its name.
    EntityTypeId(u32)
}

number! {
    /// The number of a coordinator's reign. Only grows. 36 bits are used; the unit is 1/16 s of the wall clock or a
    /// persisted number, so that it grows over a restart of the whole cluster too.
    Term(u64)
}

number! {
    /// Names one answer that a region waits for at the end of a path.
    Token(u64)
}

impl Incarnation {
    /// The life of a node that starts when the wall clock says so: `since_epoch` is the time since 1970. In microseconds.
    ///
    /// ```
    /// # use core::time::Duration;
    /// # use shard_proto::{Incarnation, Term};
    /// assert_eq!(Incarnation::started(Duration::from_secs(2)), Incarnation(2_000_000));
    /// assert_eq!(Term::floor(Duration::from_secs(2)), Term(32));
    /// assert_eq!(Term::floor(Duration::MAX), Term::MAX);
    /// ```
    #[must_use]
    pub const fn started(since_epoch: Duration) -> Self {
        Self(crate::micros(since_epoch))
    }
}

impl Term {
    /// Before every reign.
    pub const NONE: Self = Self(0);
    /// The largest term that fits an [`Epoch`].
    pub const MAX: Self = Self((1 << 36) - 1);

    /// The lowest term to be taken when the wall clock says so, in 1/16 s; at most [`Term::MAX`]. `since_epoch` is the time
    /// since 1970. So terms grow over a restart of the whole cluster, too.
    #[must_use]
    pub const fn floor(since_epoch: Duration) -> Self {
        let sixteenths = crate::micros(since_epoch) / 62_500;
        if sixteenths >= Self::MAX.0 {
            return Self::MAX;
        }
        Self(sixteenths)
    }

    /// The next term, at most [`Term::MAX`].
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 >= Self::MAX.0 {
            Self::MAX
        } else {
            Self(self.0.saturating_add(1))
        }
    }
}

/// The number of one allocation of one shard: `(term, round)` in 36 + 28 bits, ordered by term first.
///
/// It is handed to the entity as its fencing token: a store that refuses a lower epoch than it has seen cannot be
/// written to by a former home.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// Below every allocation.
    pub const NONE: Self = Self(0);
    /// The largest round of a term.
    pub const MAX_ROUND: u32 = (1 << 28) - 1;

    /// Packs a term and a round. `None` if either does not fit (36 and 28 bits).
    #[must_use]
    pub const fn new(term: Term, round: u32) -> Option<Self> {
        if term.0 > Term::MAX.0 || round > Self::MAX_ROUND {
            return None;
        }
        Some(Self((term.0 << 28) | round as u64))
    }

    /// From the packed number, as it travels on the wire.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The packed number.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The reign in which the shard was allocated.
    #[must_use]
    pub const fn term(self) -> Term {
        Term(self.0 >> 28)
    }

    /// The allocation's number within its term.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "masked to 28 bits")]
    pub const fn round(self) -> u32 {
        (self.0 & Self::MAX_ROUND as u64) as u32
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term(), self.round())
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({self})")
    }
}

/// An unbroken stay of a region with coordinators, ordered.
///
/// Grows when its node's lease lapsed (`lapses`), when the region started again in this process (`starts`), and with
/// the node's next life (`incarnation`). An ended session never comes back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Session {
    /// The node's life.
    pub incarnation: Incarnation,
    /// How often this node's lease lapsed, or a coordinator ended the session.
    pub lapses: u32,
    /// How often the region was started in this process.
    pub starts: u32,
}

impl Session {
    /// The session in which a region begins that takes this one's place in the same process. `self` is the last session
    /// of the one that stopped ([`Region::session`](crate::region::Region::session)): a lower one would be taken for a
    /// late copy.
    #[must_use]
    pub const fn started_again(self) -> Self {
        Self {
            starts: self.starts.saturating_add(1),
            ..self
        }
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.incarnation, self.lapses, self.starts)
    }
}

/// The node that coordinates, and under which term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    /// The leading node.
    pub node: NodeId,
    /// Its reign.
    pub term: Term,
}

/// Where a shard lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Home {
    /// The hosting node.
    pub node: NodeId,
    /// The allocation.
    pub epoch: Epoch,
}
