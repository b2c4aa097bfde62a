//! Lives of nodes: replaced, removed, silent, leaving.

use super::*;

/// Host 1 starts again, as a newer life.
fn restart(world: &mut World, incarnation: u64) {
    let me = &world.hosts[1].links.me;
    let identity = identity(&me.name.clone(), incarnation);
    let mut host = Host::new(world.now, config(), identity);
    let other = world.hosts[0].links.me.clone();
    host.links.handle_member(
        world.now,
        other.node,
        other.incarnation,
        Some(&other.address),
    );
    world.hosts[1] = host;
}

#[test]
fn a_newer_life_replaces_the_older_and_what_it_had_not_acknowledged_is_reported() {
    let mut world = World::pair();
    let (a, b) = (world.node(0), world.node(1));
    for number in 0..3 {
        world.send(0, 1, number);
    }
    world.advance(ms(20));
    for number in 3..6 {
        world.send(0, 1, number);
    }
    world.collect(0);
    let pipe = world.only();
    world.cut(pipe);
    world.send(0, 1, 6);
    restart(&mut world, 11);
    world.hosts[0].heard.clear();
    world.advance(ms(1000));
    let ended = [(3, true), (4, true), (5, true), (6, false)].to_vec();
    let heard = &world.hosts[0].heard;
    assert_eq!(heard[0], Heard::Down(b, CloseReason::Closed));
    assert_eq!(
        heard[1..],
        [
            Heard::Ended(b, Incarnation(10), RemovalCause::Replaced, ended),
            Heard::Up(b, Incarnation(11))
        ]
    );
    // A new pair, from the beginning.
    world.send(0, 1, 7);
    world.send(1, 0, 8);
    world.run();
    assert_eq!(world.hosts[1].from(a), [7]);
    assert_eq!(world.hosts[0].from(b), [8]);
    let slot = world.slot(0, 1).unwrap();
    assert_eq!(
        world.hosts[0].links.incarnation(slot),
        Some(Incarnation(11))
    );
}

#[test]
fn a_newer_life_replaces_one_whose_link_still_stands() {
    let mut world = World::pair();
    let b = world.node(1);
    let old = world.only();
    world.pipes[old].closed = [true; 2];
    restart(&mut world, 11);
    // It is the higher of both; a seed makes it dial.
    let address = world.hosts[0].links.me.address.clone();
    world.hosts[1].links.add_seed(world.now, &address);
    world.hosts[0].heard.clear();
    world.run();
    assert_eq!(
        world.hosts[0].heard,
        [
            Heard::Down(b, CloseReason::Ended),
            Heard::Ended(b, Incarnation(10), RemovalCause::Replaced, Vec::new()),
            Heard::Up(b, Incarnation(11))
        ]
    );
    assert_eq!(world.open().len(), 1);
}

#[test]
fn membership_ends_lives_too() {
    let mut world = World::pair();
    let b = world.node(1);
    world.send(0, 1, 0);
    world.collect(0);
    let slot = world.slot(0, 1).unwrap();
    let newer = world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(11), None);
    assert_eq!(newer, Some(slot), "the slot is the node's");
    assert!(!world.hosts[0].links.is_up(slot));
    world.send(0, 1, 1);
    world.collect(0);
    assert!(world.hosts[0].heard.contains(&Heard::Ended(
        b,
        Incarnation(10),
        RemovalCause::Replaced,
        [(0, true)].to_vec()
    )));
    // An older life is not heard of again.
    let older = world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(10), None);
    assert_eq!(older, None);
    world.hosts[0]
        .links
        .handle_removed(world.now, b, Incarnation(10), RemovalCause::Down);
    assert!(world.slot(0, 1).is_some());
    world.hosts[0]
        .links
        .handle_removed(world.now, b, Incarnation(11), RemovalCause::Down);
    world.collect(0);
    assert!(world.hosts[0].heard.ends_with(&[
        Heard::Ended(
            b,
            Incarnation(11),
            RemovalCause::Down,
            [(1, false)].to_vec()
        ),
        Heard::Forgotten(b)
    ]));
    assert_eq!(world.slot(0, 1), None);
    assert!(!world.hosts[0].links.is_up(slot));
    assert!(world.hosts[0].links.flushed(slot));
}

#[test]
fn a_removed_life_hears_that_it_was_removed() {
    let mut world = World::pair();
    let b = world.node(1);
    world.hosts[0]
        .links
        .handle_removed(world.now, b, Incarnation(10), RemovalCause::Down);
    let address = world.hosts[0].links.me.address.clone();
    world.hosts[1].links.add_seed(world.now, &address);
    world.advance(ms(500));
    let refusal = Refusal::Incarnation {
        newest: Incarnation(10),
    };
    assert!(
        world.hosts[1]
            .heard
            .contains(&Heard::Refused(true, refusal))
    );
    assert_eq!(world.slot(0, 1), None);
}

