//! A broken promise.

use alloc::string::String;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

impl core::error::Error for Violation {}
