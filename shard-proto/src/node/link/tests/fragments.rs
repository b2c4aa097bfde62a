//! Long messages: cut, interleaved, put together again; and fragments that nobody should send.

use super::raw::{Raw, data};
use super::*;
use crate::node::link::UnackedFrame;
use crate::wire::{DecodeError, Flags, Header, Kind};

const LONG: ShardId = ShardId(4);
const OTHER: ShardId = ShardId(5);

fn pair(fragment: u32, window: u32) -> World {
    World::pair_with(|_, config| LinkConfig {
        fragment,
        window_bytes: window,
        ..config
    })
}

fn order(world: &World) -> Vec<(u32, Vec<u64>)> {
    let by_shard = world.hosts[1].by_shard.iter();
    by_shard
        .map(|((_, shard), got)| (*shard, got.clone()))
        .collect()
}

/// What is new waits behind four fragments at most, however long the message is; its own shard waits for it.
#[test]
fn a_long_message_holds_up_only_its_own_shard() {
    let mut world = pair(64 << 10, 4 << 20);
    world.send_to(0, 1, LONG, 0, 16 << 20).unwrap();
    world.collect(0);
    let under_way = world.pipes[0].flight[1].len();
    assert!(under_way <= 5 * (64 << 10), "{under_way}");
    world.send_to(0, 1, LONG, 1, 8).unwrap();
    world.send_to(0, 1, OTHER, 0, 8).unwrap();
    world.control(0, 1, 7);
    world.collect(0);
    world.arrive(0, 1, under_way + 1000);
    assert_eq!(order(&world), [(OTHER.0, vec![0])]);
    assert_eq!(world.hosts[1].control, [7]);
    assert!(!world.hosts[0].links.is_congested(world.slot(0, 1).unwrap()));
    world.run();
    assert_eq!(order(&world), [(LONG.0, vec![0, 1]), (OTHER.0, vec![0])]);
    // A window of 4 MiB carried 16 MiB.
    world.advance(ms(20));
    assert!(world.hosts[0].links.flushed(world.slot(0, 1).unwrap()));
    assert!(world.hosts[1].links.stats().fragments_in >= 256);
    assert_eq!(world.hosts[1].links.stats().data_in, 3);
}

/// Short messages keep the connection full, and the long one arrives all the same.
#[test]
fn a_long_message_gets_its_share() {
    let mut world = pair(64 << 10, 64 << 20);
    world.send_to(0, 1, LONG, 0, 10 * (64 << 10)).unwrap();
    let mut sent = 0;
    for _ in 0..40 {
        for _ in 0..2000 {
            world.send_to(0, 1, OTHER, sent, 100).unwrap();
            sent += 1;
        }
        world.collect(0);
        // More than there is room for on the way.
        world.arrive(0, 1, 200 << 10);
        world.collect(1);
        world.arrive(0, 0, usize::MAX);
    }
    assert_eq!(world.hosts[1].by_shard[&(world.node(0), LONG.0)], [0]);
    world.run();
    assert_eq!(order(&world), [(LONG.0, vec![0]), (OTHER.0, numbers(sent))]);
}

/// Two shards with long messages take turns, message by message, and none of them is lost between.
#[test]
fn long_messages_take_turns() {
    let mut world = pair(1000, 4 << 20);
    for number in 0..6 {
        for shard in [4, 5, 6] {
            let size = if number % 2 == 0 { 5000 } else { 10 };
            world.send_to(0, 1, ShardId(shard), number, size).unwrap();
        }
    }
    world.send_to(0, 1, ShardId(7), 0, 10).unwrap();
    world.run();
    let expected = [
        (4, numbers(6)),
        (5, numbers(6)),
        (6, numbers(6)),
        (7, vec![0]),
    ];
    assert_eq!(order(&world), expected);
}

/// The connection breaks anywhere in a long message: it is resumed, not begun anew, and comes once.
#[test]
fn a_cut_in_a_message_resumes_it() {
    let size = 40_000;
    for cut in (0..42_000).step_by(487) {
        let mut world = pair(1000, 4 << 20);
        world.send_to(0, 1, OTHER, 0, 8).unwrap();
        world.send_to(0, 1, LONG, 0, size).unwrap();
        world.send_to(0, 1, LONG, 1, 8).unwrap();
        world.send_to(0, 1, OTHER, 1, 8).unwrap();
        world.collect(0);
        world.arrive(0, 1, cut);
        // What was accepted is told.
        world.hosts[1].links.handle_timeout(world.now.after(ms(10)));
        world.collect(1);
        world.arrive(0, 0, usize::MAX);
        world.cut(0);
        world.advance(ms(500));
        let expected = [(LONG.0, vec![0, 1]), (OTHER.0, vec![0, 1])];
        assert_eq!(order(&world), expected, "{cut}");
        let total: usize = world.pipes.iter().map(|pipe| pipe.total[1]).sum();
        let again = total.saturating_sub(size + 42 * 28);
        assert!(
            again < size - cut.min(size) + 4000,
            "{again} bytes again after {cut}"
        );
    }
}

