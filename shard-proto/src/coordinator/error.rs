//! Why a coordinator did not take a control frame.

use core::fmt;

use crate::{Incarnation, Term, wire::control::RegisterRefusal};

/// Why a control frame had no effect. It was dropped and counted; shards, owners and timers are unchanged, unless the
/// variant says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// This node does not coordinate.
    NotLeading,
    /// The frame is of another term than this reign. A `Register` for a higher one ends the reign: tell leadership.
    Term {
        /// This reign's.
        current: Term,
        /// The frame's.
        found: Term,
    },
    /// The sender is not a member.
    NotMember,
    /// The session is of another life of the sender than membership knows.
    Incarnation {
        /// The life that is a member.
        member: Incarnation,
        /// The frame's.
        found: Incarnation,
    },
    /// The sender has no registered region of this type.
    NotRegistered,
    /// No such shard.
    UnknownShard,
    /// The sender does not own the shard under this epoch (any more): a late copy, or a foreign claim.
    NotOwner,
    /// A part of a `Register` that does not follow the part before it, or a session that is over: a late copy, or a
    /// part before it was lost. The region sends all parts again.
    OutOfOrder,
    /// A `Register` with no parts, or a part beyond their number.
    Malformed,
    /// The region is refused; a `RegisterRefused` follows. A registration in parts is forgotten.
    Refused(RegisterRefusal),
    /// Not a frame for coordinators.
    Unexpected,
}

impl ControlError {
    /// Whether this happens in a healthy cluster, when frames are late or doubled or a reign changes. Everything else
    /// deserves a warning that names the peer.
    #[must_use]
    pub const fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::NotLeading
                | Self::Term { .. }
                | Self::NotOwner
                | Self::OutOfOrder
                | Self::Refused(RegisterRefusal::SessionEnded)
        )
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeading => f.write_str("this node does not coordinate"),
            Self::Term { current, found } => {
                write!(f, "a frame of term {found} in the reign of term {current}")
            }
            Self::NotMember => f.write_str("the sender is not a member"),
            Self::Incarnation { member, found } => {
                write!(
                    f,
                    "a session of incarnation {found}, the member is {member}"
                )
            }
            Self::NotRegistered => f.write_str("the sender's region is not registered"),
            Self::UnknownShard => f.write_str("no such shard"),
            Self::NotOwner => f.write_str("the sender does not own the shard under this epoch"),
            Self::OutOfOrder => f.write_str("a part of a registration out of order"),
            Self::Malformed => f.write_str("a malformed registration"),
            Self::Refused(reason) => write!(f, "the region is refused: {reason:?}"),
            Self::Unexpected => f.write_str("not a frame for a coordinator"),
        }
    }
}

impl core::error::Error for ControlError {}
