//! Two stubs of a service, one in arrays and one on the heap, that are told the same.

use alloc::vec::Vec;
use core::time::Duration;

use super::feed::Feed;
use crate::{
    Incarnation, Instant, NodeId,
    balance::{
        Call, Candidate, Cause, CompletionStatus, Configured, Failure, Invocation, LocalElection,
        NodeRef, Policy, Preference, Provider, Step, Stub, StubArray, StubConfig, StubHeap,
        StubStorage, ViewUpdate, WeightArray,
    },
    membership::MemberState,
};

const NODES: usize = 8;
const CALLS: usize = 8;

struct World<S: StubStorage> {
    stub: Stub<Configured<LocalElection, WeightArray<NODES>>, S>,
    calls: Vec<Invocation>,
}

impl<S: StubStorage> World<S> {
    fn new(policy: Policy, config: StubConfig, storage: S) -> Self {
        let policy = policy.build(LocalElection::new(3), WeightArray::new());
        Self {
            stub: Stub::new(config, policy, storage, 42).unwrap(),
            calls: Vec::new(),
        }
    }

    fn start(&mut self, now: Instant, call: Call) -> Step {
        if self.calls.len() == CALLS {
            self.calls.remove(0).cancel(&mut self.stub);
        }
        let mut invocation = Invocation::new(call);
        let step = invocation.start(now, &mut self.stub);
        self.calls.push(invocation);
        step
    }

    /// Something happens to a call. `None`: there is none.
    fn happen(&mut self, now: Instant, which: usize, event: Event) -> Option<Step> {
        let call = self.calls.get_mut(which)?;
        let stub = &mut self.stub;
        Some(match event {
            Event::Outcome { late, outcome } => {
                let attempt = call.attempts().wrapping_sub(late);
                call.on_outcome(now, stub, attempt, outcome)
            }
            Event::Timeout => call.handle_timeout(now, stub),
            Event::Cancel => {
                call.cancel(stub);
                call.start(now, stub)
            }
        })
    }

    fn check(&self, now: Instant, step: Option<Step>) {
        let members = self.stub.view().members();
        let candidates = self.stub.overlay().candidates();
        let nodes = |list: &[Candidate]| list.iter().map(|one| one.node).collect::<Vec<_>>();
        let of_view: Vec<_> = members.iter().map(|member| member.node).collect();
        assert_eq!(of_view, nodes(candidates), "view and overlay differ");
        assert!(of_view.is_sorted_by(|a, b| a.node < b.node));
        let beliefs = self.stub.overlay().beliefs().iter();
        let ejected = beliefs
            .filter(|belief| belief.ejected_until() > now)
            .count();
        assert!(ejected == 0 || ejected < members.len(), "all are ejected");
        let counted: u32 = candidates.iter().map(|one| one.outstanding).sum();
        assert!(counted as usize <= self.calls.len());
        if let Some(Step::Send { node, deadline, .. }) = step {
            assert!(of_view.contains(&node), "{node} is nobody");
            // An attempt may be given no time at all.
            assert!(deadline >= now, "sent too late");
        }
    }

    fn end(mut self) {
        for call in &mut self.calls {
            call.cancel(&mut self.stub);
        }
        let mut candidates = self.stub.overlay().candidates().iter();
        assert!(
            candidates.all(|one| one.outstanding == 0),
            "counted for ever"
        );
    }
}

#[derive(Clone, Copy)]
enum Event {
    Outcome {
        /// Of how many attempts before.
        late: u8,
        outcome: Result<(), Failure>,
    },
    Timeout,
    Cancel,
}

fn node(feed: &mut Feed<'_>) -> NodeRef {
    let node = NodeId(1 + u64::from(feed.below(10)));
    NodeRef::new(node, Incarnation(1 + u64::from(feed.below(3))))
}

