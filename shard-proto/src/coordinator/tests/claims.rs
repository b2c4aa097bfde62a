//! Registration in parts, sessions, claims (protocol 2.11, 5.2, 5.3).

use super::harness::*;
use crate::{
    Incarnation, NodeId, Session, Term,
    coordinator::{ControlError, CoordShardState},
    membership::MemberState,
    wire::control::{Previous, RegisterRefusal},
};

#[test]
fn r5_2_a_register_counts_when_its_last_part_is_there() {
    let mut bed = Bed::recovering(8);
    bed.up(1);
    let part = |bed: &mut Bed, at, shard| {
        bed.register_part(1, session(1), &[claim(shard, epoch(5, shard + 1))], at, 3)
    };
    part(&mut bed, 0, 0).unwrap();
    part(&mut bed, 1, 3).unwrap();
    assert_eq!(bed.poll(), []);
    assert!(!bed.coordinator.is_registered(NodeId(1)));
    part(&mut bed, 2, 5).unwrap();
    let said = bed.poll();
    assert_eq!(said[..2], [Out::Registered(1, 0), Out::Ack(1)]);
    assert_eq!(
        bed.map(),
        [
            (0, 1, epoch(5, 1)),
            (3, 1, epoch(5, 4)),
            (5, 1, epoch(5, 6))
        ]
    );
}

#[test]
fn r5_2_parts_out_of_order_are_dropped_and_the_first_one_starts_anew() {
    let mut bed = Bed::recovering(8);
    bed.up(1);
    let part = |bed: &mut Bed, at, parts| bed.register_part(1, session(1), &[], at, parts);
    assert_eq!(part(&mut bed, 1, 3), Err(ControlError::OutOfOrder));
    part(&mut bed, 0, 3).unwrap();
    assert_eq!(part(&mut bed, 2, 3), Err(ControlError::OutOfOrder));
    part(&mut bed, 1, 3).unwrap();
    assert_eq!(part(&mut bed, 1, 3), Err(ControlError::OutOfOrder));
    // Another number of parts belongs to another attempt.
    assert_eq!(part(&mut bed, 2, 4), Err(ControlError::OutOfOrder));
    part(&mut bed, 0, 2).unwrap();
    assert_eq!(part(&mut bed, 2, 3), Err(ControlError::OutOfOrder));
    part(&mut bed, 1, 2).unwrap();
    assert!(bed.poll().contains(&Out::Ack(1)));
    // A doubled last part.
    assert_eq!(part(&mut bed, 1, 2), Err(ControlError::OutOfOrder));
    // Registering again is acknowledged again, and is no news to leadership.
    bed.register(1).unwrap();
    assert_eq!(bed.poll(), [Out::Ack(1)]);
}

#[test]
fn r5_2_the_age_of_the_last_beat_is_passed_on() {
    let mut bed = Bed::recovering(8);
    bed.up(1);
    let register = crate::wire::control::Register {
        last_beat_age: 1234,
        ..part_of(session(1), crate::wire::Claims::EMPTY, 8)
    };
    bed.control(1, &crate::wire::Control::Register(register))
        .unwrap();
    assert_eq!(bed.poll()[0], Out::Registered(1, 1234));
}

#[test]
fn r5_2_of_two_claims_the_higher_epoch_wins_in_either_order() {
    for low_first in [true, false] {
        let mut bed = Bed::recovering(4);
        bed.up(1);
        bed.up(2);
        let (low, high) = (epoch(5, 9), epoch(6, 1));
        let order = if low_first {
            [(1, low), (2, high)]
        } else {
            [(2, high), (1, low)]
        };
        for (node, held) in order {
            bed.register_with(node, session(node), &[claim(0, held)])
                .unwrap();
        }
        assert_eq!(bed.home(0), Some((2, high)));
        let loser = Out::HandOff {
            to: 1,
            shard: 0,
            epoch: low,
        };
        assert!(bed.poll().contains(&loser));
        // Repeated until the loser says so; that changes nothing for the winner.
        assert!(bed.pass(250).contains(&loser));
        bed.complete(1, 0, low).unwrap();
        assert_eq!(handoffs(&bed.pass(5_000)), []);
        assert_eq!(bed.home(0), Some((2, high)));
    }
}

#[test]
fn r5_2_in_one_session_a_shard_that_is_not_named_is_not_freed() {
    let mut bed = Bed::open(4, 1);
    bed.ask(1, 0).unwrap();
    let granted = bed.home(0);
    // Sent before the grant arrived.
    bed.register(1).unwrap();
    bed.settle();
    assert_eq!(bed.home(0), granted);
}

