//! Using another number of shards while the cluster runs.

use alloc::vec::Vec;

use super::harness::*;
use crate::{
    Epoch, NodeId, Session, Term,
    allocation::LeastShards,
    coordinator::{ControlError, CoordShardState, KeepShards, validate},
    wire::{
        Claims, ClaimsBuilder, Control,
        control::{Register, RegisterRefusal, Resize, Size},
    },
};

const MAX: u32 = 16;

fn bed(count: u32, hosts: u64) -> Bed {
    let config = config(MAX).with_keep(KeepShards::First(count));
    Bed::with(config, LeastShards::new()).opened(hosts)
}

fn resize(bed: &mut Bed, from: u64, after: Epoch, count: u32) -> Result<(), ControlError> {
    bed.control(from, &Control::Resize(Resize { after, count }))
}

fn version(bed: &Bed) -> Epoch {
    bed.coordinator.book.size.version
}

fn told(said: &[Out]) -> Vec<(u64, u32)> {
    said.iter()
        .filter_map(|out| match out {
            Out::Resized(to, count) => Some((*to, *count)),
            _ => None,
        })
        .collect()
}

fn shards(bed: &Bed) -> Vec<u32> {
    bed.map().into_iter().map(|(shard, ..)| shard).collect()
}

fn with_size(node: u64, size: Size) -> Control<'static> {
    Control::Register(Register {
        size,
        ..part_of(session(node), Claims::EMPTY, MAX)
    })
}

#[test]
fn growing_gives_more_shards_homes_and_tells_everybody() {
    let mut bed = bed(4, 2);
    bed.start_all();
    resize(&mut bed, 2, Epoch::NONE, 10).unwrap();
    let said = bed.settle();
    assert_eq!(told(&said), [(1, 10), (2, 10)]);
    assert_eq!(shards(&bed), (0..10).collect::<Vec<_>>());
    assert_eq!(bed.owned(2), [5, 5]);
    assert_eq!(bed.coordinator.used_shards(), 10);
}

#[test]
fn shrinking_hands_off_what_is_not_used_and_leaves_it_without_a_home() {
    let mut bed = bed(10, 2);
    bed.start_all();
    resize(&mut bed, 1, Epoch::NONE, 3).unwrap();
    assert_eq!(bed.finish_moves(), 7);
    assert_eq!(shards(&bed), [0, 1, 2]);
    bed.ask(1, 7).unwrap();
    assert_eq!(handoffs(&bed.pass(60_000)), []);
    assert_eq!(bed.state(7), CoordShardState::Unallocated);
    // What is used comes back from a node that is gone; the rest does not.
    bed.removed(1);
    bed.pass(1_000);
    assert_eq!(shards(&bed), [0, 1, 2]);
}

