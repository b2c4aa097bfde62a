//! Markers: one that is lost is sent again, one that comes twice ends nothing twice, and a path that was given up stays
//! so. Protocol 4.2, 4.3.

use alloc::vec;

use super::world::*;
use crate::region::ShardPhase;
use crate::wire::control::Previous;

fn markers(world: &World, from: NodeId, to: NodeId) -> usize {
    let wire = world.wires.get(&(from, to)).into_iter().flatten();
    wire.filter(|data| matches!(data, Data::Flush(..))).count()
}

use crate::NodeId;

/// A used the path to B, which drains and keeps a message in its only slot; A knows of D.
fn full_old_home() -> World {
    let mut world = World::with(&[A, B, D], config(), 1);
    world.settle_on(&[A], B, 1);
    world.host(B).prompt = false;
    world.send(A);
    world.run();
    world.hand_off(B, 1);
    world.send(B);
    world.home_is(A, D, 2, Previous::Completed);
    world.send(A);
    world.run();
    assert_eq!(world.region(B).stats().dropped_markers, 1);
    world
}

#[test]
fn r4_2_a_marker_that_found_no_room_is_sent_again() {
    let mut world = full_old_home();
    world.pass(1_000);
    assert_eq!(world.region(A).flushing(), 1);
    world.stopped(B, S, epoch(1), false);
    world.home_is(B, D, 2, Previous::Completed);
    world.home_is(D, D, 2, Previous::Completed);
    world.run();
    assert_eq!(world.region(A).flushing(), 1, "nobody remembers it");
    // 12 s would be the limit.
    world.pass(1_250);
    assert_eq!(world.region(A).flushing(), 0);
    assert_eq!(world.region(A).stats().flushed, 1);
    assert_eq!(world.numbers_handled(A), [0, 1]);
    assert_eq!(world.nodes_handled(A), [B, D]);
}

#[test]
fn r4_2_a_marker_that_waits_is_not_kept_twice() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.host(B).prompt = false;
    world.send(A);
    world.run();
    world.hand_off(B, 1);
    world.home_is(A, D, 2, Previous::Completed);
    world.pass(7_000);
    assert_eq!(world.region(B).buffered(), 1);
    assert_eq!(world.region(A).flushing(), 1);
    world.stopped(B, S, epoch(1), false);
    world.run();
    assert_eq!(world.region(A).flushing(), 0);
    assert_eq!(world.region(A).stats().refused_returns, 0);
}

#[test]
fn r4_2_a_late_answer_to_an_earlier_flush_does_not_end_the_next_one_of_the_same_path() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    // The path is flushed as before a leave, and goes on being used; the marker was sent twice.
    world.cut = vec![(A, B)];
    let now = world.now;
    world.region(A).flush_paths(now);
    world.pass(2_500);
    assert_eq!(markers(&world, A, B), 2);
    world.cut = vec![(B, A)];
    for _ in 0..2 {
        assert!(world.carry(A, B));
        while world.poll(B) {}
    }
    assert!(world.carry(B, A), "the first answer");
    assert_eq!(world.region(A).flushing(), 0);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1]);
    // Now it moves, with a message on its way.
    world.cut = vec![(A, B), (B, A)];
    world.send(A);
    world.hand_off(B, 1);
    world.settle_on(&[A, B], D, 2);
    world.send(A);
    world.run();
    assert_eq!(world.region(A).flushing(), 1);
    assert!(world.carry(B, A), "the second answer, late");
    world.run();
    assert_eq!(
        world.region(A).flushing(),
        1,
        "it answers the former marker"
    );
    world.cut.clear();
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1, 2, 3]);
    assert_eq!(world.region(A).stats().rejected_given_up, 0);
}

/// A flushes the path in use, as before a leave. B answers, and an entity there has not handled the message when B is
/// told to hand off. A hears first that B is its home no more, by `leave`, then the answer, then the message.
fn answered_before_the_drain(leave: impl Fn(&mut World), home: NodeId) {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.host(B).quick = false;
    world.send(A);
    world.run();
    world.cut = vec![(B, A)];
    let now = world.now;
    world.region(A).flush_paths(now);
    world.run();
    world.hand_off(B, 1);
    world.run();
    leave(&mut world);
    world.run();
    world.send(A);
    assert!(world.carry(B, A), "the answer");
    world.run();
    assert_eq!(world.region(A).flushing(), 1, "it was given before B left");
    assert_eq!(world.numbers_handled(A), [], "nothing overtakes");
    world.cut.clear();
    world.run();
    assert_eq!(world.region(A).stats().flushed, 1);
    assert_eq!(world.numbers_handled(A), [0, 1]);
    assert_eq!(world.nodes_handled(A), [home, home]);
}

#[test]
fn r4_2_an_answer_given_while_the_home_served_ends_no_flush_for_a_move() {
    let settle = |world: &mut World| world.settle_on(&[A, B], D, 2);
    answered_before_the_drain(settle, D);
    let map = |world: &mut World| {
        world.map(A, D, 2);
        world.settle_on(&[B], D, 2);
    };
    answered_before_the_drain(map, D);
    answered_before_the_drain(|world| world.settle_on(&[B], A, 2), A);
}