#[test]
fn r2_11_a_newer_session_frees_what_it_does_not_claim() {
    let mut bed = Bed::open(4, 1).all_started();
    let before = bed.map();
    let newer = next(session(1));
    let kept = [claim(1, before[1].2), claim(3, before[3].2)];
    bed.register_part(1, newer, &kept[..1], 0, 2).unwrap();
    // Until the last part nobody knows what remains, and the old session's homes are over.
    assert_eq!(bed.map(), before[1..2]);
    bed.ask(1, 0).unwrap_err();
    assert!(bed.settle().is_empty());
    bed.register_part(1, newer, &kept[1..], 1, 2).unwrap();
    let said = bed.settle();
    let granted: alloc::vec::Vec<_> = said
        .iter()
        .filter_map(|out| match out {
            Out::Home {
                shard,
                session,
                previous,
                ..
            } => Some((*shard, *session, *previous)),
            _ => None,
        })
        .collect();
    assert_eq!(
        granted,
        [(0, newer, Previous::Lapsed), (2, newer, Previous::Lapsed)]
    );
    let after = bed.map();
    assert_eq!((after[1], after[3]), (before[1], before[3]));
    assert!(after[0].2 > before[0].2 && after[2].2 > before[2].2);
}

#[test]
fn r2_11_an_ended_session_is_refused_and_revives_nothing() {
    let mut bed = Bed::open(4, 2).all_started();
    let held: alloc::vec::Vec<_> = bed.map().into_iter().filter(|home| home.1 == 2).collect();
    bed.coordinator.handle_lapsed(bed.now, NodeId(2));
    let said = bed.settle();
    assert!(
        said.iter()
            .all(|out| !matches!(out, Out::Home { node: 2, .. }))
    );
    // It may not have noticed.
    let told = Out::Refused(2, RegisterRefusal::SessionEnded);
    assert_eq!(said.iter().filter(|out| **out == told).count(), 1);
    bed.coordinator.handle_lapsed(bed.now, NodeId(2));
    assert!(!bed.settle().contains(&told), "once");
    assert_eq!(bed.owned(2), [4, 0]);
    let after = bed.map();
    let claims: alloc::vec::Vec<_> = held.iter().map(|home| claim(home.0, home.2)).collect();
    let result = bed.register_with(2, session(2), &claims);
    assert_eq!(
        result,
        Err(ControlError::Refused(RegisterRefusal::SessionEnded))
    );
    assert_eq!(
        bed.settle(),
        [Out::Refused(2, RegisterRefusal::SessionEnded)]
    );
    assert_eq!(bed.deregister(2, session(2)), Err(ControlError::OutOfOrder));
    assert_eq!(bed.map(), after);
    bed.register_with(2, next(session(2)), &[]).unwrap();
    assert!(bed.coordinator.is_registered(NodeId(2)));
}

#[test]
fn r2_11_late_copies_of_an_older_session_change_nothing() {
    let mut bed = Bed::open(4, 2).all_started();
    let newer = next(session(2));
    bed.register_with(2, newer, &[]).unwrap();
    bed.finish_moves();
    let before = bed.map();
    assert!(bed.register(2).is_err());
    assert!(bed.deregister(2, session(2)).is_err());
    bed.settle();
    assert_eq!(bed.map(), before);
    assert!(bed.coordinator.is_registered(NodeId(2)));
}

#[test]
fn s26_deregister_frees_at_once_what_the_region_had() {
    let mut bed = Bed::open(6, 2).all_started();
    assert_eq!(bed.owned(2), [3, 3]);
    bed.deregister(2, session(2)).unwrap();
    let said = bed.settle();
    assert_eq!(homes(&said).len(), 3);
    assert_eq!(bed.owned(2), [6, 0]);
    // Its own Flushed may never come.
    assert!(said.iter().any(|out| matches!(
        out,
        Out::Home {
            previous: Previous::Lapsed,
            ..
        }
    )));
    // Twice, and what follows, finds nothing to do.
    assert!(bed.deregister(2, session(2)).is_err());
    bed.removed(2);
    let before = bed.map();
    bed.settle();
    assert_eq!(bed.map(), before);
}

#[test]
fn r5_3_a_deregister_counts_though_the_registration_of_its_session_was_lost() {
    let mut bed = Bed::open(6, 2).all_started();
    let newer = next(session(2));
    let other_life = Session {
        incarnation: Incarnation(201),
        ..newer
    };
    assert_eq!(bed.deregister(2, other_life), Err(ControlError::OutOfOrder));
    assert_eq!(bed.owned(2), [3, 3]);
    bed.deregister(2, newer).unwrap();
    bed.settle();
    assert_eq!(
        bed.owned(2),
        [6, 0],
        "nothing runs of any session before it"
    );
    assert!(!bed.coordinator.is_registered(NodeId(2)));
    // It was not lost, but late.
    assert_eq!(
        bed.register_with(2, newer, &[]),
        Err(ControlError::Refused(RegisterRefusal::SessionEnded))
    );
    assert_eq!(bed.deregister(2, newer), Err(ControlError::OutOfOrder));
    bed.register_with(2, next(newer), &[]).unwrap();
    assert!(bed.coordinator.is_registered(NodeId(2)));
}

