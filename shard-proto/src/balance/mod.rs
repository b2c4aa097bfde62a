//! Which of many equal nodes to call: policies, what a client believes of the nodes, and failover.
//!
//! For services that many nodes provide equally. (An entity has one home, which is looked up and never picked.) A
//! [`Stub`] stands for such a service in a client, which need not be a member of the cluster. It has three parts:
//!
//! | part | what it knows | changes |
//! |---|---|---|
//! | [`View`] | who provides the service, as the cluster says | when a newer one arrives, with a reply for one |
//! | [`Overlay`] | what this client believes of each of them: suspicion, calls in flight, latency, failures | with each call; all of it is forgotten or expires |
//! | [`LoadBalancePolicy`] | whom it picked | with each pick |
//!
//! A call is an [`Invocation`]: it says to which node to [send](Step::Send), until when to [park](Step::Park), or why it
//! [failed](Step::Fail); the adapter sends, waits, and tells it what came of it. Nothing here does I/O, reads a clock or
//! allocates.
//!
//! ```
//! use core::time::Duration;
//! use shard_proto::{
//!     Incarnation, Instant, NodeId,
//!     balance::{
//!         Call, Failure, Invocation, NodeRef, Provider, RoundRobin, Step, Stub, StubArray, StubConfig, ViewUpdate,
//!     },
//! };
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let now = Instant::ZERO;
//! // The seed comes from the operating system's entropy, never from a clock.
//! let mut stub = Stub::new(StubConfig::new(), RoundRobin::new(), StubArray::<8>::new(), 42)?;
//! let providers = [1, 2, 3].map(|node| Provider::new(NodeRef::new(NodeId(node), Incarnation(1))));
//! stub.handle_view(now, ViewUpdate { cluster: 7, epoch: 1, members: &providers })?;
//!
//! let mut call = Invocation::new(Call::new(now.after(Duration::from_secs(5))));
//! let Step::Send { node: first, attempt, .. } = call.start(now, &mut stub) else { panic!() };
//! // The connection is refused: surely nothing was carried out, so that another node is tried.
//! let step = call.on_outcome(now, &mut stub, attempt, Err(Failure::refused()));
//! let Step::Send { node: second, attempt, .. } = step else { panic!() };
//! assert_ne!(first, second);
//! assert_eq!(call.on_outcome(now, &mut stub, attempt, Ok(())), Step::Done);
//! # Ok(())
//! # }
//! ```
//!
//! # Policies
//!
//! | [`Policy`] | picks | for |
//! |---|---|---|
//! | [`RoundRobin`] (default) | one after the other, from a random one on | calls that cost about the same |
//! | [`RandomRobin`] | any of them | very many clients with few calls each |
//! | [`FirstAvailable`] | one, until it is gone | caches in the provider, and clients that are many |
//! | [`FirstAvailableIdenticalAllProxies`] | one for the whole process, until it is gone | services that talk to each other about one caller |
//! | [`LeastOutstanding`] | the less busy of two | calls of different cost |
//! | [`PeakEwma`] | the sooner of two to answer | nodes of different speed |
//! | [`WeightedRoundRobin`] | in proportion to weights, evenly spread | nodes of known, different size |
//! | [`Rendezvous`] | the one that belongs to a key | order or caches per key |
//!
//! A policy of your own needs one method:
//!
//! ```
//! use shard_proto::balance::{LoadBalancePolicy, PickContext, SplitMix64};
//!
//! struct Oldest;
//!
//! impl LoadBalancePolicy for Oldest {
//!     fn pick(&mut self, cx: &PickContext<'_>, _rng: &mut SplitMix64) -> Option<usize> {
//!         let ages = cx.candidates.iter().enumerate();
//!         Some(ages.min_by_key(|(_, candidate)| candidate.node.incarnation)?.0)
//!     }
//! }
//! ```
//!
//! # Who is a candidate
//!
//! The stub filters, the policy picks: see [`Preference`]. Nodes without the required role or zone, and nodes that this
//! call has tried, are never candidates. Of the others those in the best class are: *good* nodes; if there are none,
//! *doubtful* ones (suspected, ejected, unreachable or joining); if there are none, *leaving* ones. Within the class the
//! nodes are preferred that are local, in the same zone, of a role.
//!
//! If few nodes are good, doubt is not believed: all that do not leave are candidates, wherever they are. Many nodes that
//! fail at once are rather this client's fault, or overloaded, and the last good ones could not carry all calls. Envoy
//! calls that the panic threshold
//! (<https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/load_balancing/panic_threshold>).
//!
//! A node that fails in a row is *ejected* for a time that grows, never more than a share of all, and never the last:
//! Envoy's outlier detection
//! (<https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/upstream/outlier>).
//!
//! # When a call is tried again
//!
//! By what is known of the attempt ([`CompletionStatus`], which CORBA's system exceptions carry): `No` always, `Maybe` if the
//! message is idempotent, `Yes` never. Each node once per call; at most so many attempts; one deadline over all of them;
//! and a [budget](RetryBudget) over all calls, so that retries cannot multiply the load of a service that is down.
//! A call that is bound to a node, because it is part of a session or a transaction there, is never moved to another.
//!
//! # Cost
//!
//! `benches/balance.rs` measures picks among 100 candidates. Round robin took 7 ns; policies that look at all of them take
//! more: [`Rendezvous`] took 50 to 55 ns, with a load bound that the first choice keeps 63 to 72 ns, and about twice as
//! long where it does not. A node takes up to 150 bytes of storage.

