//! Asking for homes, allocation, the barrier, announcements (protocol 2.16, 5.1, 5.6).

use alloc::vec::Vec;

use super::harness::*;
use crate::{
    Epoch, NodeId, ShardId, Term,
    allocation::LeastShards,
    coordinator::{ControlError, CoordPhase, CoordShardState},
    membership::MemberState,
    wire::{Control, control::Previous},
};

#[test]
fn r5_1_first_contact_allocates_and_tells_owner_asker_and_everybody() {
    let mut bed = Bed::open(4, 2);
    bed.ask(2, 3).unwrap();
    let said = bed.poll();
    // Node 1 has the fewest shards; it is the owner, node 2 asked.
    assert_eq!(homes(&said), [(1, 3, 1), (2, 3, 1)]);
    assert_eq!(maps(&said), [(1, 3, 1), (2, 3, 1)]);
    let Out::Home {
        epoch,
        session: granted,
        previous,
        ..
    } = said[0]
    else {
        panic!("{said:?}");
    };
    assert_eq!(epoch.term(), TERM);
    assert_eq!(granted, session(1));
    assert_eq!(previous, Previous::Completed);
    assert_eq!(bed.state(3), CoordShardState::Allocated { started: false });
}

#[test]
fn r5_1_the_grant_is_repeated_until_started_and_then_no_more() {
    let mut bed = Bed::open(1, 1);
    bed.ask(1, 0).unwrap();
    assert_eq!(homes(&bed.poll()), [(1, 0, 1)]);
    assert_eq!(homes(&bed.pass(249)), []);
    assert_eq!(homes(&bed.pass(1)), [(1, 0, 1)]);
    assert_eq!(homes(&bed.pass(500)), [(1, 0, 1), (1, 0, 1)]);
    let (_, granted) = bed.home(0).unwrap();
    bed.started(1, 0, granted).unwrap();
    assert_eq!(homes(&bed.pass(10_000)), []);
    assert_eq!(bed.state(0), CoordShardState::Allocated { started: true });
    // Late and doubled.
    bed.started(1, 0, granted).unwrap();
    assert_eq!(
        bed.started(1, 0, epoch(7, 900)),
        Err(ControlError::NotOwner)
    );
}

#[test]
fn r5_1_a_known_home_is_answered_to_each_asker() {
    let mut bed = Bed::open(4, 3).all_started();
    bed.ask(3, 0).unwrap();
    assert_eq!(homes(&bed.poll()), [(3, 0, 1)]);
    bed.ask(3, 0).unwrap();
    bed.ask(2, 0).unwrap();
    let said = bed.poll();
    // Two asked between polls: the last is answered, everybody is told.
    assert_eq!(homes(&said), [(2, 0, 1)]);
    assert_eq!(maps(&said), [(1, 0, 1), (2, 0, 1), (3, 0, 1)]);
}

#[test]
fn r5_1_the_first_change_is_announced_at_once_and_others_after_50_ms() {
    let mut bed = Bed::open(8, 2);
    bed.ask(1, 0).unwrap();
    assert_eq!(maps(&bed.poll()).len(), 2);
    bed.ask(1, 2).unwrap();
    bed.ask(1, 1).unwrap();
    assert_eq!(maps(&bed.poll()), []);
    assert_eq!(maps(&bed.pass(49)), []);
    let said = bed.pass(1);
    let changes: Vec<_> = maps(&said)
        .into_iter()
        .map(|(to, shard, _)| (to, shard))
        .collect();
    assert_eq!(changes, [(1, 1), (1, 2), (2, 1), (2, 2)]);
    let frames = said
        .iter()
        .filter(|out| matches!(out, Out::Map { .. }))
        .count();
    assert_eq!(frames, 2);
}

#[test]
fn r5_1_a_newly_registered_region_gets_the_whole_map_in_frames() {
    let mut bed = Bed::open(10_000, 3).all_started();
    bed.pass(100);
    bed.up(4);
    bed.register(4).unwrap();
    let said = bed.poll();
    let map: Vec<_> = said
        .iter()
        .filter_map(|out| match out {
            Out::Map { to, last, homes } => Some((*to, *last, homes.len())),
            _ => None,
        })
        .collect();
    assert!(map.len() > 1);
    assert!(map.iter().all(|(to, _, _)| *to == 4));
    assert_eq!(map.iter().map(|(_, _, len)| len).sum::<usize>(), 10_000);
    let lasts = map.iter().filter(|(_, last, _)| *last).count();
    assert_eq!((lasts, map.last().unwrap().1), (1, true));
}

