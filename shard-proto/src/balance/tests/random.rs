//! Any sequence of events: who is picked is eligible, and what is counted adds up.

use alloc::collections::BTreeMap;
use core::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::{membership::MemberState, testing::cases};

#[derive(Clone, Debug)]
enum Event {
    View {
        epoch: u64,
        members: Vec<(u64, u64, u8)>,
        other: bool,
    },
    Start {
        idempotent: bool,
        attempts: u8,
        bound: Option<(u64, u64)>,
        key: u64,
    },
    Outcome {
        call: usize,
        failure: Option<u8>,
    },
    Late {
        call: usize,
    },
    Timeout {
        call: usize,
    },
    Cancel {
        call: usize,
    },
    Ask,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let node: Range<u64> = 1..10;
    let members = prop::collection::vec((node.clone(), 1..3_u64, 0..6_u8), 0..10);
    prop_oneof![
        2 => (0..12_u64, members, prop::bool::weighted(0.05))
            .prop_map(|(epoch, members, other)| Event::View { epoch, members, other }),
        4 => (any::<bool>(), 0..5_u8, prop::option::weighted(0.1, (node, 1..3_u64)), 0..4_u64)
            .prop_map(|(idempotent, attempts, bound, key)| Event::Start {
                idempotent, attempts, bound, key
            }),
        6 => (0..8_usize, prop::option::weighted(0.6, 0..8_u8))
            .prop_map(|(call, failure)| Event::Outcome { call, failure }),
        1 => (0..8_usize).prop_map(|call| Event::Late { call }),
        1 => (0..8_usize).prop_map(|call| Event::Timeout { call }),
        1 => (0..8_usize).prop_map(|call| Event::Cancel { call }),
        1 => Just(Event::Ask),
        2 => (0..8_000_u64).prop_map(Event::Pass),
    ]
}

fn failure(kind: u8) -> Failure {
    match kind {
        0 => Failure::refused(),
        1 => Failure::unreachable(),
        2 => Failure::reset(),
        3 => Failure::timed_out(),
        4 => Failure::busy(),
        5 => Failure::leaving(),
        6 => Failure::undecodable(),
        _ => Failure::nested(CompletionStatus::No),
    }
}

/// Picks as another policy does, and looks whether that is right.
struct Checked<P> {
    policy: P,
    /// Draws nothing if nothing changed.
    quiet: bool,
    last: Vec<NodeRef>,
}

impl<P: LoadBalancePolicy> LoadBalancePolicy for Checked<P> {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        let list: Vec<_> = cx
            .candidates
            .iter()
            .map(|candidate| candidate.node)
            .collect();
        assert!(list.is_sorted_by(|a, b| a.node < b.node), "{list:?}");
        assert_eq!(list.len(), cx.candidates.len());
        for (at, node) in list.iter().enumerate() {
            assert_eq!(cx.candidates.position(*node), Some(at));
            assert_eq!(cx.candidates.position_of(node.node), Some(at));
        }
        let before = rng.state();
        let picked = self.policy.pick(cx, rng);
        assert_eq!(picked.is_some(), !list.is_empty());
        assert!(
            picked.is_none_or(|at| at < list.len()),
            "{picked:?} of {list:?}"
        );
        if list.len() == 1 || (self.quiet && list == self.last) {
            assert_eq!(rng.state(), before, "a draw for nothing");
        }
        self.last = list;
        picked
    }

    fn observe(&mut self, node: NodeRef, outcome: Outcome, now: Instant) {
        self.policy.observe(node, outcome, now);
    }
}

struct Model {
    now: Instant,
    calls: Vec<(Call, Invocation)>,
    /// The view as it should be.
    epoch: u64,
    members: BTreeMap<u64, (u64, MemberState)>,
}

