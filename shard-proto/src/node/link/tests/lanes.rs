//! Lanes: streams that do not wait for one another, what comes before its turn, what does not belong where it is.

use super::raw::{Raw, encoded, hello, welcome};
use super::*;
use crate::hash::SplitMix64;
use crate::wire::control::{Ack, Hello};
use crate::wire::{Flags, Kind};

fn wide(lanes: u8, streams: u8) -> World {
    let mut world = World::with(&lower_first("a", "b"), |_, config| LinkConfig {
        lanes,
        ..config
    });
    world.streams = streams;
    world.introduce(0, 1);
    world
}

fn send(world: &mut World, shard: u32, number: u64) {
    world.send_to(0, 1, ShardId(shard), number, 8).unwrap();
}

fn got(world: &World, shard: u32) -> Vec<u64> {
    let by_shard = &world.hosts[1].by_shard;
    by_shard
        .get(&(world.node(0), shard))
        .cloned()
        .unwrap_or_default()
}

#[test]
fn a_lane_does_not_wait_for_another() {
    let mut world = wide(4, 5);
    world.run();
    for number in 0..10 {
        for shard in 0..8 {
            send(&mut world, shard, number);
        }
    }
    world.control(0, 1, 9);
    world.collect(0);
    // Nothing comes by the streams of control and of lane 1.
    for stream in [1, 3, 4] {
        world.arrive_on(0, 1, stream, usize::MAX);
    }
    for shard in 0..8 {
        let stuck = shard % 4 == 1;
        assert_eq!(got(&world, shard).len(), if stuck { 0 } else { 10 });
    }
    assert_eq!(world.hosts[1].control, []);
    world.arrive(0, 1, usize::MAX);
    assert_eq!(world.hosts[1].control, [9]);
    world.advance(ms(20));
    for shard in 0..8 {
        assert_eq!(got(&world, shard), numbers(10));
    }
    assert!(world.hosts[0].links.flushed(world.slot(0, 1).unwrap()));
}

#[test]
fn control_does_not_wait_behind_data() {
    for streams in [1, 3] {
        let mut world = wide(2, streams);
        world.run();
        for number in 0..1000 {
            send(&mut world, 0, number);
        }
        world.control(0, 1, 9);
        world.collect(0);
        let first = HEADER_LEN + 16;
        world.arrive_on(0, 1, 0, first);
        assert_eq!(world.hosts[1].control, [9]);
        world.run();
        assert_eq!(got(&world, 0), numbers(1000));
    }
}

/// The dialer's data comes before its last word of the handshake.
#[test]
fn data_that_overtakes_the_handshake_waits_for_it() {
    for data_first in [true, false] {
        let mut world = wide(2, 3);
        send(&mut world, 0, 0);
        send(&mut world, 1, 0);
        world.collect(0);
        world.connect(0);
        for end in [1, 0] {
            world.collect(0);
            world.collect(1);
            world.arrive(0, end, usize::MAX);
        }
        world.collect(0);
        assert!(world.is_up(0, 1) && !world.is_up(1, 0));
        if data_first {
            world.arrive_on(0, 1, 1, 30);
            world.arrive_on(0, 1, 2, usize::MAX);
            assert!(!world.pipes[0].lanes[1][&2].1.is_empty(), "it is kept");
        }
        assert_eq!(world.hosts[1].received.len(), 0);
        world.run();
        assert_eq!((got(&world, 0), got(&world, 1)), (vec![0], vec![0]));
        assert!(
            !world.hosts[1]
                .heard
                .iter()
                .any(|heard| matches!(heard, Heard::Fault(_)))
        );
    }
}

