//! Handshakes, and every way in which one is refused.

use super::raw::{Raw, data, encoded, hello, welcome};
use super::*;
use crate::wire::control::{Hello, Welcome};
use crate::wire::header::{Kind, MAX_VERSION, MIN_VERSION};
use crate::wire::{DecodeError, VersionMismatch};

#[test]
fn two_members_link_once_and_know_each_other() {
    let world = World::pair();
    let (a, b) = (world.node(0), world.node(1));
    assert_eq!(world.hosts[0].heard, [Heard::Up(b, Incarnation(10))]);
    assert_eq!(world.hosts[1].heard, [Heard::Up(a, Incarnation(10))]);
    // The one with the lower id dialed.
    assert_eq!(world.pipes.len(), 1);
    assert_eq!(world.pipes[0].ends[0].0, 0);
    let slot = world.slot(0, 1).unwrap();
    let told = world.hosts[0].links.identity(slot).unwrap();
    assert_eq!(told, &world.hosts[1].links.me);
}

#[test]
fn control_and_data_travel_both_ways() {
    let mut world = World::pair();
    for number in 0..5 {
        world.send(0, 1, number);
        world.send(1, 0, number);
        assert!(world.control(0, 1, number) && world.control(1, 0, number));
    }
    world.run();
    for host in [0, 1] {
        assert_eq!(world.hosts[host].from(world.node(1 - host)), numbers(5));
        assert_eq!(world.hosts[host].control, numbers(5));
    }
}

#[test]
fn data_for_a_member_waits_for_the_link() {
    let mut world = World::new(&lower_first("a", "b"));
    world.introduce(0, 1);
    world.send(0, 1, 0);
    world.send(1, 0, 0);
    assert!(!world.control(0, 1, 1), "control does not wait");
    assert_eq!(world.hosts[0].links.stats().control_dropped, 1);
    world.run();
    assert_eq!(world.hosts[0].from(world.node(1)), [0]);
    assert_eq!(world.hosts[1].from(world.node(0)), [0]);
}

/// Both sides of one handshake between hosts that `tune` and `proves` set apart, as seeds.
fn refused(tune: impl Fn(usize, LinkConfig) -> LinkConfig) -> World {
    let mut world = World::with(&["a", "b"], tune);
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.run();
    assert!(!world.is_up(0, 1) && !world.is_up(1, 0));
    assert_eq!(world.open(), [0; 0]);
    world
}

#[test]
fn another_cluster_is_refused() {
    let world = refused(|host, config| LinkConfig {
        cluster: host as u64,
        ..config
    });
    assert_eq!(
        world.hosts[0].heard,
        [
            Heard::Fault(LinkFault::RefusedByPeer(Refusal::Cluster)),
            Heard::Refused(true, Refusal::Cluster),
        ]
    );
    assert_eq!(
        world.hosts[1].heard,
        [
            Heard::Fault(LinkFault::Refused(Refusal::Cluster)),
            Heard::Refused(false, Refusal::Cluster),
        ]
    );
}

#[test]
fn another_list_of_voters_is_refused() {
    let world = refused(|host, config| LinkConfig {
        voters: host as u64,
        ..config
    });
    let refusal = Refusal::Voters { ours: 1, theirs: 0 };
    assert_eq!(
        world.hosts[0].heard,
        [
            Heard::Fault(LinkFault::RefusedByPeer(refusal)),
            Heard::Refused(true, refusal),
        ]
    );
    assert_eq!(
        world.hosts[1].heard,
        [
            Heard::Fault(LinkFault::Refused(refusal)),
            Heard::Refused(false, refusal),
        ]
    );
    let text = LinkFault::RefusedByPeer(refusal).to_string();
    assert!(text.contains("`voters`"), "{text}");
    assert!(
        text.contains("0000000000000001") && text.contains("none"),
        "{text}"
    );
}

