//! Leases and sessions, seen by a region: protocol 2.5, 2.9, 2.12.

use super::world::*;
use crate::region::ShardPhase;
use crate::wire::control::{Previous, RegisterRefusal};
use crate::{Instant, Leader};

#[test]
fn r2_12_a_lapse_stops_everything_and_raises_the_session() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.host(A).take_said();
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Draining));
    world.run();
    assert_eq!(world.host(A).stops, [(S, epoch(1), now)]);
    let said = world.host(A).take_said();
    let [
        Said::Register {
            session, claims, ..
        },
    ] = &said[..]
    else {
        panic!("{said:?}");
    };
    assert_eq!(session.lapses, 1);
    assert_eq!(*claims, [], "only what never lapsed is claimed");
    world.stopped(A, S, epoch(1), true);
    world.run();
    world.host(A).take_said();
    world.home_is(A, A, 1, Previous::Completed);
    assert_eq!(world.host(A).starts.len(), 1, "the floor is raised");
    assert_eq!(
        world.host(A).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    world.home_is(A, A, 2, Previous::Lapsed);
    assert_eq!(world.host(A).starts.len(), 2);
}

#[test]
fn r2_9_a_lease_that_is_over_is_noticed_before_anything_else() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    let now = world.now;
    world.region(A).handle_lease(now, Some(at(1500)));
    world.pass(400);
    assert_eq!(world.region(A).poll_timeout(), Some(at(1500)));
    world.now = at(1500);
    world.send(A);
    assert_eq!(world.handled, [], "not served after the lease");
    world.run();
    assert_eq!(world.region(A).session().lapses, 1);
    assert_eq!(world.host(A).stops.len(), 1);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    assert_eq!(world.region(A).session().lapses, 1, "the same lapse");
    world.region(A).handle_lapse(now, 2);
    assert_eq!(world.region(A).session().lapses, 2);
}

#[test]
fn r2_12_a_lapse_cuts_a_drain_short() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    world.pass(1000);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    assert_eq!(world.host(A).stops.len(), 2);
    assert_eq!(world.host(A).stops[1], (S, epoch(1), now));
}

#[test]
fn r2_11_an_ended_session_is_raised_and_registers_again() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).take_said();
    world.refuse(A, RegisterRefusal::SessionEnded);
    assert_eq!(world.region(A).session().lapses, 1);
    assert!(!world.region(A).is_registered());
    assert_eq!(world.host(A).stops.len(), 1);
    let said = world.host(A).take_said();
    assert!(matches!(said[0], Said::Register { .. }), "{said:?}");
    // A late refusal of the session before changes nothing.
    let refused = crate::wire::control::RegisterRefused {
        session: session(A),
        reason: RegisterRefusal::SessionEnded,
    };
    world
        .tell(A, &crate::wire::Control::RegisterRefused(refused))
        .unwrap();
    assert_eq!(world.region(A).session().lapses, 1);
}

#[test]
fn the_removal_of_this_node_is_a_lapse() {
    let mut world = World::new(&[A, B]);
    world.home_is(A, A, 1, Previous::Completed);
    world.hear(A, removed(A));
    assert_eq!(world.host(A).stops.len(), 1);
    assert_eq!(world.region(A).session().lapses, 1);
}

#[test]
fn r2_5_on_adoption_it_registers_and_asks_again_while_sending_goes_on() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.host(A).take_said();
    let now = world.now;
    let leader = Leader {
        node: LEADER,
        term: term(6),
    };
    world.region(A).handle_leader(now, Some(leader));
    world.run();
    assert!(!world.region(A).is_registered());
    let said = world.host(A).take_said();
    assert!(matches!(said[..], [Said::Register { part: 0, .. }]));
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1], "sending goes on");
    let ack = crate::wire::Control::RegisterAck(crate::wire::control::RegisterAck {
        session: session(A),
    });
    let now = world.now;
    world
        .region(A)
        .handle_control(now, LEADER, term(6), &ack)
        .unwrap();
    world
        .region(A)
        .handle_control(now, LEADER, term(6), &EMPTY_MAP)
        .unwrap();
    world.pass(250);
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    world.pass(250);
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)], "until confirmed");
    let home = crate::wire::Control::ShardHome(crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(1),
        node: B,
        session: session(B),
        previous: Previous::Completed,
    });
    let now = world.now;
    world
        .region(A)
        .handle_control(now, LEADER, term(6), &home)
        .unwrap();
    world.pass(1000);
    assert_eq!(world.host(A).take_said(), []);
    assert_eq!(world.region(A).flushing(), 0);
}

#[test]
fn r2_5_what_is_served_goes_on_being_served_under_the_next_term() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.lead(A, 6);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0]);
    let now = world.now;
    world.region(A).handle_leader(now, None);
    world.send(A);
    world.run();
    assert_eq!(world.numbers_handled(A), [0, 1]);
    assert_eq!(world.host(A).stops, []);
}

#[test]
fn s24_a_draining_shard_is_claimed_as_draining() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    world.hand_off(A, 1);
    world.host(A).take_said();
    world.lead(A, 6);
    let said = world.host(A).take_said();
    let [Said::Register { claims, .. }] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(claims.len(), 1);
    assert!(claims[0].draining);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Draining));
}

#[test]
fn without_a_lease_nothing_is_due_but_retries() {
    let mut world = World::strangers(&[A], config(), 10);
    assert_eq!(world.region(A).poll_timeout(), None);
    let now = world.now;
    world.region(A).handle_lease(now, Some(Instant::FAR_FUTURE));
    assert_eq!(world.region(A).poll_timeout(), None);
}
