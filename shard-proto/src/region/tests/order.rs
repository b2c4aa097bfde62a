//! Order across moves: protocol 4, scenarios 41 and 44.

use super::world::*;
use crate::region::{RejectReason, ShardPhase};
use crate::wire::control::Previous;
use crate::{Instant, NodeId};

fn numbers(end: u32) -> alloc::vec::Vec<u32> {
    (0..end).collect()
}

#[test]
fn r4_2_what_comes_back_goes_in_front_of_what_is_new() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.run();
    // B gives the shard up while messages of A are on their way.
    world.cut = alloc::vec![(A, B)];
    for _ in 0..3 {
        world.send(A);
    }
    world.hand_off(B, 1);
    world.cut.clear();
    world.host(A).take_said();
    world.cut = alloc::vec![(B, A)];
    world.run();
    for _ in 0..2 {
        world.send(A);
    }
    world.run();
    // The first return is the hint: A stops sending, asks and marks the end of the path.
    world.cut.clear();
    assert!(world.carry(B, A));
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.send(A);
    world.run();
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    assert_eq!(world.region(A).flushing(), 0, "answered");
    assert_eq!(world.region(A).buffered(), 6);
    world.settle_on(&[A], D, 2);
    assert_eq!(world.numbers_handled(A), numbers(6));
    assert_eq!(world.region(A).stats().flushed, 1);
    assert_eq!(world.region(A).stats().came_back, 5);
}

#[test]
fn r4_2_nothing_is_sent_before_the_old_path_is_flushed() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = alloc::vec![(B, A)];
    world.hand_off(B, 1);
    world.settle_on(&[A], D, 2);
    world.send(A);
    world.pass(5000);
    assert_eq!(world.nodes_handled(A), [B], "the marker is not answered");
    assert_eq!(world.region(A).flushing(), 1);
    world.cut.clear();
    world.run();
    assert_eq!(world.nodes_handled(A), [B, D]);
}

#[test]
fn r4_2_a_path_that_was_never_used_needs_no_flush() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.settle_on(&[A], D, 2);
    assert_eq!(world.region(A).flushing(), 0);
    world.send(A);
    world.run();
    assert_eq!(world.nodes_handled(A), [D]);
}

#[test]
fn r4_2_a_marker_waits_behind_what_a_draining_shard_keeps() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.host(B).prompt = false;
    world.host(B).quick = false;
    world.send(A);
    world.send(A);
    world.run();
    world.handle(B, S, 1);
    world.hand_off(B, 1);
    world.send(A);
    world.home_is(A, D, 2, Previous::Completed);
    world.run();
    assert_eq!(world.region(A).flushing(), 1);
    world.stopped(B, S, epoch(1), false);
    world.home_is(D, D, 2, Previous::Completed);
    world.run();
    assert_eq!(world.region(A).flushing(), 0);
    assert_eq!(world.numbers_handled(A), [0, 1, 2]);
    assert_eq!(world.nodes_handled(A), [B, D, D]);
}

#[test]
fn r4_1_an_epoch_that_is_news_is_kept_and_asked_for() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, B, 3, Previous::Completed);
    world.send(A);
    world.run();
    assert_eq!(world.region(B).buffered(), 1);
    assert_eq!(world.host(B).take_said(), [Said::Ask(S)]);
    world.pass(250);
    assert_eq!(world.host(B).take_said(), [Said::Ask(S)], "on the timer");
    world.home_is(B, B, 3, Previous::Completed);
    assert_eq!(world.numbers_handled(A), [0]);
}

#[test]
fn r4_1_what_is_above_the_epoch_of_the_answer_stays() {
    let mut world = World::new(&[A, B, D]);
    world.home_is(A, B, 2, Previous::Completed);
    world.home_is(D, B, 4, Previous::Completed);
    world.send(A);
    world.send(D);
    world.send(D);
    world.run();
    assert_eq!(world.region(B).buffered(), 3);
    // A late answer about an epoch in between.
    world.home_is(B, D, 3, Previous::Completed);
    assert_eq!(world.region(B).buffered(), 2);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.host(B).take_said();
    world.pass(250);
    assert_eq!(
        world.host(B).take_said(),
        [Said::Ask(S)],
        "it goes on asking"
    );
    world.settle_on(&[A, D], B, 4);
    assert_eq!(world.numbers_handled(D), [0, 1]);
    assert_eq!(world.numbers_handled(A), [0]);
}

