//! What long messages cost the others on the same connection.

use bytes::Bytes;

use super::*;

const LONG: ShardId = ShardId(4);
const OTHER: ShardId = ShardId(5);
const MIB: usize = 1 << 20;

fn pair(fragment: u32, window: u32) -> World {
    World::pair_with(|_, config| LinkConfig {
        fragment,
        window_bytes: window,
        max_frame: config.max_frame.max(fragment),
        ..config
    })
}

fn fits(world: &mut World, size: usize) -> bool {
    world.send_to(0, 1, OTHER, 0, size).is_ok()
}

/// Whether it travels in one frame or in pieces.
#[test]
fn one_longest_message_refuses_nothing_else() {
    for fragment in [64 << 10, 64 << 20] {
        let mut world = pair(fragment, 512 << 10);
        world.send_to(0, 1, LONG, 0, 63 * MIB).unwrap();
        // Nothing of it is given out, some of it is, all of it is.
        for round in 0..3 {
            assert!(fits(&mut world, 8) && fits(&mut world, 10_000), "{round}");
            let peer = world.slot(0, 1).unwrap();
            assert!(!world.hosts[0].links.is_congested(peer));
            world.collect(0);
            if round == 1 {
                world.arrive(0, 1, MIB);
                world.collect(1);
                world.arrive(0, 0, usize::MAX);
            }
        }
        // There is an end to it.
        let more = (0..1000).filter(|_| fits(&mut world, 60_000)).count();
        assert!(more < 100, "{fragment}: {more}");
        world.run();
        assert_eq!(world.hosts[1].by_shard[&(world.node(0), LONG.0)], [0]);
    }
}

fn shared(world: &mut World, number: u64, payload: &Bytes) {
    let peer = world.slot(0, 1).unwrap();
    let flow = Flow::shard(TYPE, LONG);
    let (now, links) = (world.now, &mut world.hosts[0].links);
    assert_eq!(payload[..8], number.to_le_bytes());
    links
        .data_shared(now, peer, flow, false, payload.clone(), |out, slot| {
            put_to(out, slot, LONG, &[])
        })
        .unwrap();
}

fn payload(number: u64, size: usize) -> Bytes {
    let mut payload = vec![number as u8; size];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    payload.into()
}

/// The same bytes arrive, in order with others, and are there no longer than until they are acknowledged.
#[test]
fn a_payload_is_sent_from_where_it_is() {
    for size in [1000, 1001, 5000, 100_000] {
        let mut world = pair(1000, 4 << 20);
        let payloads = [0, 2].map(|number| payload(number, size));
        shared(&mut world, 0, &payloads[0]);
        world.send_to(0, 1, LONG, 1, 10).unwrap();
        shared(&mut world, 2, &payloads[1]);
        world.send_to(0, 1, LONG, 3, 3000).unwrap();
        assert!(!payloads[0].is_unique());
        world.run();
        world.advance(ms(20));
        assert_eq!(world.hosts[1].received[&world.node(0)], numbers(4));
        assert!(payloads.iter().all(Bytes::is_unique));
    }
}

/// It is told whole when the pair ends: never given out, in part, or all of it.
#[test]
fn a_payload_that_is_not_acknowledged_is_told() {
    for collected in [false, true] {
        for size in [1000, 200_000] {
            let mut world = pair(1000, 4 << 20);
            shared(&mut world, 7, &payload(7, size));
            if collected {
                world.collect(0);
            }
            let (now, other) = (world.now, world.node(1));
            let links = &mut world.hosts[0].links;
            links.handle_removed(now, other, Incarnation(10), RemovalCause::Down);
            world.collect(0);
            let ended = world.hosts[0].heard.iter().find_map(|heard| match heard {
                Heard::Ended(_, _, _, unacked) => Some(unacked.clone()),
                _ => None,
            });
            assert_eq!(ended, Some(vec![(7, collected)]));
        }
    }
}

#[test]
fn a_payload_that_is_too_long_changes_nothing() {
    let mut world = pair(1000, 4 << 20);
    let peer = world.slot(0, 1).unwrap();
    let flow = Flow::shard(TYPE, LONG);
    let (now, links) = (world.now, &mut world.hosts[0].links);
    let long = Bytes::from(vec![0; 65 * MIB]);
    let sent = links.data_shared(now, peer, flow, false, long, |out, slot| {
        put_to(out, slot, LONG, &[])
    });
    assert!(matches!(
        sent,
        Err(super::super::DataError::TooLarge { .. })
    ));
    world.send_to(0, 1, LONG, 0, 10).unwrap();
    world.run();
    assert_eq!(world.hosts[1].received[&world.node(0)], [0]);
}

/// Longest delays, in microseconds, of control and of short data beside a message of `long` bytes, over a connection
/// that carries 100 bytes a microsecond, of which nothing is buffered, and back at once.
fn delays(fragment: u32, long: usize) -> (u64, u64) {
    let mut world = pair(fragment, 4 << 20);
    let link = world.pipes[0].ends[0].1;
    if long > 0 {
        world.send_to(0, 1, LONG, 0, long).unwrap();
    }
    let (mut control, mut short) = (0, 0);
    let (mut asked, mut number) = (world.now, 0);
    // Both are written just behind what was given out; the next of each when this one has arrived.
    let mut waiting = [false; 2];
    for _ in 0..4000 {
        let Some(bytes) = world.hosts[0].links.poll_stream(link, StreamIndex::CONTROL) else {
            if waiting == [false; 2] && number > 0 {
                break;
            }
            waiting = [true; 2];
            asked = world.now;
            world.control(0, 1, number);
            world.send_to(0, 1, OTHER, number, 8).unwrap();
            number += 1;
            continue;
        };
        // While it travels, they are written.
        if waiting == [false; 2] {
            waiting = [true; 2];
            asked = world.now;
            world.control(0, 1, number);
            world.send_to(0, 1, OTHER, number, 8).unwrap();
            number += 1;
        }
        world.pipes[0].flight[1].extend(bytes.iter());
        world.now = world
            .now
            .after(Duration::from_micros(bytes.len() as u64 / 100));
        world.arrive(0, 1, usize::MAX);
        world.collect(1);
        world.arrive(0, 0, usize::MAX);
        let took = world.now.as_micros() - asked.as_micros();
        if waiting[0] && world.hosts[1].control.len() as u64 == number {
            waiting[0] = false;
            control = control.max(took);
        }
        let key = (world.node(0), OTHER.0);
        let got = world.hosts[1].by_shard.get(&key).map_or(0, Vec::len);
        if waiting[1] && got as u64 == number {
            waiting[1] = false;
            short = short.max(took);
        }
        if waiting == [false; 2] && long == 0 && number > 100 {
            break;
        }
    }
    (control, short)
}

/// Control, beats among it, is never behind more than one fragment; short data is not behind more than two. In one
/// frame the message holds up both for as long as it takes.
#[test]
fn control_is_behind_one_fragment_at_most() {
    let one = |bytes: usize| bytes as u64 / 100;
    let fragment = 64 << 10;
    let (control, short) = delays(fragment, 63 * MIB);
    let (whole_control, whole_short) = delays(64 << 20, 63 * MIB);
    std::println!("control {control} and {whole_control} µs, short {short} and {whole_short} µs");
    let around = one(1000);
    assert!(control <= one(64 << 10) + around, "{control}");
    assert!(short <= 2 * one(64 << 10) + 2 * around, "{short}");
    assert!(whole_control >= one(63 * MIB) && whole_short >= one(63 * MIB));
}
