//! Who is in the cluster: members, their states and the changes of the view.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{Incarnation, NodeId};

/// What the membership service believes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a state nobody handles must not compile"
)]
pub enum MemberState {
    /// Known, not yet confirmed by everybody: hosts nothing; while it lasts nothing is rebalanced.
    Joining,
    /// Takes part in everything.
    Up,
    /// Suspected: gets no new shards; while it lasts nothing is rebalanced.
    Unreachable,
    /// Hands its shards off and goes.
    Leaving,
}

/// Role names of a member, as up to four 32-bit hashes ([`crate::hash::role_id`]); sorted, zero-filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Roles([u32; 4]);

impl Roles {
    /// No role.
    pub const NONE: Self = Self([0; 4]);
    /// How many roles a member can have.
    pub const CAPACITY: usize = 4;

    /// Adds a role. `None` if it already has [`Roles::CAPACITY`] others.
    #[must_use]
    pub fn with(mut self, role: u32) -> Option<Self> {
        if role == 0 || self.has(role) {
            return Some(self);
        }
        let free = self.0.iter_mut().find(|slot| **slot == 0)?;
        *free = role;
        self.0
            .sort_unstable_by_key(|role| core::cmp::Reverse(*role));
        Some(self)
    }

    /// The roles' hashes, 0 for none.
    #[must_use]
    pub const fn hashes(&self) -> [u32; Self::CAPACITY] {
        self.0
    }

    /// Whether the member has the role. Everybody has role 0, which stands for "any".
    #[must_use]
    pub fn has(&self, role: u32) -> bool {
        role == 0 || self.0.contains(&role)
    }
}

/// A member of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// What membership believes of it.
    pub state: MemberState,
    /// Its roles.
    pub roles: Roles,
}

impl Member {
    /// The order in which members lead: oldest first, by `(incarnation, node)`.
    #[must_use]
    pub const fn age(&self) -> (Incarnation, NodeId) {
        (self.incarnation, self.node)
    }
}

/// Why an incarnation is no longer a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a cause nobody handles must not compile"
)]
pub enum RemovalCause {
    /// It left of its own accord.
    Left,
    /// It was declared dead for good.
    Down,
    /// A newer incarnation of the same node took its place.
    Replaced,
}

/// A change of the view.
///
/// A removed incarnation is never readmitted: the node comes back with a new one. A `Member` with a newer incarnation
/// implies the removal of the older one with [`RemovalCause::Replaced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a change nobody handles must not compile"
)]
pub enum MemberChange {
    /// A member appeared, or its state or roles changed.
    Member(Member),
    /// An incarnation is gone for good.
    Removed {
        /// The node.
        node: NodeId,
        /// The life that ended.
        incarnation: Incarnation,
        /// Why.
        cause: RemovalCause,
    },
}

/// The table of nodes is full: the change was not taken, state is unchanged. Give the table more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodesFull;

impl fmt::Display for NodesFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for another node")
    }
}

impl core::error::Error for NodesFull {}
