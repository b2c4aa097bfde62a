//! Who may say what (protocol 1), and what registers (5.7, 5.8).

use super::harness::*;
use crate::{
    Incarnation, Session, ShardId, Term, Token,
    allocation::LeastShards,
    coordinator::{ControlError, CoordShardState, StorageMismatch},
    wire::{
        Claims, Control,
        control::{EntityNote, HandOff, Register, RegisterRefusal, Resize, Stats},
    },
};

#[test]
fn s5_a_foreign_completion_is_ignored_and_the_timer_stays() {
    let mut bed = Bed::with(config(4), at_rest()).opened(2).all_started();
    bed.up(9);
    bed.register(9).unwrap();
    bed.settle();
    let (owner, held) = bed.home(0).unwrap();
    bed.member(owner, crate::membership::MemberState::Leaving);
    bed.settle();
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    assert_eq!(bed.complete(9, 0, held), Err(ControlError::NotOwner));
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    assert!(bed.pass(10_000).contains(&Out::Overdue(owner, 0)));
}

#[test]
fn s6_a_late_completion_of_an_older_round_does_not_complete_a_newer_one() {
    let mut bed = Bed::open(1, 2).all_started();
    let (first, held) = bed.home(0).unwrap();
    bed.complete(first, 0, held).unwrap();
    bed.settle();
    let (second, newer) = bed.home(0).unwrap();
    bed.started(second, 0, newer).unwrap();
    bed.member(second, crate::membership::MemberState::Leaving);
    bed.settle();
    assert_eq!(bed.complete(first, 0, held), Err(ControlError::NotOwner));
    assert_eq!(bed.complete(second, 0, held), Err(ControlError::NotOwner));
    assert_eq!(bed.state(0), CoordShardState::HandingOff);
    bed.complete(second, 0, newer).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 3 - second);
}

#[test]
fn s7_a_hostile_member_can_only_speak_for_itself() {
    let mut bed = Bed::with(config(4), at_rest()).opened(2).all_started();
    let before: alloc::vec::Vec<_> = (0..4).map(|shard| bed.home(shard)).collect();
    bed.up(9);
    // It deregisters sessions that are not its own, and claims everything.
    for victim in [1, 2] {
        assert!(bed.deregister(9, session(victim)).is_err());
    }
    let all: alloc::vec::Vec<_> = (0..4)
        .map(|shard| claim(shard, epoch(6, 1000 + shard)))
        .collect();
    bed.register_with(9, session(9), &all).unwrap();
    bed.settle();
    let all: alloc::vec::Vec<_> = (0..4)
        .map(|shard| claim(shard, epoch(7, 1000 + shard)))
        .collect();
    bed.register_with(9, next(session(9)), &all).unwrap();
    bed.settle();
    for (shard, home) in before.into_iter().enumerate() {
        assert_eq!(bed.home(shard as u32), home);
    }
    assert_eq!(bed.coordinator.owned_by(crate::NodeId(9)), 0);
}

#[test]
fn s10_entity_notes_count_only_from_the_owner_with_its_epoch() {
    let mut bed = Bed::open(4, 2).all_started();
    let (owner, held) = bed.home(0).unwrap();
    let note = |epoch| EntityNote {
        shard: ShardId(0),
        epoch,
        id: b"e",
    };
    assert_eq!(
        bed.control(owner, &Control::EntityStarted(note(held))),
        Ok(())
    );
    let foreign = bed.control(3 - owner, &Control::EntityStopped(note(held)));
    assert_eq!(foreign, Err(ControlError::NotOwner));
    let late = bed.control(owner, &Control::EntityStopped(note(epoch(6, 1))));
    assert_eq!(late, Err(ControlError::NotOwner));
}