fn ended(world: &mut World) -> Vec<(u64, bool)> {
    let (b, now) = (world.node(1), world.now);
    let links = &mut world.hosts[0].links;
    links.handle_removed(now, b, Incarnation(10), RemovalCause::Down);
    let events = core::iter::from_fn(|| links.poll_event());
    let mut unacked = events.filter_map(|event| match event {
        LinkEvent::PairEnded { unacked, .. } => Some(unacked),
        _ => None,
    });
    let frames: Vec<UnackedFrame> = unacked.next().unwrap().collect();
    let mut told = Vec::new();
    for UnackedFrame { header, body, sent } in frames {
        assert_eq!(
            (header.kind, header.len as usize),
            (Kind::ENVELOPE, body.len())
        );
        assert!(!header.flags.is_fragment());
        let (_, number, rest) = content(&body);
        assert!(rest.iter().all(|byte| *byte == number as u8));
        told.push((number, sent));
    }
    told
}

/// What an ended life had not acknowledged is told in whole messages.
#[test]
fn what_was_not_acknowledged_is_whole() {
    let fill = |world: &mut World| {
        world.send_to(0, 1, LONG, 0, 8).unwrap();
        world.send_to(0, 1, LONG, 1, 300_000).unwrap();
        world.send_to(0, 1, LONG, 2, 8).unwrap();
        world.send_to(0, 1, LONG, 3, 3000).unwrap();
        world.send_to(0, 1, OTHER, 4, 8).unwrap();
    };
    // Nothing was given to a connection.
    let mut world = pair(1000, 4 << 20);
    fill(&mut world);
    let none = [(0, false), (4, false), (1, false), (2, false), (3, false)];
    assert_eq!(ended(&mut world), none);
    // A part of the long one was.
    let mut world = pair(1000, 4 << 20);
    fill(&mut world);
    world.collect(0);
    let part = [(0, true), (4, true), (1, true), (2, false), (3, false)];
    assert_eq!(ended(&mut world), part);
    // A part was even acknowledged.
    let mut world = pair(1000, 4 << 20);
    fill(&mut world);
    world.collect(0);
    world.arrive(0, 1, 100_000);
    world.hosts[1].links.handle_timeout(world.now.after(ms(10)));
    world.collect(1);
    world.arrive(0, 0, usize::MAX);
    let part = [(1, true), (2, false), (3, false)];
    assert_eq!(ended(&mut world), part);
    // All of it was given, and the last fragment is not acknowledged.
    let mut world = pair(1000, 4 << 20);
    world.send_to(0, 1, LONG, 1, 3000).unwrap();
    world.send_to(0, 1, LONG, 2, 8).unwrap();
    world.collect(0);
    world.arrive(0, 1, 2500);
    world.hosts[1].links.handle_timeout(world.now.after(ms(10)));
    world.collect(1);
    world.arrive(0, 0, usize::MAX);
    assert_eq!(ended(&mut world), [(1, true), (2, true)]);
    // Reading it changes nothing.
    let mut world = pair(1000, 4 << 20);
    fill(&mut world);
    world.collect(0);
    assert_eq!(world.hosts[0].links.unacknowledged().remove(0).1.count(), 5);
    world.run();
    assert_eq!(world.hosts[1].received[&world.node(0)].len(), 5);
}

/// A message that is longer than the window goes when nothing else is under way; more than two hold the rest back.
#[test]
fn long_messages_and_the_window() {
    let mut world = World::pair_with(|_, config| LinkConfig {
        window_bytes: 100_000,
        max_message: 1 << 20,
        ..config
    });
    let slot = world.slot(0, 1).unwrap();
    for number in 0..2 {
        let congested = world.hosts[0].links.is_congested(slot);
        assert!(!congested, "{number}");
        world.send_to(0, 1, LONG, number, 1 << 20).unwrap();
    }
    assert!(world.hosts[0].links.is_congested(slot));
    let mut taken = 2;
    while world.send_to(0, 1, LONG, taken, 1 << 20).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 3, "four windows, and two that are long");
    world.run();
    assert!(!world.hosts[0].links.is_congested(slot));
    assert_eq!(order(&world), [(LONG.0, numbers(taken))]);
    // Short ones that wait behind a long one count as well.
    world.send_to(0, 1, LONG, taken, 1 << 20).unwrap();
    let mut waiting = 0;
    while !world.hosts[0].links.is_congested(slot) {
        world.send_to(0, 1, LONG, 0, 8).unwrap();
        waiting += 1;
    }
    assert!((1000..=16_384).contains(&waiting), "{waiting}");
}

/// A message as frames: where it is cut, and what each begins with.
fn fragments(seq: u64, size: usize, part: usize) -> Vec<(Header, Vec<u8>)> {
    let whole = data(seq, size);
    let header = Header::decode(&whole, 1 << 20).unwrap();
    let parts: Vec<&[u8]> = whole[HEADER_LEN + 8..].chunks(part).collect();
    let count = parts.len();
    let parts = parts.into_iter().enumerate();
    parts
        .map(|(at, part)| {
            let flags = if at + 1 == count {
                Flags::LAST
            } else {
                Flags::MORE
            };
            let header = Header {
                flags,
                len: part.len() as u32 + 8,
                ..header
            };
            let seq = seq + at as u64;
            (header, [&seq.to_le_bytes()[..], part].concat())
        })
        .collect()
}

