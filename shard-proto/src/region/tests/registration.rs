//! Registering: in parts, again, refused.

use alloc::vec::Vec;

use super::world::*;
use crate::region::RegionConfig;
use crate::wire::control::{Previous, RegisterAck, RegisterRefusal, ShardHome, Size};
use crate::wire::{Claim, Control};
use crate::{Epoch, ShardId, Term};

#[test]
fn s17_a_registration_is_repeated_until_it_is_acknowledged() {
    let mut world = World::strangers(&[A], config(), 10);
    world.lead(A, 5);
    world.pass(1000);
    let said = world.host(A).take_said();
    assert_eq!(said.len(), 5, "{said:?}");
    assert_eq!(world.host(A).registered, []);
    world.acknowledge(A);
    world.acknowledge(A);
    assert_eq!(world.host(A).registered, [Term(5)]);
    world.pass(4000);
    assert_eq!(world.host(A).take_said(), []);
    world.pass(1000);
    assert_eq!(
        world.host(A).take_said().len(),
        1,
        "for a coordinator that lost it"
    );
    assert!(world.region(A).is_registered());
}

#[test]
fn a_region_asks_for_the_map_until_it_has_it() {
    let mut world = World::strangers(&[A], config(), 10);
    world.lead(A, 5);
    let session = world.region(A).session();
    let ack = Control::RegisterAck(RegisterAck {
        session,
        size: Size::default(),
    });
    world.tell(A, &ack).unwrap();
    world.host(A).take_said();
    world.pass(1000);
    let said = world.host(A).take_said();
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(world.host(A).registered, []);
    world.tell(A, &EMPTY_MAP).unwrap();
    assert_eq!(world.host(A).registered, [Term(5)]);
    world.pass(4000);
    assert!(world.host(A).take_said().len() <= 1);
}

#[test]
fn the_age_of_the_last_beat_is_told() {
    let mut world = World::strangers(&[A], config(), 10);
    world.region(A).handle_last_beat(at(400));
    world.lead(A, 5);
    let said = world.host(A).take_said();
    let [Said::Register { last_beat_age, .. }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(*last_beat_age, 600_000);
}

#[test]
fn nothing_is_asked_before_the_registration_and_everything_after_it() {
    let mut world = World::strangers(&[A], config(), 100);
    for shard in 0..10 {
        world.send_to(A, ShardId(shard));
    }
    world.lead(A, 5);
    world.pass(240);
    let said = world.host(A).take_said();
    assert!(
        said.iter()
            .all(|said| matches!(said, Said::Register { .. }))
    );
    world.acknowledge(A);
    world.pass(0);
    let asked = world.host(A).take_said();
    assert_eq!(asked.len(), 10, "{asked:?}");
}

/// Claims of all parts, which must be numbered without gaps.
fn claims(said: &[Said]) -> Vec<Claim> {
    let mut all = Vec::new();
    let mut expected = 0;
    for said in said {
        let Said::Register {
            part,
            parts,
            claims,
            ..
        } = said
        else {
            continue;
        };
        assert_eq!(*part, expected);
        assert!(part < parts);
        expected += 1;
        all.extend_from_slice(claims);
    }
    all
}

#[test]
fn claims_go_in_parts_however_they_are_spread() {
    let config = RegionConfig::new("cart").with_shard_count(1000);
    let mut world = World::with(&[A], config, 10);
    let mut expected = Vec::new();
    let mut seed = crate::hash::SplitMix64::new(3);
    for shard in 0..1000 {
        if shard % 3 == 0 && shard > 200 {
            continue;
        }
        let epoch = Epoch::new(Term(5), seed.below(1 << 28) as u32).unwrap();
        let home = ShardHome {
            shard: ShardId(shard),
            epoch,
            node: A,
            session: session(A),
            previous: Previous::Completed,
        };
        world.tell(A, &Control::ShardHome(home)).unwrap();
        expected.push(Claim {
            shard: ShardId(shard),
            epoch,
            draining: false,
        });
    }
    world.host(A).take_said();
    world.lead(A, 6);
    let said = world.host(A).take_said();
    assert_eq!(said.len(), 16);
    assert_eq!(claims(&said), expected);
}

#[test]
fn s34_another_shard_count_hosts_nothing_and_keeps_buffering() {
    let mut world = World::strangers(&[A, B], config(), 100);
    world.lead(A, 5);
    world.acknowledge(A);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).take_said();
    let reason = RegisterRefusal::ShardCount {
        coordinator: 33,
        region: 16,
    };
    world.refuse(A, reason);
    world.refuse(A, reason);
    assert_eq!(world.host(A).refusals, [reason]);
    assert_eq!(world.region(A).hosted(), 0, "what it hosted is given up");
    world.send(A);
    world.host(A).take_said();
    world.pass(10_000);
    assert_eq!(world.host(A).take_said(), []);
    assert_eq!(world.region(A).buffered(), 1);
    world.home_is(A, A, 2, Previous::Completed);
    assert_eq!(world.region(A).hosted(), 0);
    world.host(A).take_said();
    world.lead(A, 6);
    let said = world.host(A).take_said();
    assert!(
        matches!(said[..], [Said::Register { .. }]),
        "again under the next term: {said:?}"
    );
}

#[test]
fn a_leader_that_does_not_know_the_type_is_asked_again() {
    let mut world = World::strangers(&[A], config(), 100);
    world.lead(A, 5);
    world.refuse(A, RegisterRefusal::UnknownType);
    world.refuse(A, RegisterRefusal::UnknownType);
    assert_eq!(world.host(A).refusals, [RegisterRefusal::UnknownType]);
    world.host(A).take_said();
    world.pass(500);
    assert_eq!(world.host(A).take_said().len(), 2);
    world.acknowledge(A);
    assert!(world.region(A).is_registered());
}
