//! What comes in is bounded, checked, and never trusted about its sender.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use foca::{Codec, Header, Member, Message, State};
use proptest::prelude::*;

use super::world::{World, identity, ms, node};
use crate::membership::{MemberChange, RemovalCause, Roles};
use crate::node::swim::codec::{SwimCodec, take_packet};
use crate::node::swim::{Swim, SwimConfig, SwimError, SwimEvent, SwimIdentity};
use crate::{Incarnation, Instant};

const NOW: Instant = Instant::from_micros(5);

fn swim(config: SwimConfig) -> Swim {
    Swim::new(NOW, identity(0, 1_000), config, 1).unwrap()
}

fn header(message: Message<SwimIdentity>) -> Header<SwimIdentity> {
    Header {
        src: identity(1, 1_001),
        src_incarnation: 3,
        dst: identity(0, 1_000),
        message,
    }
}

fn packet(message: Message<SwimIdentity>, members: &[Member<SwimIdentity>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    SwimCodec
        .encode_header(&header(message), &mut bytes)
        .unwrap();
    if !members.is_empty() {
        bytes.extend_from_slice(&(members.len() as u16).to_be_bytes());
        for member in members {
            SwimCodec.encode_member(member, &mut bytes).unwrap();
        }
    }
    bytes
}

fn hear(swim: &mut Swim, bytes: &[u8]) -> Result<(), SwimError> {
    swim.handle_packet(NOW, node(1), Incarnation(1_001), bytes)
}

fn messages() -> Vec<Message<SwimIdentity>> {
    let (target, origin) = (identity(7, 70), identity(8, 80));
    let probe_number = 9;
    alloc::vec![
        Message::Ping(1),
        Message::Ack(2),
        Message::PingReq {
            target: target.clone(),
            probe_number
        },
        Message::IndirectPing {
            origin: origin.clone(),
            probe_number
        },
        Message::IndirectAck {
            target,
            probe_number
        },
        Message::ForwardedAck {
            origin,
            probe_number
        },
        Message::Announce,
        Message::Feed,
        Message::Gossip,
        Message::TurnUndead,
    ]
}

#[test]
fn packets_come_back_as_they_were() {
    for message in messages() {
        let (read, members) = take_packet(&packet(message.clone(), &[])).unwrap();
        assert_eq!(read, header(message));
        assert!(members.is_empty());
        assert_eq!(read.src.name(), "node-1");
        assert_eq!(read.src.address(), "127.0.0.1:9001");
        assert_eq!(read.src.roles(), identity(1, 0).roles());
    }
    let sent = [State::Alive, State::Suspect, State::Down]
        .map(|state| Member::new(identity(4, 9), 7, state));
    let (_, members) = take_packet(&packet(Message::Gossip, &sent)).unwrap();
    assert_eq!(members, sent);
}

#[test]
fn the_bytes_of_a_ping() {
    let id = SwimIdentity::new("n", Incarnation(2), "a:1", Roles::NONE).unwrap();
    let header = Header {
        src: id.clone(),
        src_incarnation: 3,
        dst: id,
        message: Message::Ping(4),
    };
    let mut bytes = Vec::new();
    SwimCodec.encode_header(&header, &mut bytes).unwrap();
    let id = "0200000000000000 0000 00 00000000000000000000000000000000 01 6e 0300 613a31";
    let expected: String = format!("{id} 0300 {id} 00 04").replace(' ', "");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected);
}

#[test]
fn shortened_and_lengthened_packets_are_refused() {
    let member = Member::new(identity(4, 9), 7, State::Alive);
    for message in messages() {
        let carries = !matches!(message, Message::Announce | Message::TurnUndead);
        let members = if carries {
            alloc::vec![member.clone(); 2]
        } else {
            Vec::new()
        };
        let whole = packet(message.clone(), &members);
        let bare = packet(message, &[]).len();
        for len in (0..whole.len()).filter(|len| *len != bare) {
            let mut swim = swim(SwimConfig::new());
            assert_eq!(hear(&mut swim, &whole[..len]), Err(SwimError::Malformed));
            assert_eq!(swim.poll_event(), None);
        }
        for extra in [&[0][..], &[0; 2], &[0, 1, 9]] {
            if whole.len() == bare && extra == [0; 2] && carries {
                continue;
            }
            let mut longer = whole.clone();
            longer.extend_from_slice(extra);
            let mut swim = swim(SwimConfig::new());
            assert_eq!(hear(&mut swim, &longer), Err(SwimError::Malformed));
        }
    }
    let mut swim = swim(SwimConfig::new());
    assert_eq!(hear(&mut swim, &[0; 1_401]), Err(SwimError::Malformed));
}

