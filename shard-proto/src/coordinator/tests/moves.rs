//! Handoffs, timeouts, rebalance (protocol 5.3 to 5.6).

use super::harness::*;
use crate::{
    NodeId,
    allocation::LeastShards,
    coordinator::{ControlError, CoordShardState},
    membership::MemberState,
    wire::control::{Previous, RegisterRefusal},
};

/// Node 1 owns shard 0 and was just told to hand it off, node 2 is there.
fn handing_off(trust: bool) -> (Bed, crate::Epoch) {
    let config = config(1).with_trust(trust);
    let mut bed = Bed::with(config, at_rest()).opened(1).all_started();
    bed.up(2);
    bed.register(2).unwrap();
    bed.settle();
    let (_, held) = bed.home(0).unwrap();
    bed.member(1, MemberState::Leaving);
    assert_eq!(handoffs(&bed.settle()), [(1, 0)]);
    // It stays, so that it could be given the shard back.
    bed.up(1);
    bed.settle();
    (bed, held)
}

#[test]
fn s17_s18_r5_4_hand_off_is_repeated_until_complete() {
    let (mut bed, held) = handing_off(true);
    assert_eq!(handoffs(&bed.pass(249)), []);
    assert_eq!(handoffs(&bed.pass(1)), [(1, 0)]);
    assert_eq!(handoffs(&bed.pass(1_000)).len(), 4);
    bed.complete(1, 0, held).unwrap();
    let said = bed.settle();
    assert_eq!(homes(&said), [(2, 0, 2)]);
    let (owner, granted) = bed.home(0).unwrap();
    assert!(owner == 2 && granted > held);
    assert!(said.iter().any(|out| matches!(
        out,
        Out::Home {
            previous: Previous::Completed,
            ..
        }
    )));
    bed.started(2, 0, granted).unwrap();
    assert_eq!(bed.complete(1, 0, held), Err(ControlError::NotOwner));
    assert_eq!(handoffs(&bed.pass(60_000)), []);
}

#[test]
fn s22_while_a_shard_is_handing_off_nobody_is_told_its_old_home() {
    let (mut bed, held) = handing_off(true);
    for _ in 0..8 {
        bed.ask(1, 0).unwrap();
        bed.ask(2, 0).unwrap();
        let said = bed.pass(1_000);
        assert_eq!((homes(&said), maps(&said)), (alloc::vec![], alloc::vec![]));
    }
    assert_eq!(bed.home(0), None);
    bed.up(3);
    bed.register(3).unwrap();
    assert_eq!(maps(&bed.poll()), []);
    bed.complete(1, 0, held).unwrap();
    // Who asked learns it at once.
    let said = bed.settle();
    assert!(maps(&said).contains(&(1, 0, 2)));
}

#[test]
fn s20_r5_5_with_leases_a_timeout_ends_the_sessions_and_the_lapse_frees() {
    let (mut bed, held) = handing_off(false);
    assert!(!bed.pass(9_999).contains(&Out::Overdue(1, 0)));
    let said = bed.pass(1);
    assert!(said.contains(&Out::Overdue(1, 0)));
    assert!(said.contains(&Out::EndSessions(1)));
    // Until the lease is over for sure the shard has no other home.
    assert_eq!(bed.home(0), None);
    let result = bed.register_with(1, session(1), &[draining(0, held)]);
    assert_eq!(
        result,
        Err(ControlError::Refused(RegisterRefusal::SessionEnded))
    );
    assert_eq!(homes(&bed.pass(2_000)), []);
    bed.coordinator.handle_lapsed(bed.now, NodeId(1));
    let said = bed.settle();
    assert_eq!(homes(&said), [(2, 0, 2)]);
    assert!(said.iter().any(|out| matches!(
        out,
        Out::Home {
            previous: Previous::Lapsed,
            ..
        }
    )));
    // The node wakes up.
    let home = bed.home(0);
    assert_eq!(bed.complete(1, 0, held), Err(ControlError::NotOwner));
    bed.register_with(1, next(session(1)), &[]).unwrap();
    bed.settle();
    assert_eq!(bed.home(0), home);
}

#[test]
fn s20_r2_20_trusted_membership_allocates_anew_at_the_timeout() {
    let (mut bed, held) = handing_off(true);
    let said = bed.pass(10_000);
    assert!(said.contains(&Out::Overdue(1, 0)));
    assert!(!said.contains(&Out::EndSessions(1)));
    assert_eq!(bed.home(0).unwrap().0, 2);
    let (_, granted) = bed.home(0).unwrap();
    bed.started(2, 0, granted).unwrap();
    // The node that hung is told until it says so.
    assert!(bed.pass(250).contains(&Out::HandOff {
        to: 1,
        shard: 0,
        epoch: held
    }));
    bed.complete(1, 0, held).unwrap();
    assert_eq!(handoffs(&bed.pass(60_000)), []);
    assert_eq!(bed.home(0).unwrap().0, 2);
}