#[test]
fn keep_alives_keep_a_quiet_link_alive() {
    let mut world = World::pair();
    world.advance(ms(60_000));
    assert_eq!(world.pipes.len(), 1);
    assert_eq!(world.hosts[0].heard.len(), 1);
    let total = world.pipes[0].total;
    world.advance(ms(10_000));
    for end in [0, 1] {
        let bytes = world.pipes[0].total[end] - total[end];
        assert_eq!(
            bytes,
            10 * (HEADER_LEN + 1),
            "one a second, and nothing else"
        );
    }
}

#[test]
fn a_link_that_says_something_needs_no_keep_alive() {
    let mut world = World::pair();
    let before = world.pipes[0].total[1];
    for token in 0..20 {
        world.advance(ms(500));
        assert!(world.control(0, 1, token));
        world.run();
    }
    let each = HEADER_LEN + 1;
    assert_eq!(world.pipes[0].total[1] - before, 20 * each);
}

#[test]
fn silence_closes_the_connection_and_keeps_the_pair() {
    let mut world = World::pair();
    let b = world.node(1);
    world.send(0, 1, 0);
    world.run();
    // Nothing gets through any more, and nobody is told.
    world.pipes[0].closed = [true; 2];
    world.unreachable.extend(["a:1".into(), "b:1".into()]);
    world.send(0, 1, 1);
    world.advance(ms(4900));
    assert!(world.is_up(0, 1));
    world.advance(ms(1200));
    assert!(!world.is_up(0, 1) && !world.is_up(1, 0));
    assert!(
        world.hosts[0]
            .heard
            .contains(&Heard::Down(b, CloseReason::Idle))
    );
    world.unreachable.clear();
    world.advance(ms(6000));
    assert_eq!(world.hosts[1].from(world.node(0)), [0, 1]);
}

/// The others' bytes wait to be read when a paused process goes on: their silence starts anew.
#[test]
fn a_pause_of_this_process_is_nobody_elses_silence() {
    let mut world = World::pair();
    world.now = world.now.after(ms(100_000));
    world.hosts[0].links.handle_timeout(world.now);
    assert!(world.is_up(0, 1));
    world.now = world.now.after(ms(1000));
    world.hosts[0].links.handle_timeout(world.now);
    assert!(world.is_up(0, 1));
    for _ in 0..5 {
        world.now = world.now.after(ms(1000));
        world.hosts[0].links.handle_timeout(world.now);
    }
    assert!(!world.is_up(0, 1));
}

#[test]
fn a_leaving_node_says_so_and_then_goodbye() {
    let mut world = World::pair();
    let (a, b) = (world.node(0), world.node(1));
    world.hosts[1].links.set_leaving(world.now);
    world.run();
    world.hosts[1].links.set_leaving(world.now);
    world.advance(ms(3000));
    let leaving = world.hosts[0]
        .heard
        .iter()
        .filter(|heard| **heard == Heard::Leaving(b));
    assert_eq!(leaving.count(), 1);

    let slot = world.slot(1, 0).unwrap();
    world.send(1, 0, 0);
    world.send(0, 1, 0);
    assert!(!world.hosts[1].links.flushed(slot));
    world.advance(ms(15));
    assert!(world.hosts[1].links.flushed(slot));

    world.send(0, 1, 1);
    world.hosts[0].heard.clear();
    world.hosts[1].links.goodbye(world.now);
    world.run();
    // What it said before it left arrived before its goodbye.
    assert_eq!(world.hosts[0].from(b), [0]);
    let heard = &world.hosts[0].heard;
    assert_eq!(heard[0], Heard::Down(b, CloseReason::PeerLeft));
    assert!(
        matches!(&heard[1], Heard::Ended(node, Incarnation(10), RemovalCause::Left, unacked)
        if *node == b && unacked.len() == 1)
    );
    assert_eq!(heard[2], Heard::Forgotten(b));
    assert!(
        world.hosts[1]
            .heard
            .contains(&Heard::Down(a, CloseReason::Left))
    );
    assert_eq!(world.open(), [0; 0]);
    // It dials and accepts no more, and is not dialed.
    world.advance(ms(30_000));
    assert_eq!(world.pipes.len(), 1);
    assert!(world.hosts[1].links.accepted(world.now, 1, None).is_err());
}

#[test]
fn strangers_are_forgotten_unless_something_would_be_lost() {
    let mut world = World::new(&["a", "b"]);
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.run();
    let b = world.node(1);
    let slot = world.slot(0, 1).unwrap();
    world.cut(0);
    world.collect(0);
    assert!(
        world.hosts[0]
            .heard
            .ends_with(&[Heard::Down(b, CloseReason::Closed), Heard::Forgotten(b)])
    );
    assert_eq!(world.hosts[0].links.node(slot), None);
    world.advance(ms(200));
    world.send(0, 1, 0);
    world.run();
    let pipe = world.only();
    world.cut(pipe);
    world.send(0, 1, 1);
    world.advance(ms(200));
    assert_eq!(world.hosts[1].from(world.node(0)), [0, 1]);
}