#[test]
fn r4_2_markers_to_a_silent_node_do_not_pile_up() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = vec![(A, B)];
    world.home_is(A, D, 2, Previous::Completed);
    world.pass(11_000);
    assert!(markers(&world, A, B) <= 6, "{}", markers(&world, A, B));
    world.pass(60_000);
    assert!(markers(&world, A, B) <= 7, "{}", markers(&world, A, B));
}

/// A sends on the path (B, 1), gives it up because D has the shard since B lapsed, and sends to D.
fn given_up() -> World {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.cut = vec![(A, B), (B, A)];
    world.send(A);
    world.home_is(D, D, 2, Previous::Lapsed);
    world.home_is(A, D, 2, Previous::Lapsed);
    world.pass(250);
    assert_eq!(world.region(A).stats().paths_lapsed, 1);
    world.send(A);
    world.run();
    assert_eq!(world.nodes_handled(A), [D]);
    world
}

#[test]
fn r4_3_late_answers_do_not_lead_back_to_a_path_that_was_given_up() {
    let mut world = given_up();
    for _ in 0..2 {
        world.home_is(A, B, 1, Previous::Completed);
        world.map(A, B, 1);
    }
    world.send(A);
    world.run();
    assert_eq!(world.nodes_handled(A), [D, D]);
}

#[test]
fn r4_3_nor_do_they_after_the_newer_home_is_gone() {
    let mut world = given_up();
    world.hear(A, removed(D));
    assert_eq!(world.region(A).home(S), None);
    world.home_is(A, B, 1, Previous::Completed);
    world.map(A, B, 1);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Unknown));
}

/// That a home came after one that lapsed says nothing of the path to it, which a node that leaves flushes.
#[test]
fn r4_3_a_lapse_before_the_home_in_use_ends_no_flush_of_the_path_to_it() {
    let mut world = World::new(&[A, B, D]);
    world.home_is(B, B, 1, Previous::Lapsed);
    world.home_is(A, B, 1, Previous::Lapsed);
    world.host(B).quick = false;
    world.send(A);
    world.run();
    world.host(B).prompt = false;
    world.cut = vec![(B, A)];
    let now = world.now;
    world.region(A).flush_paths(now);
    world.hand_off(B, 1);
    // The answer is repeated, or late.
    world.home_is(A, B, 1, Previous::Lapsed);
    world.pass(2_000);
    assert_eq!(world.region(A).flushing(), 1);
    assert_eq!(world.region(A).stats().paths_lapsed, 0);
    world.stopped(B, S, epoch(1), false);
    world.cut.clear();
    world.settle_on(&[A, B], D, 2);
    world.run();
    assert_eq!(world.region(A).flushing(), 0);
    assert_eq!(world.numbers_handled(A), [0], "it came back and went on");
    assert_eq!(world.nodes_handled(A), [D]);
    assert_eq!(world.host(A).numbers_rejected(), []);
}

/// Without leases a home is replaced though it serves, if it did not hear in time that it shall not.
#[test]
fn r2_20_what_a_replaced_home_gives_back_after_its_answer_is_reported() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.host(B).quick = false;
    world.send(A);
    world.run();
    world.home_is(D, D, 2, Previous::Lapsed);
    world.home_is(A, D, 2, Previous::Lapsed);
    assert_eq!(world.region(A).stats().flushed, 1);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [1]);
    world.hand_off(B, 1);
    world.run();
    assert_eq!(world.numbers_handled(A), [1], "nothing is late");
    assert_eq!(world.host(A).numbers_rejected(), [0]);
    assert_eq!(world.region(A).stats().refused_returns, 0);
}

#[test]
fn r4_2_no_marker_follows_one_that_waits_for_a_full_link() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = vec![(A, B)];
    let now = world.now;
    world.region(A).handle_congestion(now, B, true);
    world.home_is(A, D, 2, Previous::Completed);
    world.pass(7_000);
    assert_eq!(markers(&world, A, B), 1);
    let now = world.now;
    world.region(A).handle_congestion(now, B, false);
    world.pass(2_000);
    assert_eq!(markers(&world, A, B), 2, "the first may have been dropped");
}

#[test]
fn r4_2_a_home_that_was_left_is_not_taken_again_while_its_path_is_flushed() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.cut = vec![(A, B)];
    world.send(A);
    world.hand_off(B, 1);
    world.cut = vec![(B, A)];
    world.run();
    // The message comes back: A leaves B. A late copy of the answer names B again.
    assert!(world.carry(B, A));
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.home_is(A, B, 1, Previous::Completed);
    assert_eq!(world.region(A).home(S), None);
    world.cut.clear();
    world.run();
    assert_eq!(world.region(A).home(S), None, "nor afterwards");
    assert_eq!(world.region(A).stats().came_back, 1, "not sent there again");
    world.settle_on(&[A], D, 2);
    assert_eq!(world.nodes_handled(A), [D]);
}
