//! The table of the specification, row by row: generator G, round robin R, random N, first available F, identical S,
//! invocation V, beyond X.

use super::*;

#[test]
fn g_generator() {
    let mut rng = SplitMix64::new(0);
    let outputs = [(); 4].map(|()| rng.next_u64());
    let expected = [
        0xE220_A839_7B1D_CDAF,
        0x6E78_9E6A_A1B9_65F4,
        0x06C4_5D18_8009_454F,
        0xF88B_B8A8_724C_81EC,
    ];
    assert_eq!(outputs, expected, "G1");

    for (row, seed, n, expected) in [
        ("G2", 1, 3, [1, 2, 2, 1, 1, 2, 2, 1, 0, 2, 1, 1]),
        ("G3", 42, 10, [7, 1, 2, 3, 0, 8, 2, 8, 3, 6, 2, 4]),
    ] {
        let mut rng = SplitMix64::new(seed);
        assert_eq!([(); 12].map(|()| rng.below(n)), expected, "{row}");
    }

    let mut rng = SplitMix64::new(42);
    assert_eq!((rng.below(1), rng.below(0)), (0, 0), "G4");
    assert_eq!(rng.state(), 42, "G4");
}

#[test]
fn seeds_of_stubs() {
    assert_eq!(stub_seed(5, 3), mix(5 ^ mix(3)));
    assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
}

#[test]
fn r1_to_r3_round_robin_starts_at_random() {
    let mut robin = Picker::new(RoundRobin::new(), 1);
    assert_eq!(robin.picks("A B C", 7), "B C A B C A B", "R1");
    assert_eq!(robin.draws(1), 1, "R1");

    let mut robin = Picker::new(RoundRobin::new(), 1);
    assert_eq!(robin.picks("A", 5), "A A A A A", "R2");
    assert_eq!(robin.draws(1), 0, "R2");

    let mut robin = Picker::new(RoundRobin::new(), 1);
    assert_eq!(robin.picks("", 3), "- - -", "R3");
    assert_eq!(robin.draws(1), 0, "R3");
    assert_eq!(robin.picks("A B C", 1), "B", "R3");
}

#[test]
fn r4_to_r9_round_robin_goes_on_behind_the_last_node() {
    for (row, before, last, after, expected) in [
        ("R4", "A B C D E", "E", "A B", "A"),
        ("R5", "A B", "B", "A B C", "C"),
        ("R6", "A B C D", "B", "B C D", "C"),
        ("R7", "B C D", "B", "A B C D", "C"),
        ("R8", "A B C", "A", "A2 B C", "B"),
        ("R9", "A B C", "C", "A C", "A C A C A C A C A"),
    ] {
        let mut robin = Picker::new(RoundRobin::new(), 1);
        // As often as it takes until `last` was picked.
        while robin.picks(before, 1) != last {}
        let count = expected.split_whitespace().count();
        assert_eq!(robin.picks(after, count), expected, "{row}");
        assert_eq!(robin.draws(1), 1, "{row}");
    }
}

#[test]
fn n_random_robin() {
    let mut random = Picker::new(RandomRobin::new(), 7);
    assert_eq!(
        random.picks("A B C D E", 20),
        "B A E C C B C B A C A E E E E C E B D D",
        "N1"
    );
    assert_eq!(random.draws(7), 20);
    let mut random = Picker::new(RandomRobin::new(), 7);
    assert_eq!(random.picks("A B C D", 12), "B A D C B A B B A B A D", "N2");
}

/// F1: what the rows after it start from.
fn elected() -> Picker<FirstAvailable> {
    let mut first = Picker::new(FirstAvailable::new(), 42);
    assert_eq!(first.picks("A B C", 1), "C");
    first
}

#[test]
fn f1_f2_first_available_keeps_its_node() {
    let mut first = elected();
    let picks = first.picks("A B C", 999);
    assert!(picks.split(' ').all(|pick| pick == "C"), "F1");
    assert_eq!(first.draws(42), 1, "F1");
    assert_eq!(first.picks("B C A", 3), "C C C", "F2");
    assert_eq!(first.picks("D C B A", 3), "C C C", "F2");
    assert_eq!(first.draws(42), 1, "F2");
}

#[test]
fn f3_to_f5_first_available_elects_when_its_node_is_gone() {
    let mut first = elected();
    assert_eq!(first.picks("A B", 5), "A A A A A", "F3");
    assert_eq!(first.draws(42), 2, "F3");
    assert_eq!(first.picks("A B C", 5), "A A A A A", "F4");
    assert_eq!(first.draws(42), 2, "F4");

    let mut first = elected();
    // The second draw of the seed, among three.
    let mut rng = SplitMix64::new(42);
    rng.next_u64();
    let expected = ["A", "B", "C2"][rng.below(3) as usize];
    assert_eq!(first.picks("A B C2", 1), expected, "F5");
    assert_eq!(first.draws(42), 2, "F5");
}

#[test]
fn f6_f7_first_available_and_empty_lists_and_hints() {
    let mut first = elected();
    assert_eq!(first.picks("", 3), "- - -", "F6");
    assert_eq!(first.picks("A B C", 2), "C C", "F6");
    assert_eq!(first.draws(42), 1, "F6");

    let mut first = Picker::new(FirstAvailable::new(), 42);
    first.hint = Some(node("B").node);
    assert_eq!(first.picks("A B C", 2), "B B", "F7");
    first.hint = Some(node("A").node);
    assert_eq!(first.picks("A B C", 2), "B B", "F7");
    assert_eq!(first.draws(42), 0, "F7");
}

