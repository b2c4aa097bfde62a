use super::*;

fn call() -> Call {
    Call::new(at(10_000))
}

fn three() -> TestStub<RoundRobin> {
    stub(
        StubConfig::new(),
        RoundRobin::after(node("C").node),
        "A B C",
    )
}

fn sent(step: Step) -> (String, u8) {
    let Step::Send { node, attempt, .. } = step else {
        panic!("{step:?}");
    };
    (name(node), attempt)
}

fn failed(step: Step) -> CallError {
    let Step::Fail { error } = step else {
        panic!("{step:?}");
    };
    error
}

#[test]
fn without_a_view_it_parks_until_there_is_one() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "");
    let mut invocation = Invocation::new(call());
    let step = invocation.start(at(0), &mut stub);
    assert_eq!(step, Step::Park { until: at(1000) });
    assert_eq!(invocation.poll_timeout(), Some(at(1000)));
    let step = invocation.handle_timeout(at(1000), &mut stub);
    assert_eq!(step, Step::Park { until: at(2000) });
    view(&mut stub, 1, "A").unwrap();
    let step = invocation.handle_timeout(at(1500), &mut stub);
    assert_eq!(sent(step), ("A".into(), 1));
    assert_eq!(stub.stats().parked, 2);
}

#[test]
fn it_waits_for_a_node_as_long_as_it_may() {
    for (wait, until) in [(Some(ms(0)), 0), (Some(ms(1500)), 1500), (None, 10_000)] {
        let mut stub = stub(StubConfig::new(), RoundRobin::new(), "");
        let call = wait.map_or(call(), |wait| call().with_wait(wait));
        let mut invocation = Invocation::new(call);
        let mut step = invocation.start(at(0), &mut stub);
        let mut now = at(0);
        while let Step::Park { until } = step {
            assert!(until > now);
            now = until;
            step = invocation.handle_timeout(now, &mut stub);
        }
        assert_eq!((now, failed(step)), (at(until), CallError::NoNodes));
        assert_eq!(failed(step).completed(), CompletionStatus::No);
    }
}