use crate::Instant;
pub use crate::hash::{SplitMix64, mix};

mod budget;
mod call;
mod candidate;
mod config;
mod invocation;
mod latency;
mod outcome;
mod overlay;
mod policy;
mod refresh;
mod select;
mod storage;
mod stub;
#[cfg(test)]
mod tests;
mod view;

pub use budget::{Budget, RetryBudget};
pub use call::{Call, CallError, Limit};
pub use candidate::{Candidate, Candidates, NodeRef};
pub use config::{Preference, StubConfig, StubConfigError};
pub use invocation::{Invocation, Step};
pub use latency::Latency;
pub use outcome::{Cause, CompletionStatus, Failure, Outcome};
pub use overlay::{Belief, Overlay};
#[cfg(target_has_atomic = "64")]
pub use policy::AtomicElection;
#[cfg(feature = "alloc")]
pub use policy::WeightHeap;
pub use policy::{
    Configured, Election, FirstAvailable, FirstAvailableIdenticalAllProxies, LeastOutstanding,
    LocalElection, PeakEwma, Policy, RandomRobin, Rendezvous, RoundRobin, UnknownPolicy,
    WeightArray, WeightSlices, WeightStorage, WeightTables, WeightedRoundRobin,
};
pub use refresh::Source;
pub use storage::{
    OverlayArray, OverlaySlices, OverlayStorage, OverlayTables, StubArray, StubSlices, StubStorage,
};
#[cfg(feature = "alloc")]
pub use storage::{OverlayHeap, StubHeap};
pub use stub::{Stub, StubStats};
pub use view::{Provider, View, ViewError, ViewUpdate};

/// The seed of a stub: different for each stub of a process, and for stubs of the same number in different processes.
///
/// The process' seed comes from the operating system's entropy, once. From a clock, all processes of a fleet that starts
/// at once would elect the same node.
#[must_use]
pub const fn stub_seed(process_seed: u64, stub: u64) -> u64 {
    mix(process_seed ^ mix(stub))
}

/// The [key](Call::with_key) of bytes, such as an entity's id: FNV-1a 64, mixed. O(length).
#[must_use]
pub const fn key(bytes: &[u8]) -> u64 {
    crate::hash::hash64(bytes)
}

/// What a policy has to go by.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PickContext<'a> {
    /// When.
    pub now: Instant,
    /// Among whom.
    pub candidates: Candidates<'a>,
    /// What the call is about; calls of one key want the same node.
    pub key: Option<u64>,
    /// The node to elect, for policies that elect.
    pub hint: Option<crate::NodeId>,
}

impl<'a> PickContext<'a> {
    /// A call without key and hint.
    #[must_use]
    pub const fn new(now: Instant, candidates: Candidates<'a>) -> Self {
        Self {
            now,
            candidates,
            key: None,
            hint: None,
        }
    }

    /// The same for a call with a key.
    #[must_use]
    pub const fn with_key(self, key: Option<u64>) -> Self {
        Self { key, ..self }
    }

    /// The same with a hint.
    #[must_use]
    pub const fn with_hint(self, hint: Option<crate::NodeId>) -> Self {
        Self { hint, ..self }
    }
}

/// Picks one of several nodes that are as good as each other. One per stub.
///
/// The candidates are what is left after filtering, so that a policy never looks past them; who tried a node and failed
/// does not offer it again. A policy takes all its randomness from `rng`.
pub trait LoadBalancePolicy {
    /// Index into `cx.candidates`, which are eligible, sorted by node and unique. `None` only if it declines, as for no
    /// candidates: then the call waits, or fails if it was tried before.
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize>;

    /// Is told how an attempt on a node ended. Does nothing unless implemented.
    fn observe(&mut self, _node: NodeRef, _outcome: Outcome, _now: Instant) {}
}

impl<P: LoadBalancePolicy + ?Sized> LoadBalancePolicy for &mut P {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        (**self).pick(cx, rng)
    }

    fn observe(&mut self, node: NodeRef, outcome: Outcome, now: Instant) {
        (**self).observe(node, outcome, now);
    }
}

#[cfg(feature = "alloc")]
impl<P: LoadBalancePolicy + ?Sized> LoadBalancePolicy for alloc::boxed::Box<P> {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        (**self).pick(cx, rng)
    }

    fn observe(&mut self, node: NodeRef, outcome: Outcome, now: Instant) {
        (**self).observe(node, outcome, now);
    }
}
