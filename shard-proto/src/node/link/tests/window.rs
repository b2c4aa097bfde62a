//! Acknowledgements, windows, chunks, the bound of control.

use super::raw::{Raw, data};
use super::*;
use crate::node::link::{DataError, UnackedFrame};
use crate::wire::Kind;
use crate::wire::control::Ack;

#[test]
fn an_acknowledgement_goes_alone_after_its_delay() {
    let mut raw = Raw::up();
    assert_eq!(raw.data(0).unwrap().len(), 1);
    assert_eq!(raw.data(1).unwrap().len(), 1);
    assert_eq!(raw.said(), [], "it waits for something to travel with");
    assert!(!raw.host.links.flushed(raw.slot()));
    let at = raw.now.after(ms(10));
    assert_eq!(raw.host.links.poll_timeout(), Some(at));
    raw.now = at;
    raw.host.links.handle_timeout(at);
    raw.flush();
    assert_eq!(raw.answers, encoded_ack(2));
    assert!(raw.host.links.flushed(raw.slot()));
}

#[test]
fn an_acknowledgement_travels_with_what_flows_back() {
    let mut raw = Raw::up();
    raw.data(0).unwrap();
    let slot = raw.slot();
    raw.host
        .links
        .data(raw.now, slot, FLOW, 8, |out, slot| put(out, slot, &[0; 8]))
        .unwrap();
    raw.flush();
    assert_eq!(raw.said(), [Kind::ACK, Kind::ENVELOPE]);
    raw.data(1).unwrap();
    let goodbye = Control::StatsQuery(StatsQuery { token: Token(4) });
    assert!(
        raw.host
            .links
            .control(raw.now, slot, TYPE, Term(1), &goodbye)
    );
    raw.flush();
    assert_eq!(raw.said(), [Kind::STATS_QUERY, Kind::ACK]);
}

#[test]
fn an_acknowledgement_does_not_wait_behind_64_kib() {
    let mut raw = Raw::up();
    let frame = 16 * 1024;
    for seq in 0..4 {
        raw.bytes(&data(seq, frame)).unwrap();
        assert_eq!(raw.said().len(), usize::from(seq == 3), "{seq}");
    }
}

fn encoded_ack(next: u64) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    Control::Ack(Ack { lane: 0, next })
        .encode_into(EntityTypeId(0), Term::NONE, 1, &mut bytes)
        .unwrap();
    bytes.to_vec()
}

#[test]
fn only_what_was_sent_can_be_acknowledged() {
    let mut raw = Raw::up();
    let slot = raw.slot();
    raw.host
        .links
        .data(raw.now, slot, FLOW, 8, |out, slot| put(out, slot, &[0; 8]))
        .unwrap();
    raw.flush();
    raw.bytes(&encoded_ack(1)).unwrap();
    assert!(raw.host.links.flushed(slot));
    raw.bytes(&encoded_ack(0)).unwrap();
    assert!(raw.host.links.flushed(slot), "an old one changes nothing");
    let fault = LinkFault::Ack { next: 2, sent: 1 };
    assert_eq!(raw.bytes(&encoded_ack(2)), Err(fault));
    let mut raw = Raw::up();
    assert_eq!(
        raw.say(&Control::Ack(Ack { lane: 1, next: 0 })),
        Err(LinkFault::Lane)
    );
}

#[test]
fn a_full_window_is_said_and_so_is_its_end() {
    for (bytes, frames) in [(1 << 20, 100), (2 << 20, 1 << 20)] {
        let mut world = World::pair_with(|_, config| LinkConfig {
            window_bytes: bytes,
            window_frames: frames,
            ..config
        });
        let size = if frames == 100 { 8 } else { 50_000 };
        let b = world.node(1);
        let slot = world.slot(0, 1).unwrap();
        let mut sent = 0;
        while !world.hosts[0].links.is_congested(slot) {
            world.send_sized(0, 1, sent, size).unwrap();
            sent += 1;
            assert!(sent <= 100);
        }
        assert_eq!(sent, if frames == 100 { 100 } else { 42 });
        world.collect(0);
        assert_eq!(
            world.hosts[0].heard.last(),
            Some(&Heard::Congested(b, true))
        );
        // It can be exceeded, for what may not wait, up to four times.
        while world.send_sized(0, 1, sent, size).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, if frames == 100 { 400 } else { 168 });
        assert_eq!(world.send_sized(0, 1, 0, size), Err(DataError::Full));
        // What goes back has room for as much again, which is what the peer can have sent.
        while world.send_back_sized(0, 1, sent, size).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, if frames == 100 { 800 } else { 336 });
        world.collect(0);
        let told = world.hosts[0].heard.len();
        world.advance(ms(20));
        assert_eq!(world.hosts[0].heard[told..], [Heard::Congested(b, false)]);
        assert_eq!(world.hosts[1].from(world.node(0)), numbers(sent));
    }
}

#[test]
fn congestion_that_nobody_polls_does_not_queue_up() {
    let mut world = World::pair_with(|_, config| LinkConfig {
        window_frames: 4,
        ..config
    });
    let (b, slot) = (world.node(1), world.slot(0, 1).unwrap());
    for round in 0..10u64 {
        for number in 0..4 {
            world.send(0, 1, round * 4 + number);
        }
        // The bytes go, the events stay.
        let links = &mut world.hosts[0].links;
        assert!(links.is_congested(slot));
        let link = links.poll_dirty().unwrap();
        while links.poll_transmit(link).is_some() {}
        let ack = encoded_ack(round * 4 + 4);
        let mut buf = BytesMut::from(ack.as_slice());
        assert_eq!(
            links.read(world.now, link, StreamIndex::CONTROL, &mut buf),
            Ok(None)
        );
        assert!(!links.is_congested(slot));
    }
    assert_eq!(world.hosts[0].links.congestion.len(), 1);
    assert!(world.hosts[0].links.poll_event().is_none());
    for number in 0..4 {
        world.send(0, 1, number);
    }
    world.collect(0);
    assert_eq!(
        world.hosts[0].heard.last(),
        Some(&Heard::Congested(b, true))
    );
}