#[test]
fn a_node_does_not_link_with_itself() {
    let mut world = World::new(&["a"]);
    world.hosts[0].links.me.address = "public:1".into();
    world.hosts[0].links.add_seed(world.now, "a:1");
    world.run();
    let (_, dial, address) = {
        world.collect(0);
        world.dials.pop().unwrap_or((0, DialId(1), "a:1".into()))
    };
    assert_eq!(address, "a:1");
    // The address leads here by another name.
    world.hosts[0].links.me.address = "a:1".into();
    world.hosts[0].links.dial_failed(world.now, dial);
    world.advance(ms(30_000));
    assert_eq!(world.pipes.len(), 1, "it learns so once");
    assert_eq!(world.open(), [0; 0]);
    assert_eq!(world.hosts[0].links.peers().count(), 0);
}

#[test]
fn a_removed_life_is_refused_for_ever_and_a_newer_one_is_not() {
    let mut world = World::new(&["a", "b"]);
    let (b, now) = (world.node(1), world.now);
    world.hosts[0]
        .links
        .handle_removed(now, b, Incarnation(10), RemovalCause::Down);
    world.hosts[1].links.add_seed(now, "a:1");
    world.advance(ms(20_000));
    let refusal = Refusal::Incarnation {
        newest: Incarnation(10),
    };
    assert!(world.pipes.len() > 2, "it tries again");
    assert!(
        world.hosts[1]
            .heard
            .contains(&Heard::Refused(true, refusal))
    );
    assert!(
        world.hosts[0]
            .links
            .handle_member(now, b, Incarnation(10), None)
            .is_none()
    );
    assert_eq!(world.open(), [0; 0]);

    world.hosts[1] = Host::new(world.now, config(), identity("b", 11));
    world.hosts[1].links.add_seed(world.now, "a:1");
    world.run();
    assert!(world.is_up(0, 1) && world.is_up(1, 0));
}

#[test]
fn the_transport_decides_who_a_peer_is() {
    let mut world = World::new(&["a", "b"]);
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.collect(0);
    let (_, dial, _) = world.dials.remove(0);
    let now = world.now;
    let liar = world.hosts[0].links.dialed(now, dial, 1, None).unwrap();
    let victim = world.hosts[1]
        .links
        .accepted(now, 1, Some(proof("somebody else")))
        .unwrap();
    world.pipes.push(Pipe {
        ends: [(0, liar), (1, victim)],
        flight: Default::default(),
        inbox: Default::default(),
        lanes: Default::default(),
        closed: [false; 2],
        total: [0; 2],
    });
    world.run();
    assert!(
        world.hosts[0]
            .heard
            .contains(&Heard::Refused(true, Refusal::Identity))
    );
    assert!(
        world.hosts[1]
            .heard
            .contains(&Heard::Refused(false, Refusal::Identity))
    );

    let mut world = World::new(&["a", "b"]);
    world.proves = true;
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.run();
    assert!(world.is_up(0, 1) && world.is_up(1, 0));
}

#[test]
fn hellos_that_are_refused() {
    let good = hello("b");
    let version = Refusal::Version {
        min: MIN_VERSION,
        max: MAX_VERSION,
    };
    let table = [
        (
            Hello {
                min_version: MAX_VERSION + 1,
                max_version: MAX_VERSION + 1,
                ..good
            },
            version,
        ),
        (
            Hello {
                min_version: 0,
                max_version: MIN_VERSION - 1,
                ..good
            },
            version,
        ),
        (Hello { cluster: 2, ..good }, Refusal::Cluster),
        (
            Hello { voters: 9, ..good },
            Refusal::Voters { ours: 0, theirs: 9 },
        ),
        (Hello { name: "c", ..good }, Refusal::Identity),
        (
            Hello {
                node: NodeId(1),
                ..good
            },
            Refusal::Identity,
        ),
        (
            Hello {
                name: "a",
                node: hash::node_id("a"),
                ..good
            },
            Refusal::Myself,
        ),
        (Hello { lanes: 0, ..good }, Refusal::Handshake),
    ];
    for (hello, refusal) in table {
        let mut raw = Raw::new(|config| config);
        let fault = if refusal == version {
            LinkFault::Version(VersionMismatch {
                ours: (MIN_VERSION, MAX_VERSION),
                theirs: (hello.min_version, hello.max_version),
            })
        } else {
            LinkFault::Refused(refusal)
        };
        assert_eq!(raw.say(&Control::Hello(hello)), Err(fault));
        assert_eq!(raw.said(), [Kind::REFUSED], "it says why");
        assert_eq!(
            raw.host.links.connections.iter().count(),
            0,
            "written, then forgotten"
        );
        assert_eq!(raw.host.links.peers().count(), 0);
    }
    let mut raw = Raw::new(|config| config);
    raw.say(&Control::Hello(Hello {
        min_version: 0,
        max_version: 200,
        ..good
    }))
    .unwrap();
    assert_eq!(raw.said(), [Kind::HELLO, Kind::WELCOME]);
}

