//! Bounds: protocol 3.1, 4.4 and scenario 42.

use super::world::*;
use crate::region::{ReturnError, RouteError};
use crate::wire::ReturnReason;
use crate::wire::control::Previous;

#[test]
fn s42_one_message_too_many_is_handed_back_and_the_rest_delivered_in_order() {
    let config = config()
        .with_buffer(100_000)
        .with_buffer_per_shard(u32::MAX);
    let mut world = World::with(&[A], config, 100_000);
    for _ in 0..100_001 {
        world.send(A);
    }
    assert_eq!(world.handed_back, 1);
    assert_eq!(world.region(A).buffered(), 100_000);
    world.home_is(A, A, 1, Previous::Completed);
    assert!(world.numbers_handled(A).into_iter().eq(0..100_000));
    assert_eq!(world.region(A).buffered(), 0);
}

#[test]
fn r3_1_a_shard_has_a_bound_of_its_own() {
    let mut world = World::with(&[A], config().with_buffer_per_shard(2), 10);
    assert!(world.send(A));
    assert!(world.send(A));
    assert!(!world.send(A));
    assert!(world.send_to(A, crate::ShardId(1)));
    assert_eq!(world.region(A).stats().rejected_full, 1);
}

#[test]
fn r3_1_a_full_buffer_sends_others_messages_back_and_they_are_reported_there() {
    let mut world = World::with(&[A, B], config().with_buffer_per_shard(2), 10);
    world.host(B).prompt = false;
    world.settle_on(&[A], B, 1);
    for _ in 0..4 {
        world.send(A);
    }
    world.run();
    assert_eq!(world.host(A).numbers_rejected(), [2, 3]);
    assert_eq!(world.region(B).stats().returned_full, 2);
    world.started(B, S, epoch(1));
    world.run();
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1, 4]);
}

#[test]
fn r4_4_what_comes_back_is_taken_above_the_bound_up_to_a_window() {
    let config = config()
        .with_buffer(4)
        .with_buffer_per_shard(2)
        .with_return_window(2);
    let mut world = World::with(&[A, B], config, 10);
    world.settle_on(&[A], B, 1);
    for _ in 0..5 {
        world.send(A);
    }
    world.hand_off(B, 1);
    world.run();
    assert_eq!(world.region(A).buffered(), 4);
    assert_eq!(world.host(A).numbers_rejected(), [4]);
    assert!(!world.send(A), "new ones have to wait");
    world.home_is(A, A, 2, Previous::Completed);
    assert_eq!(world.numbers_handled(A), [0, 1, 2, 3]);
}

#[test]
fn what_comes_back_does_not_fit_when_no_slot_is_left() {
    let mut world = World::with(&[A, B], config(), 2);
    world.settle_on(&[A], B, 1);
    for _ in 0..3 {
        world.send(A);
    }
    let now = world.now;
    let region = world.region(A);
    let note = |number| Note { from: A, number };
    for number in 0..2 {
        let back = region.handle_return(now, B, S, epoch(1), ReturnReason::Moved, note(number));
        assert_eq!(back, Ok(()));
    }
    let back = region.handle_return(now, B, S, epoch(1), ReturnReason::Moved, note(2));
    assert_eq!(back, Err(ReturnError::Full(note(2))));
    region.validate();
}

#[test]
fn what_is_given_back_without_a_slot_is_handed_back() {
    let mut world = World::with(&[A], config(), 1);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    world.send(A);
    let now = world.now;
    let note = Note { from: A, number: 9 };
    let origin = crate::region::Origin::Local;
    let region = world.region(A);
    assert_eq!(
        region.give_back(now, S, epoch(1), origin, note.clone()),
        Err(note.clone())
    );
    assert_eq!(
        region.give_back(now, S, epoch(2), origin, note.clone()),
        Err(note)
    );
}

#[test]
fn s8_shards_out_of_range_are_refused() {
    let mut world = World::new(&[A, B]);
    let now = world.now;
    let beyond = crate::ShardId(16);
    let note = Note { from: A, number: 0 };
    let region = world.region(A);
    assert_eq!(
        region.route(now, beyond, note.clone()),
        Err(RouteError::UnknownShard(note.clone()))
    );
    let arrival = region.handle_envelope(now, B, beyond, epoch(1), note.clone());
    assert_eq!(arrival, crate::region::Arrival::Refused(note.clone()));
    region.handle_flush(now, B, beyond, epoch(1), crate::Token(1));
    assert!(!region.handle_flushed(now, B, beyond, crate::Token(1)));
    region.handle_shard_started(now, beyond, epoch(1));
    region.handle_shard_stopped(now, beyond, epoch(1), false);
    let back = region.handle_return(now, B, beyond, epoch(1), ReturnReason::Moved, note);
    assert!(back.is_err());
    assert_eq!(region.phase(beyond), None);
    assert_eq!(region.home(beyond), None);
    region.validate();
}
