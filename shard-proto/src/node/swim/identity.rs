//! Who a node is, as its gossip says it.

use alloc::sync::Arc;

use crate::membership::{Member, MemberState, Roles};
use crate::node::ConfigError;
use crate::{Incarnation, NodeId, hash};

/// What a member says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It takes part.
    Up,
    /// It hands its shards off.
    Leaving,
    /// It has left.
    Left,
}

/// A node in one life, with all that others must know to reach it and to give it shards.
///
/// Two are equal if they are the same life at the same version; a version is what the node said of itself at a time.
/// Cloning is cheap.
#[derive(Clone, Debug)]
pub struct SwimIdentity {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    pub(super) version: u16,
    pub(super) phase: Phase,
    pub(super) roles: Roles,
    pub(super) name: Arc<str>,
    pub(super) address: Arc<str>,
}

impl SwimIdentity {
    /// Bytes of name and address together, so that a packet that names three nodes stays below its limit.
    pub const MAX_LEN: usize = 360;

    /// A node that takes part. `name` is what its links are authenticated as, `address` where others dial it.
    ///
    /// # Errors
    /// The name is empty, or name and address are longer than [`SwimIdentity::MAX_LEN`] together.
    pub fn new(
        name: &str,
        incarnation: Incarnation,
        address: &str,
        roles: Roles,
    ) -> Result<Self, ConfigError> {
        if name.is_empty() || name.len() > 255 {
            return Err(ConfigError::new("name", "must be 1 to 255 bytes long"));
        }
        if name.len().saturating_add(address.len()) > Self::MAX_LEN {
            let problem = "name and address must be at most 360 bytes together";
            return Err(ConfigError::new("address", problem));
        }
        Ok(Self {
            node: hash::node_id(name),
            incarnation,
            version: 0,
            phase: Phase::Up,
            roles,
            name: Arc::from(name),
            address: Arc::from(address),
        })
    }

    /// The node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Its life.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where to dial it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its roles.
    #[must_use]
    pub const fn roles(&self) -> Roles {
        self.roles
    }

    pub(super) const fn member(&self, state: MemberState) -> Member {
        Member {
            node: self.node,
            incarnation: self.incarnation,
            state,
            roles: self.roles,
        }
    }

    /// The next thing this node says of itself.
    pub(super) fn renewed(&self, phase: Phase) -> Self {
        Self {
            version: self.version.saturating_add(1),
            phase,
            ..self.clone()
        }
    }

    const fn key(&self) -> (NodeId, Incarnation, u16) {
        (self.node, self.incarnation, self.version)
    }
}

impl PartialEq for SwimIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SwimIdentity {}

impl foca::Identity for SwimIdentity {
    type Addr = NodeId;

    /// A life that was declared down never comes back.
    fn renew(&self) -> Option<Self> {
        None
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        (self.incarnation, self.version) > (adversary.incarnation, adversary.version)
    }
}