#[test]
fn nothing_but_the_handshake_comes_first() {
    let query = Control::StatsQuery(StatsQuery { token: Token(1) });
    let firsts = [
        encoded(&query),
        encoded(&Control::Goodbye),
        encoded(&welcome(&[0; 8])),
        encoded(&Control::Hello(Hello {
            dialer: false,
            ..hello("b")
        })),
        encoded(&Control::Refused(Refusal::Full)),
        data(0, 8),
    ];
    for first in firsts {
        let mut raw = Raw::new(|config| config);
        assert_eq!(raw.bytes(&first), Err(LinkFault::Handshake));
        assert_eq!(raw.bytes(&first), Err(LinkFault::Unknown));
    }
    // Not even the beginning of a long frame is waited for.
    let mut raw = Raw::new(|config| config);
    assert_eq!(
        raw.bytes(&data(0, 1000)[..HEADER_LEN]),
        Err(LinkFault::Handshake)
    );
    // And it is said once.
    let mut raw = Raw::new(|config| config);
    raw.say(&Control::Hello(hello("b"))).unwrap();
    assert_eq!(
        raw.say(&Control::Hello(hello("b"))),
        Err(LinkFault::Handshake)
    );
    let mut raw = Raw::up();
    assert_eq!(
        raw.say(&Control::Hello(hello("b"))),
        Err(LinkFault::Handshake)
    );
    let mut raw = Raw::up();
    assert_eq!(raw.say(&welcome(&[0; 8])), Err(LinkFault::Handshake));
}

#[test]
fn commits_that_are_no_good() {
    let commits = [
        (
            Welcome {
                version: MAX_VERSION + 1,
                incarnation: Incarnation(10),
                expected: &[0; 8],
            },
            LinkFault::Handshake,
        ),
        (
            Welcome {
                version: MAX_VERSION,
                incarnation: Incarnation(9),
                expected: &[0; 8],
            },
            LinkFault::Handshake,
        ),
        (
            Welcome {
                version: MAX_VERSION,
                incarnation: Incarnation(10),
                expected: &[],
            },
            LinkFault::Handshake,
        ),
        (
            Welcome {
                version: MAX_VERSION,
                incarnation: Incarnation(10),
                expected: &[1, 0, 0, 0, 0, 0, 0, 0],
            },
            LinkFault::Ack { next: 1, sent: 0 },
        ),
    ];
    for (commit, fault) in commits {
        let mut raw = Raw::new(|config| config);
        raw.say(&Control::Hello(hello("b"))).unwrap();
        assert_eq!(raw.say(&Control::Welcome(commit)), Err(fault));
        assert_eq!(raw.host.links.peers().count(), 0);
    }
}