#[test]
fn r5_1_an_empty_map_is_one_empty_frame() {
    let mut bed = Bed::open(10_000, 1);
    bed.up(2);
    bed.register(2).unwrap();
    let said = bed.poll();
    assert!(said.contains(&Out::Map {
        to: 2,
        last: true,
        homes: Vec::new()
    }));
}

#[test]
fn r2_16_what_nobody_claims_waits_for_the_barrier() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    bed.register(1).unwrap();
    bed.ask(1, 0).unwrap();
    assert_eq!(homes(&bed.pass(5_000)), []);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Acting);
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(homes(&bed.settle()), [(1, 0, 1)]);
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(homes(&bed.settle()), []);
}

#[test]
fn r2_16_claims_are_answered_for_before_the_barrier() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    bed.up(2);
    bed.register_with(1, session(1), &[claim(2, epoch(5, 1))])
        .unwrap();
    bed.register(2).unwrap();
    bed.poll();
    bed.ask(2, 2).unwrap();
    let said = bed.poll();
    assert_eq!(homes(&said), [(2, 2, 1)]);
    assert_eq!(bed.home(2), Some((1, epoch(5, 1))));
}

#[test]
fn r2_16_a_shard_freed_by_completion_or_deregister_does_not_wait_for_the_barrier() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    bed.up(2);
    bed.register_with(
        1,
        session(1),
        &[claim(0, epoch(5, 1)), claim(1, epoch(5, 2))],
    )
    .unwrap();
    bed.register(2).unwrap();
    bed.complete(1, 0, epoch(5, 1)).unwrap();
    assert_eq!(bed.home(0).unwrap().1.term(), TERM);
    bed.deregister(1, session(1)).unwrap();
    bed.settle();
    assert_eq!(bed.home(1).unwrap().0, 2);
    // A member that is gone is another matter: its lease may last.
    bed.removed(2);
    bed.up(3);
    bed.register(3).unwrap();
    bed.settle();
    assert_eq!(bed.home(0), None);
    bed.coordinator.open_barrier(bed.now);
    bed.settle();
    assert_eq!(bed.home(0).unwrap().0, 3);
}

#[test]
fn r5_1_epochs_of_a_shard_grow_and_lie_in_the_term() {
    let mut bed = Bed::open(1, 2).all_started();
    let mut last = Epoch::NONE;
    for _ in 0..10 {
        let (owner, held) = bed.home(0).unwrap();
        assert!(held > last);
        assert_eq!(held.term(), TERM);
        last = held;
        bed.started(owner, 0, held).unwrap();
        bed.complete(owner, 0, held).unwrap();
        bed.settle();
    }
}

#[test]
fn r2_6_a_full_round_ends_the_reign() {
    let mut bed = Bed::open(4, 1);
    bed.coordinator.book.round = Epoch::MAX_ROUND - 1;
    bed.ask(1, 0).unwrap();
    assert_eq!(bed.home(0), Some((1, epoch(7, Epoch::MAX_ROUND))));
    bed.ask(1, 1).unwrap();
    assert!(bed.poll().contains(&Out::Exhausted));
    assert_eq!(bed.home(1), None);
    bed.coordinator.end(bed.now);
    bed.coordinator.begin(bed.now, Term(8));
    bed.coordinator.act(bed.now);
    bed.term = Term(8);
    bed.register(1).unwrap();
    bed.coordinator.open_barrier(bed.now);
    bed.ask(1, 1).unwrap();
    assert_eq!(bed.home(1), Some((1, epoch(8, 1))));
}

#[test]
fn s8_a_shard_out_of_range_leaves_no_state() {
    let mut bed = Bed::open(4, 1);
    for shard in [4, 5, 1 << 20, u32::MAX - 1, u32::MAX] {
        for _ in 0..12 {
            assert_eq!(bed.ask(1, shard), Err(ControlError::UnknownShard));
        }
    }
    assert_eq!(bed.settle(), []);
    assert_eq!(bed.coordinator.stats().dropped, 60);
    bed.ask(1, 0).unwrap();
    assert_eq!(homes(&bed.poll()), [(1, 0, 1)]);
}

