//! A cluster in virtual time, with faults, that checks the protocol's promises after every step.
//!
//! A [`World`] has some hosts, each with the real state machines of a process ([`Machine`]: leadership, and a region and
//! a coordinator per entity type), a network with delays, losses, cuts and connections that break, clocks that run at
//! their own rates, entities that take their time to start and stop, and callers. Everything that is left to chance comes
//! from one seed; the faults are a [`Schedule`] that is drawn from the seed, or yours. After every event a [`Checker`]
//! compares what can be seen with what was promised: one acting leader; one home per shard, under epochs that grow; each
//! origin's messages to an entity in order, none twice, none lost without a report; and after the faults every shard in
//! reach of every host. What breaks is a [`Violation`]; [`minimise`] finds the faults that it takes.
//!
//! ```
//! use core::time::Duration;
//! use shard_proto::sim::{Fault, FaultProfile, HeapStore, Schedule, World, WorldConfig};
//!
//! let config = WorldConfig::lan()
//!     .with_nodes(3)
//!     .with_shards(8)
//!     .with_phases(Duration::from_secs(4), Duration::from_secs(1))
//!     .with_probe(Duration::ZERO);
//! // As a seed has it.
//! let report = World::<HeapStore>::new(config.clone(), 7)?.run()?;
//! assert!(report.delivered > 0);
//!
//! // Or step by step.
//! let quiet = config.with_faults(FaultProfile::none());
//! let mut world = World::<HeapStore>::with_schedule(quiet, 7, Schedule::default())?;
//! assert!(world.run_until(Duration::from_secs(10), |world| world.acting().is_some())?);
//! let (leader, term) = world.acting().expect("was waited for");
//! world.inject(Fault::Crash { host: leader })?;
//! assert!(world.run_until(Duration::from_secs(10), |world| {
//!     world.acting().is_some_and(|(host, next)| host != leader && next > term)
//! })?);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Your own strategy, and your own membership
//!
//! An [`AllocationStrategy`] that is `Clone` goes in as it is, and a [`MembershipScript`] says what hosts believe of each
//! other, and when.
//!
//! ```
//! use core::time::Duration;
//! use shard_proto::allocation::{AllocationStrategy, Candidates, NodeSlot, RebalancePlan};
//! use shard_proto::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
//! use shard_proto::sim::{
//!     ClusterView, Happened, HeapStore, MembershipScript, News, World, WorldConfig,
//! };
//! use shard_proto::ShardId;
//!
//! /// Shards live on the first node.
//! #[derive(Clone)]
//! struct First;
//!
//! impl AllocationStrategy for First {
//!     fn allocate(&mut self, _: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
//!         candidates.iter().next().map(|candidate| candidate.slot)
//!     }
//!
//!     fn rebalance(&mut self, _: &mut RebalancePlan<'_>) {}
//! }
//!
//! /// Everybody knows of every start and end after 50 ms.
//! struct Oracle;
//!
//! impl MembershipScript for Oracle {
//!     fn happened(
//!         &mut self,
//!         view: &mut ClusterView<'_>,
//!         host: u8,
//!         what: Happened,
//!         news: &mut Vec<News>,
//!     ) {
//!         let at = view.now + 50_000;
//!         let life = view.hosts[usize::from(host)];
//!         let up = |node, incarnation| {
//!             let (state, roles) = (MemberState::Up, Roles::NONE);
//!             MemberChange::Member(Member { node, incarnation, state, roles })
//!         };
//!         for (other, known) in (0..).zip(view.hosts) {
//!             match what {
//!                 Happened::Started if known.alive => {
//!                     let change = up(life.node, life.incarnation);
//!                     news.push(News { at, host: other, change });
//!                     let change = up(known.node, known.incarnation);
//!                     news.push(News { at, host, change });
//!                 }
//!                 Happened::Crashed | Happened::Left => {
//!                     let (node, incarnation) = (life.node, life.incarnation);
//!                     let cause = RemovalCause::Down;
//!                     let change = MemberChange::Removed { node, incarnation, cause };
//!                     news.push(News { at, host: other, change });
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//! }
//!
//! let config = WorldConfig::lan()
//!     .with_nodes(3)
//!     .with_shards(4)
//!     .with_moves(Duration::ZERO)
//!     .with_phases(Duration::from_secs(3), Duration::from_secs(1))
//!     .with_probe(Duration::ZERO);
//! let mut world = World::<HeapStore>::new(config, 1)?
//!     .strategy(|| Box::new(First))
//!     .membership(Box::new(Oracle));
//! world.run_for(Duration::from_secs(3))?;
//! println!("{:?}", world.report());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # What it does not have
//!
//! Connections, handshakes and bytes on a wire: those of the node are tested on their own. Data arrives in order and
//! once as long as both lives last, which the links of a node see to; control frames are encoded and decoded.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::exhaustive_enums,
    reason = "a test tool: a panic here is a bug of the simulator, and what a user sets is checked before"
)]
mod around;
mod check;
mod clock;
mod cluster;
mod config;
mod detectors;
mod draw;
mod event;
mod fault;
mod happen;
mod life;
mod lock;
mod machine;
mod membership;
mod minimise;
mod moving;
mod net;
mod outage;
mod profile;
mod report;
mod rules;
pub mod search;
mod shape;
mod store;
mod strike;
#[cfg(test)]
mod tests;
mod trace;
mod violation;
mod world;

pub use check::Checker;
pub use config::{ConfigError, WorldConfig};
pub use detectors::Detectors;
pub use fault::{Fault, FaultKind, Schedule};
pub use machine::{Body, DataFrame, Machine, Note, Phase, Sink, Unsent};
pub use membership::{ClusterView, Happened, Life, MembershipScript, News};
pub use minimise::minimise;
pub use moving::Moving;
pub use outage::{Cause, Outage};
pub use profile::FaultProfile;
pub use report::{Failure, Report};
pub use rules::Deed;
pub use shape::Shape;
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