#[test]
fn a_stalled_handshake_is_cut_off() {
    for steps in 0..2 {
        let mut raw = Raw::new(|config| config);
        if steps > 0 {
            raw.say(&Control::Hello(hello("b"))).unwrap();
        }
        // A dribble of bytes does not help.
        let begun = &encoded(&Control::Hello(hello("b")))[..10];
        assert_eq!(raw.host.links.poll_timeout(), Some(raw.now.after(ms(5000))));
        raw.now = raw.now.after(ms(4999));
        raw.host.links.handle_timeout(raw.now);
        raw.bytes(begun).unwrap();
        raw.now = raw.now.after(ms(1));
        raw.host.links.handle_timeout(raw.now);
        let event = raw.host.links.poll_event();
        assert!(matches!(
            event,
            Some(LinkEvent::Close { link, reason: CloseReason::HandshakeTimeout }) if link == raw.link
        ));
        raw.answers.clear();
        raw.flush();
        assert_eq!(raw.said(), [Kind::REFUSED]);
        assert_eq!(raw.host.links.connections.iter().count(), 0);
    }
    // The dialing side too.
    let mut world = World::new(&["a", "b"]);
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.collect(0);
    let (_, dial, _) = world.dials.remove(0);
    world.hosts[0]
        .links
        .dialed(world.now, dial, 1, None)
        .unwrap();
    world.advance(ms(6000));
    assert!(world.is_up(0, 1), "it dials again");
}

#[test]
fn limits_of_connections() {
    let mut world = World::with(&["a", "b"], |_, config| LinkConfig {
        max_links: 3,
        max_handshakes: 2,
        ..config
    });
    let links = &mut world.hosts[0].links;
    let first = links.accepted(world.now, 1, None).unwrap();
    links.accepted(world.now, 1, None).unwrap();
    assert!(links.accepted(world.now, 1, None).is_err());
    // A handshake that ended makes room.
    links.closed(world.now, first);
    assert!(links.accepted(world.now, 1, None).is_ok());
    assert!(links.accepted(world.now, 1, None).is_err());

    // A node with one connection too many.
    let mut world = World::pair_with(|_, config| LinkConfig {
        max_links_per_peer: 1,
        ..config
    });
    world.hosts[1].links.add_seed(world.now, "elsewhere:1");
    world.collect(1);
    let (host, dial, _) = world.dials.remove(0);
    world
        .dials
        .push((host, dial, format!("{}:1", lower_first("a", "b")[0])));
    world.run();
    assert!(
        world.hosts[1]
            .heard
            .contains(&Heard::Refused(true, Refusal::Full))
    );
    assert!(world.is_up(0, 1) && world.is_up(1, 0));
}

#[test]
fn a_full_table_of_peers_makes_room_for_new_ones_where_it_can() {
    let mut world = World::with(&["a", "b", "c", "d"], |host, config| LinkConfig {
        max_peers: if host == 0 { 2 } else { 8 },
        ..config
    });
    for host in 1..4 {
        world.hosts[host].links.add_seed(world.now, "a:1");
    }
    world.run();
    let full = Heard::Refused(true, Refusal::Full);
    assert!(world.hosts[3].heard.contains(&full));
    let (b, now) = (world.node(1), world.now);
    // A member keeps its place without a link, a stranger that may not be forgotten silently does not.
    world.hosts[0]
        .links
        .handle_member(now, b, Incarnation(10), None);
    world.send(2, 0, 0);
    world.run();
    let b_pipe = (0..3)
        .find(|pipe| world.pipes[*pipe].ends[0].0 == 1)
        .unwrap();
    let c_pipe = (0..3)
        .find(|pipe| world.pipes[*pipe].ends[0].0 == 2)
        .unwrap();
    world.unreachable.push("a:1".into());
    world.cut(b_pipe);
    world.cut(c_pipe);
    world.run();
    assert_eq!(world.hosts[0].links.peers().count(), 2);
    world.hosts[2].links.goodbye(world.now);
    world.unreachable.clear();
    world.advance(ms(10_000));
    assert!(world.is_up(0, 3));
}

#[test]
fn malformed_handshakes_are_no_frames() {
    let mut raw = Raw::new(|config| config);
    let mut bytes = encoded(&Control::Hello(hello("b")));
    bytes[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(
        raw.bytes(&bytes),
        Err(LinkFault::Frame(DecodeError::TooLong { .. }))
    ));
    let mut raw = Raw::new(|config| config);
    assert!(
        raw.bytes(b"GET / HTTP/1.1\r\nHost: example.invalid\r\n\r\n")
            .is_err()
    );
}