#[test]
fn s27_without_a_deregister_the_removal_does_it() {
    let mut bed = Bed::open(6, 2).all_started();
    bed.removed(2);
    bed.settle();
    assert_eq!(bed.owned(1), [6]);
}

#[test]
fn s31_a_claim_never_wins_over_a_live_home() {
    let mut bed = Bed::open(1, 1).all_started();
    let (_, held) = bed.home(0).unwrap();
    bed.up(2);
    bed.register(2).unwrap();
    bed.settle();
    // Declared down by mistake: the shard moves.
    bed.removed(1);
    bed.settle();
    let moved = bed.home(0).unwrap();
    assert_eq!(moved.0, 2);
    // The node returns with a new life and, hostile or confused, the old claim.
    bed.change(crate::membership::MemberChange::Member(
        crate::membership::Member {
            node: NodeId(1),
            incarnation: Incarnation(101),
            state: MemberState::Up,
            roles: crate::membership::Roles::NONE,
        },
    ));
    let returned = Session {
        incarnation: Incarnation(101),
        ..session(1)
    };
    bed.register_with(1, returned, &[claim(0, held)]).unwrap();
    let said = bed.settle();
    assert_eq!(bed.home(0), Some(moved));
    assert!(said.contains(&Out::HandOff {
        to: 1,
        shard: 0,
        epoch: held
    }));
}

#[test]
fn r5_2_a_claim_at_or_below_a_completed_epoch_is_not_believed() {
    let mut bed = Bed::recovering(2);
    bed.up(1);
    bed.register_with(1, session(1), &[claim(0, epoch(5, 3))])
        .unwrap();
    bed.member(1, MemberState::Leaving);
    bed.settle();
    bed.complete(1, 0, epoch(5, 3)).unwrap();
    // A copy from before.
    bed.register_with(1, session(1), &[claim(0, epoch(5, 3))])
        .unwrap();
    bed.register_with(1, session(1), &[claim(0, epoch(4, 1))])
        .unwrap();
    assert_eq!(bed.home(0), None);
    assert_eq!(bed.state(0), CoordShardState::Unallocated);
    assert!(bed.poll().contains(&Out::HandOff {
        to: 1,
        shard: 0,
        epoch: epoch(4, 1)
    }));
}

#[test]
fn s23_r5_2_a_draining_claim_is_handing_off_with_a_fresh_deadline() {
    let mut bed = Bed::recovering(2);
    bed.up(1);
    bed.up(2);
    bed.register_with(1, session(1), &[draining(0, epoch(5, 3))])
        .unwrap();
    bed.register(2).unwrap();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    let said = bed.poll();
    assert!(said.contains(&Out::HandOff {
        to: 1,
        shard: 0,
        epoch: epoch(5, 3)
    }));
    // Nobody is told the old home.
    bed.ask(2, 0).unwrap();
    assert_eq!(homes(&bed.pass(9_000)), []);
    // Saying it again does not give it more time.
    bed.register_with(1, session(1), &[draining(0, epoch(5, 3))])
        .unwrap();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    assert!(!bed.pass(999).contains(&Out::Overdue(1, 0)));
    // It completes: one home, and not the node it came from.
    bed.complete(1, 0, epoch(5, 3)).unwrap();
    bed.settle();
    assert_eq!(bed.home(0).unwrap().0, 2);
}

#[test]
fn s23_a_new_reign_takes_over_what_the_old_one_had_begun() {
    let mut bed = Bed::open(4, 2).all_started();
    let before = bed.map();
    bed.member(2, MemberState::Leaving);
    bed.settle();
    bed.coordinator.end(bed.now);
    bed.term = Term(8);
    bed.coordinator.begin(bed.now, Term(8));
    bed.coordinator.act(bed.now);
    let claims = |node: u64| -> alloc::vec::Vec<_> {
        before
            .iter()
            .filter(|home| home.1 == node)
            .map(|home| match node {
                2 => draining(home.0, home.2),
                _ => claim(home.0, home.2),
            })
            .collect()
    };
    bed.register_with(1, session(1), &claims(1)).unwrap();
    bed.register_with(2, session(2), &claims(2)).unwrap();
    bed.finish_moves();
    assert_eq!(bed.owned(2), [4, 0]);
    // What was claimed did not move; what was drained has an epoch of the new reign.
    for (was, is) in before.iter().zip(bed.map()) {
        if was.1 == 1 {
            assert_eq!(*was, is);
        } else {
            assert_eq!(is.2.term(), Term(8));
        }
    }
}

