//! A cluster in virtual time, with faults, that checks the protocol's promises after every step.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::exhaustive_enums,
    reason = "a test tool: a panic here is a bug of the simulator, and what a user sets is checked before"
)]
#![allow(dead_code, reason = "not all of it is connected yet")]

mod check;
mod clock;
mod cluster;
mod config;
mod detectors;
mod draw;
mod event;
mod fault;
mod life;
mod machine;
mod membership;
mod minimise;
mod moving;
mod net;
mod outage;
mod profile;
mod report;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod violation;
mod world;

pub use check::Checker;
pub use config::{ConfigError, WorldConfig};
pub use detectors::Detectors;
pub use fault::{Fault, FaultKind, Schedule};
pub use machine::{Body, DataFrame, Leaving, Machine, Note, Phase, Sink, Unsent};
pub use membership::{ClusterView, Happened, Life, MembershipScript, News};
pub use minimise::minimise;
pub use moving::Moving;
pub use outage::{Cause, Outage};
pub use profile::FaultProfile;
pub use report::{Failure, Report};
pub use store::{ArrayCoordinator, ArrayRegion, ArrayStore, HeapStore, Store};
pub use trace::Trace;
pub use violation::Violation;
pub use world::World;

use crate::allocation::AllocationStrategy;
use alloc::boxed::Box;
use core::fmt;

/// A message of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Message {
    /// The life of a host that sent it; lives are numbered from 0, in the order in which they began.
    pub origin: u32,
    /// The entity of the shard.
    pub entity: u32,
    /// Counts all messages of the origin, from 0.
    pub number: u64,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "message {} of life {} to entity {}",
            self.number, self.origin, self.entity
        )
    }
}

/// A strategy that can be copied with the world it is in; every [`AllocationStrategy`] that is `Clone` is one.
pub trait Strategy: AllocationStrategy {
    /// A copy.
    fn boxed(&self) -> Box<dyn Strategy>;
}

impl<A: AllocationStrategy + Clone + 'static> Strategy for A {
    fn boxed(&self) -> Box<dyn Strategy> {
        Box::new(self.clone())
    }
}
