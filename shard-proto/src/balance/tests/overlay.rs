use super::*;

/// One call to this node that ends like this.
fn call<P: LoadBalancePolicy>(
    stub: &mut TestStub<P>,
    now: Instant,
    to: &str,
    outcome: Result<(), Failure>,
) {
    let call = Call::new(Instant::FAR_FUTURE).with_bound(node(to));
    let (sent, _) = run(stub, now, call, |_| outcome);
    assert_eq!(sent, [to]);
}

fn outstanding<P: LoadBalancePolicy>(stub: &TestStub<P>) -> Vec<u32> {
    let all = stub.overlay().candidates().iter();
    all.map(|candidate| candidate.outstanding).collect()
}

#[test]
fn a_node_that_fails_in_a_row_is_ejected_for_a_time_that_grows() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
    let slow = Err(Failure::timed_out());
    for _failure in 0..4 {
        call(&mut stub, at(0), "A", slow);
    }
    assert_eq!(eligible(&mut stub, at(0)), "A B C");
    call(&mut stub, at(0), "A", Ok(()));
    for _failure in 0..4 {
        call(&mut stub, at(0), "A", slow);
    }
    assert_eq!(eligible(&mut stub, at(0)), "A B C", "not in a row");
    call(&mut stub, at(0), "A", slow);
    assert_eq!(eligible(&mut stub, at(0)), "B C");
    assert_eq!(eligible(&mut stub, at(29_999)), "B C");
    assert_eq!(eligible(&mut stub, at(30_000)), "A B C");
    call(&mut stub, at(30_000), "A", slow);
    assert_eq!(eligible(&mut stub, at(89_999)), "B C", "twice as long");
    assert_eq!(eligible(&mut stub, at(90_000)), "A B C");
    // Good for longer than it was ejected: it starts over.
    call(&mut stub, at(200_000), "A", slow);
    assert_eq!(eligible(&mut stub, at(229_999)), "B C");
    assert_eq!(eligible(&mut stub, at(230_000)), "A B C");
    assert_eq!(stub.stats().ejected, 3);
}

#[test]
fn not_too_many_nodes_are_ejected_and_never_the_last() {
    for (percent, list, ejected) in [
        (30, "A B C D E F G", 2),
        (30, "A B", 1),
        (30, "A", 0),
        (100, "A B C D", 3),
        (0, "A B C D", 1),
        (1000, "A", 0),
    ] {
        let config = StubConfig::new()
            .with_eject_percent(percent)
            .with_eject_after(0);
        let mut stub = stub(config, RoundRobin::new(), list);
        for name in list.split(' ') {
            call(&mut stub, at(0), name, Err(Failure::timed_out()));
        }
        let stats = stub.stats();
        assert_eq!(stats.ejected, ejected, "{percent} % of {list}");
        assert_eq!(stats.ejected + stats.spared, nodes(list).len() as u64);
    }
}

#[test]
fn nor_are_they_when_others_leave() {
    let config = StubConfig::new().with_eject_after(0);
    let mut stub = stub(config, RoundRobin::new(), "A B C D E F G");
    call(&mut stub, at(0), "B", Err(Failure::timed_out()));
    call(&mut stub, at(1), "A", Err(Failure::timed_out()));
    assert_eq!(eligible(&mut stub, at(1)), "C D E F G");
    view(&mut stub, 2, "A B C").unwrap();
    assert_eq!(eligible(&mut stub, at(1)), "B C", "B would be back first");
    view(&mut stub, 3, "A").unwrap();
    let belief = stub.overlay().beliefs()[0];
    assert!(belief.ejected_until() <= at(1), "the last one");
}

#[test]
fn what_a_failure_means_for_the_node() {
    for (failure, suspected, failures) in [
        (Failure::refused(), true, 1),
        (Failure::unreachable(), true, 1),
        (Failure::reset(), true, 1),
        (Failure::timed_out(), false, 1),
        (Failure::busy(), false, 0),
        (Failure::leaving(), true, 0),
        (Failure::undecodable(), false, 1),
        (Failure::nested(CompletionStatus::No), false, 0),
    ] {
        let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
        call(&mut stub, at(1), "A", Err(failure));
        let found = stub.overlay().candidates()[0];
        assert_eq!(found.failures, failures, "{failure}");
        let doubted = stub.overlay().beliefs()[0].suspected_until() > at(1);
        assert_eq!(doubted, suspected, "{failure}");
        assert_eq!(eligible(&mut stub, at(1)) == "B C", suspected, "{failure}");
    }
}

#[test]
fn an_answer_ends_suspicion() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
    call(&mut stub, at(0), "A", Err(Failure::reset()));
    assert_eq!(eligible(&mut stub, at(1)), "B C");
    call(&mut stub, at(1), "A", Ok(()));
    assert_eq!(eligible(&mut stub, at(1)), "A B C");
}

#[test]
fn failures_of_a_client_change_no_view() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
    for name in ["A", "B", "C"] {
        for _failure in 0..9 {
            call(&mut stub, at(0), name, Err(Failure::reset()));
        }
    }
    assert_eq!(stub.view().members(), providers("A B C"));
}

