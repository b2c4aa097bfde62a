//! What the transport proved, and lives of the future.

use super::raw::{Raw, hello};
use super::*;
use crate::wire::control::Hello;
use crate::wire::header::Kind;

/// What becomes of a `Hello` on a connection whose peer was proved to be somebody.
fn greeted(raw: &mut Raw, proven: Option<Authenticated>, hello: Hello<'_>) -> Option<Refusal> {
    let link = raw.link;
    let connection = raw.host.links.connections.get_mut(link).unwrap();
    connection.authenticated = proven;
    match raw.say(&Control::Hello(hello)) {
        Ok(_) => {
            assert_eq!(raw.said(), [Kind::HELLO, Kind::WELCOME]);
            None
        }
        Err(LinkFault::Refused(refusal)) => {
            assert_eq!(raw.said(), [Kind::REFUSED], "it says why");
            Some(refusal)
        }
        Err(fault) => panic!("{fault:?}"),
    }
}

#[test]
fn a_node_is_whom_its_transport_proved_it_to_be() {
    let other = |cluster, client| Authenticated {
        cluster,
        client,
        ..proof("b")
    };
    let table = [
        (None, None),
        (Some(proof("b")), None),
        (Some(proof("c")), Some(Refusal::Identity)),
        (Some(proof("")), Some(Refusal::Identity)),
        (Some(other(2, false)), Some(Refusal::Cluster)),
        (Some(other(1, true)), Some(Refusal::Client)),
    ];
    for (proven, refusal) in table {
        let mut raw = Raw::new(|config| config);
        assert_eq!(
            greeted(&mut raw, proven.clone(), hello("b")),
            refusal,
            "{proven:?}"
        );
    }
}

#[test]
fn lives_of_the_future_are_refused() {
    let life = |incarnation| Hello {
        incarnation: Incarnation(incarnation),
        ..hello("b")
    };
    let limit = Incarnation(1000);
    for (incarnation, refusal) in [
        (1000, None),
        (1001, Some(Refusal::Future { limit })),
        (u64::MAX, Some(Refusal::Future { limit })),
    ] {
        let mut raw = Raw::new(|config| config);
        raw.host.links.set_incarnation_limit(limit);
        assert_eq!(
            greeted(&mut raw, Some(proof("b")), life(incarnation)),
            refusal
        );
    }
    // A dialer refuses it, too.
    let mut world = World::new(&["a", "b"]);
    world.hosts[0].links.set_incarnation_limit(Incarnation(5));
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.advance(ms(500));
    assert!(!world.is_up(0, 1));
    let refused = Heard::Refused(
        false,
        Refusal::Future {
            limit: Incarnation(5),
        },
    );
    assert!(world.hosts[0].heard.contains(&refused));
    world.hosts[0].links.set_incarnation_limit(Incarnation(50));
    world.advance(ms(10_000));
    assert!(world.is_up(0, 1), "the clock has gone on");
}
