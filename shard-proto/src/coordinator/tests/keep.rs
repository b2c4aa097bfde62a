//! Shards that have homes without being asked for.

use alloc::vec::Vec;

use super::harness::*;
use crate::{
    NodeId, Term,
    allocation::LeastShards,
    coordinator::{CoordPhase, CoordShardState, CoordinatorConfig, KeepShards},
    membership::MemberState,
};

fn keeping(shards: u32, keep: KeepShards) -> CoordinatorConfig {
    config(shards).with_keep(keep)
}

fn homeless(bed: &Bed) -> usize {
    (0..bed.shards())
        .filter(|&shard| bed.home(shard).is_none())
        .count()
}

#[test]
fn kept_shards_have_homes_without_a_message() {
    for (keep, allocated) in [
        (KeepShards::Asked, 0),
        (KeepShards::All, 10),
        (KeepShards::First(0), 0),
        (KeepShards::First(4), 4),
        (KeepShards::First(10), 10),
        (KeepShards::First(u32::MAX), 10),
    ] {
        let bed = Bed::with(keeping(10, keep), LeastShards::new()).opened(2);
        let shards: Vec<u32> = bed.map().into_iter().map(|(shard, ..)| shard).collect();
        assert_eq!(shards, (0..allocated).collect::<Vec<_>>(), "{keep:?}");
        assert_eq!(bed.owned(2), [allocated / 2, allocated / 2], "{keep:?}");
    }
}

#[test]
fn what_is_not_used_has_no_home_even_if_it_is_asked_for() {
    let mut bed = Bed::with(keeping(10, KeepShards::First(4)), LeastShards::new()).opened(1);
    bed.ask(1, 7).unwrap();
    assert_eq!(
        homes(&bed.pass(60_000))
            .iter()
            .filter(|home| home.1 > 3)
            .count(),
        0
    );
    assert_eq!(bed.owned(1), [4]);
}

#[test]
fn kept_shards_wait_for_the_barrier_and_for_a_host() {
    let mut bed = Bed::with(keeping(4, KeepShards::All), LeastShards::new());
    bed.up(1);
    bed.register(1).unwrap();
    assert_eq!(homes(&bed.pass(5_000)), []);
    bed.member(1, MemberState::Unreachable);
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(homes(&bed.pass(5_000)), []);
    bed.up(1);
    assert_eq!(homes(&bed.settle()).len(), 4);
}

#[test]
fn claims_are_left_alone_and_the_rest_is_allocated_by_a_new_leader() {
    let mut bed = Bed::with(keeping(100, KeepShards::All), LeastShards::new())
        .opened(3)
        .all_started();
    assert_eq!(homeless(&bed), 0);
    let held: Vec<_> = bed.map();
    // The leader was node 3: it is gone with its shards.
    bed.coordinator.begin(bed.now, Term(8));
    bed.coordinator.act(bed.now);
    bed.term = Term(8);
    bed.removed(3);
    for node in 1..=2 {
        let claims: Vec<_> = held
            .iter()
            .filter(|(_, owner, _)| *owner == node)
            .map(|(shard, _, epoch)| claim(*shard, *epoch))
            .collect();
        bed.register_with(node, session(node), &claims).unwrap();
    }
    bed.pass(1_000);
    assert_eq!(
        homeless(&bed),
        bed.coordinator.config().shard_count() as usize / 3
    );
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    assert_eq!(homeless(&bed), 0);
    for (shard, owner, held) in held {
        let (node, epoch) = bed.home(shard).unwrap();
        assert_eq!((node, epoch) == (owner, held), owner != 3, "shard {shard}");
        assert!(epoch >= held);
    }
}

#[test]
fn kept_shards_get_other_homes_whatever_takes_them() {
    let open = || {
        Bed::with(keeping(12, KeepShards::All), at_rest())
            .opened(3)
            .all_started()
    };
    let mut stopped = open();
    stopped.deregister(3, session(3)).unwrap();
    stopped.settle();
    assert_eq!(stopped.owned(3), [6, 6, 0]);

    let mut lapsed = open();
    lapsed.coordinator.handle_lapsed(lapsed.now, NodeId(2));
    lapsed.settle();
    assert_eq!(lapsed.owned(3), [6, 0, 6]);

    let mut left = open();
    left.member(1, MemberState::Leaving);
    assert_eq!(left.finish_moves(), 4);
    assert_eq!(left.owned(3), [0, 6, 6]);

    // Nobody is there for a while.
    let mut alone = open();
    for node in 1..=3 {
        alone.removed(node);
    }
    alone.pass(60_000);
    assert_eq!(homeless(&alone), 12);
    alone.up(4);
    alone.register(4).unwrap();
    alone.settle();
    assert_eq!(homeless(&alone), 0);
}

#[test]
fn what_is_balanced_stays_where_it_is() {
    let mut bed = Bed::with(keeping(100, KeepShards::All), LeastShards::new())
        .opened(3)
        .all_started();
    bed.pass(10_000);
    let before = bed.map();
    assert_eq!(before.len(), 100);
    assert_eq!(handoffs(&bed.pass(60_000)), []);
    assert_eq!(bed.map(), before);
    // A fourth takes its share, by handoffs, and then nothing moves again.
    bed.up(4);
    bed.register(4).unwrap();
    while bed.finish_moves() > 0 {
        bed.pass(2_000);
    }
    assert_eq!(bed.owned(4), [25; 4]);
    assert_eq!(handoffs(&bed.pass(60_000)), []);
}

#[test]
fn a_hundred_thousand_shards_are_allocated_in_small_steps() {
    const SHARDS: u32 = 100_000;
    let mut bed = Bed::with(keeping(SHARDS, KeepShards::All), LeastShards::new());
    for node in 1..=4 {
        bed.up(node);
        bed.register(node).unwrap();
    }
    bed.settle();
    bed.coordinator.open_barrier(bed.now);
    let (mut steps, mut allocated) = (0_u64, 0);
    while bed.coordinator.poll_timeout() == Some(bed.now) {
        bed.coordinator.handle_timeout(bed.now);
        let now = bed.coordinator.stats().allocations;
        assert!(
            now - allocated <= 64,
            "one step allocates {}",
            now - allocated
        );
        allocated = now;
        steps += 1;
        assert!(steps < 10_000, "it never ends");
    }
    assert_eq!(allocated, u64::from(SHARDS));
    assert_eq!(bed.owned(4), [SHARDS / 4; 4]);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    assert_eq!(
        bed.state(SHARDS - 1),
        CoordShardState::Allocated { started: false }
    );
    // Nothing is said twice at once: the tables are the queue.
    let grants = homes(&bed.poll()).len();
    assert_eq!(grants, SHARDS as usize);
}
