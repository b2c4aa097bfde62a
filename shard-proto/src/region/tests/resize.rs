//! How many shards are used: asking for another number, and hearing of it.

use alloc::vec::Vec;

use super::world::*;
use crate::Epoch;
use crate::region::{ControlError, RegionConfig, ResizeError};
use crate::wire::Control;
use crate::wire::control::Size;

fn sized() -> RegionConfig {
    config().with_used(Some(4))
}

fn told(world: &mut World, round: u32, count: u32) -> Result<(), ControlError> {
    let version = epoch(round);
    world.tell(A, &Control::Resized(Size { version, count }))
}

fn resizes(world: &mut World) -> Vec<(Epoch, u32)> {
    let said = world.host(A).take_said().into_iter();
    said.filter_map(|said| match said {
        Said::Resize(after, count) => Some((after, count)),
        _ => None,
    })
    .collect()
}

#[test]
fn it_is_asked_for_until_it_holds() {
    let mut world = World::strangers(&[A], sized(), 10);
    let now = world.now;
    world.region(A).resize(now, 9).unwrap();
    world.pass(1000);
    assert_eq!(resizes(&mut world), [], "nobody leads");
    world.lead(A, 5);
    world.acknowledge(A);
    world.pass(500);
    assert_eq!(resizes(&mut world), [(Epoch::NONE, 9); 3]);
    assert!(world.region(A).is_resizing());
    assert_eq!(world.region(A).used(), 4);
    told(&mut world, 3, 9).unwrap();
    assert!(!world.region(A).is_resizing());
    assert_eq!(world.region(A).used(), 9);
    world.pass(4000);
    assert_eq!(resizes(&mut world), []);
}

#[test]
fn what_was_decided_in_between_is_heard_first() {
    let mut world = World::strangers(&[A], sized(), 10);
    world.lead(A, 5);
    world.acknowledge(A);
    let now = world.now;
    world.region(A).resize(now, 9).unwrap();
    told(&mut world, 3, 2).unwrap();
    assert_eq!(world.region(A).used(), 2);
    assert_eq!(resizes(&mut world).last(), Some(&(epoch(3), 9)));
    // Late ones change nothing.
    told(&mut world, 4, 9).unwrap();
    told(&mut world, 3, 2).unwrap();
    assert_eq!(world.region(A).used(), 9);
}

#[test]
fn what_cannot_be_is_not_asked_for_nor_taken() {
    let mut world = World::strangers(&[A], sized(), 10);
    world.lead(A, 5);
    world.acknowledge(A);
    let now = world.now;
    let refused = world.region(A).resize(now, 17);
    assert_eq!(refused, Err(ResizeError::TooMany { max: 16 }));
    assert_eq!(told(&mut world, 1, 17), Err(ControlError::Malformed));
    let version = Epoch::new(term(6), 1).unwrap();
    let later = Control::Resized(Size { version, count: 1 });
    assert_eq!(world.tell(A, &later), Err(ControlError::Malformed));
    assert_eq!(world.region(A).used(), 4);
    let mut fixed = World::new(&[A]);
    let now = fixed.now;
    assert_eq!(fixed.region(A).resize(now, 3), Err(ResizeError::Fixed));
    told(&mut fixed, 1, 3).unwrap();
    assert_eq!(fixed.region(A).used(), 16);
}

#[test]
fn a_new_leader_is_told_what_is_known() {
    let mut world = World::strangers(&[A], sized(), 10);
    world.lead(A, 5);
    world.acknowledge(A);
    told(&mut world, 3, 7).unwrap();
    world.host(A).take_said();
    world.lead(A, 6);
    let said = world.host(A).take_said();
    let [Said::Register { size, .. }] = &said[..] else {
        panic!("{said:?}");
    };
    let version = epoch(3);
    assert_eq!(*size, Size { version, count: 7 });
}
