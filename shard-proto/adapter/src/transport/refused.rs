//! Peers that a transport does not let in.

use core::fmt;
use std::io;

/// The peer is not who may connect, or this node is not for the peer: inside the [`io::Error`] of a transport's handshake.
/// Counted and logged as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    reason: &'static str,
    detail: String,
}

impl Refused {
    /// `reason` is in a few words that do not vary: by it the log tells new trouble from old. `detail` may be empty, and has
    /// no secrets.
    #[must_use]
    pub const fn new(reason: &'static str, detail: String) -> Self {
        Self { reason, detail }
    }

    /// In a few words that do not vary.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// What is inside an error, if it is one of these.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        if self.detail.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.detail)
    }
}

impl core::error::Error for Refused {}
