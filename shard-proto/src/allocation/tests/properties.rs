//! What every built-in strategy promises, from any distribution.

use alloc::{collections::BTreeMap, vec::Vec};

use proptest::prelude::*;

use super::*;

/// The rule of [`LeastShards`] as it is written, move by move.
fn by_the_rule(cluster: &Cluster, threshold: u32, max: u32) -> Vec<u32> {
    let mut loads = cluster.loads();
    let mut table = cluster.clone();
    table.proposed.clear();
    let least = |loads: &[u32]| {
        let least = *loads.iter().min().unwrap();
        loads.iter().position(|load| *load == least).unwrap()
    };
    for _ in 0..table.in_flight {
        let taker = least(&loads);
        loads[taker] += 1;
    }
    while table.in_flight < max {
        let most = *loads.iter().max().unwrap();
        let giver = loads.iter().position(|load| *load == most).unwrap();
        let taker = least(&loads);
        if most - loads[taker] <= threshold {
            break;
        }
        let shard = (0..table.shard_count())
            .find(|shard| table.placement(ShardId(*shard)) == Placement::On(slot(giver)))
            .unwrap();
        table.propose(ShardId(shard));
        loads[giver] -= 1;
        loads[taker] += 1;
    }
    table.proposed
}

fn spread(loads: &[u32]) -> u32 {
    loads.iter().max().unwrap() - loads.iter().min().unwrap()
}

/// Every move of a round completes before the next: nothing goes back to where it came from, and each node only gives
/// or only takes, so that no end state like this one can be had with fewer moves.
fn assert_least_moves(before: &[u32], after: &[u32], moves: &[(u32, usize, usize)]) {
    let mut left: BTreeMap<(u32, usize), ()> = BTreeMap::new();
    for (shard, from, to) in moves {
        assert_ne!(from, to);
        assert!(!left.contains_key(&(*shard, *to)), "{shard} went back");
        left.insert((*shard, *from), ());
    }
    let needed: u32 = before
        .iter()
        .zip(after)
        .map(|(before, after)| before.saturating_sub(*after))
        .sum();
    assert_eq!(moves.len() as u32, needed);
}

fn any_cluster() -> impl Strategy<Value = Cluster> {
    (1..9_usize).prop_flat_map(|nodes| {
        proptest::collection::vec(0..nodes * nodes, 0..200).prop_map(move |owners| {
            // Skewed: low nodes own more.
            Cluster::with_owners(nodes, owners.into_iter().map(|at| at.isqrt().min(at)))
        })
    })
}

proptest! {
    #[test]
    fn least_shards_follows_its_rule(
        cluster in any_cluster(),
        threshold in 1..5_u32,
        max in 0..100_u32,
        every in 1..20_usize,
    ) {
        let in_flight: Vec<u32> = (0..cluster.shard_count()).step_by(every).skip(1).collect();
        let mut cluster = cluster.with_in_flight(&in_flight);
        let expected = by_the_rule(&cluster, threshold, max);
        let mut strategy = LeastShards::new()
            .with_threshold(threshold)
            .with_max_simultaneous(max);
        prop_assert_eq!(cluster.round(&mut strategy), expected);
    }

    #[test]
    fn least_shards_comes_to_rest(
        mut cluster in any_cluster(),
        threshold in 0..5_u32,
        max in 1..100_u32,
    ) {
        let mut strategy = LeastShards::new()
            .with_threshold(threshold)
            .with_max_simultaneous(max);
        let before = cluster.loads();
        let moves = cluster.settle(&mut strategy);
        prop_assert!(spread(&cluster.loads()) <= threshold.max(1));
        assert_least_moves(&before, &cluster.loads(), &moves);
        prop_assert_eq!(cluster.round(&mut strategy), Vec::<u32>::new());
    }

    #[test]
    fn limits_come_to_rest(
        mut cluster in any_cluster(),
        absolute in 0..30_u32,
        per_mille in 0..1500_u32,
    ) {
        let mut strategy = LeastShardsLimits::new()
            .with_absolute(absolute)
            .with_relative_per_mille(per_mille);
        let before = cluster.loads();
        let moves = cluster.settle(&mut strategy);
        prop_assert!(spread(&cluster.loads()) <= 1);
        assert_least_moves(&before, &cluster.loads(), &moves);
    }

    #[test]
    fn computed_homes_come_to_rest(mut cluster in any_cluster(), max in 1..100_u32) {
        let mut again = cluster.clone();
        for (cluster, moves) in [
            (&mut cluster.clone(), cluster.settle(&mut Modulo::new().with_max_simultaneous(max))),
            (&mut again.clone(), again.settle(&mut Rendezvous::new().with_max_simultaneous(max))),
        ] {
            let mut moved: Vec<u32> = moves.iter().map(|(shard, ..)| *shard).collect();
            moved.sort_unstable();
            moved.dedup();
            prop_assert_eq!(moved.len(), moves.len(), "moved twice");
            prop_assert!(moves.len() <= cluster.shards.len());
        }
    }
}