#[test]
fn the_sender_is_the_link_s_peer() {
    let mut swim = swim(SwimConfig::new());
    let ping = packet(Message::Ping(1), &[]);
    let from = |swim: &mut Swim, i, incarnation| {
        swim.handle_packet(NOW, node(i), Incarnation(incarnation), &ping)
    };
    assert_eq!(from(&mut swim, 2, 1_001), Err(SwimError::Sender));
    assert_eq!(from(&mut swim, 1, 1_000), Err(SwimError::Sender));
    assert_eq!(from(&mut swim, 1, 1_002), Err(SwimError::Sender));
    assert_eq!(swim.poll_event(), None);
    assert_eq!(from(&mut swim, 1, 1_001), Ok(()));
    assert!(matches!(swim.poll_event(), Some(SwimEvent::Send { .. })));
    assert!(matches!(swim.poll_event(), Some(SwimEvent::Change { .. })));

    // Nor does it pass as this node itself.
    let mut header = header(Message::Ping(1));
    header.src = identity(0, 1_000);
    let mut bytes = Vec::new();
    SwimCodec.encode_header(&header, &mut bytes).unwrap();
    let result = swim.handle_packet(NOW, node(0), Incarnation(1_000), &bytes);
    assert_eq!(result, Err(SwimError::Sender));
}

#[test]
fn nobody_makes_a_node_dial_strangers() {
    let mut swim = swim(SwimConfig::new());
    hear(&mut swim, &packet(Message::Gossip, &[])).unwrap();
    while swim.poll_event().is_some() {}
    let probe_number = 1;
    for id in [identity(7, 70), identity(0, 1_000)] {
        let (target, origin) = (id.clone(), id.clone());
        for message in [
            Message::PingReq {
                target: target.clone(),
                probe_number,
            },
            Message::IndirectPing {
                origin: origin.clone(),
                probe_number,
            },
            Message::IndirectAck {
                target,
                probe_number,
            },
            Message::ForwardedAck {
                origin,
                probe_number,
            },
        ] {
            let expected = match id.node() == node(0) {
                true => Err(SwimError::Malformed),
                false => Ok(()),
            };
            assert_eq!(hear(&mut swim, &packet(message, &[])), expected);
            assert_eq!(swim.poll_event(), None);
        }
    }
}

#[test]
fn invented_nodes_do_not_fill_the_memory() {
    let mut swim = swim(SwimConfig::new().with_max_members(20));
    let mut full = 0;
    for i in 0..200 {
        let members: Vec<_> = (0..5)
            .map(|j| Member::new(identity(100 + i * 5 + j, 1), 0, State::Alive))
            .collect();
        match hear(&mut swim, &packet(Message::Gossip, &members)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, SwimError::Full);
                full += 1;
            }
        }
    }
    assert_eq!(full, 197);
    while swim.poll_event().is_some() {}
    assert_eq!(swim.members().count(), 16);
    // Those it knows are heard.
    assert_eq!(hear(&mut swim, &packet(Message::Ping(1), &[])), Ok(()));
}

#[test]
fn packets_that_nobody_takes_do_not_pile_up() {
    let mut swim = swim(SwimConfig::new());
    for _ in 0..20_000 {
        hear(&mut swim, &packet(Message::Ping(1), &[])).unwrap();
    }
    let events = core::iter::from_fn(|| swim.poll_event()).count();
    assert!(events <= 4_097, "{events}");
}

#[test]
fn a_newer_life_of_this_node_ends_this_one() {
    let mut swim = swim(SwimConfig::new());
    let newer = Member::new(identity(0, 2_000), 0, State::Alive);
    hear(&mut swim, &packet(Message::Gossip, &[newer])).unwrap();
    assert_eq!(
        swim.poll_event(),
        Some(SwimEvent::Defunct(RemovalCause::Replaced))
    );
    assert_eq!(swim.poll_event(), None);
    assert_eq!(swim.poll_timeout(), None);
    hear(&mut swim, &packet(Message::Ping(1), &[])).unwrap();
    assert_eq!(swim.poll_event(), None);
}

#[test]
fn a_removed_life_is_not_readmitted_by_old_news() {
    let mut world = World::cluster(5, 4, SwimConfig::lan());
    world.run(ms(2_000));
    world.hosts[3].alive = false;
    world.run(ms(3_000));
    let dead = identity(3, 1_003);
    let alive = Member::new(dead, u16::MAX - 1, State::Alive);
    let mut bytes = Vec::new();
    let header = Header {
        src: identity(1, 1_001),
        src_incarnation: 0,
        dst: identity(0, 1_000),
        message: Message::Gossip,
    };
    SwimCodec.encode_header(&header, &mut bytes).unwrap();
    bytes.extend_from_slice(&1u16.to_be_bytes());
    SwimCodec.encode_member(&alive, &mut bytes).unwrap();
    // A day later the library has forgotten it.
    for days in 0..2 {
        let before = world.hosts[0].changes.len();
        world.call(0, |swim, now| {
            swim.handle_packet(now, node(1), Incarnation(1_001), &bytes)
                .unwrap();
        });
        assert_eq!(world.hosts[0].changes.len(), before, "day {days}");
        world.run(ms(1_000));
        world.now += 25 * 3_600 * 1_000_000 * u64::from(days == 0);
        world.run(ms(30_000));
    }
    let comes_back = |(_, change): &(_, MemberChange)| matches!(change, MemberChange::Member(member) if member.node == node(3));
    let came = world.hosts[0]
        .changes
        .iter()
        .filter(|change| comes_back(change));
    assert!(came.count() <= 2, "up, unreachable");
}

