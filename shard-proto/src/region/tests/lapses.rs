//! Leases and sessions, seen by a region: protocol 2.5, 2.9, 2.12.

use super::world::*;
use crate::region::{RejectReason, ShardPhase};
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

/// What follows a region in the same process does not begin anew to count what ended the sessions of that one.
#[test]
fn r2_11_a_region_that_is_started_again_is_above_every_session_before_it() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    for lapses in 1..4 {
        world.refuse(A, RegisterRefusal::SessionEnded);
        world.run();
        let ended = world.region(A).session();
        assert_eq!((ended.lapses, ended.starts), (lapses, 0));
        let again = ended.started_again();
        assert!(again > ended, "{again} after {ended}");
        assert_eq!(again.incarnation, ended.incarnation);
        assert!(again.started_again() > again);
    }
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
        size: crate::wire::control::Size::default(),
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

/// What a region registers, if it does: its lapses and claims.
fn registers(said: &[Said]) -> alloc::vec::Vec<(u64, alloc::vec::Vec<crate::wire::Claim>)> {
    said.iter()
        .filter_map(|said| match said {
            Said::Register {
                session, claims, ..
            } => Some((u64::from(session.lapses), claims.clone())),
            _ => None,
        })
        .collect()
}

/// A serves `S`, its lease lasts until 3 s, and the host takes its time to stop.
fn serving() -> World {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.host(A).prompt = false;
    let now = world.now;
    world.region(A).handle_lease(now, Some(at(3000)));
    world.run();
    world.host(A).take_said();
    world
}

#[test]
fn r2_11_the_next_session_begins_when_nothing_of_the_ended_one_runs() {
    let mut world = serving();
    world.refuse(A, RegisterRefusal::SessionEnded);
    assert_eq!(world.host(A).stops.len(), 1);
    world.pass(1000);
    assert_eq!(registers(&world.host(A).take_said()), []);
    world.lead(A, 6);
    world.pass(500);
    assert_eq!(
        registers(&world.host(A).take_said()),
        [],
        "nor under the next term: its barrier would pass"
    );
    assert!(world.region(A).needs_registration());
    world.stopped(A, S, epoch(1), true);
    world.run();
    assert_eq!(registers(&world.host(A).take_said()), [(1, [].into())]);
}

#[test]
fn r2_11_or_when_the_lease_of_the_ended_session_is_over() {
    let mut world = serving();
    world.refuse(A, RegisterRefusal::SessionEnded);
    world.pass(1999);
    assert_eq!(registers(&world.host(A).take_said()), []);
    world.pass(1);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    let said = registers(&world.host(A).take_said());
    let (lapses, claims) = said.last().unwrap();
    assert!(*lapses > 1, "the node lapsed, too: {lapses}");
    assert_eq!(*claims, [], "S hangs, and is nobody's");
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Draining));
}

#[test]
fn r3_3_nothing_starts_beside_what_hangs_from_before_a_lapse() {
    let mut world = serving();
    world.pass(2000);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    world.region(A).handle_lease(now, Some(at(9000)));
    for _ in 0..3 {
        // The world asserts that no shard starts beside itself.
        world.home_is(A, A, 2, Previous::Lapsed);
        assert_eq!(world.host(A).starts.len(), 1);
    }
    world.stopped(A, S, epoch(1), true);
    world.run();
    assert_eq!(world.host(A).starts.len(), 1, "the grant is repeated");
    world.home_is(A, A, 2, Previous::Lapsed);
    assert_eq!(world.host(A).starts, [(S, epoch(1)), (S, epoch(2))]);
}

#[test]
fn r2_12_what_drains_is_claimed_until_nothing_of_it_runs_or_the_lease_lapses() {
    let mut world = serving();
    // The former leader named another home: this one stops, and says so to the next leader.
    world.home_is(A, B, 2, Previous::Completed);
    world.lead(A, 6);
    let said = registers(&world.host(A).take_said());
    let [(0, claims)] = &said[..] else {
        panic!("{said:?}");
    };
    assert_eq!(claims.len(), 1);
    assert!(claims[0].draining);
    world.pass(2000);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    let said = registers(&world.host(A).take_said());
    assert_eq!(said.last().unwrap().1, []);
}

#[test]
fn r5_7_with_a_lease_a_refused_region_serves_until_it_lapses() {
    let mut world = serving();
    let reason = RegisterRefusal::Claims;
    world.refuse(A, reason);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Active));
    assert!(world.region(A).needs_registration(), "so nobody echoes it");
    world.pass(1900);
    assert_eq!(world.host(A).stops.len(), 0);
    world.pass(100);
    let now = world.now;
    world.region(A).handle_lapse(now, 1);
    world.run();
    assert_eq!(world.host(A).stops.len(), 1);
    world.stopped(A, S, epoch(1), true);
    world.run();
    world.refuse(A, reason);
    assert!(!world.region(A).needs_registration());
    world.lead(A, 6);
    assert!(world.region(A).needs_registration(), "the next may take it");
}

#[test]
fn r5_7_without_leases_a_refused_region_stops_at_once() {
    let mut world = World::new(&[A]);
    world.home_is(A, A, 1, Previous::Completed);
    world.refuse(A, RegisterRefusal::Claims);
    assert_eq!(world.host(A).stops.len(), 1);
    assert!(!world.region(A).needs_registration());
}

#[test]
fn an_unknown_type_keeps_no_node_from_its_lease() {
    let mut world = World::new(&[A]);
    world.refuse(A, RegisterRefusal::UnknownType);
    assert!(!world.region(A).needs_registration());
    world.acknowledge(A);
    assert!(world.region(A).needs_registration());
}

#[test]
fn a_region_that_stops_registers_what_it_still_hosts() {
    let mut world = serving();
    let now = world.now;
    world.region(A).stop(now);
    world.run();
    world.host(A).take_said();
    assert!(world.region(A).needs_registration());
    world.lead(A, 6);
    let said = registers(&world.host(A).take_said());
    assert_eq!(said.len(), 1);
    assert!(said[0].1[0].draining);
    world.stopped(A, S, epoch(1), false);
    world.run();
    assert_eq!(
        world.host(A).take_said(),
        [Said::Deregister(session(A))],
        "only when nothing runs any more"
    );
    assert!(!world.region(A).needs_registration());
    world.lead(A, 7);
    world.pass(1000);
    assert_eq!(registers(&world.host(A).take_said()), []);
}

/// Protocol 2.18 and 3.1: nobody leads and the lease is over; what waits is reported when the region stops.
#[test]
fn r2_18_without_a_leader_what_waits_is_reported() {
    let mut world = serving();
    let now = world.now;
    world.region(A).handle_leader(now, None);
    world.pass(2000);
    world.host(A).prompt = true;
    world.stopped(A, S, epoch(1), true);
    for _ in 0..3 {
        assert!(world.send(A));
    }
    let now = world.now;
    world.region(A).stop(now);
    world.run();
    let reasons: alloc::vec::Vec<_> = world.host(A).rejected.iter().map(|it| it.2).collect();
    assert_eq!(reasons, [RejectReason::Stopped; 3]);
}
