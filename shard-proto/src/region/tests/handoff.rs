//! Handing shards over: scenarios 3, 4, 13 to 19, and protocol 3.3 to 3.5.

use alloc::vec;

use super::world::*;
use crate::region::{RouteError, ShardPhase};
use crate::wire::control::Previous;

#[test]
fn r3_a_granted_shard_starts_serves_and_says_so() {
    let mut world = World::new(&[A]);
    world.host(A).prompt = false;
    assert!(world.send(A));
    world.run();
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.home_is(A, A, 1, Previous::Completed);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Starting));
    assert_eq!(world.host(A).starts, [(S, epoch(1))]);
    assert_eq!(world.handled, []);
    world.started(A, S, epoch(1));
    world.run();
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Active));
    assert_eq!(world.host(A).take_said(), [Said::Started(S, epoch(1))]);
    assert_eq!(world.numbers_handled(A), [0]);
    assert_eq!(world.host(A).opened, [(S, epoch(1))]);
    world.home_is(A, A, 1, Previous::Completed);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Started(S, epoch(1))],
        "a repeated grant is answered again"
    );
}

#[test]
fn s3_a_second_hand_off_changes_nothing() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    world.hand_off(A, 1);
    assert_eq!(world.host(A).stops.len(), 1);
    world.host(A).take_said();
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    world.hand_off(A, 1);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)],
        "scenario 17: a repeated order is answered again"
    );
    assert_eq!(world.host(A).stops.len(), 1);
}

#[test]
fn s4_an_older_hand_off_does_not_touch_a_newer_serving() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.hand_off(A, 1);
    world.home_is(A, A, 3, Previous::Completed);
    world.host(A).take_said();
    world.hand_off(A, 1);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Active));
    assert_eq!(world.region(A).home(S).unwrap().epoch, epoch(3));
}

#[test]
fn s13_messages_wait_while_a_shard_drains_and_reach_its_next_home() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A, B], A, 1);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    for _ in 0..3 {
        world.send(A);
        world.send(B);
    }
    world.run();
    assert_eq!(world.handled, []);
    world.stopped(A, S, epoch(1), false);
    world.run();
    world.settle_on(&[A, B], B, 2);
    assert_eq!(world.numbers_handled(A), [0, 1, 2]);
    assert_eq!(world.numbers_handled(B), [0, 1, 2]);
    assert_eq!(world.nodes_handled(A), [B, B, B]);
    assert_eq!(world.region(A).buffered(), 0);
    assert_eq!(world.region(B).flushing(), 0);
}

#[test]
fn s14_a_shard_that_goes_quiet_still_gets_its_buffer_delivered() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], A, 1);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    world.send(A);
    world.stopped(A, S, epoch(1), false);
    world.run();
    world.host(A).take_said();
    world.pass(2500);
    let asked = world.host(A).take_said();
    let asks = asked.iter().filter(|said| **said == Said::Ask(S)).count();
    assert_eq!(asks, 10, "asked on the timer: {asked:?}");
    world.settle_on(&[A], B, 2);
    assert_eq!(world.nodes_handled(A), [B]);
    world.host(A).take_said();
    world.pass(1000);
    assert!(!world.host(A).take_said().contains(&Said::Ask(S)));
}

#[test]
fn s15_a_shard_without_running_entities_is_handed_off() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).take_said();
    world.hand_off(A, 1);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Unknown));
    assert_eq!(world.region(A).hosted(), 0);
}

#[test]
fn s16_a_starting_shard_is_complete_only_when_its_start_is_cancelled() {
    let mut world = World::new(&[A]);
    world.host(A).prompt = false;
    world.home_is(A, A, 1, Previous::Completed);
    world.hand_off(A, 1);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Draining));
    assert_eq!(world.host(A).stops.len(), 1);
    world.started(A, S, epoch(1));
    world.run();
    assert_eq!(world.host(A).take_said(), [], "too late to be served");
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Draining));
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
}

#[test]
fn s16_a_start_that_nobody_heard_of_needs_no_stop() {
    let mut world = World::new(&[A]);
    let now = world.now;
    // Nothing is polled in between.
    let home = crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(1),
        node: A,
        session: session(A),
        previous: Previous::Completed,
    };
    let grant = crate::wire::Control::ShardHome(home);
    world
        .region(A)
        .handle_control(now, LEADER, term(5), &grant)
        .unwrap();
    world.hand_off(A, 1);
    assert_eq!(world.host(A).starts, []);
    assert_eq!(world.host(A).stops, []);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
}

#[test]
fn s18_entities_serve_until_a_hand_off_comes() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.pass(60_000);
    world.send(A);
    assert_eq!(world.numbers_handled(A), [0]);
}

#[test]
fn r3_5_the_host_aborts_at_80_percent_and_the_answer_says_so() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    let now = world.now;
    world.hand_off(A, 1);
    assert_eq!(
        world.host(A).stops,
        [(
            S,
            epoch(1),
            now.after(core::time::Duration::from_millis(6400))
        )]
    );
    world.pass(6400);
    world.host(A).take_said();
    world.stopped(A, S, epoch(1), true);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), true)]
    );
    assert_eq!(world.region(A).stats().forced_stops, 1);
}

#[test]
fn r3_4_a_hand_off_that_overtakes_its_grant_is_answered_and_the_grant_not_taken() {
    let mut world = World::new(&[A]);
    world.hand_off(A, 2);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(2), false)]
    );
    world.home_is(A, A, 2, Previous::Completed);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(2), false)]
    );
    assert_eq!(world.host(A).starts, []);
    assert_eq!(world.region(A).stats().refused_grants, 1);
    world.home_is(A, A, 3, Previous::Completed);
    assert_eq!(world.host(A).starts, [(S, epoch(3))]);
}