#[test]
fn s11_junk_registers_are_refused_counted_and_leave_no_state() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    // Out of range.
    let refused = Err(ControlError::Refused(RegisterRefusal::Claims));
    let junk = [claim(1, epoch(5, 1)), claim(4, epoch(5, 2))];
    assert_eq!(bed.register_with(1, session(1), &junk), refused);
    assert_eq!(bed.poll(), [Out::Refused(1, RegisterRefusal::Claims)]);
    // A proxy with claims.
    let mut scratch = [0; 64];
    let mut list = crate::wire::ClaimsBuilder::new(&mut scratch);
    list.push(claim(1, epoch(5, 1))).unwrap();
    let proxy = Register {
        proxy: true,
        ..part_of(session(1), list.finish(), 4)
    };
    assert_eq!(bed.control(1, &Control::Register(proxy)), refused);
    // Of a reign to come.
    assert_eq!(
        bed.register_with(1, session(1), &[claim(1, epoch(8, 1))]),
        refused
    );
    // No such part.
    let part = |part, parts| Register {
        part,
        parts,
        ..part_of(session(1), Claims::EMPTY, 4)
    };
    for (at, parts) in [(0, 0), (1, 1), (7, 2), (0, u32::MAX)] {
        let result = bed.control(1, &Control::Register(part(at, parts)));
        assert_eq!(result, Err(ControlError::Malformed));
    }
    assert_eq!(bed.coordinator.stats().refusals, 3);
    assert_eq!(bed.coordinator.stats().dropped, 4);
    assert_eq!(bed.home(1), None);
    assert!(!bed.coordinator.is_registered(crate::NodeId(1)));
}

#[test]
fn s11_a_shard_claimed_again_and_again_counts_once() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    for part in 0..4 {
        bed.register_part(1, session(1), &[claim(1, epoch(5, 1))], part, 4)
            .unwrap();
    }
    assert_eq!(bed.coordinator.owned_by(crate::NodeId(1)), 1);
    assert_eq!(bed.coordinator.stats().claims_taken, 1);
}

#[test]
fn r1_frames_of_strangers_and_of_other_terms_are_dropped() {
    let mut bed = Bed::open(4, 1);
    assert_eq!(bed.ask(9, 0), Err(ControlError::NotMember));
    assert_eq!(bed.register(9), Err(ControlError::NotMember));
    bed.up(2);
    assert_eq!(bed.ask(2, 0), Err(ControlError::NotRegistered));
    for term in [6, 8] {
        bed.term = Term(term);
        let result = bed.ask(1, 0);
        assert_eq!(
            result,
            Err(ControlError::Term {
                current: TERM,
                found: Term(term)
            })
        );
    }
    bed.term = TERM;
    let directive = HandOff {
        shard: ShardId(0),
        epoch: epoch(7, 1),
        drain: 0,
    };
    assert_eq!(
        bed.control(1, &Control::HandOff(directive)),
        Err(ControlError::Unexpected)
    );
    let stats = Stats {
        token: Token(1),
        shards: 0,
        entities: 0,
        buffered: 0,
        delivered: 0,
    };
    assert_eq!(
        bed.control(1, &Control::Stats(stats)),
        Err(ControlError::Unexpected)
    );
    let resize = Control::Resize(Resize {
        after: crate::Epoch::NONE,
        count: 1,
    });
    assert_eq!(bed.control(1, &resize), Err(ControlError::Unexpected));
    assert_eq!(bed.settle(), []);
}

#[test]
fn r1_a_session_of_another_life_is_dropped() {
    let mut bed = Bed::open(4, 1);
    bed.up(2);
    let other = Session {
        incarnation: Incarnation(199),
        ..session(2)
    };
    let result = bed.register_with(2, other, &[]);
    assert!(matches!(result, Err(ControlError::Incarnation { .. })));
}

#[test]
fn r5_7_another_shard_count_is_refused_with_both_numbers() {
    let mut bed = Bed::open(33, 1);
    bed.up(2);
    let reason = RegisterRefusal::ShardCount {
        coordinator: 33,
        region: 64,
    };
    let result = bed.control(
        2,
        &Control::Register(part_of(session(2), Claims::EMPTY, 64)),
    );
    assert_eq!(result, Err(ControlError::Refused(reason)));
    assert_eq!(bed.settle(), [Out::Refused(2, reason)]);
    bed.ask(1, 0).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 1);
}

