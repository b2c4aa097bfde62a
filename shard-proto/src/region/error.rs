//! Why a region did not take something.

use core::fmt;

use crate::Term;

/// A message that [`Region::route`](super::Region::route) hands back. State is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RouteError<P> {
    /// The buffer of the shard or of the region is full.
    BufferFull(P),
    /// No such shard.
    UnknownShard(P),
    /// The region has stopped.
    Stopped(P),
}

impl<P> RouteError<P> {
    /// The message.
    pub fn into_payload(self) -> P {
        match self {
            Self::BufferFull(payload) | Self::UnknownShard(payload) | Self::Stopped(payload) => {
                payload
            }
        }
    }
}

impl<P> fmt::Display for RouteError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferFull(_) => "the buffer of the shard or of the region is full",
            Self::UnknownShard(_) => "no such shard",
            Self::Stopped(_) => "the region has stopped",
        })
    }
}

impl<P: fmt::Debug> core::error::Error for RouteError<P> {}

/// A message that came back and is not sent again.
///
/// All but [`ReturnError::Unexpected`] were this node's: report them to their callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReturnError<P> {
    /// A buffer is full, there or here. It no longer counts as sent.
    Full(P),
    /// It comes back on a path that was given up; what was sent after it may have been delivered. State is unchanged.
    PathGivenUp(P),
    /// The region has stopped. State is unchanged.
    Stopped(P),
    /// Nothing of the kind was sent there: drop it. State is unchanged.
    Unexpected(P),
}

impl<P> ReturnError<P> {
    /// The message.
    pub fn into_payload(self) -> P {
        match self {
            Self::Full(payload)
            | Self::PathGivenUp(payload)
            | Self::Stopped(payload)
            | Self::Unexpected(payload) => payload,
        }
    }
}

impl<P> fmt::Display for ReturnError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "a buffer is full",
            Self::PathGivenUp(_) => "the path had been given up",
            Self::Stopped(_) => "the region has stopped",
            Self::Unexpected(_) => "nothing of the kind was sent there",
        })
    }
}

impl<P: fmt::Debug> core::error::Error for ReturnError<P> {}

/// Why a directive had no effect. It was dropped and counted; state is unchanged. Log a warning that names the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// Not from the node whose term this node adopted, or of another term.
    NotLeading {
        /// What was adopted.
        adopted: Option<crate::Leader>,
        /// The frame's term.
        found: Term,
    },
    /// No such shard.
    UnknownShard,
    /// An epoch of a term above the frame's, or a list that does not decode.
    Malformed,
    /// Not a frame for regions.
    Unexpected,
    /// The region has stopped.
    Stopped,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLeading { adopted, found } => match adopted {
                Some(leader) => write!(
                    f,
                    "a directive of term {found}, adopted is term {} of node {}",
                    leader.term, leader.node
                ),
                None => write!(f, "a directive of term {found}, none is adopted"),
            },
            Self::UnknownShard => f.write_str("no such shard"),
            Self::Malformed => f.write_str("an epoch or a list that cannot be"),
            Self::Unexpected => f.write_str("not a frame for a region"),
            Self::Stopped => f.write_str("the region has stopped"),
        }
    }
}

impl core::error::Error for ControlError {}