#[test]
fn beliefs_follow_their_nodes_through_views_and_not_into_another_life() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "B D F");
    let mut calls = [(); 3].map(|()| Invocation::new(Call::new(at(9000)).with_bound(node("D"))));
    for call in &mut calls {
        call.start(at(0), &mut stub);
    }
    call(&mut stub, at(0), "F", Err(Failure::timed_out()));
    assert_eq!(outstanding(&stub), [0, 3, 0]);
    view(&mut stub, 2, "G F E D C A").unwrap();
    assert_eq!(outstanding(&stub), [0, 0, 3, 0, 0, 0], "A C D E F G");
    assert_eq!(stub.overlay().candidates()[4].failures, 1);
    view(&mut stub, 3, "D F2").unwrap();
    assert_eq!(outstanding(&stub), [3, 0]);
    assert_eq!(stub.overlay().candidates()[1].failures, 0);

    calls[0].on_outcome(at(1), &mut stub, 1, Ok(()));
    assert_eq!(outstanding(&stub), [2, 0]);
    // It leaves and is back: calls of its former stay do not count, and their end does not either.
    view(&mut stub, 4, "A").unwrap();
    view(&mut stub, 5, "A D").unwrap();
    assert_eq!(outstanding(&stub), [0, 0]);
    let mut again = Invocation::new(Call::new(at(9000)).with_bound(node("D")));
    again.start(at(1), &mut stub);
    calls[1].on_outcome(at(1), &mut stub, 1, Err(Failure::reset()));
    calls[2].cancel(&mut stub);
    assert_eq!(outstanding(&stub), [0, 1]);
    assert_eq!(eligible(&mut stub, at(1)), "A D");
    again.cancel(&mut stub);
    assert_eq!(outstanding(&stub), [0, 0]);
}

/// The total, and what it should be.
fn totals(stub: &mut TestStub<RoundRobin>, now: Instant) -> (u64, u64) {
    let candidates = stub.candidates(now);
    let sum = candidates.iter().map(|c| u64::from(c.outstanding)).sum();
    (candidates.outstanding(), sum)
}

#[test]
fn the_total_of_calls_in_flight_is_that_of_the_candidates() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C D");
    let mut calls = ["A", "A", "B", "C"].map(|name| {
        let mut call = Invocation::new(Call::new(at(90_000)).with_bound(node(name)));
        call.start(at(0), &mut stub);
        call
    });
    assert_eq!(totals(&mut stub, at(0)), (4, 4));
    calls[2].on_outcome(at(1), &mut stub, 1, Ok(()));
    assert_eq!(totals(&mut stub, at(1)), (3, 3));
    // A is suspected: its other call does not count, nor do one more and the end of one.
    calls[0].on_outcome(at(1), &mut stub, 1, Err(Failure::reset()));
    assert_eq!(totals(&mut stub, at(1)), (1, 1));
    let mut one_more = Invocation::new(Call::new(at(90_000)).with_bound(node("A")));
    one_more.start(at(2), &mut stub);
    assert_eq!(totals(&mut stub, at(2)), (1, 1));
    one_more.cancel(&mut stub);
    assert_eq!(totals(&mut stub, at(2)), (1, 1));
    // A call that is tried again lists others than the next one does.
    let mut again = Invocation::new(Call::new(at(90_000)));
    again.start(at(3), &mut stub);
    again.on_outcome(at(3), &mut stub, 1, Err(Failure::busy()));
    assert_eq!(totals(&mut stub, at(3)), (2, 2));
    assert_eq!(totals(&mut stub, at(5001)), (3, 3), "A is back");
    view(&mut stub, 2, "A B C2").unwrap();
    let (total, sum) = totals(&mut stub, at(5001));
    assert_eq!(total, sum);
}

#[test]
fn weights_follow_the_view() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B");
    let mut members = providers("A B");
    members[1] = members[1].with_weight(7);
    stub.handle_view(
        at(0),
        ViewUpdate {
            cluster: 7,
            epoch: 2,
            members: &members,
        },
    )
    .unwrap();
    let weights = stub.candidates(at(0)).iter().map(|c| c.weight);
    assert_eq!(weights.collect::<Vec<_>>(), [1, 7]);
}

#[test]
fn latency_rises_at_once_and_falls_by_half_per_half_life() {
    let half_life = Duration::from_micros(1 << 20);
    let mut latency = Latency::new(half_life);
    assert_eq!(latency.micros(at(77)), 0);
    latency.observe(at(0), ms(10));
    assert_eq!(latency.micros(at(0)), 10_000);
    latency.observe(at(0), ms(50));
    assert_eq!(latency.micros(at(0)), 50_000);
    latency.observe(at(0), ms(10));
    assert_eq!(latency.micros(at(0)), 50_000, "no time has passed");

    let later = |parts: u64| Instant::from_micros((1 << 20) * parts / 4);
    let expected = [50_000, 42_045, 35_355, 29_730, 25_000];
    for (parts, expected) in expected.into_iter().enumerate() {
        let found = latency.micros(later(parts as u64));
        assert!(
            found.abs_diff(expected) * 1000 <= expected * 6,
            "{parts}: {found}"
        );
    }
    assert_eq!(latency.micros(later(4)), 25_000);
    assert_eq!(latency.micros(later(8)), 12_500);
    assert_eq!(latency.micros(later(4 * 40)), 0);
    // A faster answer counts for half after one half-life: 10 + (50 - 10) / 2.
    latency.observe(later(4), ms(10));
    assert_eq!(latency.micros(later(4)), 30_000);
    // Time that goes back, and times out of any range.
    latency.observe(at(0), Duration::ZERO);
    latency.observe(at(0), Duration::MAX);
    assert_eq!(latency.micros(at(0)), u32::MAX);
    for half_life in [Duration::ZERO, Duration::MAX, ms(3)] {
        let mut latency = Latency::new(half_life);
        latency.observe(at(5), ms(1));
        assert_eq!(latency.micros(at(5)), 1000);
        assert!(latency.micros(at(6)) <= 1000);
        assert!(latency.micros(Instant::FAR_FUTURE) <= 1000);
    }
}