#[test]
fn identities_have_limits() {
    let new = |name: &str, address: &str| {
        SwimIdentity::new(name, Incarnation(1), address, Roles::NONE).map_err(|error| error.field)
    };
    assert!(new("n", "").is_ok());
    assert!(new(&"n".repeat(255), &"a".repeat(105)).is_ok());
    assert_eq!(new("", "a").unwrap_err(), "name");
    assert_eq!(new(&"n".repeat(256), "").unwrap_err(), "name");
    assert_eq!(new("n", &"a".repeat(360)).unwrap_err(), "address");
}

#[test]
fn settings_name_the_field() {
    let config = SwimConfig::new();
    assert!(config.validate().is_ok());
    assert!(SwimConfig::lan().validate().is_ok());
    let cases = [
        (config.with_probe_rtt(ms(0)), "probe_rtt"),
        (config.with_probe_rtt(ms(500)), "probe_period"),
        (config.with_suspicion(ms(0)), "suspicion"),
        (config.with_gossip(ms(0)), "gossip"),
        (config.with_announce(ms(0)), "announce"),
        (config.with_heal(Some(ms(0))), "heal"),
        (config.with_max_members(0), "max_members"),
    ];
    for (config, field) in cases {
        assert_eq!(config.validate().unwrap_err().field, field);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::testing::cases(512), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_is_an_error(bytes in prop::collection::vec(any::<u8>(), 0..1_500)) {
        let mut swim = swim(SwimConfig::new());
        prop_assert!(hear(&mut swim, &bytes).is_err());
    }

    #[test]
    fn flipped_bytes_do_no_harm(
        which in 0usize..10,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let message = messages().swap_remove(which);
        let members = if matches!(message, Message::Announce | Message::TurnUndead) {
            Vec::new()
        } else {
            alloc::vec![
                Member::new(identity(4, 9), 7, State::Alive),
                Member::new(identity(0, 1_000), 7, State::Suspect),
                Member::new(identity(1, 1_001), 7, State::Down),
            ]
        };
        let mut bytes = packet(message, &members);
        for (at, flip) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
        }
        let mut swim = swim(SwimConfig::lan());
        for _ in 0..3 {
            let _ = hear(&mut swim, &bytes);
            while swim.poll_event().is_some() {}
        }
        let mut now = NOW;
        for _ in 0..50 {
            let Some(at) = swim.poll_timeout() else { break };
            prop_assert!(at >= now);
            now = at;
            swim.handle_timeout(now);
            while swim.poll_event().is_some() {}
        }
    }

    #[test]
    fn gossip_of_any_kind_keeps_the_rules(
        news in prop::collection::vec((1usize..5, 1_000u64..1_004, 0u16..3, 0u8..3), 0..40),
    ) {
        let mut swim = swim(SwimConfig::lan());
        let mut now = NOW;
        let mut ended = alloc::collections::BTreeMap::new();
        for (i, incarnation, version, state) in news {
            let state = [State::Alive, State::Suspect, State::Down][usize::from(state)];
            let member = Member::new(identity(i, incarnation), version, state);
            let _ = swim.handle_packet(now, node(1), Incarnation(1_001), &packet(Message::Gossip, &[member]));
            now = now.after(ms(100));
            swim.handle_timeout(now);
            while let Some(event) = swim.poll_event() {
                match event {
                    SwimEvent::Change { change: MemberChange::Member(member), .. } => {
                        let old = ended.get(&member.node).copied();
                        prop_assert!(old.is_none_or(|old| old < member.incarnation));
                    }
                    SwimEvent::Change { change: MemberChange::Removed { node, incarnation, .. }, .. } => {
                        let old = ended.insert(node, incarnation);
                        prop_assert!(old.is_none_or(|old| old < incarnation));
                    }
                    SwimEvent::Send { packet, .. } => {
                        prop_assert!(take_packet(&packet).is_ok());
                        let _: Bytes = packet;
                    }
                    SwimEvent::Defunct(_) => {}
                }
            }
        }
    }
}
