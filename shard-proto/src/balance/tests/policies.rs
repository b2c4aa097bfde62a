//! What the vectors do not say of the policies.

use alloc::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn names_are_those_of_configuration_files() {
    let names = [
        "round-robin",
        "random-robin",
        "first-available",
        "first-available-identical-all-proxies",
        "least-outstanding",
        "peak-ewma",
        "weighted-round-robin",
        "rendezvous",
    ];
    assert_eq!(Policy::ALL.len(), names.len());
    for (policy, name) in Policy::ALL.iter().zip(names) {
        assert_eq!(policy.name(), name);
        assert_eq!(name.parse(), Ok(*policy));
        assert_eq!(std::format!("{policy}"), name);
    }
    for unknown in ["", "Round-Robin", "round_robin", "fastest"] {
        let error = unknown.parse::<Policy>().unwrap_err();
        let text = std::format!("{error}");
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }
}

#[test]
fn a_policy_by_name_picks_as_the_policy_itself() {
    fn picks(policy: impl LoadBalancePolicy) -> String {
        Picker::new(policy, 5).picks("A B C D", 20)
    }
    let election = LocalElection::new(3);
    let named = |policy: Policy| picks(policy.build(&election, WeightArray::<4>::new()));
    assert_eq!(named(Policy::RoundRobin), picks(RoundRobin::new()));
    assert_eq!(named(Policy::RandomRobin), picks(RandomRobin::new()));
    assert_eq!(named(Policy::FirstAvailable), picks(FirstAvailable::new()));
    let identical = FirstAvailableIdenticalAllProxies::new(&election);
    assert_eq!(
        named(Policy::FirstAvailableIdenticalAllProxies),
        picks(identical)
    );
    assert_eq!(
        named(Policy::LeastOutstanding),
        picks(LeastOutstanding::new())
    );
    assert_eq!(named(Policy::PeakEwma), picks(PeakEwma::new()));
    let weighted = WeightedRoundRobin::new(WeightArray::<4>::new()).with_random_start();
    assert_eq!(named(Policy::WeightedRoundRobin), picks(weighted));
    assert_eq!(named(Policy::Rendezvous), picks(Rendezvous::new()));
}

#[test]
fn peak_ewma_prefers_the_faster_and_less_busy_and_probes_the_unknown_once() {
    let mut list = candidates("A B");
    list[0].latency.observe(at(0), ms(10));
    list[1].latency.observe(at(0), ms(25));
    let mut peak = Picker::new(PeakEwma::new(), 1);
    assert_eq!(peak.pick(&list), Some(node("A")));
    list[0].outstanding = 2;
    assert_eq!(peak.pick(&list), Some(node("B")), "30 ms against 25");
    list[1].outstanding = 1;
    assert_eq!(peak.pick(&list), Some(node("A")), "30 ms against 50");
    list[1] = Candidate::new(node("B"));
    assert_eq!(peak.pick(&list), Some(node("B")), "nothing is known of it");
    list[1].outstanding = 1;
    assert_eq!(peak.pick(&list), Some(node("A")), "that is being found out");
}

#[test]
fn a_node_that_fails_fast_does_not_attract_calls_of_peak_ewma() {
    // No suspicion, no ejection: what is left is the penalty.
    let config = StubConfig::new()
        .with_suspicion(ms(0))
        .with_eject_after(u32::MAX);
    let mut stub = stub(config, PeakEwma::new(), "A B C D");
    let mut failed = 0;
    for turn in 0..2000 {
        let mut call = Invocation::new(Call::new(Instant::FAR_FUTURE));
        let now = at(turn * 10);
        let Step::Send {
            node: to, attempt, ..
        } = call.start(now, &mut stub)
        else {
            panic!();
        };
        if to == node("A") {
            failed += 1;
            call.on_outcome(now, &mut stub, attempt, Err(Failure::undecodable()));
        } else {
            call.on_outcome(now.after(ms(8)), &mut stub, attempt, Ok(()));
        }
    }
    // 20 s, in which a fair share is 500 calls.
    assert!((1..=5).contains(&failed), "{failed} calls");
}