fn bytes(frame: &(Header, Vec<u8>)) -> Vec<u8> {
    [&frame.0.to_bytes()[..], &frame.1].concat()
}

#[test]
fn fragments_are_one_message() {
    let mut raw = Raw::up();
    let frames = fragments(0, 1000, 300);
    let (last, before) = frames.split_last().unwrap();
    for frame in before {
        assert_eq!(raw.bytes(&bytes(frame)), Ok(vec![]));
    }
    let got = raw.bytes(&bytes(last)).unwrap();
    let [Incoming::Data { header, body, .. }] = &got[..] else {
        panic!("{got:?}");
    };
    assert_eq!(
        (header.flags, header.len as usize),
        (Flags::NONE, body.len())
    );
    assert_eq!(body[..], data(0, 1000)[HEADER_LEN..]);
    // A whole frame is welcome between them.
    let mut raw = Raw::up();
    let mut frames = fragments(1, 1000, 600);
    frames[0].1[..8].copy_from_slice(&0u64.to_le_bytes());
    frames[1].1[..8].copy_from_slice(&2u64.to_le_bytes());
    raw.bytes(&bytes(&frames[0])).unwrap();
    assert_eq!(raw.data(1).unwrap().len(), 1);
    assert_eq!(raw.bytes(&bytes(&frames[1])).unwrap().len(), 1);
    // Known numbers are dropped, also of fragments.
    assert_eq!(raw.bytes(&bytes(&frames[0])), Ok(vec![]));
    assert_eq!(raw.host.links.stats().duplicates, 1);
}

#[test]
fn fragments_that_do_not_belong_together_are_refused() {
    let frames = fragments(0, 1000, 300);
    type Change = fn(&mut Header);
    let changes: [(Change, LinkFault); 6] = [
        (|header| header.kind = Kind::RETURN, LinkFault::Fragment),
        (|header| header.kind = Kind::REPLY, LinkFault::Fragment),
        (
            |header| header.entity_type = EntityTypeId(8),
            LinkFault::Fragment,
        ),
        (|header| header.number = 3, LinkFault::Fragment),
        (
            |header| header.flags = header.flags.with(Flags::TRACKED),
            LinkFault::Fragment,
        ),
        (
            |header| header.kind = Kind::FLUSH,
            LinkFault::Frame(DecodeError::Flags { found: 1 }),
        ),
    ];
    for (change, fault) in changes {
        let mut raw = Raw::up();
        raw.bytes(&bytes(&frames[0])).unwrap();
        let mut wrong = frames[1].clone();
        change(&mut wrong.0);
        assert_eq!(raw.bytes(&bytes(&wrong)), Err(fault));
    }
    // The last one alone; one that was skipped.
    let mut raw = Raw::up();
    let mut last = frames[3].clone();
    last.1[..8].copy_from_slice(&0u64.to_le_bytes());
    assert_eq!(raw.bytes(&bytes(&last)), Err(LinkFault::Fragment));
    assert_eq!(raw.host.links.stats().fragments_refused, 1);
    let mut raw = Raw::up();
    raw.bytes(&bytes(&frames[0])).unwrap();
    let (found, expected) = (2, 1);
    assert_eq!(
        raw.bytes(&bytes(&frames[2])),
        Err(LinkFault::Gap { found, expected })
    );
    // Control has none.
    let mut raw = Raw::up();
    let mut control = frames[0].clone();
    control.0.kind = Kind::GET_SHARD_HOME;
    control.0.number = 0;
    let fault = LinkFault::Frame(DecodeError::Flags { found: 1 });
    assert_eq!(raw.bytes(&bytes(&control)), Err(fault));
}

/// Fragments that never end: what is kept is what came, and no more than a message may be.
#[test]
fn a_message_that_never_ends_is_refused() {
    let limit = 100_000;
    let mut raw = Raw::up_with(|config| LinkConfig {
        max_message: limit,
        ..config
    });
    let mut frame = fragments(0, 1 << 18, 9000).remove(0);
    let fault = (0..).find_map(|seq: u64| {
        frame.1[..8].copy_from_slice(&seq.to_le_bytes());
        let slot = raw.slot();
        let kept = |raw: &Raw| {
            let lanes = &raw.host.links.peers.get(slot).unwrap().lanes;
            lanes[0]
                .recv
                .partial
                .as_ref()
                .map_or(0, |partial| partial.len())
        };
        let read = raw.bytes(&bytes(&frame));
        let most = (seq as usize + 1) * 9000 + 8;
        assert!(kept(&raw) <= most.min(limit as usize + 64));
        read.err()
    });
    let size = 12 * 9000 + 8;
    let limit = limit + 64;
    assert_eq!(fault, Some(LinkFault::Message { size, limit }));
    assert_eq!(raw.host.links.stats().fragments_refused, 1);
}
