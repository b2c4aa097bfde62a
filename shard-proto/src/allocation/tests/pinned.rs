use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn pins(cluster: &Cluster, pins: &[(u32, usize)]) -> Vec<(ShardId, NodeId)> {
    pins.iter()
        .map(|(shard, node)| (ShardId(*shard), cluster.nodes[*node]))
        .collect()
}

#[test]
fn a_pinned_shard_goes_to_its_node_and_others_to_the_fallback() {
    let mut cluster = Cluster::unallocated(3, 6);
    let table = pins(&cluster, &[(0, 2), (1, 2)]);
    let mut strategy = Pinned::new(&table[..], LeastShards::new());
    let homes: Vec<_> = (0..6)
        .map(|shard| node_of(cluster.allocate(&mut strategy, shard)))
        .collect();
    assert_eq!(homes, [2, 2, 0, 1, 0, 1]);
    assert_eq!(cluster.round(&mut strategy), []);
}

#[test]
fn a_shard_whose_node_is_missing_waits_with_the_fallback() {
    let pin = |shard: ShardId| (shard.0 == 0).then_some(NodeId(4711));
    let mut strategy = Pinned::new(pin, LeastShards::new());
    let mut cluster = Cluster::unallocated(2, 2);
    assert_eq!(cluster.allocate(&mut strategy, 0), slot(0));
    assert_eq!(cluster.allocate(&mut strategy, 1), slot(1));
    assert_eq!(cluster.settle(&mut strategy), []);
    cluster.nodes[1] = NodeId(4711);
    assert_eq!(cluster.settle(&mut strategy), [(0, 0, 1), (1, 1, 0)]);
}

#[test]
fn a_changed_pin_moves_its_shard_first() {
    let mut cluster = Cluster::with_loads(&[4, 0]);
    let table = pins(&cluster, &[(0, 0), (3, 1)]);
    let mut strategy = Pinned::new(&table[..], LeastShards::new());
    assert_eq!(cluster.round(&mut strategy), [3]);
    cluster.complete(&mut strategy);
    assert_eq!(
        cluster.round(&mut strategy),
        [1],
        "the lowest that is not pinned"
    );
    cluster.complete(&mut strategy);
    assert_eq!(cluster.round(&mut strategy), []);
}

#[test]
fn a_ceiling_holds_for_pinned_shards() {
    let mut cluster = Cluster::with_loads(&[10, 0]);
    let other = cluster.nodes[1];
    let mut strategy =
        Pinned::new(move |_| Some(other), LeastShards::new()).with_max_simultaneous(3);
    assert_eq!(cluster.round(&mut strategy), [0, 1, 2]);
    assert_eq!(cluster.round(&mut strategy), []);
    assert_eq!(cluster.settle(&mut strategy).len(), 10);
    assert_eq!(cluster.loads(), [0, 10]);
}

#[test]
fn a_full_node_of_pinned_shards_does_not_keep_others_from_evening_out() {
    let mut cluster = Cluster::with_loads(&[10, 6, 0]);
    let table = pins(
        &cluster,
        &(0..10).map(|shard| (shard, 0)).collect::<Vec<_>>(),
    );
    let moves = cluster.settle(&mut Pinned::new(&table[..], LeastShards::new()));
    assert_eq!(moves, [(10, 1, 2), (11, 1, 2), (12, 1, 2)]);
}

proptest! {
    #[test]
    fn comes_to_rest_with_every_pin_kept(
        owners in proptest::collection::vec(0..5_usize, 0..100),
        pinned in proptest::collection::vec(0..7_u64, 100),
        max in 1..20_u32,
    ) {
        let mut cluster = Cluster::with_owners(5, owners.into_iter());
        let nodes = cluster.nodes.clone();
        // 5: a node that is not there; 6: no pin.
        let pin = |shard: ShardId| match pinned[shard.0 as usize] {
            6 => None,
            5 => Some(NodeId(4711)),
            node => Some(nodes[node as usize]),
        };
        let fallback = LeastShards::new().with_max_simultaneous(max);
        let mut strategy = Pinned::new(pin, fallback).with_max_simultaneous(max);
        cluster.settle(&mut strategy);
        for shard in 0..cluster.shard_count() {
            let node = pinned[shard as usize] as usize;
            if node < 5 {
                prop_assert_eq!(cluster.placement(ShardId(shard)), Placement::On(slot(node)));
            }
        }
        let loads = cluster.loads();
        let least = *loads.iter().min().unwrap();
        for (node, load) in loads.iter().enumerate() {
            let movable = (0..cluster.shard_count()).any(|shard| {
                pinned[shard as usize] == 6
                    && cluster.placement(ShardId(shard)) == Placement::On(slot(node))
            });
            prop_assert!(!movable || load - least <= 1);
        }
    }
}