/// Any order of the streams' frames, a cut at any moment: each shard's come once, in order.
#[test]
fn lanes_in_any_order_and_cut() {
    for seed in 0..60 {
        let mut rng = SplitMix64::new(seed);
        let (lanes, streams) = ([2, 3, 5][seed as usize % 3], rng.below(2) == 0);
        let mut world = wide(lanes, if streams { 1 + lanes } else { 1 });
        let mut sent = [[0; 6]; 2];
        for step in 0..400 {
            let from = rng.below(2) as usize;
            let shard = rng.below(6) as usize;
            if step < 300 {
                let (to, next) = (ShardId(shard as u32), sent[from][shard]);
                world.send_to(from, 1 - from, to, next, 8).unwrap();
                sent[from][shard] += 1;
            }
            let choices = world.choices();
            if !choices.is_empty() {
                world.choose(choices[rng.below(choices.len() as u64) as usize]);
            }
            if rng.below(40) == 0
                && let [pipe, ..] = world.open()[..]
            {
                world.cut(pipe);
            }
            if rng.below(10) == 0 {
                world.advance_clock(ms(rng.below(300)));
            }
        }
        world.advance(ms(10_000));
        for host in [0, 1] {
            let from = world.node(1 - host);
            for (shard, sent) in (0..).zip(sent[1 - host]) {
                assert_eq!(world.hosts[host].by_shard[&(from, shard)], numbers(sent));
            }
            assert!(
                world.hosts[host]
                    .links
                    .flushed(world.slot(host, 1 - host).unwrap())
            );
        }
    }
}

/// The connection breaks at any byte of any stream.
#[test]
fn a_cut_at_every_byte_of_every_stream() {
    let each = 74;
    for stream in 1..=3 {
        for cut in 0..4 * each {
            let mut world = wide(3, 4);
            world.run();
            for number in 0..4 {
                for shard in 0..3 {
                    send(&mut world, shard, number);
                }
            }
            world.collect(0);
            world.arrive_on(0, 1, stream, cut);
            world.collect(1);
            world.cut(0);
            world.advance(ms(200));
            for shard in 0..3 {
                assert_eq!(got(&world, shard), numbers(4), "{stream} {cut}");
            }
        }
    }
}

/// The other side has fewer lanes: what waited before that was known moves, in order.
#[test]
fn the_fewer_lanes_of_both_count() {
    for (ours, theirs) in [(4, 1), (4, 3), (1, 4), (2, 2)] {
        let mut world = World::with(&lower_first("a", "b"), |host, config| LinkConfig {
            lanes: if host == 0 { ours } else { theirs },
            ..config
        });
        world.introduce(0, 1);
        for number in 0..20 {
            for shard in 0..7 {
                send(&mut world, shard, number);
            }
        }
        // One that is longer than a fragment, and more behind it.
        world.send_to(0, 1, ShardId(5), 20, 300_000).unwrap();
        send(&mut world, 5, 21);
        world.run();
        let slot = world.slot(0, 1).unwrap();
        let lanes = world.hosts[0].links.peers.get(slot).unwrap().lanes.len();
        assert_eq!(lanes, usize::from(ours.min(theirs)));
        for shard in 0..7 {
            assert_eq!(
                got(&world, shard),
                numbers(if shard == 5 { 22 } else { 20 })
            );
        }
        // And for good.
        world.cut(0);
        send(&mut world, 6, 20);
        world.advance(ms(500));
        assert_eq!(got(&world, 6), numbers(21));
    }
}

#[test]
fn a_pair_keeps_its_lanes() {
    let mut raw = Raw::up_with(|config| LinkConfig { lanes: 3, ..config });
    raw.data(0).unwrap();
    raw.link = raw.host.links.accepted(raw.now, 1, None).unwrap();
    let more = Hello {
        lanes: 2,
        ..hello("b")
    };
    raw.say(&Control::Hello(more)).unwrap();
    assert_eq!(raw.say(&welcome(&[0; 16])), Err(LinkFault::Handshake));
    // A list that is shorter than the lanes is none.
    raw.link = raw.host.links.accepted(raw.now, 1, None).unwrap();
    raw.say(&Control::Hello(hello("b"))).unwrap();
    assert_eq!(raw.say(&welcome(&[0; 7])), Err(LinkFault::Handshake));
}