#[test]
fn r4_1_a_newer_arrival_does_not_overtake_returns_that_wait() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, B, 2, Previous::Completed);
    world.send(A);
    world.send(A);
    world.run();
    assert_eq!(world.region(B).buffered(), 2);
    // The answer makes both go back, but B is not polled before the next arrives.
    let now = world.now;
    let session = session(A);
    let home = crate::wire::Control::ShardHome(crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(3),
        node: A,
        session,
        previous: Previous::Completed,
    });
    world
        .region(B)
        .handle_control(now, LEADER, term(5), &home)
        .unwrap();
    world.send(A);
    assert!(world.carry(A, B));
    assert_eq!(world.region(B).buffered(), 3);
    world.home_is(A, A, 3, Previous::Completed);
    assert_eq!(world.numbers_handled(A), [0, 1, 2]);
}

#[test]
fn r3_2_a_buffer_is_delivered_before_anything_newer() {
    let mut world = World::new(&[A, B]);
    world.host(B).prompt = false;
    world.settle_on(&[A], B, 1);
    for _ in 0..3 {
        world.send(A);
        world.send(B);
    }
    world.run();
    world.started(B, S, epoch(1));
    // Active, but nobody has polled: what is newer waits behind what is buffered.
    world.send(A);
    world.send(B);
    assert!(world.carry(A, B));
    assert_eq!(world.handled, []);
    assert_eq!(world.region(B).buffered(), 8);
    world.run();
    assert_eq!(world.numbers_handled(A), numbers(4));
    assert_eq!(world.numbers_handled(B), numbers(4));
    assert_eq!(world.host(B).opened, [(S, epoch(1))]);
}

#[test]
fn r3_2_a_shard_opens_only_when_its_own_messages_are_delivered() {
    let mut world = World::new(&[A]);
    for _ in 0..3 {
        world.send(A);
    }
    world.host(A).prompt = false;
    world.home_is(A, A, 1, Previous::Completed);
    world.started(A, S, epoch(1));
    while world.poll(A) {
        let done = world.numbers_handled(A).len() == 3;
        assert!(done || world.host(A).opened.is_empty());
    }
    assert_eq!(world.host(A).opened, [(S, epoch(1))]);
}

#[test]
fn r4_2_a_shard_that_comes_here_waits_for_the_flush_of_its_old_path() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = alloc::vec![(B, A)];
    world.hand_off(B, 1);
    world.send(A);
    world.run();
    world.home_is(A, A, 2, Previous::Completed);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0]);
    assert_eq!(
        world.host(A).opened,
        [],
        "not while older messages come back"
    );
    world.cut.clear();
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1, 2]);
    assert_eq!(world.host(A).opened.len(), 1);
}

#[test]
fn r4_3_questions_and_arrivals_do_not_prolong_the_wait() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = alloc::vec![(A, B), (B, A)];
    world.map(A, D, 2);
    for _ in 0..130 {
        world.pass(100);
        // D believes that A is the home under an epoch that A does not know of.
        world.send(D);
        world.home_is(D, A, 3, Previous::Completed);
        world.run();
    }
    assert_eq!(world.region(A).stats().paths_timed_out, 1);
    let asks = world.host(A).take_said();
    let asks = asks.iter().filter(|said| **said == Said::Ask(S)).count();
    assert!((40..200).contains(&asks), "{asks}");
}

fn drop_the_answer(world: &mut World) {
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    // Nothing comes from B any more.
    world.cut = alloc::vec![(B, A)];
    world.hand_off(B, 1);
    world.send(A);
    world.run();
}

#[test]
fn r4_3_an_ended_incarnation_is_not_waited_for() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    world.home_is(A, D, 2, Previous::Completed);
    world.home_is(D, D, 2, Previous::Completed);
    world.send(A);
    world.kill(B);
    world.run();
    assert_eq!(world.region(A).flushing(), 1);
    world.hear(A, removed(B));
    world.pass(1);
    assert_eq!(world.region(A).stats().paths_ended, 1);
    assert_eq!(world.numbers_handled(A), [0, 2], "1 died with B's link");
}