#[test]
fn weights_are_kept_and_spread_while_nodes_come_and_go() {
    let mut list = candidates("A B C D");
    for (candidate, weight) in list.iter_mut().zip([4, 3, 2, 0]) {
        candidate.weight = weight;
    }
    let mut smooth = Picker::new(WeightedRoundRobin::new(WeightArray::<4>::new()), 1);
    let mut counts = BTreeMap::new();
    for turn in 0..10_000 {
        // B is not eligible for every third call.
        let without: Vec<_> = list
            .iter()
            .filter(|c| c.node != node("B"))
            .copied()
            .collect();
        let list = if turn % 3 == 0 { &without } else { &list };
        *counts.entry(smooth.pick(list).unwrap()).or_insert(0_u32) += 1;
    }
    // B gets 3 of 10 while it is there, a weight of 0 counting as 1; the others share the rest as their weights say.
    let total = counts[&node("A")] + counts[&node("C")] + counts[&node("D")];
    for (name, weight) in [("A", 4), ("C", 2), ("D", 1)] {
        let share = total * weight / 7;
        assert!(
            counts[&node(name)].abs_diff(share) <= share / 10,
            "{counts:?}"
        );
    }
    assert!((1900..=2100).contains(&counts[&node("B")]), "{counts:?}");
}