fn members(feed: &mut Feed<'_>) -> Vec<Provider> {
    let states = [
        MemberState::Up,
        MemberState::Up,
        MemberState::Joining,
        MemberState::Unreachable,
        MemberState::Leaving,
    ];
    let count = feed.below(11);
    let mut member = |_| {
        Provider::new(node(feed))
            .with_state(feed.pick(&states))
            .with_zone(feed.below(3))
            .with_weight(feed.number() as u32)
    };
    (0..count).map(&mut member).collect()
}

fn call(feed: &mut Feed<'_>, now: Instant) -> Call {
    let mut call = Call::new(now.after(Duration::from_micros(feed.number())))
        .with_idempotent(feed.flag())
        .with_key(feed.number());
    let set = feed.byte();
    if set & 1 == 1 {
        call = call.with_max_attempts(feed.byte());
    }
    if set & 2 == 2 {
        call = call.with_attempt_timeout(Duration::from_micros(feed.number()));
    }
    if set & 4 == 4 {
        call = call.with_wait(Duration::from_micros(feed.number()));
    }
    if set & 8 == 8 {
        call = call.with_hint(node(feed).node);
    }
    if set & 48 == 48 {
        call = call.with_bound(node(feed));
    }
    call
}

fn event(feed: &mut Feed<'_>) -> Event {
    let causes = [
        Cause::Refused,
        Cause::Unreachable,
        Cause::Reset,
        Cause::TimedOut,
        Cause::Busy,
        Cause::Leaving,
        Cause::Undecodable,
        Cause::Nested,
    ];
    let statuses = [
        CompletionStatus::No,
        CompletionStatus::No,
        CompletionStatus::Maybe,
        CompletionStatus::Yes,
    ];
    match feed.below(8) {
        0 => Event::Timeout,
        1 => Event::Cancel,
        _ => {
            let late = u8::from(feed.below(8) == 7);
            let failure = Failure::new(feed.pick(&causes), feed.pick(&statuses));
            let outcome = if feed.flag() { Ok(()) } else { Err(failure) };
            Event::Outcome { late, outcome }
        }
    }
}

/// Views, calls and their outcomes, in any order and at any time.
pub fn balance_ops(bytes: &[u8]) {
    let feed = &mut Feed::new(bytes);
    let policy = feed.pick(Policy::ALL);
    let preference = Preference::new()
        .with_zone(feed.below(3))
        .with_required_zone(feed.below(6) / 5)
        .with_min_preferred(feed.below(4))
        .with_panic_percent(feed.below(120));
    let config = StubConfig::new()
        .with_preference(preference)
        .with_seeds(feed.below(3) as u16)
        .with_eject_after(feed.below(4))
        .with_eject_percent(feed.below(150))
        .with_suspicion(Duration::from_micros(feed.number()));
    let mut heap = World::new(policy, config, StubHeap::new(NODES as u16));
    let mut array = World::new(policy, config, StubArray::<NODES>::new());
    let mut now = Instant::ZERO;
    while !feed.is_empty() {
        let mut step = None;
        match feed.below(8) {
            0 => {
                let members = members(feed);
                let (cluster, epoch) = (7 + u64::from(feed.below(20) / 19), feed.number());
                let update = ViewUpdate {
                    cluster,
                    epoch,
                    members: &members,
                };
                let taken = heap.stub.handle_view(now, update);
                assert_eq!(taken, array.stub.handle_view(now, update));
            }
            1 | 2 => {
                let call = call(feed, now);
                let first = heap.start(now, call);
                assert_eq!(first, array.start(now, call));
                step = Some(first);
            }
            3 => now = now.after(Duration::from_micros(feed.number())),
            4 => assert_eq!(heap.stub.poll_view(now), array.stub.poll_view(now)),
            _ => {
                let (which, event) = (feed.below(CALLS as u32) as usize, event(feed));
                step = heap.happen(now, which, event);
                assert_eq!(step, array.happen(now, which, event));
            }
        }
        heap.check(now, step);
        array.check(now, step);
        assert_eq!(heap.stub.stats(), array.stub.stats());
    }
    heap.end();
    array.end();
}
