//! What a world did.

use core::fmt;
use core::time::Duration;

use super::fault::{Fault, FaultKind};
use super::outage::{Cause, Outage};
use super::{Schedule, Violation};
use crate::region::RejectReason;

/// Why messages were reported, as in [`Report::reported`].
pub(super) const REASONS: [&str; 7] = [
    "buffer full",
    "stopped",
    "path given up",
    "origin ended",
    "perhaps delivered",
    "unsendable",
    "other",
];

#[allow(unreachable_patterns, reason = "reasons are added")]
pub(super) const fn reason_index(reason: RejectReason) -> usize {
    match reason {
        RejectReason::BufferFull => 0,
        RejectReason::Stopped => 1,
        RejectReason::PathGivenUp => 2,
        RejectReason::OriginEnded => 3,
        RejectReason::PerhapsDelivered => 4,
        RejectReason::Unsendable => 5,
        _ => 6,
    }
}

/// Counts of a run, or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Events that were handled.
    pub steps: u64,
    /// How long the run was in virtual time, in microseconds.
    pub time: u64,
    /// Faults that were injected, by [`FaultKind`].
    pub faults: [u64; FaultKind::ALL.len()],
    /// How often a shard got another home.
    pub moves: u64,
    /// How often another node became the acting leader.
    pub failovers: u64,
    /// Reigns that acted.
    pub reigns: u64,
    /// Messages that callers sent.
    pub sent: u64,
    /// Messages that entities handled.
    pub delivered: u64,
    /// Messages that were reported, by reason; the reasons' names are [`Report::REASONS`].
    pub reported: [u64; REASONS.len()],
    /// How long shards were without service, by [`Cause`].
    pub outages: [Outage; Cause::ALL.len()],
}

impl Report {
    /// The names of the reasons in [`Report::reported`].
    pub const REASONS: [&'static str; 7] = REASONS;

    /// Counts a fault.
    pub const fn count(&mut self, fault: &Fault) {
        self.faults[fault.kind() as usize] += 1;
    }

    /// Adds what another run counted.
    pub fn merge(&mut self, other: &Self) {
        self.steps += other.steps;
        self.time += other.time;
        self.moves += other.moves;
        self.failovers += other.failovers;
        self.reigns += other.reigns;
        self.sent += other.sent;
        self.delivered += other.delivered;
        for (total, more) in self.faults.iter_mut().zip(other.faults) {
            *total += more;
        }
        for (total, more) in self.reported.iter_mut().zip(other.reported) {
            *total += more;
        }
        for (total, more) in self.outages.iter_mut().zip(&other.outages) {
            total.merge(more);
        }
    }

    /// The time without service that a cause led to.
    #[must_use]
    pub const fn outage(&self, cause: Cause) -> &Outage {
        &self.outages[cause as usize]
    }

    /// All faults.
    #[must_use]
    pub fn all_faults(&self) -> u64 {
        self.faults.iter().sum()
    }
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

impl Failure {
    /// What a run of a seed with these faults came to.
    #[must_use]
    pub const fn new(seed: u64, violation: Violation, at: u64, schedule: Schedule) -> Self {
        Self {
            seed,
            violation,
            at,
            schedule,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = Duration::from_micros(self.at);
        write!(f, "seed {} after {at:?}: {}", self.seed, self.violation)
    }
}

impl core::error::Error for Failure {}
