//! Why a call changed nothing.

use core::fmt;

use super::link::LinkFault;
use crate::NodeId;

/// Why a type was not added. The node's state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddTypeError {
    /// It was added before and is not stopped.
    Duplicate,
    /// Another type's name has the same hash: rename one of them.
    Collision,
    /// [`TypeIndex`](super::TypeIndex) is exhausted, or the limit of the config is reached.
    TooMany,
    /// It was stopped, and something of it still runs or is not yet reported.
    Stopping,
    /// A setting of the type is wrong.
    Config(ConfigError),
    /// The node is leaving.
    Leaving,
}

impl fmt::Display for AddTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate => f.write_str("the entity type is already started"),
            Self::Collision => f.write_str("another entity type's name has the same hash"),
            Self::TooMany => f.write_str("too many entity types"),
            Self::Stopping => f.write_str("the entity type has not stopped yet"),
            Self::Config(error) => error.fmt(f),
            Self::Leaving => f.write_str("the node is leaving"),
        }
    }
}

impl core::error::Error for AddTypeError {}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The setting.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl ConfigError {
    pub(crate) const fn new(field: &'static str, problem: &'static str) -> Self {
        Self { field, problem }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl core::error::Error for ConfigError {}

/// There is no room for another link, or it was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinksFull;

impl fmt::Display for LinksFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for another link")
    }
}

impl core::error::Error for LinksFull {}

/// Why a link must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkError {
    pub(super) node: Option<NodeId>,
    pub(super) fault: LinkFault,
}

impl LinkError {
    /// With whom the link was: whom the transport proved it to be, or who it said it was.
    #[must_use]
    pub const fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// In a few words that do not vary; the `Display` of the error has the details.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.fault.as_str()
    }

    /// Whether a person should read of it: a node broke the protocol, or refuses or is refused a link. A connection
    /// that another one replaces, or that leads back to this node, is none of that.
    #[must_use]
    pub const fn is_news(&self) -> bool {
        self.fault.is_news()
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl core::error::Error for LinkError {}

/// Why a node does not leave. Its state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaveError {
    /// The node is a voter, and the voters that would remain are no majority: nobody could lead, and no entity would
    /// run anywhere, until another voter starts. Start one first, or leave with `force`.
    EndsQuorum {
        /// Voters that would remain: up, and not leaving.
        voters_up: usize,
        /// How many a leader needs.
        quorum: usize,
    },
}

impl fmt::Display for LeaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndsQuorum { voters_up, quorum } => write!(
                f,
                "{voters_up} of the nodes in the setting `voters` would remain, and {quorum} are needed: no entity \
                 would run until another voter starts; leave with `force` to stop them all the same"
            ),
        }
    }
}

impl core::error::Error for LeaveError {}
