//! Members that come, go and come back.

use super::world::*;
use crate::membership::{Member, MemberChange, NodesFull};
use crate::region::{Origin, RejectReason, ShardPhase};
use crate::wire::control::Previous;
use crate::{Incarnation, NodeId};

#[test]
fn r3_a_home_whose_incarnation_ended_is_asked_for() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.kill(B);
    world.host(A).take_said();
    world.hear(A, removed(B));
    assert_eq!(world.region(A).home(S), None);
    world.send(A);
    world.run();
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    world.home_is(A, A, 2, Previous::Lapsed);
    assert_eq!(world.numbers_handled(A), [0, 1]);
    assert_eq!(world.region(A).stats().paths_ended, 1);
}

#[test]
fn s29_the_next_incarnation_is_another_node() {
    let mut world = World::new(&[A, B]);
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.kill(B);
    let next = Member {
        incarnation: Incarnation(2001),
        ..member(B)
    };
    world.hear(A, MemberChange::Member(next));
    // Stale answers name the path that ended.
    world.home_is(A, B, 1, Previous::Completed);
    world.map(A, B, 1);
    assert_eq!(world.region(A).home(S), None);
    // A grant to the old life under a newer epoch is stale too.
    world.home_is(A, B, 2, Previous::Completed);
    assert_eq!(world.region(A).home(S), None);
    world.send(A);
    world.run();
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    // The old one comes as a late event: nothing changes.
    world.hear(A, MemberChange::Member(member(B)));
    world.hear(A, removed(B));
    world.pass(1);
    let home = crate::wire::Control::ShardHome(crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(3),
        node: B,
        session: crate::Session {
            incarnation: Incarnation(2001),
            lapses: 0,
            starts: 0,
        },
        previous: Previous::Lapsed,
    });
    world.tell(A, &home).unwrap();
    assert_eq!(world.region(A).home(S).unwrap().epoch, epoch(3));
}

#[test]
fn a_map_that_names_a_life_before_membership_does_leaves_nobody_asking_for_ever() {
    let mut world = World::new(&[A, B]);
    let next = Incarnation(2001);
    // The home is the next life of B, of which A has not heard.
    world.map(A, B, 1);
    world.send(A);
    world.run();
    world.kill(B);
    world.hear(
        A,
        MemberChange::Member(Member {
            incarnation: next,
            ..member(B)
        }),
    );
    world.map(A, B, 1);
    world.send(A);
    world.run();
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    let home = crate::wire::Control::ShardHome(crate::wire::control::ShardHome {
        shard: S,
        epoch: epoch(1),
        node: B,
        session: crate::Session {
            incarnation: next,
            ..crate::Session::default()
        },
        previous: Previous::Completed,
    });
    world.tell(A, &home).unwrap();
    assert_eq!(world.region(A).home(S).unwrap().epoch, epoch(1));
}

#[test]
fn a_home_that_membership_did_not_know_is_asked_for_at_once_when_it_does() {
    let mut world = World::new(&[A]);
    world.send(A);
    world.run();
    world.home_is(A, D, 1, Previous::Completed);
    world.host(A).take_said();
    world.hear(A, MemberChange::Member(member(D)));
    world.pass(0);
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    world.home_is(A, D, 1, Previous::Completed);
    assert_eq!(world.region(A).home(S).unwrap().node, D);
}

#[test]
fn a_home_that_membership_does_not_know_yet_is_asked_for_until_it_does() {
    let mut world = World::new(&[A]);
    world.send(A);
    world.run();
    world.home_is(A, D, 1, Previous::Completed);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Asking));
    world.host(A).take_said();
    world.pass(250);
    assert_eq!(world.host(A).take_said(), [Said::Ask(S)]);
    world.hear(A, MemberChange::Member(member(D)));
    world.home_is(A, D, 1, Previous::Completed);
    assert_eq!(world.region(A).phase(S), Some(ShardPhase::Remote));
}

#[test]
fn r4_5_messages_of_an_origin_that_ended_are_reported_not_sent_on() {
    let mut world = World::new(&[A, B, D]);
    world.settle_on(&[A, D], B, 1);
    world.host(B).quick = false;
    world.host(B).prompt = false;
    world.send(A);
    world.send(D);
    world.run();
    world.hand_off(B, 1);
    world.send(A);
    world.send(D);
    world.run();
    world.kill(A);
    world.hear(B, removed(A));
    world.pass(1);
    world.stopped(B, S, epoch(1), false);
    world.run();
    let reported = &world.host(B).rejected;
    assert_eq!(reported.len(), 2);
    for (_, origin, reason, note) in reported {
        assert_eq!(*origin, Origin::Remote(A));
        assert_eq!(*reason, RejectReason::OriginEnded);
        assert_eq!(note.from, A);
    }
    world.home_is(D, D, 2, Previous::Completed);
    assert_eq!(world.numbers_handled(D), [0, 1]);
    assert_eq!(world.region(B).stats().rejected_origin_ended, 2);
}

#[test]
fn a_message_of_an_origin_that_ended_is_delivered_where_it_was_accepted() {
    let mut world = World::new(&[A, B]);
    world.host(B).prompt = false;
    world.settle_on(&[A], B, 1);
    world.send(A);
    world.run();
    world.kill(A);
    world.hear(B, removed(A));
    world.pass(1);
    world.started(B, S, epoch(1));
    world.run();
    assert_eq!(world.numbers_handled(A), [0]);
}

#[test]
fn slots_of_ended_incarnations_are_used_again() {
    let mut world = World::new(&[A]);
    for life in 0..1000u64 {
        let next = Member {
            node: NodeId(40),
            incarnation: Incarnation(life),
            ..member(B)
        };
        world.hear(A, MemberChange::Member(next));
    }
    // Six more fit beside that one and the hostile one.
    for node in 50..56 {
        world.hear(A, MemberChange::Member(member(NodeId(node))));
    }
    let now = world.now;
    let one_more = MemberChange::Member(member(NodeId(60)));
    assert_eq!(world.region(A).handle_member(now, one_more), Err(NodesFull));
    world.hear(A, removed(NodeId(50)));
    assert_eq!(world.region(A).handle_member(now, one_more), Ok(()));
}

#[test]
fn s35_a_proxy_routes_when_a_host_is_there() {
    let mut world = World::with(&[A, B], config(), 100);
    let proxy = World::with(&[D], config().with_proxy(true), 100)
        .hosts
        .remove(&D)
        .unwrap();
    world.hosts.insert(D, proxy);
    for node in [A, B] {
        world.hear(D, MemberChange::Member(member(node)));
        world.hear(node, MemberChange::Member(member(D)));
    }
    world.send(D);
    world.send(D);
    world.pass(3000);
    world.host(D).take_said();
    world.home_is(D, D, 1, Previous::Completed);
    assert_eq!(world.host(D).starts, [], "a proxy takes no grant");
    assert_eq!(
        world.host(D).take_said(),
        [Said::Complete(S, epoch(1), false)]
    );
    world.settle_on(&[D], B, 2);
    assert_eq!(world.numbers_handled(D), [0, 1]);
}