#[test]
fn room_for_partial_messages_bounds_the_lanes() {
    let lanes = |max_message, max_partial| {
        let mut raw = Raw::new(|config| LinkConfig {
            lanes: 8,
            max_message,
            max_partial,
            ..config
        });
        raw.say(&Control::Hello(hello("b"))).unwrap();
        let Ok(crate::wire::Decoded::Frame(frame)) = crate::wire::Frame::decode(&raw.answers, 9)
        else {
            panic!("no hello");
        };
        let Ok(Control::Hello(hello)) = frame.control() else {
            panic!("no hello");
        };
        hello.lanes
    };
    assert_eq!(lanes(1 << 20, 8 << 20), 8);
    assert_eq!(lanes(1 << 20, (3 << 20) + 5), 3);
    assert_eq!(lanes(1 << 20, 1 << 20), 1);
}

#[test]
fn what_comes_by_the_wrong_stream_is_refused() {
    let up = |streams| {
        let mut raw = Raw::new(|config| LinkConfig { lanes: 2, ..config });
        raw.link = raw.host.links.accepted(raw.now, streams, None).unwrap();
        let hello = Hello {
            lanes: 2,
            ..hello("b")
        };
        raw.say(&Control::Hello(hello)).unwrap();
        raw.say(&welcome(&[0; 16])).unwrap();
        raw
    };
    let data = |lane: u8| {
        let mut bytes = raw::data(0, 8);
        bytes[3] = lane;
        bytes
    };
    // Streams, the lane that the frame names, the stream it comes by.
    for (streams, lane, stream, right) in [
        (3, 0, 1, true),
        (3, 1, 2, true),
        (3, 0, 0, false),
        (3, 0, 2, false),
        (3, 2, 1, false),
        (1, 0, 0, true),
        (1, 1, 0, true),
        (1, 2, 0, false),
        (1, 255, 0, false),
    ] {
        let mut raw = up(streams);
        let read = raw.bytes_on(stream, &data(lane));
        match right {
            true => assert_eq!(read.unwrap().len(), 1),
            false => assert_eq!(read, Err(LinkFault::Lane), "{streams} {lane} {stream}"),
        }
    }
    let query = encoded(&Control::StatsQuery(StatsQuery { token: Token(1) }));
    assert_eq!(up(3).bytes_on(1, &query), Err(LinkFault::Lane));
    let mut raw = up(3);
    assert_eq!(raw.say(&Control::Ack(Ack { lane: 1, next: 0 })), Ok(vec![]));
    let unknown = Control::Ack(Ack { lane: 2, next: 0 });
    assert_eq!(raw.say(&unknown), Err(LinkFault::Lane));
    // Fewer streams than lanes.
    let mut raw = Raw::new(|config| LinkConfig { lanes: 4, ..config });
    raw.link = raw.host.links.accepted(raw.now, 3, None).unwrap();
    let four = Hello {
        lanes: 4,
        ..hello("b")
    };
    assert_eq!(raw.say(&Control::Hello(four)), Err(LinkFault::Lane));
}

/// Each lane's acknowledgement is told, whichever stream the data came by.
#[test]
fn lanes_are_acknowledged_each() {
    let mut world = wide(3, 4);
    world.run();
    for shard in [0, 2, 2] {
        send(&mut world, shard, 0);
    }
    world.collect(0);
    world.arrive_on(0, 1, 3, usize::MAX);
    world.hosts[1].links.handle_timeout(world.now.after(ms(10)));
    world.collect(1);
    world.arrive(0, 0, usize::MAX);
    let slot = world.slot(0, 1).unwrap();
    assert!(
        !world.hosts[0].links.flushed(slot),
        "lane 0 is not acknowledged"
    );
    world.advance(ms(30));
    assert!(world.hosts[0].links.flushed(slot));
}

/// The kinds of control are those of one stream, whatever the flags of a lane.
#[test]
fn control_has_no_lane() {
    let mut bytes = encoded(&Control::StatsQuery(StatsQuery { token: Token(1) }));
    bytes[3] = 1;
    let mut raw = Raw::up();
    let found = Flags::NONE.on_lane(1).to_bits();
    let fault = LinkFault::Frame(crate::wire::DecodeError::Flags { found });
    assert_eq!(raw.bytes(&bytes), Err(fault));
    assert_eq!(raw.said(), [] as [Kind; 0]);
}
