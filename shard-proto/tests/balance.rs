//! Calls to services allocate nothing: neither picks nor failover, views or questions for them. All allocations of this
//! program are counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "a test"
)]

use allocation_counter::measure;
use core::time::Duration;

use shard_proto::{
    Incarnation, Instant, NodeId,
    balance::{
        AtomicElection, Call, CallError, Candidate, Candidates, Failure, FirstAvailable,
        FirstAvailableIdenticalAllProxies, Invocation, LeastOutstanding, LoadBalancePolicy,
        NodeRef, PeakEwma, PickContext, Policy, Provider, RandomRobin, Rendezvous, RoundRobin,
        SplitMix64, Step, Stub, StubArray, StubConfig, ViewUpdate, WeightArray, WeightedRoundRobin,
    },
};

const NODES: usize = 100;

fn node(number: usize) -> NodeRef {
    NodeRef::new(NodeId(number as u64 + 1), Incarnation(1))
}

/// What it allocates, twice over: the first time may set something up.
fn allocates_nothing(what: &str, mut run: impl FnMut()) {
    for _time in 0..2 {
        let found = measure(&mut run);
        assert_eq!((found.count_total, found.bytes_total), (0, 0), "{what}");
    }
}

#[test]
fn the_counter_counts() {
    let found = measure(|| drop(core::hint::black_box(vec![1_u8; 100])));
    assert_eq!((found.count_total, found.bytes_total), (1, 100));
}

#[test]
fn picks_allocate_nothing() {
    let election = AtomicElection::new(1);
    let identical = FirstAvailableIdenticalAllProxies::new(&election);
    let mut policies: [(&str, Box<dyn LoadBalancePolicy + '_>); 9] = [
        ("round robin", Box::new(RoundRobin::new())),
        ("random robin", Box::new(RandomRobin::new())),
        ("first available", Box::new(FirstAvailable::new())),
        ("identical", Box::new(identical)),
        ("least outstanding", Box::new(LeastOutstanding::new())),
        ("peak ewma", Box::new(PeakEwma::new())),
        (
            "weighted",
            Box::new(WeightedRoundRobin::new(WeightArray::<NODES>::new())),
        ),
        ("rendezvous", Box::new(Rendezvous::new())),
        ("bounded", Box::new(Rendezvous::new().with_load_bound(125))),
    ];
    let list: [Candidate; NODES] = core::array::from_fn(|number| Candidate::new(node(number)));
    for (name, policy) in &mut policies {
        let mut rng = SplitMix64::new(7);
        allocates_nothing(name, || {
            for turn in 0..500 {
                // Candidates change all the time.
                let list = &list[turn % 7..NODES - turn % 11];
                let cx = PickContext::new(Instant::ZERO, Candidates::new(list))
                    .with_key(Some(turn as u64));
                assert!(policy.pick(&cx, &mut rng).unwrap() < list.len());
            }
        });
    }
}

#[test]
fn failover_allocates_nothing() {
    let members: [Provider; NODES] = core::array::from_fn(|number| Provider::new(node(number)));
    for policy in Policy::ALL {
        let election = AtomicElection::new(1);
        let built = policy.build(&election, WeightArray::<NODES>::new());
        let config = StubConfig::new().with_seeds(3);
        let mut stub = Stub::new(config, built, StubArray::<NODES>::new(), 5).unwrap();
        let (mut epoch, mut now) = (0, Instant::ZERO);
        allocates_nothing(policy.name(), || {
            for turn in 0..200 {
                if turn % 10 == 0 {
                    epoch += 1;
                    let members = &members[turn % 7..];
                    let update = ViewUpdate {
                        cluster: 1,
                        epoch,
                        members,
                    };
                    stub.handle_view(now, update).unwrap();
                }
                let ended = call(&mut stub, now, turn);
                assert!(ended.is_ok() || turn % 3 == 0, "{ended:?}");
                now = now.after(Duration::from_millis(700));
                stub.poll_view(now);
            }
        });
    }
}

/// A call that is answered by its second or third node, or by none.
fn call<P: LoadBalancePolicy>(
    stub: &mut Stub<P, StubArray<NODES>>,
    now: Instant,
    turn: usize,
) -> Result<(), CallError> {
    let call = Call::new(now.after(Duration::from_secs(1)))
        .with_idempotent(true)
        .with_key(turn as u64);
    let mut invocation = Invocation::new(call);
    let mut step = invocation.start(now, stub);
    loop {
        match step {
            Step::Send { attempt, .. } => {
                let fails = turn % 3;
                let good = fails > 0 && usize::from(attempt) > fails;
                let outcome = if good { Ok(()) } else { Err(Failure::reset()) };
                step = invocation.on_outcome(now, stub, attempt, outcome);
            }
            Step::Done => return Ok(()),
            Step::Fail { error } => return Err(error),
            Step::Park { .. } => panic!("there are nodes"),
        }
    }
}
