//! What a broken connection loses, doubles and reorders: nothing.

use super::*;

/// A connection is reset with 200 data frames in flight: after the reconnect each was delivered once, in order.
#[test]
fn reset_at_every_byte_with_200_frames_in_flight() {
    let mut cut = 0;
    loop {
        let mut world = World::pair();
        for number in 0..200 {
            world.send(0, 1, number);
        }
        world.collect(0);
        let pipe = world.only();
        let total = world.pipes[pipe].flight[1].len();
        world.arrive(pipe, 1, cut);
        let before = world.hosts[1].from(world.node(0)).len();
        world.cut(pipe);
        world.advance(ms(200));
        assert_eq!(
            world.hosts[1].from(world.node(0)),
            numbers(200),
            "cut at {cut}"
        );
        assert_eq!(
            world.hosts[1].links.stats().duplicates,
            0,
            "the peer said what it expects"
        );
        assert_eq!(world.hosts[0].links.stats().resent, 200 - before as u64);
        let slot = world.slot(0, 1).unwrap();
        assert!(world.hosts[0].links.flushed(slot));
        if cut >= total {
            assert_eq!(before, 200);
            return;
        }
        // Every place within a frame, at many places of the stream.
        cut = (cut + 7).min(total);
    }
}

#[test]
fn reset_at_every_byte_of_a_few_frames_both_ways() {
    for cut in 0..400 {
        for back in [0, 30, 500] {
            let mut world = World::pair();
            for number in 0..6 {
                world.send(0, 1, number);
                world.send(1, 0, number);
            }
            world.collect(0);
            world.collect(1);
            let pipe = world.only();
            world.arrive(pipe, 1, cut);
            world.arrive(pipe, 0, back);
            for number in 6..9 {
                world.send(0, 1, number);
                world.send(1, 0, number);
            }
            world.collect(1);
            world.arrive(pipe, 0, back);
            world.cut(pipe);
            world.send(0, 1, 9);
            world.send(1, 0, 9);
            world.advance(ms(200));
            assert_eq!(world.hosts[1].from(world.node(0)), numbers(10));
            assert_eq!(world.hosts[0].from(world.node(1)), numbers(10));
        }
    }
}

#[test]
fn only_one_end_notices() {
    for notices in [0, 1] {
        let mut world = World::pair();
        world.send(0, 1, 0);
        world.send(1, 0, 0);
        let pipe = world.only();
        world.cut_end(pipe, notices);
        world.pipes[pipe].closed = [true; 2];
        world.send(0, 1, 1);
        world.send(1, 0, 1);
        world.advance(ms(20_000));
        assert_eq!(world.hosts[1].from(world.node(0)), [0, 1]);
        assert_eq!(world.hosts[0].from(world.node(1)), [0, 1]);
        let other = world.node(notices);
        let down = Heard::Down(other, CloseReason::Idle);
        // The end that dials replaces a dead connection at the other end; the other waits until it is silent.
        assert_eq!(world.hosts[1 - notices].heard.contains(&down), notices == 1);
    }
}

#[test]
fn what_was_sent_while_disconnected_comes_behind_what_was_in_flight() {
    let mut world = World::pair();
    world.unreachable.push("a:1".into());
    world.unreachable.push("b:1".into());
    world.send(0, 1, 0);
    world.collect(0);
    let pipe = world.only();
    world.cut(pipe);
    for number in 1..1000 {
        world.send(0, 1, number);
    }
    world.advance(ms(3000));
    assert_eq!(world.hosts[1].from(world.node(0)), [0; 0]);
    world.unreachable.clear();
    world.advance(ms(6000));
    assert_eq!(world.hosts[1].from(world.node(0)), numbers(1000));
}

#[test]
fn a_thousand_resets() {
    let mut world = World::pair();
    for number in 0..1000 {
        world.send(0, 1, number);
        world.collect(0);
        if let Some(pipe) = world.open().first().copied() {
            if number % 3 == 0 {
                world.arrive(pipe, 1, 30);
            }
            world.cut(pipe);
        }
        world.advance(ms(10));
    }
    world.advance(ms(10_000));
    assert_eq!(world.hosts[1].from(world.node(0)), numbers(1000));
    assert!(world.pipes.len() > 50, "{}", world.pipes.len());
}
