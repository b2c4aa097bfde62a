//! Why a control frame changed nothing.

use core::fmt;

/// Why a control frame was not taken. State is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// The sender is not a member: drop and count.
    UnknownPeer,
    /// The term is more than an hour above the local floor, or above every term: warn and name the peer. A clock is
    /// wrong, or the peer is hostile.
    TermTooHigh,
    /// Not a frame of leadership: the caller passed on the wrong one.
    Unexpected,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownPeer => "the sender is not a member",
            Self::TermTooHigh => "the term is more than an hour ahead",
            Self::Unexpected => "not a frame of leadership",
        })
    }
}

impl core::error::Error for ControlError {}