fn check<P: LoadBalancePolicy>(policy: P, quiet: bool, events: &[Event]) {
    let policy = Checked {
        policy,
        quiet,
        last: Vec::new(),
    };
    let config = StubConfig::new().with_seeds(2).with_eject_after(2);
    let mut stub = Stub::new(config, policy, StubArray::<8>::new(), 9).unwrap();
    let mut model = Model {
        now: at(0),
        calls: Vec::new(),
        epoch: 0,
        members: BTreeMap::new(),
    };
    for event in events {
        model.apply(&mut stub, event);
        model.invariants(&stub);
        let listed = stub.candidates(model.now);
        let sum = listed.iter().map(|c| u64::from(c.outstanding)).sum();
        assert_eq!(listed.outstanding(), sum);
    }
    for (_, call) in &mut model.calls {
        call.cancel(&mut stub);
    }
    let idle = stub
        .overlay()
        .candidates()
        .iter()
        .all(|c| c.outstanding == 0);
    assert!(idle, "a call is counted that has ended");
}

impl Model {
    fn apply<P: LoadBalancePolicy>(&mut self, stub: &mut TestStub<P>, event: &Event) {
        let now = self.now;
        match *event {
            Event::View {
                epoch,
                ref members,
                other,
            } => self.view(stub, epoch, members, other),
            Event::Start {
                idempotent,
                attempts,
                bound,
                key,
            } => {
                let mut call = Call::new(now.after(ms(9000)))
                    .with_idempotent(idempotent)
                    .with_attempt_timeout(ms(2000))
                    .with_key(key);
                if attempts > 0 {
                    call = call.with_max_attempts(attempts);
                }
                if let Some((node, life)) = bound {
                    call = call.with_bound(NodeRef::new(NodeId(node), Incarnation(life)));
                }
                let mut invocation = Invocation::new(call);
                let step = invocation.start(now, stub);
                self.step(stub, &call, &invocation, 0, step);
                if self.calls.len() == 8 {
                    self.calls.remove(0).1.cancel(stub);
                }
                self.calls.push((call, invocation));
            }
            Event::Outcome {
                call,
                failure: kind,
            } => self.with(call, stub, |invocation, stub| {
                let outcome = kind.map_or(Ok(()), |kind| Err(failure(kind)));
                let attempt = invocation.attempts();
                invocation.on_outcome(now, stub, attempt, outcome)
            }),
            Event::Late { call } => self.with(call, stub, |invocation, stub| {
                let earlier = invocation.attempts().wrapping_sub(1);
                invocation.on_outcome(now, stub, earlier, Ok(()))
            }),
            Event::Timeout { call } => {
                self.with(call, stub, |invocation, stub| {
                    invocation.handle_timeout(now, stub)
                });
            }
            Event::Cancel { call } => self.with(call, stub, |invocation, stub| {
                invocation.cancel(stub);
                invocation.start(now, stub)
            }),
            Event::Ask => {
                if let Some(Source::Node(node)) = stub.poll_view(now) {
                    assert!(self.is_member(node));
                }
            }
            Event::Pass(millis) => self.now = now.after(ms(millis)),
        }
    }

    fn with<P: LoadBalancePolicy>(
        &mut self,
        at: usize,
        stub: &mut TestStub<P>,
        act: impl FnOnce(&mut Invocation, &mut TestStub<P>) -> Step,
    ) {
        let Some((call, invocation)) = self.calls.get_mut(at) else {
            return;
        };
        let before = invocation.attempts();
        let step = act(invocation, stub);
        let (call, invocation) = (*call, invocation.clone());
        self.step(stub, &call, &invocation, before, step);
    }

    fn is_member(&self, node: NodeRef) -> bool {
        let life = self.members.get(&node.node.0).map(|member| member.0);
        life == Some(node.incarnation.0)
    }