#[test]
fn one_deadline_is_over_all_attempts() {
    let mut stub = three();
    let call = call().with_idempotent(true).with_attempt_timeout(ms(6000));
    let mut invocation = Invocation::new(call);
    let step = invocation.start(at(0), &mut stub);
    assert!(matches!(step, Step::Send { deadline, .. } if deadline == at(6000)));
    assert_eq!(
        invocation.handle_timeout(at(5999), &mut stub),
        Step::Park { until: at(6000) },
        "not sent again"
    );
    let step = invocation.handle_timeout(at(6000), &mut stub);
    assert!(matches!(step, Step::Send { deadline, attempt: 2, .. } if deadline == at(10_000)));
    let error = failed(invocation.handle_timeout(at(10_000), &mut stub));
    let expected = CallError::Deadline {
        attempts: 2,
        last: Some(Failure::timed_out()),
        completed: CompletionStatus::Maybe,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_call_that_starts_late_is_not_sent() {
    let error = failed(Invocation::new(call()).start(at(10_000), &mut three()));
    assert!(matches!(error, CallError::Deadline { attempts: 0, .. }));
    assert_eq!(error.completed(), CompletionStatus::No);
}

#[test]
fn an_attempt_that_timed_out_is_tried_again_only_if_idempotent() {
    let mut stub = three();
    let mut invocation = Invocation::new(call().with_attempt_timeout(ms(10)));
    invocation.start(at(0), &mut stub);
    let error = failed(invocation.handle_timeout(at(10), &mut stub));
    assert!(matches!(error, CallError::NotRetried { attempts: 1, .. }));
    assert_eq!(error.completed(), CompletionStatus::Maybe);
}

#[test]
fn an_attempt_that_may_have_been_carried_out_is_not_forgotten() {
    let mut stub = three();
    let mut first = true;
    let (sent, result) = run(&mut stub, at(0), call().with_idempotent(true), |_| {
        let maybe = core::mem::take(&mut first);
        Err(if maybe {
            Failure::reset()
        } else {
            Failure::refused()
        })
    });
    assert_eq!(sent.len(), 3);
    let error = result.unwrap_err();
    assert!(matches!(error, CallError::Exhausted { .. }));
    assert_eq!(error.last(), Some(Failure::refused()));
    assert_eq!(error.completed(), CompletionStatus::Maybe);
}

#[test]
fn a_nested_no_is_a_maybe() {
    for (nested, completed) in [
        (CompletionStatus::No, CompletionStatus::Maybe),
        (CompletionStatus::Maybe, CompletionStatus::Maybe),
        (CompletionStatus::Yes, CompletionStatus::Yes),
    ] {
        let failure = Failure::nested(nested);
        assert_eq!(failure.completed(), completed);
        let (sent, result) = run(&mut three(), at(0), call(), |_| Err(failure));
        assert_eq!(sent.len(), 1, "{nested:?} is not tried again");
        assert_eq!(result.unwrap_err().completed(), completed);
    }
}

#[test]
fn a_bound_call_is_never_moved() {
    for (failure, lost) in [
        (Failure::refused(), true),
        (Failure::reset(), true),
        (Failure::leaving(), true),
        (Failure::busy(), false),
        (Failure::timed_out(), false),
    ] {
        let bound = call().with_bound(node("B")).with_idempotent(true);
        let (sent, result) = run(&mut three(), at(0), bound, |_| Err(failure));
        assert_eq!(sent, ["B"], "{failure}");
        let error = result.unwrap_err();
        assert_eq!(
            matches!(error, CallError::BoundLost { .. }),
            lost,
            "{failure}"
        );
        assert_eq!(error.completed(), failure.completed());
    }
}

#[test]
fn a_bound_call_goes_to_its_node_however_bad_it_is_but_to_no_other_life_of_it() {
    let mut stub = three();
    let bound = call().with_bound(node("B"));
    run(&mut stub, at(0), bound, |_| Err(Failure::reset()))
        .1
        .unwrap_err();
    assert_eq!(eligible(&mut stub, at(0)), "A C");
    assert_eq!(run(&mut stub, at(0), bound, |_| Ok(())).1, Ok(()));
    view(&mut stub, 2, "A B2 C").unwrap();
    let error = failed(Invocation::new(bound).start(at(0), &mut stub));
    let expected = CallError::BoundLost {
        node: node("B"),
        last: None,
        completed: CompletionStatus::No,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_node_that_restarted_may_be_tried_by_the_same_call() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A");
    let mut invocation = Invocation::new(call());
    assert_eq!(sent(invocation.start(at(0), &mut stub)).0, "A");
    view(&mut stub, 2, "A2").unwrap();
    let step = invocation.on_outcome(at(1), &mut stub, 1, Err(Failure::refused()));
    assert_eq!(sent(step), ("A2".into(), 2));
    assert_eq!(invocation.tried(), nodes("A A2"));
    assert_eq!(
        eligible(&mut stub, at(1)),
        "A2",
        "not suspected for what A did"
    );
}

#[test]
fn late_and_repeated_outcomes_change_nothing() {
    let mut stub = three();
    let mut invocation = Invocation::new(call().with_idempotent(true).with_attempt_timeout(ms(10)));
    let early = invocation.on_outcome(at(0), &mut stub, 0, Ok(()));
    assert!(matches!(early, Step::Park { .. }), "it has not started");
    assert_eq!(sent(invocation.start(at(0), &mut stub)), ("A".into(), 1));
    assert_eq!(
        sent(invocation.handle_timeout(at(10), &mut stub)),
        ("B".into(), 2)
    );
    let busy = |stub: &TestStub<_>| {
        let all = stub.overlay().candidates().iter();
        all.map(|candidate| candidate.outstanding)
            .collect::<Vec<_>>()
    };
    assert_eq!(busy(&stub), [0, 1, 0]);
    for late in [Ok(()), Err(Failure::reset())] {
        let step = invocation.on_outcome(at(11), &mut stub, 1, late);
        assert_eq!(step, Step::Park { until: at(20) });
    }
    assert_eq!(busy(&stub), [0, 1, 0]);
    assert_eq!(
        invocation.start(at(11), &mut stub),
        Step::Park { until: at(20) }
    );
    assert_eq!(
        invocation.on_outcome(at(12), &mut stub, 2, Ok(())),
        Step::Done
    );
    assert_eq!(
        invocation.on_outcome(at(12), &mut stub, 2, Err(Failure::reset())),
        Step::Done
    );
    assert_eq!(invocation.handle_timeout(at(99), &mut stub), Step::Done);
    assert_eq!(invocation.cancel(&mut stub), CompletionStatus::Yes);
    assert_eq!(busy(&stub), [0, 0, 0]);
    assert_eq!(stub.stats().attempts, 2);
}

#[test]
fn a_cancelled_call_no_longer_counts_and_ends() {
    let mut stub = three();
    let mut invocation = Invocation::new(call());
    invocation.start(at(0), &mut stub);
    assert_eq!(stub.overlay().candidates()[0].outstanding, 1);
    assert_eq!(invocation.cancel(&mut stub), CompletionStatus::Maybe);
    assert_eq!(stub.overlay().candidates()[0].outstanding, 0);
    let step = invocation.on_outcome(at(1), &mut stub, 1, Ok(()));
    assert_eq!(failed(step).completed(), CompletionStatus::Maybe);
    assert_eq!(invocation.poll_timeout(), None);

    let mut parked = Invocation::new(call());
    assert_eq!(parked.cancel(&mut stub), CompletionStatus::No);
    assert!(matches!(
        failed(parked.start(at(1), &mut stub)),
        CallError::Cancelled { .. }
    ));
}

#[test]
fn tokens_bound_retries_over_all_calls() {
    let storage = StubArray::<8>::new();
    let budget = RetryBudget::new().with_per_second(0).with_capacity(10);
    let policy = RoundRobin::new();
    let mut stub = Stub::with_budget(StubConfig::new(), policy, storage, 1, budget).unwrap();
    view(&mut stub, 1, "A B C D E").unwrap();
    let calls = 1000;
    let mut refused = 0;
    for _call in 0..calls {
        let (_, result) = run(&mut stub, at(0), call(), |_| Err(Failure::busy()));
        let error = result.unwrap_err();
        assert_eq!(error.completed(), CompletionStatus::No);
        if matches!(
            error,
            CallError::BudgetExhausted {
                limit: Limit::Tokens,
                ..
            }
        ) {
            refused += 1;
        }
    }
    // 10 in the beginning, and a fifth of the calls.
    let stats = stub.stats();
    assert!((209..=210).contains(&stats.retries), "{stats:?}");
    assert_eq!(stats.attempts, calls + stats.retries);
    assert_eq!(stats.retries_refused, refused);
}

#[test]
fn a_policy_may_decline_and_its_wrong_picks_are_counted() {
    struct Odd(Option<usize>);
    impl LoadBalancePolicy for Odd {
        fn pick(&mut self, _cx: &PickContext<'_>, _rng: &mut SplitMix64) -> Option<usize> {
            self.0
        }
    }
    for (pick, bad) in [(None, 0), (Some(3), 1), (Some(usize::MAX), 1)] {
        let mut stub = stub(StubConfig::new(), Odd(pick), "A B C");
        let step = Invocation::new(call()).start(at(0), &mut stub);
        assert_eq!(step, Step::Park { until: at(1000) });
        assert_eq!((stub.stats().bad_picks, stub.stats().parked), (bad, 1));
    }
}

#[test]
fn policies_are_told_how_attempts_end() {
    #[derive(Default)]
    struct Told(Vec<(String, u64, Option<Cause>)>);
    impl LoadBalancePolicy for Told {
        fn pick(&mut self, cx: &PickContext<'_>, _rng: &mut SplitMix64) -> Option<usize> {
            cx.candidates.len().checked_sub(1)
        }
        fn observe(&mut self, node: NodeRef, outcome: Outcome, _now: Instant) {
            let took = outcome.latency.as_millis() as u64;
            let cause = outcome.failure.map(Failure::cause);
            self.0.push((name(node), took, cause));
        }
    }
    let mut stub = stub(StubConfig::new(), Told::default(), "A B");
    let mut invocation = Invocation::new(call());
    invocation.start(at(0), &mut stub);
    invocation.on_outcome(at(3), &mut stub, 1, Err(Failure::busy()));
    invocation.on_outcome(at(10), &mut stub, 2, Ok(()));
    let expected = [("B".into(), 3, Some(Cause::Busy)), ("A".into(), 7, None)];
    assert_eq!(stub.policy().0, expected);
}

#[test]
fn settings_that_contradict_themselves_are_refused() {
    let new = |config: StubConfig| {
        let stub = Stub::new(config, RoundRobin::new(), StubArray::<1>::new(), 1);
        stub.map(|_| ())
    };
    for attempts in [0, 17] {
        let config = StubConfig::new().with_max_attempts(attempts);
        assert_eq!(new(config), Err(StubConfigError::Attempts(attempts)));
    }
    assert_eq!(new(StubConfig::new()), Ok(()));
    let nobody = Stub::new(
        StubConfig::new(),
        RoundRobin::new(),
        StubArray::<0>::new(),
        1,
    );
    assert_eq!(nobody.err(), Some(StubConfigError::Capacity(0)));
    let mut members = [Provider::EMPTY; 3];
    let (mut seen, mut believed) = ([Candidate::EMPTY; 3], [Belief::EMPTY; 3]);
    let (mut eligible, mut hashes) = ([0; 2], [0; 3]);
    let overlay = OverlaySlices::new(&mut seen, &mut believed, &mut eligible, &mut hashes);
    let storage = StubSlices::new(&mut members, overlay);
    let short = Stub::new(StubConfig::new(), RoundRobin::new(), storage, 1);
    let expected = StubConfigError::Overlay {
        view: 3,
        overlay: 2,
    };
    assert_eq!(short.err(), Some(expected));
}

#[test]
fn errors_say_what_happened_and_whether_it_was_carried_out() {
    let (_, result) = run(&mut three(), at(0), call(), |_| Err(Failure::refused()));
    let text = std::format!("{}", result.unwrap_err());
    assert_eq!(
        text,
        "all 3 nodes were tried; it was not carried out; the last time the connection was refused"
    );
    let text = std::format!("{}", CallError::NoNodes);
    assert_eq!(text, "there is no node to call; it was not carried out");
}

#[test]
fn sizes_are_what_the_documentation_says() {
    let node = size_of::<Provider>() + size_of::<Candidate>() + size_of::<Belief>() + 2 + 8;
    assert!((100..=150).contains(&node), "{node}");
    let call = size_of::<Invocation>();
    assert!((400..=600).contains(&call), "{call}");
}

#[test]
#[cfg(feature = "alloc")]
fn storages_are_alike() {
    fn trace<S: StubStorage>(storage: S) -> Vec<Step> {
        let config = StubConfig::new();
        let mut stub = Stub::new(config, RandomRobin::new(), storage, 5).unwrap();
        let mut rng = SplitMix64::new(8);
        let mut steps = Vec::new();
        for turn in 0..500 {
            let now = at(turn * 300);
            if turn % 20 == 0 {
                let all = providers("A B C D E F G H");
                let epoch = turn + 1;
                let members = &all[rng.below(7) as usize..];
                let cluster = 7;
                stub.handle_view(
                    now,
                    ViewUpdate {
                        cluster,
                        epoch,
                        members,
                    },
                )
                .unwrap();
            }
            let mut invocation = Invocation::new(Call::new(now.after(ms(100))));
            let mut step = invocation.start(now, &mut stub);
            steps.push(step);
            while let Step::Send { attempt, .. } = step {
                let outcome = if rng.below(3) == 0 {
                    Ok(())
                } else {
                    Err(Failure::refused())
                };
                step = invocation.on_outcome(now, &mut stub, attempt, outcome);
                steps.push(step);
            }
        }
        steps
    }
    let array = trace(StubArray::<8>::new());
    assert_eq!(array, trace(StubHeap::new(8)));
    let mut members = [Provider::EMPTY; 9];
    let (mut seen, mut believed) = ([Candidate::EMPTY; 9], [Belief::EMPTY; 10]);
    let (mut eligible, mut hashes) = ([7; 9], [7; 9]);
    let overlay = OverlaySlices::new(&mut seen, &mut believed, &mut eligible, &mut hashes);
    assert_eq!(array, trace(StubSlices::new(&mut members, overlay)));
    let retried = array
        .iter()
        .filter(|step| matches!(step, Step::Send { attempt: 3, .. }));
    assert!(retried.count() > 20);
}