#[test]
fn s35_a_proxy_asks_before_there_is_a_host() {
    let mut bed = Bed::recovering(4);
    bed.up(1);
    let proxy = crate::wire::control::Register {
        proxy: true,
        ..part_of(session(1), crate::wire::Claims::EMPTY, 4)
    };
    bed.control(1, &Control::Register(proxy)).unwrap();
    bed.coordinator.open_barrier(bed.now);
    bed.ask(1, 2).unwrap();
    assert_eq!(homes(&bed.pass(60_000)), []);
    bed.up(2);
    bed.register(2).unwrap();
    let said = bed.settle();
    assert_eq!(homes(&said), [(2, 2, 2)]);
    // The proxy learns it without asking again.
    assert!(maps(&said).contains(&(1, 2, 2)));
}

#[test]
fn r5_6_only_hosts_that_are_up_get_shards() {
    let mut bed = Bed::open(8, 3);
    bed.member(1, MemberState::Unreachable);
    bed.member(2, MemberState::Leaving);
    bed.up(4);
    bed.member(5, MemberState::Joining);
    bed.register(5).unwrap();
    for shard in 0..8 {
        bed.ask(3, shard).unwrap();
        assert_eq!(bed.home(shard).unwrap().0, 3);
    }
}

#[test]
fn r5_6_a_role_may_be_required() {
    let mut bed = Bed::with(config(4).with_role(0xbeef), LeastShards::new()).opened(2);
    bed.ask(1, 0).unwrap();
    assert_eq!(bed.home(0), None);
    bed.change(crate::membership::MemberChange::Member(
        crate::membership::Member {
            node: NodeId(2),
            incarnation: crate::Incarnation(200),
            state: MemberState::Up,
            roles: crate::membership::Roles::NONE.with(0xbeef).unwrap(),
        },
    ));
    bed.settle();
    assert_eq!(bed.home(0).unwrap().0, 2);
}

#[test]
fn a_grant_not_taken_is_granted_anew_at_the_speed_of_the_timer() {
    let mut bed = Bed::open(1, 1);
    bed.ask(1, 0).unwrap();
    let mut rounds = 0;
    for _ in 0..1000 {
        for (to, _, _) in homes(&bed.pass(1)) {
            let (_, granted) = bed.home(0).unwrap();
            bed.complete(to, 0, granted).unwrap();
            rounds += 1;
        }
    }
    assert!((3..=5).contains(&rounds), "{rounds}");
}

#[test]
fn nothing_is_said_or_due_without_a_reign() {
    let mut bed = Bed::open(4, 2).all_started();
    bed.ask(1, 0).unwrap();
    bed.coordinator.end(bed.now);
    assert_eq!(bed.poll(), []);
    assert_eq!(bed.coordinator.poll_timeout(), None);
    assert_eq!(bed.coordinator.home(ShardId(0)), None);
    assert_eq!(bed.coordinator.term(), None);
    assert_eq!(bed.ask(1, 0), Err(ControlError::NotLeading));
    bed.member(3, MemberState::Leaving);
    bed.removed(1);
    bed.coordinator.handle_timeout(bed.now);
    bed.coordinator.handle_lapsed(bed.now, NodeId(2));
    bed.check();
    bed.coordinator.begin(bed.now, Term(9));
    bed.coordinator.act(bed.now);
    bed.check();
    assert_eq!(
        bed.ask(2, 0).unwrap_err(),
        ControlError::Term {
            current: Term(9),
            found: TERM
        }
    );
}

#[test]
fn a_late_begin_of_a_lower_term_changes_nothing() {
    let mut bed = Bed::open(4, 2).all_started();
    bed.coordinator.begin(bed.now, Term(6));
    bed.coordinator.act(bed.now);
    bed.coordinator.begin(bed.now, TERM);
    bed.coordinator.act(bed.now);
    assert_eq!(bed.coordinator.phase(), CoordPhase::Open);
    assert!(bed.home(0).is_some());
}

#[test]
fn time_that_runs_backwards_delays_and_does_no_worse() {
    let mut bed = Bed::open(1, 1);
    bed.ask(1, 0).unwrap();
    bed.poll();
    bed.coordinator.handle_timeout(crate::Instant::ZERO);
    assert_eq!(homes(&bed.poll()), []);
    assert_eq!(homes(&bed.pass(250)), [(1, 0, 1)]);
}