    fn step<P: LoadBalancePolicy>(
        &self,
        stub: &TestStub<P>,
        call: &Call,
        invocation: &Invocation,
        before: u8,
        step: Step,
    ) {
        match step {
            Step::Send {
                node,
                attempt,
                deadline,
            } => {
                assert!(self.is_member(node), "{node} is nobody");
                assert_eq!(attempt, before + 1);
                assert!(deadline <= call.deadline && deadline > self.now);
                let tried = &invocation.tried()[..usize::from(before)];
                assert!(!tried.contains(&node), "{node} was tried");
                assert!(call.bound.is_none_or(|bound| bound == node && attempt == 1));
                let most = call.max_attempts.unwrap_or(stub.config.max_attempts);
                assert!(attempt <= most.max(1));
                assert_eq!(
                    stub.overlay()
                        .candidates()
                        .iter()
                        .find(|c| c.node == node)
                        .map(|c| c.outstanding > 0),
                    Some(true)
                );
            }
            Step::Park { until } => assert!(until <= call.deadline),
            Step::Fail { error } => {
                // Nothing that may have been carried out is said not to have been.
                let tried = invocation.attempts() > 0;
                assert!(tried || error.completed() == CompletionStatus::No);
                assert_eq!(invocation.poll_timeout(), None);
            }
            Step::Done => assert_eq!(invocation.poll_timeout(), None),
        }
    }

    fn view<P: LoadBalancePolicy>(
        &mut self,
        stub: &mut TestStub<P>,
        epoch: u64,
        members: &[(u64, u64, u8)],
        other: bool,
    ) {
        let state = |kind: u8| match kind {
            0 => MemberState::Joining,
            1 => MemberState::Leaving,
            2 => MemberState::Unreachable,
            _ => MemberState::Up,
        };
        let list: Vec<_> = members
            .iter()
            .map(|(node, life, kind)| {
                let node = NodeRef::new(NodeId(*node), Incarnation(*life));
                Provider::new(node).with_state(state(*kind))
            })
            .collect();
        let cluster = if other { 8 } else { 7 };
        let update = ViewUpdate {
            cluster,
            epoch,
            members: &list,
        };
        let known = stub.view().cluster();
        let taken = stub.handle_view(self.now, update);
        let expected = !list.is_empty()
            && list.len() <= 8
            && epoch > self.epoch
            && known.is_none_or(|known| known == cluster);
        assert_eq!(taken.is_ok(), expected, "{taken:?}");
        if expected {
            self.epoch = epoch;
            self.members.clear();
            for provider in list {
                let life = provider.node.incarnation.0;
                let slot = self
                    .members
                    .entry(provider.node.node.0)
                    .or_insert((0, MemberState::Up));
                if life > slot.0 {
                    *slot = (life, provider.state);
                }
            }
        }
    }

    fn invariants<P: LoadBalancePolicy>(&self, stub: &TestStub<P>) {
        let members = stub.view().members().iter();
        let found: Vec<_> = members
            .map(|m| (m.node.node.0, m.node.incarnation.0))
            .collect();
        let expected: Vec<_> = self
            .members
            .iter()
            .map(|(node, member)| (*node, member.0))
            .collect();
        assert_eq!(found, expected);
        let candidates = stub.overlay().candidates().iter();
        let found: Vec<_> = candidates
            .map(|c| (c.node.node.0, c.node.incarnation.0))
            .collect();
        assert_eq!(found, expected, "view and overlay differ");
        let ejected = stub
            .overlay()
            .beliefs()
            .iter()
            .filter(|b| b.ejected_until() > self.now);
        assert!(found.is_empty() || ejected.count() < found.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(96)))]

    #[test]
    fn whoever_is_picked_is_eligible(events in prop::collection::vec(event(), 1..120)) {
        check(RoundRobin::new(), true, &events);
        check(RandomRobin::new(), false, &events);
        check(FirstAvailable::new(), true, &events);
        check(FirstAvailableIdenticalAllProxies::new(LocalElection::new(1)), true, &events);
        check(LeastOutstanding::new(), false, &events);
        check(PeakEwma::new(), false, &events);
        check(WeightedRoundRobin::new(WeightArray::<8>::new()), true, &events);
        check(Rendezvous::new(), true, &events);
        check(Rendezvous::new().with_load_bound(120), true, &events);
    }
}