#[test]
fn a_frame_that_is_too_long_leaves_nothing_behind() {
    let limit = 1 << 20;
    let mut world = World::pair_with(|_, config| LinkConfig {
        max_message: limit as u32,
        ..config
    });
    world.send(0, 1, 0);
    assert!(matches!(
        world.send_sized(0, 1, 1, limit + 64),
        Err(DataError::Write(EncodeError::TooLong { .. }))
    ));
    // A writer that does not look at the limit.
    let slot = world.slot(0, 1).unwrap();
    let careless = world.hosts[0]
        .links
        .data(world.now, slot, FLOW, 8, |out, mut slot| {
            slot.max_body = u32::MAX;
            put(out, slot, &vec![0; limit + 64])
        });
    assert!(
        matches!(careless, Err(DataError::TooLarge { size, limit: l }) if size > l && l == limit + 64)
    );
    let failing = world.hosts[0]
        .links
        .data(world.now, slot, FLOW, 8, |out, _| {
            out.extend_from_slice(b"half a frame");
            Err("no encoding")
        });
    assert_eq!(failing, Err(DataError::Write("no encoding")));
    world.send(0, 1, 1);
    world.send_sized(0, 1, 2, limit).unwrap();
    world.send(0, 1, 3);
    world.run();
    assert_eq!(world.hosts[1].from(world.node(0)), numbers(4));
}

#[test]
fn the_shorter_limit_of_both_counts() {
    // A shorter limit of frames is no limit of messages.
    let mut world = World::with(&lower_first("a", "b"), |host, config| LinkConfig {
        max_frame: if host == 0 { 1 << 20 } else { 1 << 16 },
        fragment: if host == 0 { 1 << 20 } else { 1 << 16 },
        ..config
    });
    world.introduce(0, 1);
    for (number, size) in [(0, 70_000), (1, 8), (2, 400_000), (3, 8)] {
        world.send_sized(0, 1, number, size).unwrap();
    }
    world.run();
    assert_eq!(world.hosts[1].from(world.node(0)), numbers(4));

    let mut world = World::pair_with(|host, config| LinkConfig {
        max_message: if host == 0 { 1 << 20 } else { 1 << 16 },
        ..config
    });
    assert!(world.send_sized(0, 1, 0, 70_000).is_err());
    world.send(0, 1, 0);
    world.run();
    assert_eq!(world.hosts[1].from(world.node(0)), [0]);

    // Too long already for the limit that the handshake reveals.
    let mut world = World::with(&lower_first("a", "b"), |host, config| LinkConfig {
        max_message: if host == 0 { 1 << 20 } else { 1 << 16 },
        ..config
    });
    world.introduce(0, 1);
    world.send_sized(0, 1, 0, 70_000).unwrap();
    world.run();
    assert!(
        world.hosts[0]
            .heard
            .contains(&Heard::Fault(LinkFault::FrameLimit))
    );
}

#[test]
fn frames_are_gathered_in_chunks() {
    let mut world = World::pair();
    world.hosts[0].chunks.clear();
    for number in 0..10_000 {
        world.send(0, 1, number);
    }
    world.collect(0);
    let host = &world.hosts[0];
    let bytes: usize = host.chunks.iter().sum();
    assert!(bytes > 400_000);
    assert!(host.chunks.len() <= bytes / 65_000 + 1, "{:?}", host.chunks);
    assert!(host.chunks.iter().all(|chunk| *chunk <= 64 << 10));
    world.advance(ms(20));
    assert_eq!(world.hosts[1].from(world.node(0)), numbers(10_000));
}

#[test]
fn control_has_a_bound_and_goes_first() {
    let mut world = World::pair();
    world.send(0, 1, 0);
    let mut taken = 0;
    while world.control(0, 1, taken) {
        taken += 1;
    }
    assert!((5_000..20_000).contains(&taken), "{taken}");
    assert_eq!(world.hosts[0].links.stats().control_dropped, 1);
    world.hosts[0].chunks.clear();
    world.collect(0);
    assert!(world.hosts[0].chunks[0] >= 256 << 10);
    world.run();
    assert_eq!(world.hosts[1].control, numbers(taken));
    assert_eq!(world.hosts[1].from(world.node(0)), [0]);
}

#[test]
fn unacknowledged_frames_can_be_read() {
    let mut world = World::pair();
    for number in 0..3 {
        world.send(0, 1, number);
    }
    let (b, now) = (world.node(1), world.now);
    let links = &mut world.hosts[0].links;
    links.handle_removed(now, b, Incarnation(10), RemovalCause::Down);
    let unacked = core::iter::from_fn(|| links.poll_event())
        .find_map(|event| match event {
            LinkEvent::PairEnded { unacked, .. } => Some(unacked),
            _ => None,
        })
        .unwrap();
    let frames: Vec<UnackedFrame> = unacked.collect();
    assert_eq!(frames.len(), 3);
    for (frame, expected) in frames.iter().zip(0..) {
        assert_eq!(frame.header.kind, Kind::ENVELOPE);
        assert_eq!(frame.header.entity_type, TYPE);
        assert_eq!(number(&frame.body), expected);
        assert!(!frame.sent, "it never got to a connection");
    }
}