#[test]
fn r5_7_another_way_from_ids_to_shards_is_refused_with_both() {
    let mut bed = Bed::open(4, 1);
    bed.up(2);
    let reason = RegisterRefusal::ShardHash {
        coordinator: 0,
        region: 2,
    };
    let mut register = part_of(session(2), Claims::EMPTY, 4);
    register.shard_hash = 2;
    let result = bed.control(2, &Control::Register(register));
    assert_eq!(result, Err(ControlError::Refused(reason)));
    assert_eq!(bed.settle(), [Out::Refused(2, reason)]);
    bed.ask(1, 0).unwrap();
    assert_eq!(bed.home(0).unwrap().0, 1);
}

#[test]
fn r5_7_a_region_that_comes_back_with_another_count_loses_what_it_had() {
    let mut bed = Bed::open(4, 2).all_started();
    let newer = next(session(2));
    let result = bed.control(2, &Control::Register(part_of(newer, Claims::EMPTY, 5)));
    assert!(matches!(result, Err(ControlError::Refused(_))));
    bed.settle();
    assert_eq!(bed.owned(2), [4, 0]);
}

#[test]
fn another_type_of_the_same_hash_is_refused() {
    let mut bed = Bed::open(4, 1);
    bed.up(2);
    let register = Register {
        type_name: "tarc",
        ..part_of(session(2), Claims::EMPTY, 4)
    };
    let result = bed.control(2, &Control::Register(register));
    assert_eq!(
        result,
        Err(ControlError::Refused(RegisterRefusal::UnknownType))
    );
}

#[test]
fn hosts_that_remember_and_hosts_that_do_not_are_not_mixed() {
    let host = |node: u64, remembers: bool| Register {
        remembers,
        ..part_of(session(node), Claims::EMPTY, 4)
    };
    for remembers in [true, false] {
        let mut bed = Bed::open(4, 0);
        for node in 1..=4 {
            bed.up(node);
        }
        let proxy = Register {
            proxy: true,
            ..host(1, !remembers)
        };
        // One that only sends has no say.
        bed.control(1, &Control::Register(proxy)).unwrap();
        for node in [2, 3] {
            let register = Control::Register(host(node, remembers));
            bed.control(node, &register).unwrap();
            bed.control(node, &register).unwrap();
        }
        let other = Control::Register(host(4, !remembers));
        let region = !remembers;
        let refused = ControlError::Refused(RegisterRefusal::Remember { region });
        assert_eq!(bed.control(4, &other), Err(refused));
        bed.removed(2);
        assert_eq!(bed.control(4, &other), Err(refused));
        // Those that were in its way have gone.
        bed.removed(3);
        bed.settle();
        assert_eq!(bed.control(4, &other), Ok(()));
    }
}

#[test]
fn r5_8_two_stores_in_one_type_are_refused_or_warned_of() {
    let store = |node: u64, id: u64| Register {
        storage_id: id,
        ..part_of(session(node), Claims::EMPTY, 4)
    };
    for mismatch in [StorageMismatch::Refuse, StorageMismatch::Warn] {
        let config = config(4).with_storage_mismatch(mismatch);
        let mut bed = Bed::with(config, LeastShards::new());
        for node in 1..=4 {
            bed.up(node);
        }
        bed.control(1, &Control::Register(store(1, 77))).unwrap();
        bed.control(2, &Control::Register(store(2, 77))).unwrap();
        bed.control(3, &Control::Register(store(3, 0))).unwrap();
        let result = bed.control(4, &Control::Register(store(4, 78)));
        if mismatch == StorageMismatch::Refuse {
            let reason = RegisterRefusal::Storage {
                expected: 77,
                found: 78,
            };
            assert_eq!(result, Err(ControlError::Refused(reason)));
            // Once the others are gone, there is no mismatch.
            bed.removed(1);
            bed.removed(2);
            bed.settle();
            bed.control(4, &Control::Register(store(4, 78))).unwrap();
        } else {
            assert_eq!(result, Ok(()));
            assert_eq!(bed.coordinator.stats().storage_mismatches, 1);
            let mut said = bed.poll();
            said.retain(|out| matches!(out, Out::OtherStorage(..)));
            assert_eq!(said, [Out::OtherStorage(4, 78)]);
        }
    }
}