#[test]
fn s21_after_a_timeout_the_load_does_not_count_the_shard_and_the_end_does_not_move_it() {
    for trust in [true, false] {
        let (mut bed, _) = handing_off(trust);
        bed.pass(10_000);
        if !trust {
            bed.coordinator.handle_lapsed(bed.now, NodeId(1));
        }
        bed.settle();
        assert_eq!(bed.owned(2), [0, 1]);
        let home = bed.home(0);
        bed.removed(1);
        bed.settle();
        assert_eq!(bed.home(0), home);
    }
}

#[test]
fn r5_4_completion_from_the_owner_frees_in_every_state() {
    let mut bed = Bed::open(1, 2).all_started();
    let (owner, held) = bed.home(0).unwrap();
    // Nobody had ordered it here.
    bed.complete(owner, 0, held).unwrap();
    assert!(bed.home(0).unwrap().1 > held);
    // The lease of a session that timed out is not over, and it completes after all.
    let (mut bed, held) = handing_off(false);
    bed.pass(10_000);
    bed.complete(1, 0, held).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 2);
}

#[test]
fn r5_6_a_planned_move_goes_back_only_if_there_is_nobody_else() {
    let (mut bed, held) = handing_off(true);
    bed.removed(2);
    bed.settle();
    bed.complete(1, 0, held).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 1);
}

#[test]
fn r5_5_a_forced_completion_is_counted() {
    let (mut bed, held) = handing_off(true);
    let complete = crate::wire::control::HandOffComplete {
        shard: crate::ShardId(0),
        epoch: held,
        forced: true,
    };
    bed.control(1, &crate::wire::Control::HandOffComplete(complete))
        .unwrap();
    assert_eq!(bed.coordinator.stats().forced_completions, 1);
}

#[test]
fn s25_load_9_0_0_moves_six_and_comes_to_rest() {
    let strategy = LeastShards::new().with_max_simultaneous(100);
    let mut bed = Bed::with(config(9), strategy).opened(1).all_started();
    bed.up(2);
    bed.up(3);
    bed.register(2).unwrap();
    bed.register(3).unwrap();
    assert_eq!(bed.finish_moves(), 6);
    assert_eq!(bed.owned(3), [3, 3, 3]);
    assert_eq!(handoffs(&bed.pass(200_000)), []);
    assert!(bed.coordinator.stats().rebalances >= 100);
}

#[test]
fn s47_totals_that_do_not_divide_come_to_rest() {
    for (shards, hosts) in [(3, 2), (7, 3), (10, 4), (1, 5), (33, 8)] {
        let mut bed = Bed::open(shards, 1).all_started();
        for node in 2..=hosts {
            bed.up(node);
            bed.register(node).unwrap();
        }
        bed.finish_moves();
        let owned = bed.owned(hosts);
        let apart = owned.iter().max().unwrap() - owned.iter().min().unwrap();
        assert!(apart <= 1, "{owned:?}");
        assert_eq!(handoffs(&bed.pass(200_000)), []);
    }
}

#[test]
fn s48_never_more_than_the_ceiling_in_flight() {
    let strategy = LeastShards::new().with_max_simultaneous(5);
    let mut bed = Bed::with(config(64), strategy).opened(3).all_started();
    bed.up(4);
    bed.register(4).unwrap();
    let mut moves = 0;
    for _ in 0..1000 {
        let said = bed.settle();
        assert!(bed.coordinator.moves_in_flight() <= 5);
        let Some(Out::HandOff { to, shard, epoch }) = said
            .into_iter()
            .chain(bed.pass(250))
            .find(|out| matches!(out, Out::HandOff { .. }))
        else {
            break;
        };
        bed.complete(to, shard, epoch).unwrap();
        moves += 1;
    }
    assert_eq!(moves, 16);
    assert_eq!(bed.owned(4), [16, 16, 16, 16]);
}

#[test]
fn r5_3_a_completed_move_lets_the_strategy_look_again() {
    let strategy = LeastShards::new().with_max_simultaneous(1);
    let mut bed = Bed::with(config(9), strategy).opened(2).all_started();
    bed.up(3);
    bed.register(3).unwrap();
    // No time passes.
    assert_eq!(bed.finish_moves(), 3);
    assert_eq!(bed.owned(3), [3, 3, 3]);
}

#[test]
fn r5_4_a_completion_before_the_grant_was_heard() {
    let mut bed = Bed::open(1, 2);
    bed.ask(1, 0).unwrap();
    let (owner, held) = bed.home(0).unwrap();
    bed.member(owner, MemberState::Leaving);
    bed.settle();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    // The HandOff overtook the grant: answered complete.
    bed.complete(owner, 0, held).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 3 - owner);
    assert_eq!(bed.started(owner, 0, held), Err(ControlError::NotOwner));
}