/// Moves complete one by one, and the strategy has its turn after each, as the coordinator lets it.
#[test]
fn least_shards_never_exceeds_the_ceiling_as_moves_complete() {
    let mut strategy = LeastShards::new().with_max_simultaneous(4);
    let mut cluster = Cluster::with_loads(&[64, 0, 0]);
    let mut total = cluster.round(&mut strategy).len();
    for _ in 0..1000 {
        assert!(cluster.in_flight <= 4);
        let moving = (0..64)
            .find(|shard| matches!(cluster.placement(ShardId(*shard)), Placement::InFlight(_)));
        let Some(shard) = moving else { break };
        assert_ne!(cluster.allocate(&mut strategy, shard), slot(0));
        total += cluster.round(&mut strategy).len();
    }
    assert_eq!(total, 42);
    assert_eq!(cluster.loads(), [22, 21, 21]);
}

#[test]
fn a_hundred_thousand_shards() {
    let mut cluster = Cluster::with_owners(100, (0..100_000).map(|shard| shard % 50));
    let mut strategy = LeastShards::new().with_max_simultaneous(u32::MAX);
    let mut proposed = cluster.round(&mut strategy);
    assert_eq!(proposed.len(), 50_000);
    proposed.sort_unstable();
    proposed.dedup();
    assert_eq!(proposed.len(), 50_000);
    assert!(cluster.loads()[..50].iter().all(|load| *load == 1000));
}

#[test]
fn shards_of_a_node_that_is_no_candidate_are_left_alone() {
    // A member that leaves is not among the candidates; its shards are the coordinator's business.
    let mut cluster = Cluster::with_loads(&[10, 2, 0]);
    cluster.shards.truncate(12);
    let mut candidates = cluster.candidates();
    candidates.remove(0);
    let mut table = cluster.clone();
    LeastShards::new().rebalance(&mut RebalancePlan::new(&mut candidates, &mut table));
    assert_eq!(table.proposed, [10]);
    let mut table = cluster.with_in_flight(&[0, 1, 2]);
    table.proposed.clear();
    let mut candidates = table.candidates();
    candidates.remove(0);
    LeastShards::new().rebalance(&mut RebalancePlan::new(&mut candidates, &mut table));
    assert_eq!(
        table.proposed,
        [],
        "what is on its way evens the counts out"
    );
}

#[test]
fn nobody_to_choose_from() {
    let mut cluster = Cluster::with_loads(&[]);
    assert_eq!(cluster.round(&mut LeastShards::new()), []);
    assert_eq!(cluster.round(&mut LeastShardsLimits::new()), []);
    assert_eq!(cluster.round(&mut Modulo::new()), []);
    assert_eq!(cluster.round(&mut Rendezvous::new()), []);
    let nobody = Candidates::new(&[]);
    assert_eq!(LeastShards::new().allocate(ShardId(0), &nobody), None);
    assert_eq!(Rendezvous::new().allocate(ShardId(0), &nobody), None);
}