#[test]
fn a_round_of_weights_gives_each_what_is_due() {
    let mut list = candidates("A B C D E");
    let weights = [7, 1, 10_001, 0, 20];
    for (candidate, weight) in list.iter_mut().zip(weights) {
        candidate.weight = weight;
    }
    let mut slots = ([NodeRef::NONE; 5], [0; 5], [0; 5]);
    let slices = WeightSlices::new(&mut slots.0, &mut slots.1, &mut slots.2);
    let mut smooth = Picker::new(WeightedRoundRobin::new(slices), 1);
    let mut counts = BTreeMap::new();
    for _pick in 0..10_029 {
        *counts.entry(name(smooth.pick(&list).unwrap())).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts.into_values().collect();
    assert_eq!(counts, [7, 1, 10_000, 1, 20]);
    assert_eq!(slots.2, [0; 5], "all balances are even");
}

#[test]
fn stubs_that_start_at_once_do_not_all_begin_with_the_same_node() {
    let list = candidates("A B C D");
    let mut seconds = BTreeMap::new();
    let mut firsts = BTreeMap::new();
    for seed in 0..1000 {
        let election = LocalElection::new(seed);
        let policy = Policy::WeightedRoundRobin.build(&election, WeightArray::<4>::new());
        let mut picker = Picker::new(policy, stub_seed(7, seed));
        *firsts.entry(picker.pick(&list)).or_insert(0_u32) += 1;
        *seconds.entry(picker.pick(&list)).or_insert(0_u32) += 1;
    }
    // A fair share is 250.
    for picks in [&firsts, &seconds] {
        assert_eq!(picks.len(), 4);
        assert!(
            picks.values().all(|count| (200..300).contains(count)),
            "{picks:?}"
        );
    }
}

#[test]
fn a_random_start_changes_no_share() {
    for seed in 0..50 {
        let mut list = candidates("A B C D E");
        let weights = [7, 1, 10_000, 1, 20];
        for (candidate, weight) in list.iter_mut().zip(weights) {
            candidate.weight = weight;
        }
        let policy = WeightedRoundRobin::new(WeightArray::<5>::new()).with_random_start();
        let mut smooth = Picker::new(policy, seed);
        let mut counts = BTreeMap::new();
        for _pick in 0..3 * 10_029 {
            *counts.entry(name(smooth.pick(&list).unwrap())).or_insert(0) += 1;
        }
        assert_eq!(smooth.draws(seed), 4);
        for (count, weight) in counts.into_values().zip(weights) {
            assert!(weight.abs_diff(count / 3) <= 1, "{count} of {weight}");
        }
    }
}

#[test]
fn with_too_few_slots_weights_count_by_chance() {
    let mut list = candidates("A B C");
    list[1].weight = 8;
    let mut smooth = Picker::new(WeightedRoundRobin::new(WeightArray::<2>::new()), 1);
    let mut counts = [0; 3];
    for _pick in 0..10_000 {
        counts[smooth.pick(&list).unwrap().node.0 as usize - 1] += 1;
    }
    assert_eq!(smooth.draws(1), 10_000);
    for (count, share) in counts.into_iter().zip([1000_u32, 8000, 1000]) {
        assert!(share.abs_diff(count) < 150, "{counts:?}");
    }
    // Fewer candidates fit again.
    assert_eq!(smooth.picks("A B", 4), "A B A B");
    assert_eq!(smooth.picks("B C", 4), "B C B C");
}

fn home(list: &[Candidate], key: u64, policy: Rendezvous) -> NodeRef {
    let mut policy = policy;
    let cx = PickContext::new(at(0), Candidates::new(list)).with_key(Some(key));
    let mut rng = SplitMix64::new(1);
    let found = policy.pick(&cx, &mut rng).unwrap();
    assert_eq!(rng.state(), 1, "no draw");
    list[found].node
}

#[test]
fn rendezvous_moves_only_keys_of_the_node_that_went() {
    let all = candidates("A B C D E F G");
    let without: Vec<_> = all
        .iter()
        .filter(|c| c.node != node("C"))
        .copied()
        .collect();
    let mut moved_to = BTreeMap::new();
    let mut moved = 0;
    for id in 0..7000_u32 {
        let key = key(std::format!("user-{id}").as_bytes());
        let (before, after) = (
            home(&all, key, Rendezvous::new()),
            home(&without, key, Rendezvous::new()),
        );
        if before == node("C") {
            *moved_to.entry(after).or_insert(0_u32) += 1;
            moved += 1;
        } else {
            assert_eq!(before, after);
        }
    }
    assert!((900..=1100).contains(&moved), "{moved} of 7000");
    assert_eq!(moved_to.len(), 6);
    let even = moved / 6;
    assert!(
        moved_to
            .values()
            .all(|count| count.abs_diff(even) < even / 2),
        "{moved_to:?}"
    );
}

#[test]
fn rendezvous_without_a_key_is_random() {
    let mut random = Picker::new(RandomRobin::new(), 7);
    let mut rendezvous = Picker::new(Rendezvous::new(), 7);
    assert_eq!(rendezvous.picks("A B C D", 12), random.picks("A B C D", 12));
}

#[test]
fn a_load_bound_lets_a_popular_key_spill_over_in_order() {
    let mut list = candidates("A B C D");
    let bounded = Rendezvous::new().with_load_bound(125);
    let mut order = Vec::new();
    for _call in 0..400_u32 {
        let to = home(&list, 99, bounded);
        if !order.contains(&to) {
            order.push(to);
        }
        let slot = list.iter_mut().find(|c| c.node == to).unwrap();
        slot.outstanding += 1;
    }
    assert_eq!(
        order[0],
        home(&candidates("A B C D"), 99, Rendezvous::new())
    );
    let most = list.iter().map(|c| c.outstanding).max().unwrap();
    // 125 % of 400 over 4.
    assert_eq!(most, 125);
    // The last one gets what is left; with a bound of 100 % all would have as many.
    let loads: BTreeSet<_> = list.iter().map(|c| c.outstanding).collect();
    assert_eq!(loads.into_iter().collect::<Vec<_>>(), [25, 125]);
    let mut even = candidates("A B C D");
    for _call in 0..400 {
        let to = home(&even, 99, Rendezvous::new().with_load_bound(1));
        even.iter_mut().find(|c| c.node == to).unwrap().outstanding += 1;
    }
    assert!(even.iter().all(|c| c.outstanding == 100));
}

#[test]
fn marks_of_lives_differ_and_are_never_none() {
    let marks: BTreeSet<_> = (0..200)
        .flat_map(|node| (0..200).map(move |life| NodeRef::new(NodeId(node), Incarnation(life))))
        .map(NodeRef::mark)
        .collect();
    assert_eq!(marks.len(), 40_000);
    assert!(!marks.contains(&0));
}

#[test]
fn two_draws_at_most_what_it_needs() {
    let mut rng = SplitMix64::new(5);
    assert_eq!((rng.two(0), rng.two(1), rng.state()), ((0, 0), (0, 0), 5));
    let seen: BTreeSet<_> = (0..20).map(|_| rng.two(2)).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    assert_eq!(draws(5, rng.state()), 20);
}

#[test]
fn rendezvous_in_a_stub_is_that_of_the_candidates() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C D E F G");
    for suspected in ["", "C", "G"] {
        if !suspected.is_empty() {
            let call = Call::new(at(99)).with_bound(node(suspected));
            let (_, result) = run(&mut stub, at(1), call, |_| Err(Failure::reset()));
            result.unwrap_err();
        }
        let candidates = stub.candidates(at(1));
        let list: Vec<_> = candidates.iter().copied().collect();
        for key in 0..500 {
            let cx = PickContext::new(at(1), candidates).with_key(Some(key));
            let picked = Rendezvous::new().pick(&cx, &mut SplitMix64::new(1));
            assert_eq!(
                list[picked.unwrap()].node,
                home(&list, key, Rendezvous::new())
            );
            // The formula of the documentation.
            let score = |c: &&Candidate| {
                (mix(key) ^ mix(c.node.node.0)).wrapping_mul(0x94D0_49BB_1331_11EB)
            };
            let best = list.iter().max_by_key(score).unwrap();
            assert_eq!(best.node, home(&list, key, Rendezvous::new()));
        }
    }
}
