//! Peers that break the protocol.

use super::raw::{Raw, data, encoded};
use super::*;
use crate::wire::control::KeepAlive;
use crate::wire::{DecodeError, Kind};

fn is_down(raw: &mut Raw, fault: LinkFault) {
    let node = hash::node_id("b");
    let reason = CloseReason::Error(fault);
    let mut downs = 0;
    while let Some(event) = raw.host.links.poll_event() {
        match event {
            LinkEvent::Down {
                node: who,
                reason: why,
                ..
            } => {
                assert_eq!((who, why), (node, reason));
                downs += 1;
            }
            LinkEvent::Up { .. } | LinkEvent::Forgotten { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(downs, 1);
    assert_eq!(raw.host.links.stats().faults, 1);
    // The caller was told; there is nothing left to close.
    assert_eq!(raw.host.links.connections.iter().count(), 0);
}

#[test]
fn garbage_and_oversized_frames() {
    let oversized = {
        let mut bytes = data(0, 8);
        bytes[16..20].copy_from_slice(&((1u32 << 20) + 1).to_le_bytes());
        bytes
    };
    let long_control = {
        let mut bytes = encoded(&Control::KeepAlive(KeepAlive { leaving: false }));
        bytes[16..20].copy_from_slice(&((64u32 << 10) + 1).to_le_bytes());
        bytes
    };
    let mut future = data(0, 8);
    future[0] = 99;
    let flagged = {
        let mut bytes = data(0, 8);
        bytes[2] = 0xff;
        bytes
    };
    let noise = BytesMut::from([0xA5u8; 64].as_slice());
    for bytes in [oversized, long_control, future, flagged, noise] {
        let mut raw = Raw::up();
        let Err(fault @ LinkFault::Frame(_)) = raw.bytes(&bytes) else {
            panic!("{bytes:?} was taken");
        };
        is_down(&mut raw, fault);
    }
}

#[test]
fn bodies_that_do_not_decode() {
    let mut keep_alive = encoded(&Control::KeepAlive(KeepAlive { leaving: false }));
    let last = keep_alive.len() - 1;
    keep_alive[last] = 7;
    let mut raw = Raw::up();
    let fault = raw.bytes(&keep_alive).unwrap_err();
    assert!(matches!(fault, LinkFault::Body(_)));
    is_down(&mut raw, fault);

    let mut short = data(0, 8);
    short.truncate(HEADER_LEN + 4);
    short[16..20].copy_from_slice(&4u32.to_le_bytes());
    let mut raw = Raw::up();
    let fault = LinkFault::Body(DecodeError::Truncated);
    assert_eq!(raw.bytes(&short), Err(fault));
    is_down(&mut raw, fault);
}

#[test]
fn a_missing_number_is_a_fault_and_a_known_one_is_dropped() {
    let mut raw = Raw::up();
    for seq in [0, 1, 0, 1, 2, 2] {
        raw.data(seq).unwrap();
    }
    assert_eq!(raw.host.links.stats().duplicates, 3);
    assert_eq!(raw.host.links.stats().data_in, 3);
    let fault = LinkFault::Gap {
        found: 4,
        expected: 3,
    };
    assert_eq!(raw.data(4), Err(fault));
    is_down(&mut raw, fault);
}

#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let mut raw = Raw::up();
    let mut control = encoded(&Control::KeepAlive(KeepAlive { leaving: false }));
    control[1] = 60;
    let mut unknown = data(0, 8);
    unknown[1] = 200;
    let mut bytes = control;
    bytes.extend_from_slice(&unknown);
    bytes.extend_from_slice(&data(1, 8));
    let got = raw.bytes(&bytes).unwrap();
    assert_eq!(got.len(), 1, "the number of an unknown kind counts");
    assert_eq!(raw.host.links.stats().unknown_kinds, 2);
}

#[test]
fn frames_arrive_in_any_pieces() {
    for piece in 1..64 {
        let mut raw = Raw::up();
        let mut bytes = Vec::new();
        for seq in 0..20 {
            bytes.extend_from_slice(&data(seq, 8 + seq as usize));
            bytes.extend_from_slice(&encoded(&Control::StatsQuery(StatsQuery {
                token: Token(seq),
            })));
        }
        let mut got = Vec::new();
        let mut buf = BytesMut::new();
        for part in bytes.chunks(piece) {
            buf.extend_from_slice(part);
            while let Some(incoming) = raw
                .host
                .links
                .read(raw.now, raw.link, StreamIndex::CONTROL, &mut buf)
                .unwrap()
            {
                got.push(incoming);
            }
        }
        assert!(buf.is_empty());
        assert_eq!(got.len(), 40);
        for (seq, pair) in (0..).zip(got.chunks(2)) {
            let [
                Incoming::Data { body, header, .. },
                Incoming::Control {
                    header: control, ..
                },
            ] = pair
            else {
                panic!("{pair:?}");
            };
            assert_eq!(header.kind, Kind::ENVELOPE);
            assert_eq!(control.kind, Kind::STATS_QUERY);
            assert_eq!(number(body), seq);
        }
    }
}

#[test]
fn what_follows_a_fault_is_not_looked_at() {
    let mut world = World::pair();
    let pipe = world.only();
    world.send(1, 0, 0);
    world.collect(1);
    let garbage = [0xffu8; HEADER_LEN];
    world.pipes[pipe].flight[0].extend(garbage);
    world.send(1, 0, 1);
    world.collect(1);
    world.arrive(pipe, 0, usize::MAX);
    assert_eq!(world.hosts[0].from(world.node(1)), [0]);
    // The pair survives the connection.
    world.advance(ms(500));
    assert_eq!(world.hosts[0].from(world.node(1)), [0, 1]);
}

#[test]
fn links_that_are_not_known() {
    let mut raw = Raw::up();
    let gone = raw.link;
    raw.host.links.closed(raw.now, gone);
    raw.host.links.closed(raw.now, gone);
    assert_eq!(raw.data(0), Err(LinkFault::Unknown));
    assert_eq!(raw.host.links.poll_transmit(gone), None);
    let again = raw.host.links.accepted(raw.now, 1, None).unwrap();
    assert_ne!(again, gone, "the place is the same, the id is not");
    assert_eq!(again.index, gone.index);
    assert!(raw.host.links.dialed(raw.now, DialId(77), 1, None).is_err());
    raw.host.links.dial_failed(raw.now, DialId(77));
}