fn identical<E: Election>(election: E) -> Picker<FirstAvailableIdenticalAllProxies<E>> {
    Picker::new(FirstAvailableIdenticalAllProxies::new(election), 1)
}

#[test]
fn s1_s3_stubs_share_an_election() {
    fn shares(election: &(impl Election + ?Sized)) {
        let (mut one, mut two) = (identical(election), identical(election));
        assert_eq!(one.picks("A B C D", 1), "C", "S1");
        assert_eq!(two.picks("A B C D", 1), "C", "S1");
        assert_eq!(draws(42, election.random()), 1, "S1");

        let next = one.picks("A B D", 1);
        assert_ne!(next, "C", "S3");
        assert_eq!(
            two.picks("A B C D", 3),
            std::format!("{next} {next} {next}"),
            "S3"
        );
        assert_eq!(one.picks("A B C D", 1), next, "S3");
        assert_eq!(draws(42, election.random()), 2, "S3");
        assert_eq!((one.draws(1), two.draws(1)), (0, 0));
    }
    shares(&LocalElection::new(42));
    shares(&AtomicElection::new(42));
}

#[test]
fn s2_services_do_not_share_elections() {
    let (x, y) = (AtomicElection::new(42), AtomicElection::new(42));
    assert_eq!(identical(&x).picks("A B C D", 1), "C", "S2");
    assert_eq!(y.elected(), 0, "S2");
    assert_eq!(identical(&y).picks("A B", 1), "B", "S2");
    assert_eq!(identical(&x).picks("A B C D", 1), "C", "S2");
}

fn call() -> Call {
    Call::new(at(10_000))
}

#[test]
fn v1_v2_v6_refused_connections() {
    let next_a = || {
        stub(
            StubConfig::new(),
            RoundRobin::after(node("C").node),
            "A B C",
        )
    };
    let mut one = next_a();
    let refuses_a = |to| {
        if to == node("A") {
            Err(Failure::refused())
        } else {
            Ok(())
        }
    };
    let (sent, result) = run(&mut one, at(0), call(), refuses_a);
    assert_eq!((sent.join(" "), result), ("A B".into(), Ok(())), "V1");
    assert_eq!(eligible(&mut one, at(0)), "B C", "V1: A is suspected");

    let (sent, result) = run(&mut next_a(), at(0), call(), |_| Err(Failure::refused()));
    assert_eq!(sent.join(" "), "A B C", "V2");
    let expected = CallError::Exhausted {
        attempts: 3,
        last: Failure::refused(),
        completed: CompletionStatus::No,
    };
    assert_eq!(result, Err(expected), "V2");

    let mut five = stub(StubConfig::new(), RoundRobin::new(), "A B C D E");
    let twice = call().with_max_attempts(2);
    let (sent, result) = run(&mut five, at(0), twice, |_| Err(Failure::refused()));
    assert_eq!(sent.len(), 2, "V6");
    let expected = CallError::BudgetExhausted {
        limit: Limit::Attempts,
        attempts: 2,
        last: Failure::refused(),
        completed: CompletionStatus::No,
    };
    assert_eq!(result, Err(expected), "V6");
}

#[test]
fn v3_to_v5_failures_after_the_request_was_sent() {
    for (row, idempotent, failure, attempts, completed) in [
        (
            "V3",
            false,
            Failure::reset(),
            1,
            Some(CompletionStatus::Maybe),
        ),
        ("V4", true, Failure::reset(), 2, None),
        (
            "V5",
            true,
            Failure::undecodable(),
            1,
            Some(CompletionStatus::Yes),
        ),
        (
            "V5",
            false,
            Failure::undecodable(),
            1,
            Some(CompletionStatus::Yes),
        ),
    ] {
        let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
        let mut first = true;
        let call = call().with_idempotent(idempotent);
        let (sent, result) = run(&mut stub, at(0), call, |_| {
            if core::mem::take(&mut first) {
                Err(failure)
            } else {
                Ok(())
            }
        });
        assert_eq!(sent.len(), attempts, "{row}");
        assert_eq!(
            result.err().map(|error| error.completed()),
            completed,
            "{row}"
        );
    }
}

#[test]
fn x1_x2_two_choices() {
    let mut rng = SplitMix64::new(11);
    let pairs = [(); 8].map(|()| rng.two(3));
    let expected = [
        (0, 1),
        (1, 2),
        (0, 2),
        (0, 2),
        (1, 2),
        (0, 1),
        (2, 1),
        (2, 0),
    ];
    assert_eq!(pairs, expected, "X1");

    let mut list = candidates("A B C");
    for (candidate, load) in list.iter_mut().zip([5, 1, 9]) {
        candidate.outstanding = load;
    }
    let mut least = Picker::new(LeastOutstanding::new(), 11);
    let mut counts = [0; 3];
    for _pick in 0..9000 {
        counts[least.pick(&list).unwrap().node.0 as usize - 1] += 1;
    }
    assert_eq!(counts, [2992, 6008, 0], "X2");
}

#[test]
fn x3_smooth_weighted_round_robin() {
    let mut list = candidates("A B C");
    for (candidate, weight) in list.iter_mut().zip([5, 1, 1]) {
        candidate.weight = weight;
    }
    let mut smooth = Picker::new(WeightedRoundRobin::new(WeightArray::<3>::new()), 1);
    let picks: Vec<_> = (0..14).map(|_| name(smooth.pick(&list).unwrap())).collect();
    assert_eq!(picks.join(" "), "A A B A C A A A A B A C A A", "X3");
    assert_eq!(smooth.draws(1), 0);
}
