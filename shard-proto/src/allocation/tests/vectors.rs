//! The committed vectors, row by row.

use alloc::{vec, vec::Vec};

use super::*;

#[test]
fn least_shards() {
    type Row<'a> = (&'a str, &'a [u32], u32, u32, &'a [u32], &'a [u32]);
    // name, loads, threshold, max, in flight, moves
    let rows: [Row<'_>; 10] = [
        ("L1", &[2, 1], 1, 10, &[], &[]),
        ("L2", &[1, 1, 0], 1, 10, &[], &[]),
        ("L3", &[3, 0, 0], 1, 10, &[], &[0, 1]),
        ("L4", &[4, 4, 2], 1, 10, &[], &[0]),
        ("L5", &[9, 0, 0], 1, 3, &[], &[0, 1, 2]),
        ("L6", &[9, 0, 0], 1, 100, &[], &[0, 1, 2, 3, 4, 5]),
        ("L7", &[10, 9, 9], 1, 10, &[], &[]),
        ("L8", &[5, 5, 0], 2, 10, &[], &[0, 5]),
        ("L9", &[10, 0, 0], 1, 4, &[2, 3], &[0, 1]),
        ("L10", &[6, 0], 5, 10, &[], &[0]),
    ];
    for (name, loads, threshold, max, in_flight, moves) in rows {
        let mut strategy = LeastShards::new()
            .with_threshold(threshold)
            .with_max_simultaneous(max);
        let mut cluster = Cluster::with_loads(loads).with_in_flight(in_flight);
        assert_eq!(cluster.round(&mut strategy), moves, "{name}");
    }
}

#[test]
fn l1_stays_at_rest() {
    let mut cluster = Cluster::with_loads(&[2, 1]);
    for _ in 0..100 {
        assert_eq!(cluster.round(&mut LeastShards::new()), []);
    }
}

#[test]
fn l6_moves_and_then_rests() {
    let mut strategy = LeastShards::new().with_max_simultaneous(100);
    let mut cluster = Cluster::with_loads(&[9, 0, 0]);
    assert_eq!(cluster.round(&mut strategy), [0, 1, 2, 3, 4, 5]);
    cluster.complete(&mut strategy);
    for _ in 0..100 {
        assert_eq!(cluster.round(&mut strategy), []);
    }
    assert_eq!(cluster.loads(), [3, 3, 3]);
}

#[test]
fn a_hundred_first_contacts_spread_evenly() {
    let mut cluster = Cluster::unallocated(4, 100);
    for shard in 0..100 {
        cluster.allocate(&mut LeastShards::new(), shard);
    }
    assert_eq!(cluster.loads(), [25, 25, 25, 25]);
}

/// Shards are numbered from 1 in these.
#[test]
fn least_shards_limits() {
    type Row<'a> = (&'a str, &'a [u32], &'a [u32], &'a [u32], &'a [u32]);
    // name, loads, in flight, moves, moves of the next round
    let rows: [Row<'_>; 8] = [
        ("P1", &[1, 2, 0], &[], &[2], &[]),
        ("P2", &[2, 0, 0], &[], &[1], &[]),
        ("P3", &[1, 1, 0], &[], &[], &[]),
        ("P4", &[3, 0, 0], &[], &[1, 2], &[]),
        ("P5", &[4, 4, 0], &[], &[1, 5], &[]),
        ("P6", &[4, 4, 2], &[], &[1], &[]),
        ("P7", &[5, 5, 0], &[], &[1, 6], &[2]),
        ("P8", &[10, 0, 0], &[2, 3], &[], &[]),
    ];
    for (name, loads, in_flight, moves, next) in rows {
        let from_one = |shards: &[u32]| shards.iter().map(|shard| shard - 1).collect::<Vec<_>>();
        let mut strategy = LeastShardsLimits::new()
            .with_absolute(1000)
            .with_relative_per_mille(1000);
        let mut cluster = Cluster::with_loads(loads).with_in_flight(&from_one(in_flight));
        assert_eq!(cluster.round(&mut strategy), from_one(moves), "{name}");
        if in_flight.is_empty() {
            cluster.complete(&mut strategy);
            assert_eq!(cluster.round(&mut strategy), from_one(next), "{name}, next");
        }
    }
}

