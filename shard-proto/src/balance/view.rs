//! Who provides a service, as the cluster says.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::NodeRef;
use crate::{
    Incarnation, NodeId,
    membership::{MemberState, Roles},
};

/// A node that provides a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provider {
    /// The node.
    pub node: NodeRef,
    /// What membership believes of it: `Leaving` is the last to be called, `Unreachable` and `Joining` only if nobody
    /// better is there.
    pub state: MemberState,
    /// Its share, relative to the others'; for [`WeightedRoundRobin`](super::WeightedRoundRobin).
    pub weight: u32,
    /// The number of its zone, such as [`role_id`](crate::hash::role_id) of a name. 0: in no zone.
    pub zone: u32,
    /// Its roles.
    pub roles: Roles,
}

impl Provider {
    /// Nobody: what tables are filled with.
    pub const EMPTY: Self = Self::new(NodeRef::NONE);

    /// An up node of weight 1 without zone and roles.
    #[must_use]
    pub const fn new(node: NodeRef) -> Self {
        Self {
            node,
            state: MemberState::Up,
            weight: 1,
            zone: 0,
            roles: Roles::NONE,
        }
    }

    /// The same in another state.
    #[must_use]
    pub const fn with_state(self, state: MemberState) -> Self {
        Self { state, ..self }
    }

    /// The same with another weight.
    #[must_use]
    pub const fn with_weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// The same in another zone.
    #[must_use]
    pub const fn with_zone(self, zone: u32) -> Self {
        Self { zone, ..self }
    }

    /// The same with other roles.
    #[must_use]
    pub const fn with_roles(self, roles: Roles) -> Self {
        Self { roles, ..self }
    }
}

/// A view that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever makes one must name all of it"
)]
pub struct ViewUpdate<'a> {
    /// The cluster: [`cluster_id`](crate::hash::cluster_id) of its name.
    pub cluster: u64,
    /// The number of this state of the cluster, from 1; only grows, over a restart of the whole cluster too. Not the epoch
    /// of a shard.
    pub epoch: u64,
    /// Who provides the service, in any order. Of two lives of a node the newer one counts.
    pub members: &'a [Provider],
}

/// Why a view was not taken. State is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// Of another cluster.
    OtherCluster {
        /// Whose view this is.
        expected: u64,
    },
    /// Not newer than the one there is: a late reply, or the same again.
    NotNewer {
        /// The epoch there is.
        current: u64,
    },
    /// It names nobody. A list of nodes that once worked is worth more than none.
    Empty,
    /// It names more nodes than there is room for.
    Full {
        /// How many there is room for.
        capacity: usize,
    },
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherCluster { expected } => {
                write!(f, "a view of another cluster than {expected:016x}")
            }
            Self::NotNewer { current } => {
                write!(f, "a view that is not newer than {current}")
            }
            Self::Empty => f.write_str("a view without nodes"),
            Self::Full { capacity } => write!(f, "a view of more than {capacity} nodes"),
        }
    }
}

impl core::error::Error for ViewError {}

/// The nodes that provide a service, and how new that knowledge is.
///
/// Kept by clients, and by whoever answers them: a request carries [`View::version`], a reply [`View::newer_than`].
/// The storage is anything that has a slice: an array, a borrowed slice, a box.
#[derive(Clone, Debug)]
pub struct View<M> {
    cluster: Option<u64>,
    epoch: u64,
    members: M,
    count: usize,
}

impl<M: AsRef<[Provider]> + AsMut<[Provider]>> View<M> {
    /// Nobody is known. With a cluster, only its views are taken; otherwise only those of the cluster of the first one.
    #[must_use]
    pub const fn new(cluster: Option<u64>, members: M) -> Self {
        Self {
            cluster,
            epoch: 0,
            members,
            count: 0,
        }
    }

    /// Who provides the service, sorted by node, each once.
    #[must_use]
    pub fn members(&self) -> &[Provider] {
        let members = self.members.as_ref();
        members.get(..self.count).unwrap_or(members)
    }

    /// The cluster, if it is known.
    #[must_use]
    pub const fn cluster(&self) -> Option<u64> {
        self.cluster
    }

    /// The epoch; 0 before the first view.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What a request carries: cluster (0: not known yet) and epoch.
    #[must_use]
    pub fn version(&self) -> (u64, u64) {
        (self.cluster.unwrap_or(0), self.epoch)
    }

    /// What a reply carries for whoever has this version: this view, or nothing if it is not newer or of another cluster.
    #[must_use]
    pub fn newer_than(&self, (cluster, epoch): (u64, u64)) -> Option<ViewUpdate<'_>> {
        let own = self.cluster.filter(|_| self.count > 0)?;
        let newer = cluster == 0 || (cluster == own && epoch < self.epoch);
        newer.then(|| ViewUpdate {
            cluster: own,
            epoch: self.epoch,
            members: self.members(),
        })
    }

    /// Takes a view that is newer. O(n log n).
    ///
    /// # Errors
    ///
    /// It is of another cluster, not newer, empty or too long. State is unchanged.
    pub fn replace(&mut self, update: ViewUpdate<'_>) -> Result<(), ViewError> {
        if let Some(expected) = self.cluster
            && expected != update.cluster
        {
            return Err(ViewError::OtherCluster { expected });
        }
        let current = self.epoch;
        if update.epoch <= current {
            return Err(ViewError::NotNewer { current });
        }
        if update.members.is_empty() {
            return Err(ViewError::Empty);
        }
        let members = self.members.as_mut();
        let capacity = members.len();
        let Some(list) = members.get_mut(..update.members.len()) else {
            return Err(ViewError::Full { capacity });
        };
        list.copy_from_slice(update.members);
        self.count = sort_and_unite(list);
        self.cluster = Some(update.cluster);
        self.epoch = update.epoch;
        Ok(())
    }

    /// The provider that a node is. O(log n).
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<&Provider> {
        let members = self.members();
        let at = members
            .binary_search_by_key(&node, |member| member.node.node)
            .ok()?;
        members.get(at)
    }
}

/// Sorts by node and keeps the newest life of each; how many are left at the front.
fn sort_and_unite(list: &mut [Provider]) -> usize {
    // Newest first, so that the first of each node is the one to keep.
    let order = |member: &Provider| {
        let Incarnation(incarnation) = member.node.incarnation;
        (member.node.node, core::cmp::Reverse(incarnation))
    };
    list.sort_unstable_by_key(order);
    let mut kept: usize = 0;
    let mut last = None;
    for at in 0..list.len() {
        let Some(member) = list.get(at).copied() else {
            break;
        };
        if last != Some(member.node.node)
            && let Some(slot) = list.get_mut(kept)
        {
            *slot = member;
            kept = kept.saturating_add(1);
            last = Some(member.node.node);
        }
    }
    kept
}
