//! Changes of the view (protocol 5.3, 5.6).

use alloc::vec::Vec;

use super::harness::*;
use crate::{
    NodeId, ShardId,
    coordinator::{CoordShardState, Coordinator, CoordinatorCommand},
    membership::{Member, MemberChange, MemberState, NodesFull, RemovalCause, Roles},
    table::{CoordinatorArray, CoordinatorSlices},
};

#[test]
fn s28_shards_of_a_removed_member_get_homes_without_being_asked_for() {
    let mut bed = Bed::open(200, 3).all_started();
    let lost = bed.owned(2)[1];
    bed.removed(2);
    // In batches: one call does not do everything.
    bed.coordinator.handle_timeout(bed.now);
    assert!(bed.coordinator.poll_timeout() <= Some(bed.now));
    let said = bed.settle();
    assert_eq!(bed.owned(3), [100, 0, 100]);
    assert_eq!(homes(&said).len() as u32, lost);
    assert!(bed.map().iter().all(|home| home.1 != 2));
}

#[test]
fn what_nobody_can_host_gets_a_home_when_somebody_comes() {
    let mut bed = Bed::open(4, 1).all_started();
    bed.removed(1);
    bed.pass(10_000);
    assert_eq!(bed.map(), []);
    bed.up(2);
    bed.register(2).unwrap();
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn a_shard_that_never_had_a_home_is_not_allocated_before_it_is_asked_for() {
    let mut bed = Bed::open(8, 2);
    bed.ask(1, 0).unwrap();
    bed.pass(10_000);
    assert_eq!(bed.map().len(), 1);
}

#[test]
fn a_shard_of_a_removed_member_is_never_told_before_its_turn() {
    let mut bed = Bed::open(200, 2).all_started();
    bed.removed(2);
    // The batches have not begun; asking settles the one that is asked for.
    assert!(bed.map().iter().all(|home| home.1 == 1));
    bed.ask(1, 199).unwrap();
    assert_eq!(bed.home(199).unwrap().0, 1);
    let said = bed.poll();
    assert!(homes(&said).iter().all(|home| home.2 == 1));
    bed.settle();
    assert_eq!(bed.owned(2), [200, 0]);
}

#[test]
fn s36_shards_move_to_a_new_member_without_traffic() {
    let mut bed = Bed::open(9, 2).all_started();
    bed.up(3);
    bed.register(3).unwrap();
    assert_eq!(bed.finish_moves(), 3);
    assert_eq!(bed.owned(3), [3, 3, 3]);
    assert_eq!(handoffs(&bed.pass(60_000)), []);
}

#[test]
fn s37_while_a_member_is_unreachable_or_joining_nothing_is_rebalanced() {
    for state in [MemberState::Unreachable, MemberState::Joining] {
        let mut bed = Bed::open(9, 2).all_started();
        bed.member(4, state);
        bed.up(3);
        bed.register(3).unwrap();
        assert_eq!(handoffs(&bed.pass(60_000)), []);
        bed.up(4);
        assert!(!handoffs(&bed.settle()).is_empty());
        // The same when it goes for good.
        let mut bed = Bed::open(9, 2).all_started();
        bed.member(4, state);
        bed.up(3);
        bed.register(3).unwrap();
        bed.settle();
        bed.removed(4);
        assert!(!handoffs(&bed.settle()).is_empty());
    }
}

#[test]
fn s37_an_unreachable_member_keeps_its_shards_and_gets_no_new_ones() {
    let mut bed = Bed::open(4, 2);
    bed.ask(1, 0).unwrap();
    bed.ask(1, 1).unwrap();
    bed.start_all();
    let before = bed.map();
    bed.member(2, MemberState::Unreachable);
    bed.ask(1, 2).unwrap();
    bed.ask(1, 3).unwrap();
    bed.settle();
    assert_eq!(bed.owned(2), [3, 1]);
    assert_eq!(bed.map()[..2], before);
    bed.ask(1, 1).unwrap();
    assert_eq!(homes(&bed.poll()).len(), 1);
}

#[test]
fn r5_3_a_leaving_member_hands_off_everything_at_once_outside_of_limits() {
    let strategy = crate::allocation::LeastShards::new().with_max_simultaneous(2);
    let mut bed = Bed::with(config(200), strategy).opened(2).all_started();
    // An unreachable third does not hold it up.
    bed.member(3, MemberState::Unreachable);
    bed.member(2, MemberState::Leaving);
    assert_eq!(handoffs(&bed.settle()).len(), 100);
    assert_eq!(bed.coordinator.moves_in_flight(), 100);
    bed.member(2, MemberState::Leaving);
    assert_eq!(handoffs(&bed.settle()), []);
    bed.finish_moves();
    for (shard, node, held) in bed.map() {
        bed.started(node, shard, held).unwrap();
    }
    for shard in 0..200 {
        if bed.state(shard) == CoordShardState::HandingOff {
            // The first HandOff was read above.
            for out in bed.pass(250) {
                if let Out::HandOff { to, shard, epoch } = out {
                    let _ = bed.complete(to, shard, epoch);
                }
            }
        }
    }
    assert_eq!(bed.owned(2), [200, 0]);
}

#[test]
fn s38_the_last_node_leaves_without_getting_its_shards_back() {
    let mut bed = Bed::open(4, 1).all_started();
    bed.member(1, MemberState::Leaving);
    assert_eq!(bed.finish_moves(), 4);
    assert_eq!(bed.owned(1), [0]);
    let said = bed.pass(60_000);
    assert_eq!(handoffs(&said), []);
    assert_eq!(homes(&said), []);
}

#[test]
fn s40_two_nodes_leave_at_once_without_a_timeout() {
    let mut bed = Bed::open(30, 3).all_started();
    bed.member(2, MemberState::Leaving);
    bed.member(3, MemberState::Leaving);
    bed.finish_moves();
    assert_eq!(bed.owned(3), [30, 0, 0]);
    assert_eq!(bed.coordinator.stats().handoff_timeouts, 0);
}

#[test]
fn s40_a_node_leaves_while_shards_move_to_it() {
    let mut bed = Bed::open(6, 2).all_started();
    bed.up(3);
    bed.register(3).unwrap();
    // Shards are granted to node 3, which has not heard of it when it leaves.
    for out in bed.settle() {
        if let Out::HandOff { to, shard, epoch } = out {
            bed.complete(to, shard, epoch).unwrap();
        }
    }
    assert_eq!(bed.owned(3)[2], 2);
    bed.member(3, MemberState::Leaving);
    bed.finish_moves();
    assert_eq!(bed.owned(3), [3, 3, 0]);
    assert_eq!(bed.coordinator.stats().handoff_timeouts, 0);
}

#[test]
fn the_table_of_nodes_may_be_full_and_slots_are_used_again() {
    let mut bed = Bed::open(200, 2).all_started();
    for node in 3..=8 {
        bed.up(node);
    }
    let member = |node: u64| {
        MemberChange::Member(Member {
            node: NodeId(node),
            incarnation: crate::Incarnation(node * 100),
            state: MemberState::Up,
            roles: Roles::NONE,
        })
    };
    let result = bed.coordinator.handle_member(bed.now, member(9));
    assert_eq!(result, Err(NodesFull));
    // Its shards are not freed yet, but the slot is needed.
    bed.removed(2);
    bed.change(member(9));
    bed.register(9).unwrap();
    bed.finish_moves();
    assert_eq!(bed.coordinator.owned_by(NodeId(9)), 100);
}

#[test]
fn a_removed_incarnation_is_not_readmitted_by_a_late_change() {
    let mut bed = Bed::open(200, 2).all_started();
    bed.removed(2);
    bed.up(2);
    assert!(bed.register(2).is_err());
    bed.settle();
    assert_eq!(bed.owned(2), [200, 0]);
    // An older life's removal does not end a newer one.
    bed.change(MemberChange::Removed {
        node: NodeId(1),
        incarnation: crate::Incarnation(99),
        cause: RemovalCause::Replaced,
    });
    assert_eq!(bed.owned(1), [200]);
}

#[test]
fn array_slices_and_heap_say_the_same() {
    let said =
        |bed: &mut dyn FnMut(u64) -> Vec<Out>| -> Vec<Out> { (1..=3).flat_map(bed).collect() };
    macro_rules! run {
        ($storage:expr) => {{
            let now = crate::Instant::ZERO;
            let strategy = crate::allocation::LeastShards::new();
            let mut coordinator = Coordinator::new(now, config(16), strategy, $storage).unwrap();
            coordinator.begin(now, TERM);
            coordinator.act(now);
            coordinator.open_barrier(now);
            said(&mut |node| {
                let member = Member {
                    node: NodeId(node),
                    incarnation: crate::Incarnation(node * 100),
                    state: MemberState::Up,
                    roles: Roles::NONE,
                };
                coordinator
                    .handle_member(now, MemberChange::Member(member))
                    .unwrap();
                let register = part_of(session(node), crate::wire::Claims::EMPTY, 16);
                let register = crate::wire::Control::Register(register);
                coordinator
                    .handle_control(now, NodeId(node), TERM, &register)
                    .unwrap();
                for shard in 0..16 {
                    let ask = crate::wire::control::GetShardHome {
                        shard: ShardId(shard),
                    };
                    let ask = crate::wire::Control::GetShardHome(ask);
                    coordinator
                        .handle_control(now, NodeId(node), TERM, &ask)
                        .unwrap();
                }
                coordinator.handle_timeout(now);
                let mut out = Vec::new();
                while let Some(command) = coordinator.poll_command() {
                    let command: CoordinatorCommand<'_> = command;
                    out.push(own(command));
                }
                out
            })
        }};
    }
    let heap = run!(crate::table::CoordinatorHeap::new(16, 4));
    static ARRAY: std::sync::Mutex<CoordinatorArray<16, 4>> =
        std::sync::Mutex::new(CoordinatorArray::new());
    let mut array = ARRAY.lock().unwrap();
    assert_eq!(heap, run!(&mut *array));
    let mut shards = [crate::coordinator::CoordShardSlot::EMPTY; 16];
    let mut nodes = [crate::coordinator::CoordNodeSlot::EMPTY; 4];
    let mut candidates = [crate::allocation::Candidate::EMPTY; 4];
    let slices = CoordinatorSlices::new(&mut shards, &mut nodes, &mut candidates);
    assert_eq!(heap, run!(slices));
    assert!(heap.len() > 40);
}

#[test]
fn s29_a_restart_of_a_node_without_shards_keeps_its_place() {
    let mut bed = Bed::open(4, 2);
    bed.change(MemberChange::Member(Member {
        node: NodeId(2),
        incarnation: crate::Incarnation(201),
        state: MemberState::Up,
        roles: Roles::NONE,
    }));
    let reborn = crate::Session {
        incarnation: crate::Incarnation(201),
        ..session(2)
    };
    bed.register_with(2, reborn, &[]).unwrap();
    assert!(bed.poll().contains(&Out::Ack(2)));
    bed.ask(2, 0).unwrap();
    bed.ask(2, 1).unwrap();
    assert_eq!(bed.owned(2), [1, 1]);
}
