//! How evenly calls are spread: over first picks, over churn, over threads.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{
    sync::{Barrier, Mutex},
    thread,
};

use super::*;

/// Pearson's χ² of counts that should be equal.
fn chi_square(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    let terms = counts
        .iter()
        .map(|count| (f64::from(*count) - expected).powi(2) / expected);
    terms.sum()
}

/// The 0.999 quantile for three degrees of freedom.
const CRITICAL: f64 = 16.266;

fn first_picks<P: LoadBalancePolicy>(
    policy: impl Fn() -> P,
    seeds: impl Iterator<Item = u64>,
) -> [u32; 4] {
    let mut counts = [0; 4];
    for seed in seeds {
        let first = Picker::new(policy(), seed).pick(&candidates("A B C D"));
        counts[first.unwrap().node.0 as usize - 1] += 1;
    }
    counts
}

#[test]
fn first_picks_of_a_thousand_stubs_are_uniform() {
    // One process with many stubs, and many processes with one, whose entropy is as poor as it gets: one number after
    // the other, as clocks of processes that start in the same millisecond give.
    let one_process = || (0..1000).map(|stub| stub_seed(0x5EED, stub));
    let fleet = || (0..1000).map(|process| stub_seed(1_764_600_000_000_000 + process, 0));
    for counts in [
        first_picks(RoundRobin::new, one_process()),
        first_picks(RoundRobin::new, fleet()),
        first_picks(RandomRobin::new, fleet()),
        first_picks(FirstAvailable::new, one_process()),
        first_picks(FirstAvailable::new, fleet()),
        first_picks(PeakEwma::new, fleet()),
        first_picks(LeastOutstanding::new, fleet()),
    ] {
        assert!(chi_square(&counts) < CRITICAL, "{counts:?}");
    }
    let skewed = first_picks(FirstAvailable::new, (0..1000).map(|_| stub_seed(1, 1)));
    assert!(
        chi_square(&skewed) > CRITICAL,
        "one seed for all would be noticed"
    );
}

#[test]
fn keys_of_rendezvous_are_uniform() {
    let list: Vec<_> = (1..=4)
        .map(|id| {
            Candidate::new(NodeRef::new(
                crate::hash::node_id(&std::format!("n-{id}")),
                Incarnation(1),
            ))
        })
        .collect();
    let mut sorted = list;
    sorted.sort_unstable_by_key(|candidate| candidate.node);
    // The keys as they are, and small numbers: the policy mixes them.
    for keys in [
        (0..20_000)
            .map(|id| key(std::format!("user-{id}").as_bytes()))
            .collect::<Vec<_>>(),
        (0..20_000).collect(),
    ] {
        let mut counts = [0; 4];
        for key in keys {
            let cx = PickContext::new(at(0), Candidates::new(&sorted)).with_key(Some(key));
            counts[Rendezvous::new()
                .pick(&cx, &mut SplitMix64::new(0))
                .unwrap()] += 1;
        }
        assert!(chi_square(&counts) < CRITICAL, "{counts:?}");
    }
}

#[test]
fn round_robin_is_fair_while_nodes_come_and_go() {
    let all = candidates("A B C D E F G H I J");
    let mut robin = Picker::new(RoundRobin::new(), 9);
    let mut rng = SplitMix64::new(77);
    let mut there = [true; 10];
    let (mut counts, mut fair) = ([0_u32; 10], [0.0; 10]);
    for turn in 0..20_000 {
        // Every 50 calls a node comes or goes; at least five are there.
        if turn % 50 == 49 {
            let which = rng.below(10) as usize;
            let many = there.iter().filter(|there| **there).count();
            there[which] = !there[which] || many <= 5;
        }
        let list: Vec<_> = all
            .iter()
            .zip(there)
            .filter(|(_, there)| *there)
            .map(|(c, _)| *c)
            .collect();
        for candidate in &list {
            fair[candidate.node.node.0 as usize - 1] += 1.0 / list.len() as f64;
        }
        counts[robin.pick(&list).unwrap().node.0 as usize - 1] += 1;
    }
    for (count, fair) in counts.into_iter().zip(fair) {
        let share = f64::from(count) / fair;
        assert!((0.97..=1.03).contains(&share), "{count} of {fair}");
    }
}

#[test]
fn threads_that_share_a_round_robin_take_equal_turns() {
    let robin = Mutex::new(Picker::new(RoundRobin::new(), 3));
    let list = candidates("A B C");
    let counts = [const { AtomicU64::new(0) }; 3];
    thread::scope(|scope| {
        for _thread in 0..4 {
            scope.spawn(|| {
                for _pick in 0..75 {
                    let picked = robin.lock().unwrap().pick(&list).unwrap();
                    counts[picked.node.0 as usize - 1].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counts.map(AtomicU64::into_inner), [100, 100, 100]);
}

#[test]
fn threads_that_elect_at_once_elect_one() {
    const THREADS: usize = 8;
    // The interpreter takes minutes for as many.
    let rounds = if cfg!(miri) { 20 } else { 10_000 };
    let election = AtomicElection::new(42);
    let barrier = Barrier::new(THREADS);
    // What each thread picked in a round; round by round the elected node is gone, by its next life.
    let picked = [const { AtomicU64::new(0) }; THREADS];
    thread::scope(|scope| {
        for own in &picked {
            let (election, barrier, picked) = (&election, &barrier, &picked);
            scope.spawn(move || {
                let mut stub = Picker::new(FirstAvailableIdenticalAllProxies::new(election), 1);
                let mut list = candidates("A B C D");
                for round in 0..rounds {
                    for candidate in &mut list {
                        let NodeRef { node, .. } = candidate.node;
                        *candidate = Candidate::new(NodeRef::new(node, Incarnation(round)));
                    }
                    barrier.wait();
                    let mark = stub.pick(&list).unwrap().mark();
                    own.store(mark, Ordering::Relaxed);
                    barrier.wait();
                    for other in picked {
                        assert_eq!(other.load(Ordering::Relaxed), mark, "round {round}");
                    }
                }
            });
        }
    });
    // At least one draw per election; a loser's draw is not kept.
    assert!(draws(42, election.random()) <= rounds as usize);
}
