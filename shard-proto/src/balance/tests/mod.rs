#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod budget;
mod invocation;
mod overlay;
mod policies;
mod random;
mod refresh;
mod select;
mod spread;
mod vectors;
mod view;

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use super::*;
use crate::{Incarnation, NodeId};

/// Node A is 1, B is 2, and so on; `A2` is A in its incarnation 2.
fn node(name: &str) -> NodeRef {
    let (letter, incarnation) = name.split_at(1);
    let letter = letter.as_bytes()[0] - b'A' + 1;
    let incarnation = incarnation.parse().unwrap_or(1);
    NodeRef::new(NodeId(letter.into()), Incarnation(incarnation))
}

/// The other way round.
fn name(node: NodeRef) -> String {
    let mut name = String::from(char::from(b'A' + node.node.0 as u8 - 1));
    if node.incarnation.0 != 1 {
        name += &std::format!("{}", node.incarnation);
    }
    name
}

/// The nodes of a list such as `A B C2`, as they are given: a caller that wants them sorted sorts them.
fn nodes(list: &str) -> Vec<NodeRef> {
    list.split_whitespace().map(node).collect()
}

fn candidates(list: &str) -> Vec<Candidate> {
    let mut nodes = nodes(list);
    nodes.sort_unstable();
    nodes.into_iter().map(Candidate::new).collect()
}

fn providers(list: &str) -> Vec<Provider> {
    nodes(list).into_iter().map(Provider::new).collect()
}

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A policy, its generator, and a list of candidates that may change.
struct Picker<P> {
    policy: P,
    rng: SplitMix64,
    hint: Option<NodeId>,
}

impl<P: LoadBalancePolicy> Picker<P> {
    fn new(policy: P, seed: u64) -> Self {
        let rng = SplitMix64::new(seed);
        Self {
            policy,
            rng,
            hint: None,
        }
    }

    fn pick(&mut self, list: &[Candidate]) -> Option<NodeRef> {
        let cx = PickContext::new(Instant::ZERO, Candidates::new(list)).with_hint(self.hint);
        let at = self.policy.pick(&cx, &mut self.rng)?;
        Some(list[at].node)
    }

    /// The names of so many picks.
    fn picks(&mut self, list: &str, count: usize) -> String {
        let list = candidates(list);
        let picks = (0..count).map(|_| self.pick(&list).map_or_else(|| "-".into(), name));
        picks.collect::<Vec<_>>().join(" ")
    }

    /// How many numbers it has drawn since this seed.
    fn draws(&self, seed: u64) -> usize {
        draws(seed, self.rng.state())
    }
}

/// How many numbers lie between a seed and a state.
fn draws(seed: u64, state: u64) -> usize {
    let mut rng = SplitMix64::new(seed);
    let mut draws = 0;
    while rng.state() != state {
        rng.next_u64();
        draws += 1;
        assert!(draws < 1_000_000, "the generator was set");
    }
    draws
}

type TestStub<P> = Stub<P, StubArray<8>>;

/// A stub that knows some nodes.
fn stub<P: LoadBalancePolicy>(config: StubConfig, policy: P, list: &str) -> TestStub<P> {
    let mut stub = Stub::new(config, policy, StubArray::new(), 42).unwrap();
    if !list.is_empty() {
        view(&mut stub, 1, list).unwrap();
    }
    stub
}

fn view<P: LoadBalancePolicy, B: Budget>(
    stub: &mut Stub<P, StubArray<8>, B>,
    epoch: u64,
    list: &str,
) -> Result<(), ViewError> {
    let members = &providers(list)[..];
    stub.handle_view(
        Instant::ZERO,
        ViewUpdate {
            cluster: 7,
            epoch,
            members,
        },
    )
}

/// The names of those that may be picked.
fn eligible<P: LoadBalancePolicy>(stub: &mut TestStub<P>, now: Instant) -> String {
    let names = stub.candidates(now).iter().map(|c| name(c.node));
    names.collect::<Vec<_>>().join(" ")
}

/// One call that ends like this on each node it is sent to: where it went, and how it ended.
fn run<P: LoadBalancePolicy, B: Budget>(
    stub: &mut Stub<P, StubArray<8>, B>,
    now: Instant,
    call: Call,
    mut outcome: impl FnMut(NodeRef) -> Result<(), Failure>,
) -> (Vec<String>, Result<(), CallError>) {
    let mut invocation = Invocation::new(call);
    let mut step = invocation.start(now, stub);
    let mut sent = Vec::new();
    loop {
        match step {
            Step::Send { node, attempt, .. } => {
                sent.push(name(node));
                assert_eq!(usize::from(attempt), sent.len());
                step = invocation.on_outcome(now, stub, attempt, outcome(node));
            }
            Step::Done => return (sent, Ok(())),
            Step::Fail { error } => return (sent, Err(error)),
            Step::Park { until } => panic!("parked until {until:?}"),
        }
    }
}
