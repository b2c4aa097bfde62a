//! Which wire version two sides use.

use core::fmt;

/// The two sides have no wire version in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionMismatch {
    /// Lowest and highest version of this side.
    pub ours: (u8, u8),
    /// Lowest and highest version of the other side.
    pub theirs: (u8, u8),
}

impl fmt::Display for VersionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no common wire version: this side speaks {} to {}, the other {} to {}",
            self.ours.0, self.ours.1, self.theirs.0, self.theirs.1
        )
    }
}

impl core::error::Error for VersionMismatch {}

/// The highest version that lies in both inclusive ranges. Both sides compute the same.
///
/// # Errors
/// [`VersionMismatch`] if the ranges do not meet, or one is empty (lowest above highest).
pub const fn negotiate(ours: (u8, u8), theirs: (u8, u8)) -> Result<u8, VersionMismatch> {
    let highest = if ours.1 < theirs.1 { ours.1 } else { theirs.1 };
    if highest < ours.0 || highest < theirs.0 {
        return Err(VersionMismatch { ours, theirs });
    }
    Ok(highest)
}