#[test]
fn r4_3_after_a_lapse_it_waits_a_retry_interval() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    world.home_is(A, D, 2, Previous::Lapsed);
    world.home_is(D, D, 2, Previous::Lapsed);
    world.send(A);
    world.pass(249);
    assert_eq!(world.region(A).flushing(), 1);
    world.pass(1);
    assert_eq!(world.region(A).stats().paths_lapsed, 1);
    assert_eq!(world.numbers_handled(A), [0, 2]);
    // What comes back now is reported, not sent again.
    world.cut.clear();
    world.run();
    assert_eq!(world.host(A).numbers_rejected(), [1]);
    assert_eq!(world.host(A).rejected[0].2, RejectReason::PathGivenUp);
    assert_eq!(
        world.region(A).stats().refused_returns,
        1,
        "the late answer"
    );
}

#[test]
fn r4_3_the_new_home_waits_no_longer_for_what_its_own_callers_sent_before() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    world.home_is(A, A, 2, Previous::Lapsed);
    world.send(A);
    for _ in 0..5 {
        // Repeated until it has started.
        world.pass(49);
        world.home_is(A, A, 2, Previous::Lapsed);
    }
    assert_eq!(world.region(A).flushing(), 1);
    world.pass(5);
    assert_eq!(world.region(A).stats().paths_lapsed, 1);
    assert_eq!(world.numbers_handled(A), [0, 2]);
    assert_eq!(world.host(A).opened.len(), 1);
}

#[test]
fn r4_3_a_repeated_answer_does_not_restart_the_wait() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    for _ in 0..5 {
        world.home_is(A, D, 2, Previous::Lapsed);
        world.pass(50);
    }
    assert_eq!(world.region(A).stats().paths_lapsed, 1);
}

#[test]
fn r4_3_a_silent_old_home_is_given_up_once_a_newer_one_is_known() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = alloc::vec![(A, B), (B, A)];
    world.home_is(A, D, 2, Previous::Completed);
    world.home_is(D, D, 2, Previous::Completed);
    world.send(A);
    world.pass(11_900);
    assert_eq!(world.region(A).flushing(), 1);
    world.pass(700);
    assert_eq!(world.region(A).stats().paths_timed_out, 1);
    assert_eq!(world.numbers_handled(A), [0, 1]);
}

#[test]
fn r4_3_without_a_newer_home_a_silent_old_one_is_waited_for() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.hand_off(B, 1);
    world.send(A);
    // B's first return arrives, its answer does not.
    world.cut = alloc::vec![(B, A)];
    world.run();
    world.carry(B, A);
    world.run();
    world.pass(60_000);
    assert_eq!(world.region(A).flushing(), 1);
    world.home_is(A, D, 2, Previous::Completed);
    world.home_is(D, D, 2, Previous::Completed);
    world.pass(250);
    assert_eq!(world.region(A).stats().paths_timed_out, 1);
    assert_eq!(world.numbers_handled(A), [0, 1]);
}

#[test]
fn r4_3_a_path_that_was_given_up_is_never_used_again() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    world.home_is(A, D, 2, Previous::Lapsed);
    world.pass(250);
    world.home_is(A, B, 1, Previous::Completed);
    assert_eq!(world.region(A).home(S).unwrap().node, D);
    world.map(A, B, 1);
    assert_eq!(world.region(A).home(S).unwrap().node, D);
}

#[test]
fn r4_2_a_map_that_names_another_home_flushes_and_asks_how_the_old_one_ended() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.cut = alloc::vec![(B, A)];
    world.host(A).take_said();
    world.map(A, D, 2);
    assert_eq!(world.region(A).flushing(), 1);
    assert_eq!(world.region(A).map_version(), Some(1));
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    world.home_is(A, D, 2, Previous::Lapsed);
    world.pass(250);
    assert_eq!(world.region(A).stats().paths_lapsed, 1);
}

#[test]
fn r1_no_more_comes_back_than_was_sent() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    let now = world.now;
    let moved = crate::wire::ReturnReason::Moved;
    let note = |number| Note { from: A, number };
    let region = world.region(A);
    for (from, round) in [(D, 1), (HOSTILE, 1), (B, 2)] {
        let back = region.handle_return(now, from, S, epoch(round), moved, note(7));
        assert!(matches!(
            back,
            Err(crate::region::ReturnError::Unexpected(_))
        ));
    }
    assert_eq!(region.phase(S), Some(ShardPhase::Remote));
    let back = region.handle_return(now, B, S, epoch(1), moved, note(7));
    assert_eq!(back, Ok(()));
    let back = region.handle_return(now, B, S, epoch(1), moved, note(8));
    assert!(back.is_err());
    assert_eq!(region.stats().refused_returns, 4);
}

