//! Ownership by lease: protocol 2.8-2.16, 5.5, 5.6; what differs from trusted membership.

use alloc::vec::Vec;

use super::harness::*;
use crate::{
    Incarnation, NodeId, Session, Term,
    allocation::LeastShards,
    coordinator::{ControlError, CoordPhase, CoordShardState, Coordinator},
    membership::{Member, MemberChange, MemberState, Roles},
    table::CoordinatorHeap,
    wire::control::{Previous, RegisterRefusal},
};

fn leased(shards: u32) -> Bed {
    Bed::with(config(shards).with_trust(false), at_rest())
}

/// [`leased`], before a quorum supports it.
fn recovering(shards: u32) -> Bed {
    let mut bed = leased(shards);
    let storage = CoordinatorHeap::new(shards, 8);
    let config = *bed.coordinator.config();
    bed.coordinator = Coordinator::new(bed.now, config, at_rest(), storage).unwrap();
    bed.coordinator.begin(bed.now, TERM);
    bed
}

#[test]
fn r2_8_before_it_acts_it_registers_and_says_nothing_else() {
    let mut bed = recovering(4);
    let old = epoch(5, 1);
    for node in 1..=2 {
        bed.up(node);
    }
    let claims = [claim(0, old), draining(1, old)];
    bed.register_with(1, session(1), &claims).unwrap();
    bed.register(2).unwrap();
    for shard in 0..4 {
        bed.ask(2, shard).unwrap();
    }
    assert_eq!(
        bed.pass(9_000),
        [
            Out::Registered(1, 0),
            Out::Ack(1),
            Out::Registered(2, 0),
            Out::Ack(2)
        ]
    );
    assert_eq!(bed.coordinator.poll_timeout(), None);
    bed.coordinator.act(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Acting);
    let said = bed.poll();
    assert_eq!(homes(&said), [(2, 0, 1)], "what is claimed is told");
    assert_eq!(handoffs(&said), [(1, 1)]);
    assert!(!said.iter().any(|out| matches!(out, Out::Overdue(..))));
    // The drain has its whole time from here on.
    let said = bed.pass(9_900);
    assert!(!said.iter().any(|out| matches!(out, Out::Overdue(..))));
    let said = bed.pass(200);
    assert!(said.contains(&Out::Overdue(1, 1)));
    assert_eq!(bed.home(2), None, "the barrier is closed");
}

/// Its last home may be the dead leader: nobody has to wait for a word of it.
#[test]
fn r4_3_what_nobody_claims_after_the_barrier_has_lapsed() {
    let mut bed = recovering(2);
    bed.up(1);
    bed.register_with(1, session(1), &[claim(1, epoch(5, 2))])
        .unwrap();
    bed.ask(1, 0).unwrap();
    bed.coordinator.open_barrier(bed.now);
    bed.coordinator.handle_hearing(bed.now, NodeId(1), true);
    let said = bed.settle();
    let ended = |of: u32| {
        said.iter().find_map(|out| match out {
            Out::Home {
                shard, previous, ..
            } if *shard == of => Some(*previous),
            _ => None,
        })
    };
    assert_eq!(ended(0), Some(Previous::Lapsed), "{said:?}");
    assert_ne!(ended(1), Some(Previous::Lapsed), "it is still there");
}