#[test]
fn growing_again_while_shards_are_handed_off_keeps_them() {
    let config = config(MAX).with_keep(KeepShards::First(10));
    let mut bed = Bed::with(config, at_rest()).opened(2);
    bed.start_all();
    resize(&mut bed, 1, Epoch::NONE, 3).unwrap();
    bed.coordinator.handle_timeout(bed.now);
    assert_eq!(bed.state(7), CoordShardState::HandingOff);
    let after = version(&bed);
    resize(&mut bed, 1, after, 10).unwrap();
    assert_eq!(bed.finish_moves(), 7);
    assert_eq!(shards(&bed), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_late_or_doubled_request_undoes_nothing_and_its_sender_is_told() {
    let mut bed = bed(4, 2);
    resize(&mut bed, 1, Epoch::NONE, 6).unwrap();
    bed.settle();
    let first = version(&bed);
    resize(&mut bed, 1, first, 8).unwrap();
    bed.settle();
    let second = version(&bed);
    assert!(second > first);
    for (after, count) in [(Epoch::NONE, 6), (first, 8), (first, 2), (second, 8)] {
        resize(&mut bed, 1, after, count).unwrap();
        assert_eq!(told(&bed.settle()), [(1, 8)]);
    }
    assert_eq!(version(&bed), second);
    assert_eq!(bed.coordinator.stats().handoffs, 0);
}

#[test]
fn only_members_that_are_registered_resize_and_only_within_the_maximum() {
    let mut bed = bed(4, 1);
    let refused = resize(&mut bed, 9, Epoch::NONE, 5);
    assert_eq!(refused, Err(ControlError::NotMember));
    bed.up(2);
    let refused = resize(&mut bed, 2, Epoch::NONE, 5);
    assert_eq!(refused, Err(ControlError::NotRegistered));
    let refused = resize(&mut bed, 1, Epoch::NONE, MAX + 1);
    assert_eq!(refused, Err(ControlError::Malformed));
    assert_eq!(told(&bed.settle()), []);
    assert_eq!(bed.coordinator.used_shards(), 4);
    resize(&mut bed, 1, Epoch::NONE, MAX).unwrap();
    bed.settle();
    let after = version(&bed);
    resize(&mut bed, 1, after, 0).unwrap();
    bed.finish_moves();
    assert_eq!(shards(&bed), []);
}

#[test]
fn the_size_outlives_its_coordinator_if_one_region_knows_it() {
    let mut bed = bed(4, 3);
    resize(&mut bed, 1, Epoch::NONE, 9).unwrap();
    bed.settle();
    let size = Size {
        version: version(&bed),
        count: 9,
    };
    bed.coordinator.begin(bed.now, Term(8));
    bed.coordinator.act(bed.now);
    bed.term = Term(8);
    bed.control(1, &with_size(1, Size::default())).unwrap();
    // Nothing is decided while somebody may still claim to know better.
    let early = resize(&mut bed, 1, Epoch::NONE, 2);
    assert_eq!(early, Err(ControlError::NotLeading));
    bed.control(2, &with_size(2, size)).unwrap();
    bed.coordinator.open_barrier(bed.now);
    assert_eq!(told(&bed.settle()), [(1, 9)]);
    assert_eq!(shards(&bed).len(), 9);
    bed.start_all();
    resize(&mut bed, 1, size.version, 5).unwrap();
    assert_eq!(bed.finish_moves(), 4);
    assert!(version(&bed) > size.version);
    // Who comes late with an older one changes nothing.
    bed.control(3, &with_size(3, size)).unwrap();
    bed.settle();
    assert_eq!(bed.coordinator.used_shards(), 5);
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    let mut bed = bed(4, 1);
    bed.up(2);
    let refused = Err(ControlError::Refused(RegisterRefusal::Claims));
    for (version, count) in [(epoch(8, 1), 4), (epoch(7, 1), MAX + 1)] {
        let register = with_size(2, Size { version, count });
        assert_eq!(bed.control(2, &register), refused);
    }
    assert_eq!(bed.coordinator.used_shards(), 4);
    assert!(!bed.coordinator.is_registered(NodeId(2)));
}

/// Claims arrive in parts, and what nobody held was looked at before.
#[test]
fn what_is_claimed_late_and_not_used_any_more_is_handed_off() {
    let mut bed = bed(10, 2);
    bed.start_all();
    let (shard, epoch) = bed
        .map()
        .into_iter()
        .rev()
        .find_map(|(shard, node, epoch)| (node == 2).then_some((shard, epoch)))
        .unwrap();
    assert!(shard >= 3);
    let newer = Session {
        lapses: 1,
        ..session(2)
    };
    let register = |bed: &mut Bed, part: u32, claims| {
        let register = Register {
            part,
            parts: 3,
            ..part_of(newer, claims, MAX)
        };
        bed.control(2, &Control::Register(register)).unwrap();
    };
    register(&mut bed, 0, Claims::EMPTY);
    resize(&mut bed, 1, Epoch::NONE, 3).unwrap();
    bed.settle();
    let mut scratch = [0; 64];
    let mut claims = ClaimsBuilder::new(&mut scratch);
    claims.push(claim(shard, epoch)).unwrap();
    register(&mut bed, 1, claims.finish());
    validate(&bed.coordinator);
    register(&mut bed, 2, Claims::EMPTY);
    bed.finish_moves();
    bed.pass(1_000);
    assert_eq!(shards(&bed), [0, 1, 2]);
}
