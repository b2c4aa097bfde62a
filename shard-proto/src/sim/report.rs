//! What a world did.

use super::{Schedule, Violation};

/// Counts of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Events that were handled.
    pub steps: u64,
}

/// A run that broke a promise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is broken.
    pub violation: Violation,
    /// When, in microseconds of real time.
    pub at: u64,
    /// What went wrong before.
    pub schedule: Schedule,
}