#[test]
fn s24_a_region_that_registers_again_while_it_drains_does_not_flip_back() {
    let mut bed = Bed::open(2, 2).all_started();
    let (owner, held) = bed.home(0).unwrap();
    bed.member(owner, MemberState::Leaving);
    bed.settle();
    bed.register_with(owner, session(owner), &[claim(0, held)])
        .unwrap();
    bed.settle();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    bed.complete(owner, 0, held).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 3 - owner);
}

#[test]
fn s30_a_new_reign_moves_no_shard_that_is_claimed() {
    let mut bed = Bed::open(9, 3).all_started();
    let before = bed.map();
    bed.coordinator.end(bed.now);
    bed.term = Term(8);
    bed.coordinator.begin(bed.now, Term(8));
    bed.coordinator.act(bed.now);
    for node in 1..=3 {
        let claims: alloc::vec::Vec<_> = before
            .iter()
            .filter(|home| home.1 == node)
            .map(|home| claim(home.0, home.2))
            .collect();
        bed.register_with(node, session(node), &claims).unwrap();
    }
    assert_eq!(handoffs(&bed.settle()), []);
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(handoffs(&bed.pass(10_000)), []);
    assert_eq!(bed.map(), before);
}

#[test]
fn s29_a_quick_restart_frees_the_shards_of_the_life_before() {
    let mut bed = Bed::open(4, 2).all_started();
    let member = crate::membership::Member {
        node: NodeId(2),
        incarnation: Incarnation(201),
        state: MemberState::Up,
        roles: crate::membership::Roles::NONE,
    };
    bed.change(crate::membership::MemberChange::Member(member));
    bed.settle();
    assert_eq!(bed.owned(2), [4, 0]);
    assert!(matches!(
        bed.register(2),
        Err(ControlError::Incarnation { .. })
    ));
    let reborn = Session {
        incarnation: Incarnation(201),
        ..session(2)
    };
    bed.register_with(2, reborn, &[]).unwrap();
    bed.finish_moves();
    assert_eq!(bed.owned(2), [2, 2]);
}

#[test]
fn a_refused_registration_in_parts_leaves_no_claims() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    bed.register_part(1, session(1), &[claim(0, epoch(5, 1))], 0, 2)
        .unwrap();
    assert!(bed.home(0).is_some());
    let result = bed.register_part(1, session(1), &[claim(9, epoch(5, 2))], 1, 2);
    assert_eq!(result, Err(ControlError::Refused(RegisterRefusal::Claims)));
    bed.settle();
    assert_eq!(bed.home(0), None);
    bed.register(1).unwrap();
}

#[test]
fn with_leases_an_unfinished_registration_is_void_after_the_barrier() {
    let mut bed = Bed::with(config(4).with_trust(false), at_rest());
    bed.up(1);
    bed.up(2);
    bed.register_part(1, session(1), &[claim(0, epoch(5, 1))], 0, 2)
        .unwrap();
    bed.register(2).unwrap();
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    assert_eq!(bed.home(0).unwrap().0, 2);
}

#[test]
fn sessions_that_follow_each_other_quickly_lose_no_shard() {
    let mut bed = Bed::open(200, 1).all_started();
    let before = bed.map();
    // A second session claims some in a first part, a third claims others before the second was complete.
    let second = next(session(1));
    let third = next(second);
    let claims: alloc::vec::Vec<_> = before[..50]
        .iter()
        .map(|home| claim(home.0, home.2))
        .collect();
    bed.register_part(1, second, &claims, 0, 2).unwrap();
    let claims: alloc::vec::Vec<_> = before[25..75]
        .iter()
        .map(|home| claim(home.0, home.2))
        .collect();
    bed.register_part(1, third, &claims, 0, 2).unwrap();
    assert_eq!(bed.map().len(), 50);
    bed.register_part(1, third, &[], 1, 2).unwrap();
    bed.settle();
    assert_eq!(bed.map()[25..75], before[25..75]);
    assert_eq!(bed.owned(1), [200]);
}

#[test]
fn s24_a_newer_session_does_not_flip_a_handoff_back_either() {
    let mut bed = Bed::open(2, 2).all_started();
    let (owner, held) = bed.home(0).unwrap();
    bed.member(owner, MemberState::Leaving);
    bed.settle();
    bed.pass(5_000);
    bed.register_with(owner, next(session(owner)), &[claim(0, held)])
        .unwrap();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    // The stay is new, so is the deadline.
    assert!(!bed.pass(9_999).contains(&Out::Overdue(owner, 0)));
    assert!(bed.pass(1).contains(&Out::Overdue(owner, 0)));
}