#[test]
fn r1_only_the_old_home_answers_its_marker_and_only_once() {
    let mut world = World::new(&[A, B, D]);
    drop_the_answer(&mut world);
    world.home_is(A, D, 2, Previous::Completed);
    world.run();
    let answers = world.wires[&(B, A)].clone();
    let Some(Data::Flushed(_, token)) = answers.back() else {
        panic!("{answers:?}");
    };
    let now = world.now;
    let region = world.region(A);
    assert!(!region.handle_flushed(now, D, S, *token));
    assert!(!region.handle_flushed(now, HOSTILE, S, *token));
    let forged = crate::Token(token.0 ^ 1);
    assert!(!region.handle_flushed(now, B, S, forged));
    assert!(region.handle_flushed(now, B, S, *token));
    assert!(!region.handle_flushed(now, B, S, *token));
}

#[test]
fn s44_messages_that_come_back_again_and_again_keep_their_order() {
    let mut world = World::new(&[A, B, D]);
    let origin = D;
    let homes = [A, B, D, A, B];
    for (round, home) in (1u32..).zip(homes) {
        let previous = (round > 1).then(|| homes[round as usize - 2]);
        for step in 0..20 {
            world.send(origin);
            if step == 5
                && let Some(previous) = previous
            {
                world.hand_off(previous, round - 1);
            }
            if step == 10 {
                world.home_is(home, home, round, Previous::Completed);
            }
            if step == 15 {
                world.home_is(origin, home, round, Previous::Completed);
            }
            world.run();
        }
    }
    world.run();
    assert_eq!(world.numbers_handled(origin), numbers(100));
    for node in [A, B, D] {
        assert_eq!(world.region(node).buffered(), 0);
        assert_eq!(world.host(node).rejected, []);
    }
}

#[test]
fn s41_a_thousand_messages_stay_in_order_while_the_shard_moves_three_times() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A, B, D], B, 1);
    let mut moves = [(250, B, D, 1), (500, D, B, 2), (750, B, D, 3)].into_iter();
    let mut next = moves.next();
    for number in 0..1000 {
        if let Some((at, old, new, round)) = next
            && number == at
        {
            world.hand_off(old, round);
            world.settle_on(&[A, B, D], new, round + 1);
            next = moves.next();
        }
        world.send(A);
        if number % 7 == 0 {
            world.run();
        }
    }
    world.run();
    assert_eq!(world.numbers_handled(A), numbers(1000));
}

#[test]
fn r4_6_a_leaving_node_flushes_the_paths_it_used() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    let now = world.now;
    world.region(A).flush_paths(now);
    assert!(!world.region(A).is_settled());
    world.send(A);
    world.run();
    assert!(world.region(A).is_settled());
    assert_eq!(world.region(A).stats().flushed, 1);
    assert_eq!(world.numbers_handled(A), [0, 1], "and may go on sending");
}

#[test]
fn r4_6_a_path_that_is_flushed_for_leaving_may_still_come_back() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.hand_off(B, 1);
    world.send(A);
    let now = world.now;
    world.region(A).flush_paths(now);
    world.run();
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.settle_on(&[A], D, 2);
    assert_eq!(world.numbers_handled(A), [0, 1]);
}

#[test]
fn a_congested_home_makes_messages_wait_in_order() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    let now = world.now;
    world.region(A).handle_congestion(now, B, true);
    world.send(A);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0]);
    assert_eq!(world.region(A).buffered(), 2);
    assert_eq!(
        world.region(A).poll_timeout().map(|due| due > now),
        Some(true)
    );
    world.region(A).handle_congestion(now, B, false);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), numbers(4));
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Remote));
}

#[test]
fn a_home_that_is_congested_again_stops_taking() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    let now = world.now;
    world.region(A).handle_congestion(now, B, true);
    for _ in 0..4 {
        world.send(A);
    }
    world.run();
    world.region(A).handle_congestion(now, B, false);
    assert!(world.poll(A));
    world.region(A).handle_congestion(now, B, true);
    world.run();
    assert_eq!(world.numbers_handled(A), [0]);
    world.region(A).handle_congestion(now, B, false);
    world.run();
    assert_eq!(world.numbers_handled(A), numbers(4));
}

#[test]
fn time_that_runs_backwards_changes_nothing() {
    let mut world = World::new(&[A]);
    world.send(A);
    world.run();
    let due = world.region(A).poll_timeout();
    world.region(A).handle_timeout(Instant::ZERO);
    assert_eq!(world.region(A).poll_timeout(), due);
    let _: NodeId = A;
}