#[test]
fn limits_cut_a_round() {
    let strategy = LeastShardsLimits::new();
    // loads, absolute, per mille, number of moves
    let rows: [(&[u32], u32, u32, usize); 6] = [
        (&[100, 0], 1000, 1000, 50),
        (&[100, 0], 7, 1000, 7),
        (&[100, 0], 1000, 100, 10),
        (&[99, 0], 1000, 100, 9),
        (&[5, 0], 1000, 100, 1),
        (&[5, 0], 0, 0, 1),
    ];
    for (loads, absolute, per_mille, moves) in rows {
        let mut strategy = strategy
            .with_absolute(absolute)
            .with_relative_per_mille(per_mille);
        let mut cluster = Cluster::with_loads(loads);
        let proposed = cluster.round(&mut strategy);
        assert_eq!(proposed, (0..moves as u32).collect::<Vec<_>>(), "{loads:?}");
    }
}

#[test]
fn limits_keep_the_order_of_counts() {
    // The lesser of the two loaded nodes comes first, although its shards have higher numbers.
    let mut strategy = LeastShardsLimits::new()
        .with_absolute(3)
        .with_relative_per_mille(1000);
    let mut cluster = Cluster::with_loads(&[12, 10, 0]);
    assert_eq!(cluster.round(&mut strategy), [12, 13, 0]);
}

#[test]
fn modulo_allocates_by_position() {
    let mut cluster = Cluster::unallocated(3, 4);
    let homes: Vec<_> = (0..4)
        .map(|shard| node_of(cluster.allocate(&mut Modulo::new(), shard)))
        .collect();
    assert_eq!(homes, [0, 1, 2, 0]);
    let nobody = Candidates::new(&[]);
    assert_eq!(Modulo::new().allocate(ShardId(1), &nobody), None);
}

#[test]
fn modulo_proposes_what_is_elsewhere() {
    let mut cluster = Cluster::with_owners(3, (0..60).map(|shard| shard % 2));
    let wrong: Vec<u32> = (0..60).filter(|shard| shard % 2 != shard % 3).collect();
    assert_eq!(cluster.round(&mut Modulo::new()), wrong[..8]);
    let moves = cluster.settle(&mut Modulo::new());
    let mut moved: Vec<u32> = moves.iter().map(|(shard, ..)| *shard).collect();
    moved.sort_unstable();
    assert_eq!(moved, wrong);
    assert_eq!(cluster.loads(), [20, 20, 20]);
}

#[test]
fn modulo_takes_the_next_node_instead_of_the_one_it_left() {
    let list = Cluster::with_loads(&[0, 0, 0]).candidates();
    let avoiding = Candidates::new(&list).avoiding(slot(2));
    assert_eq!(Modulo::new().allocate(ShardId(2), &avoiding), Some(slot(0)));
    let alone = Candidates::new(&list[..1]).avoiding(slot(0));
    assert_eq!(Modulo::new().allocate(ShardId(2), &alone), Some(slot(0)));
}

#[test]
fn rendezvous_moves_the_shards_of_a_removed_node_and_no_others() {
    let mut strategy = Rendezvous::new();
    for nodes in 2..8 {
        for shard in 0..500 {
            let list = Cluster::with_loads(&vec![0; nodes]).candidates();
            let home = strategy.allocate(ShardId(shard), &Candidates::new(&list));
            for removed in 0..nodes {
                let mut rest = list.clone();
                let gone = rest.remove(removed);
                let after = strategy.allocate(ShardId(shard), &Candidates::new(&rest));
                assert_eq!(home != after, home == Some(gone.slot));
            }
        }
    }
}

#[test]
fn a_node_more_gets_its_part_of_64_shards() {
    for (name, moved) in [
        ("rendezvous", moves_to_a_fourth(&mut Rendezvous::new())),
        ("modulo", moves_to_a_fourth(&mut Modulo::new())),
    ] {
        let to_the_new_node = moved.iter().filter(|(_, _, to)| *to == 3).count();
        match name {
            "rendezvous" => {
                assert_eq!(to_the_new_node, moved.len(), "moves only to the new node");
                assert!((8..=24).contains(&moved.len()), "{}", moved.len());
            }
            _ => assert_eq!(moved.len(), 46),
        }
    }
}

fn moves_to_a_fourth(strategy: &mut impl AllocationStrategy) -> Vec<(u32, usize, usize)> {
    let mut three = Cluster::unallocated(3, 64);
    for shard in 0..64 {
        three.allocate(strategy, shard);
    }
    let mut four = Cluster::unallocated(4, 0);
    four.shards = three.shards;
    four.settle(strategy)
}