#[test]
fn r2_16_the_barrier_implies_acting_and_comes_once() {
    let mut bed = recovering(1);
    bed.up(1);
    bed.register(1).unwrap();
    bed.ask(1, 0).unwrap();
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    bed.coordinator.act(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    bed.settle();
    assert_eq!(bed.home(0), Some((1, epoch(7, 1))));
}

#[test]
fn r2_16_what_a_claim_frees_before_it_acts_waits_until_it_acts() {
    let mut bed = recovering(1);
    for node in 1..=2 {
        bed.up(node);
        bed.register(node).unwrap();
    }
    let old = epoch(5, 1);
    bed.register_with(1, session(1), &[claim(0, old)]).unwrap();
    bed.complete(1, 0, old).unwrap();
    assert_eq!(bed.home(0), None);
    bed.pass(1_000);
    bed.coordinator.act(bed.now);
    bed.settle();
    assert!(bed.home(0).is_some(), "freed by its owner: no barrier");
}

#[test]
fn r5_6_who_does_not_hear_is_given_nothing() {
    let mut bed = leased(2);
    for node in 1..=2 {
        bed.up(node);
        bed.register(node).unwrap();
    }
    bed.hears(1, false);
    bed.coordinator.open_barrier(bed.now);
    for shard in 0..2 {
        bed.ask(1, shard).unwrap();
    }
    bed.settle();
    assert_eq!(bed.owned(2), [0, 2]);
    bed.hears(2, false);
    bed.removed(2);
    bed.coordinator.handle_lapsed(bed.now, NodeId(2));
    bed.pass(1_000);
    assert_eq!(bed.owned(2), [0, 0], "nobody hears");
    bed.hears(1, true);
    bed.settle();
    assert_eq!(bed.owned(2), [2, 0], "at once when it does");
}

/// Nodes `1..=hosts` host all shards, with leases.
fn serving(shards: u32, hosts: u64) -> Bed {
    leased(shards).opened(hosts).all_started()
}

fn lapse(bed: &mut Bed, node: u64) {
    bed.coordinator.handle_lapsed(bed.now, NodeId(node));
    bed.check();
}

/// The next life of a node.
fn reborn(node: u64) -> Session {
    Session {
        incarnation: Incarnation(node * 100 + 1),
        ..session(node)
    }
}

fn restarted(bed: &mut Bed, node: u64) {
    bed.change(MemberChange::Member(Member {
        node: NodeId(node),
        incarnation: Incarnation(node * 100 + 1),
        state: MemberState::Up,
        roles: Roles::NONE,
    }));
}

#[test]
fn s28_r2_11_the_shards_of_a_removed_member_stay_until_its_lease_is_over() {
    let mut bed = serving(4, 2);
    let before = bed.map();
    bed.removed(1);
    bed.ask(2, 0).unwrap();
    bed.ask(2, 1).unwrap();
    let said = bed.pass(60_000);
    assert_eq!(bed.map(), before, "whatever membership says");
    assert!(
        homes(&said).iter().all(|(_, _, node)| *node == 2),
        "nobody is told a home that is gone: {said:?}"
    );
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
    let highest = before.iter().map(|(_, _, epoch)| *epoch).max().unwrap();
    for (shard, _, epoch) in bed.map() {
        let was = before[shard as usize];
        assert!(was.1 == 2 || epoch > highest);
    }
    lapse(&mut bed, 1);
    bed.up(3);
    bed.register(3).unwrap();
    bed.settle();
}

#[test]
fn s29_r2_11_a_newer_life_frees_the_shards_of_the_one_before_with_its_registration() {
    let mut bed = serving(4, 2);
    let before = bed.map();
    restarted(&mut bed, 1);
    bed.pass(1_000);
    assert_eq!(bed.map(), before);
    assert_eq!(
        bed.register(1),
        Err(ControlError::Incarnation {
            member: Incarnation(101),
            found: Incarnation(100)
        }),
        "a late word of the life before"
    );
    bed.register_with(1, reborn(1), &[]).unwrap();
    bed.settle();
    assert_eq!(bed.owned(2), [2, 2]);
    let after = bed.map();
    for (was, is) in before.iter().zip(after) {
        assert!(was.1 == 2 || is.2 > was.2, "once, under a new epoch");
    }
}

#[test]
fn s20_s21_r5_5_a_timeout_ends_the_node_and_only_its_lapse_frees() {
    let mut bed = serving(4, 2);
    let before = bed.map();
    let of_1: Vec<u32> = before
        .iter()
        .filter(|it| it.1 == 1)
        .map(|it| it.0)
        .collect();
    assert_eq!(of_1.len(), 2);
    bed.member(1, MemberState::Leaving);
    let said = bed.settle();
    assert_eq!(handoffs(&said), [(1, of_1[0]), (1, of_1[1])]);
    let said = bed.pass(10_500);
    for shard in &of_1 {
        assert!(said.contains(&Out::Overdue(1, *shard)), "a warning each");
    }
    let ended = said.iter().filter(|out| **out == Out::EndSessions(1));
    assert_eq!(ended.count(), 1);
    assert!(!bed.coordinator.is_registered(NodeId(1)));
    bed.ask(2, of_1[0]).unwrap();
    bed.pass(1_000);
    assert_eq!(bed.home(of_1[0]), None, "nobody is told");
    assert_eq!(bed.state(of_1[0]), CoordShardState::HandingOff);
    // Its session is over for good, and a late word of it frees nothing.
    assert_eq!(
        bed.register(1),
        Err(ControlError::Refused(RegisterRefusal::SessionEnded))
    );
    assert!(bed.deregister(1, session(1)).is_err());
    bed.pass(1_000);
    assert_eq!(bed.state(of_1[0]), CoordShardState::HandingOff);
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
    // Waking up, it is answered nothing, and its end moves nothing.
    let late = before[of_1[0] as usize].2;
    assert!(bed.complete(1, of_1[0], late).is_err());
    bed.removed(1);
    bed.pass(60_000);
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn r5_5_a_node_that_was_given_up_comes_back_with_its_next_session() {
    for lapses in [false, true] {
        let mut bed = serving(1, 1);
        let (_, old) = bed.home(0).unwrap();
        bed.member(1, MemberState::Leaving);
        bed.pass(10_500);
        bed.member(1, MemberState::Up);
        bed.pass(1_000);
        assert_eq!(bed.home(0), None);
        if lapses {
            lapse(&mut bed, 1);
        }
        // Nothing of the former session runs any more, or its lease is over: that is when the next one begins.
        bed.register_with(1, next(session(1)), &[]).unwrap();
        bed.pass(1_000);
        let (node, new) = bed.home(0).unwrap();
        assert_eq!(node, 1, "there is nobody else");
        assert!(new > old);
        // It can be given up again.
        bed.start_all();
        bed.member(1, MemberState::Leaving);
        assert!(bed.pass(10_500).contains(&Out::EndSessions(1)));
    }
}

#[test]
fn r5_5_a_completion_that_comes_after_all_frees_the_shard() {
    let mut bed = serving(2, 2);
    let shard = bed.map().iter().find(|it| it.1 == 1).unwrap().0;
    let (_, epoch) = bed.home(shard).unwrap();
    bed.member(1, MemberState::Leaving);
    bed.pass(10_500);
    bed.complete(1, shard, epoch).unwrap();
    bed.settle();
    assert_eq!(bed.home(shard).unwrap().0, 2);
}

#[test]
fn r2_11_a_registration_that_ends_frees_nothing() {
    let mut bed = serving(4, 2);
    let before = bed.map();
    // Of the next session only the first part comes.
    bed.register_part(1, next(session(1)), &[], 0, 2).unwrap();
    bed.pass(60_000);
    assert!(!bed.coordinator.is_registered(NodeId(1)));
    for (shard, node, epoch) in before {
        let is = bed.home(shard);
        assert!(node == 1 || is == Some((node, epoch)));
        assert!(node == 2 || is.is_none(), "neither told nor allocated anew");
    }
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn r5_2_after_the_barrier_a_claim_of_an_older_reign_is_not_believed() {
    let mut bed = leased(2);
    bed.up(1);
    bed.up(2);
    bed.register(1).unwrap();
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    let old = epoch(5, 1);
    bed.register_with(2, session(2), &[claim(0, old)]).unwrap();
    let said = bed.settle();
    assert_eq!(bed.home(0), None);
    assert_eq!(handoffs(&said), [(2, 0)], "it is told to give it up");
    bed.complete(2, 0, old).unwrap();
    bed.ask(1, 0).unwrap();
    bed.settle();
    assert!(bed.home(0).unwrap().1 > old);
}

#[test]
fn s31_r5_2_a_member_that_was_falsely_declared_down_finds_its_shards_elsewhere() {
    let mut bed = serving(2, 2);
    let shard = bed.map().iter().find(|it| it.1 == 1).unwrap().0;
    let (_, old) = bed.home(shard).unwrap();
    bed.removed(1);
    lapse(&mut bed, 1);
    bed.settle();
    let moved = bed.home(shard).unwrap();
    assert_eq!(moved.0, 2);
    // It comes back in its next life, and claims what it never had in it.
    restarted(&mut bed, 1);
    bed.register_with(1, reborn(1), &[claim(shard, old)])
        .unwrap();
    let said = bed.settle();
    assert_eq!(bed.home(shard), Some(moved), "2 keeps it");
    assert!(handoffs(&said).contains(&(1, shard)), "1 is told to stop");
}

#[test]
fn r5_7_a_refused_region_that_hosts_keeps_its_shards_until_it_lapses() {
    let mut bed = serving(4, 2);
    let before = bed.map();
    let held: Vec<_> = before
        .iter()
        .filter(|it| it.1 == 1)
        .map(|it| claim(it.0, it.2))
        .collect();
    let too_high = claim(3, epoch(9, 9));
    let mut claims = held;
    claims.retain(|claim| claim.shard != too_high.shard);
    claims.push(too_high);
    assert_eq!(
        bed.register_with(1, next(session(1)), &claims),
        Err(ControlError::Refused(RegisterRefusal::Claims))
    );
    bed.pass(60_000);
    assert!(!bed.coordinator.is_registered(NodeId(1)));
    assert_eq!(bed.map(), before);
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn r5_7_a_refused_region_that_hosts_nothing_has_freed_what_it_had() {
    let mut bed = serving(4, 2);
    let register = crate::wire::control::Register {
        shard_count: 33,
        ..part_of(next(session(1)), crate::wire::Claims::EMPTY, 4)
    };
    bed.control(1, &crate::wire::Control::Register(register))
        .unwrap_err();
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn r2_16_what_was_never_registered_whole_is_free_at_the_barrier() {
    let mut bed = leased(3);
    for node in 1..=3 {
        bed.up(node);
    }
    bed.register(3).unwrap();
    let old = epoch(5, 1);
    for node in 1..=2_u32 {
        let claims = [claim(node - 1, old)];
        let node = u64::from(node);
        bed.register_part(node, session(node), &claims, 0, 2)
            .unwrap();
    }
    bed.removed(1);
    for shard in 0..3 {
        bed.ask(3, shard).unwrap();
    }
    bed.pass(1_000);
    assert_eq!(bed.owned(3), [1, 1, 0]);
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    assert_eq!(bed.owned(3), [0, 0, 3]);
    // The slot of a member that is gone is free again.
    for node in 4..=9 {
        bed.up(node);
    }
}

#[test]
fn the_slot_of_a_member_whose_lease_may_last_is_not_taken() {
    let mut bed = serving(2, 2);
    bed.removed(1);
    for node in 3..=8 {
        bed.up(node);
    }
    let ninth = MemberChange::Member(Member {
        node: NodeId(9),
        incarnation: Incarnation(900),
        state: MemberState::Up,
        roles: Roles::NONE,
    });
    assert!(bed.coordinator.handle_member(bed.now, ninth).is_err());
    assert_eq!(bed.owned(2), [1, 1]);
    lapse(&mut bed, 1);
    bed.change(ninth);
}

#[test]
fn r5_6_while_a_host_does_not_hear_nothing_is_rebalanced() {
    let config = config(8).with_trust(false);
    let mut bed = Bed::with(config, LeastShards::new())
        .opened(1)
        .all_started();
    bed.up(2);
    bed.hears(2, false);
    bed.register(2).unwrap();
    assert_eq!(handoffs(&bed.pass(10_000)), []);
    bed.hears(2, true);
    bed.finish_moves();
    assert_eq!(bed.owned(2), [4, 4]);
    bed.hears(1, false);
    assert_eq!(handoffs(&bed.pass(10_000)), [], "as if it were unreachable");
}

#[test]
fn s23_a_handoff_that_hangs_over_a_change_of_the_reign_ends_once() {
    let mut bed = serving(1, 2);
    let (owner, old) = bed.home(0).unwrap();
    let other = 3 - owner;
    bed.member(owner, MemberState::Leaving);
    bed.pass(9_000);
    // The next reign gives the drain its whole time, and then the node up.
    bed.coordinator.end(bed.now);
    bed.term = Term(8);
    bed.coordinator.begin(bed.now, Term(8));
    bed.register_with(owner, session(owner), &[draining(0, old)])
        .unwrap();
    bed.register(other).unwrap();
    bed.hears(other, true);
    bed.coordinator.act(bed.now);
    bed.coordinator.open_barrier(bed.now);
    let said = bed.pass(9_900);
    assert!(handoffs(&said).contains(&(owner, 0)));
    assert!(!said.contains(&Out::Overdue(owner, 0)));
    assert!(bed.pass(200).contains(&Out::EndSessions(owner)));
    lapse(&mut bed, owner);
    bed.settle();
    let (node, new) = bed.home(0).unwrap();
    assert_eq!(node, other);
    assert!(new > old);
}

#[test]
fn s40_a_leaving_member_that_dies_keeps_its_shards_until_it_lapses() {
    let mut bed = serving(4, 3);
    bed.member(1, MemberState::Leaving);
    bed.settle();
    bed.removed(1);
    bed.member(2, MemberState::Leaving);
    bed.finish_moves();
    let of_1 = bed.coordinator.owned_by(NodeId(1));
    assert!(of_1 > 0);
    assert_eq!(bed.coordinator.owned_by(NodeId(2)), 0);
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(3), [0, 0, 4]);
}

#[test]
fn s27_a_lost_deregister_costs_no_more_than_the_lease() {
    let mut bed = serving(4, 2);
    bed.removed(1);
    bed.pass(1_000);
    assert_eq!(bed.coordinator.owned_by(NodeId(1)), 2);
    // It comes late, of a member that is gone: the lapse does it.
    assert_eq!(bed.deregister(1, session(1)), Err(ControlError::NotMember));
    lapse(&mut bed, 1);
    bed.settle();
    assert_eq!(bed.owned(2), [0, 4]);
}

#[test]
fn s30_a_new_reign_that_comes_to_act_moves_no_shard_that_is_claimed() {
    let mut bed = serving(6, 3);
    let before = bed.map();
    bed.coordinator.end(bed.now);
    bed.term = Term(8);
    bed.coordinator.begin(bed.now, Term(8));
    for node in 1..=2 {
        let held: Vec<_> = before
            .iter()
            .filter(|it| it.1 == node)
            .map(|it| claim(it.0, it.2))
            .collect();
        bed.register_with(node, session(node), &held).unwrap();
        bed.hears(node, true);
    }
    bed.coordinator.act(bed.now);
    for shard in 0..6 {
        bed.ask(1, shard).unwrap();
    }
    assert_eq!(handoffs(&bed.pass(1_900)), []);
    for (shard, node, epoch) in &before {
        let expected = (*node != 3).then_some((*node, *epoch));
        assert_eq!(bed.home(*shard), expected, "nothing new before the barrier");
    }
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    for (shard, node, epoch) in before {
        let (home, new) = bed.home(shard).unwrap();
        assert!(if node == 3 { new > epoch } else { home == node });
    }
}

#[test]
fn r2_11_late_words_of_an_ended_session_free_nothing_and_revive_nothing() {
    let mut bed = serving(4, 2);
    let held = bed
        .map()
        .iter()
        .find(|it| it.1 == 1)
        .map(|it| claim(it.0, it.2));
    lapse(&mut bed, 1);
    bed.settle();
    bed.register_with(1, next(session(1)), &[]).unwrap();
    bed.settle();
    let before = bed.map();
    for _ in 0..2 {
        assert_eq!(
            bed.register_with(1, session(1), held.as_slice()),
            Err(ControlError::Refused(RegisterRefusal::SessionEnded))
        );
        assert_eq!(bed.deregister(1, session(1)), Err(ControlError::OutOfOrder));
        bed.pass(500);
        assert_eq!(bed.map(), before);
        assert!(bed.coordinator.is_registered(NodeId(1)));
    }
}