#[test]
fn r3_4_a_hand_off_for_a_higher_epoch_stops_what_is_held_first() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.host(A).take_said();
    world.hand_off(A, 4);
    assert_eq!(world.host(A).stops.len(), 1);
    assert_eq!(world.host(A).take_said(), []);
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(4), false)]
    );
}

#[test]
fn r3_4_a_grant_at_or_below_the_floor_is_answered_complete() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, A, 4, Previous::Completed);
    world.hand_off(A, 4);
    world.host(A).take_said();
    for round in [3, 4] {
        world.home_is(A, A, round, Previous::Completed);
        assert_eq!(
            world.host(A).take_said(),
            [Said::Complete(S, epoch(round), false)]
        );
    }
    assert_eq!(world.host(A).starts.len(), 1);
}

#[test]
fn r3_4_a_grant_below_an_epoch_that_was_named_is_not_taken() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, B, 5, Previous::Completed);
    world.host(A).take_said();
    world.home_is(A, A, 4, Previous::Completed);
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(4), false)]
    );
    assert_eq!(world.region(A).home(S).unwrap().node, B);
    world.home_is(A, A, 6, Previous::Completed);
    assert_eq!(world.region(A).home(S).unwrap().node, A);
}

#[test]
fn r3_4_a_grant_for_another_session_is_answered() {
    let mut world = World::new(&[A]);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    world.host(A).take_said();
    let home = crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(1),
        node: A,
        session: session(A),
        previous: Previous::Completed,
    };
    world
        .tell(A, &crate::wire::Control::ShardHome(home))
        .unwrap();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    assert_eq!(world.host(A).starts, []);
}

#[test]
fn r3_4_a_grant_that_only_lacks_the_lease_is_dropped_and_taken_when_repeated() {
    let mut world = World::new(&[A]);
    let now = world.now;
    world.region(A).handle_lease(now, None);
    world.home_is(A, A, 1, Previous::Completed);
    assert_eq!(world.host(A).take_said(), []);
    assert_eq!(world.region(A).stats().dropped_grants, 1);
    world
        .region(A)
        .handle_lease(now, Some(crate::Instant::FAR_FUTURE));
    world.home_is(A, A, 1, Previous::Completed);
    assert_eq!(world.host(A).starts, [(S, epoch(1))]);
}

#[test]
fn r3_3_a_newer_grant_waits_until_the_earlier_serving_has_stopped() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.home_is(A, A, 2, Previous::Lapsed);
    world.home_is(A, A, 2, Previous::Lapsed);
    assert_eq!(world.host(A).stops.len(), 1);
    assert_eq!(world.host(A).starts.len(), 1);
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(world.host(A).starts.len(), 1);
    world.home_is(A, A, 2, Previous::Lapsed);
    assert_eq!(world.host(A).starts, [(S, epoch(1)), (S, epoch(2))]);
}

#[test]
fn s31_a_newer_home_elsewhere_stops_what_is_served_here_at_once() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).quick = false;
    world.send(A);
    world.send(A);
    world.host(A).prompt = false;
    world.home_is(A, B, 2, Previous::Lapsed);
    let now = world.now;
    assert_eq!(world.host(A).stops, [(S, epoch(1), now)]);
    world.stopped(A, S, epoch(1), true);
    world.run();
    world.settle_on(&[A], B, 2);
    assert_eq!(world.numbers_handled(A), [0, 1]);
    assert_eq!(world.nodes_handled(A), [B, B]);
}

#[test]
fn a_host_that_cannot_start_a_shard_gives_it_up() {
    let mut world = World::new(&[A]);
    world.host(A).prompt = false;
    world.home_is(A, A, 1, Previous::Completed);
    world.stopped(A, S, epoch(1), true);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), true)]
    );
    assert_eq!(world.region(A).hosted(), 0);
}

#[test]
fn s43_a_stopping_region_reports_what_it_buffers_and_deregisters_last() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A, B], A, 1);
    world.host(A).quick = false;
    for _ in 0..3 {
        world.send(A);
        world.send(B);
        world.run();
    }
    world.host(A).prompt = false;
    world.host(A).take_said();
    let now = world.now;
    world.region(A).stop(now);
    world.run();
    assert_eq!(world.host(A).take_said(), [], "entities run");
    assert!(!world.region(A).is_settled());
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(world.host(A).take_said(), [Said::Deregister(session(A))]);
    assert_eq!(world.host(A).numbers_rejected(), [0, 1, 2]);
    assert!(world.region(A).is_settled());
    let note = Note { from: A, number: 9 };
    let refused = world.region(A).route(now, S, note.clone());
    assert_eq!(refused, Err(RouteError::Stopped(note)));
    // What others had sent went back to them and on to the next home.
    world.settle_on(&[B], B, 2);
    assert_eq!(world.numbers_handled(B), [0, 1, 2]);
    assert_eq!(world.nodes_handled(B), vec![B, B, B]);
}

#[test]
fn s43_a_stopping_region_reports_messages_without_a_home() {
    let mut world = World::new(&[A]);
    for _ in 0..3 {
        world.send(A);
    }
    let now = world.now;
    world.region(A).stop(now);
    world.run();
    assert_eq!(world.host(A).numbers_rejected(), [0, 1, 2]);
    assert_eq!(world.region(A).stats().rejected_stopped, 3);
    assert!(world.region(A).is_settled());
}
