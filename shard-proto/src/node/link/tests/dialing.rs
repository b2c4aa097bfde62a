//! Whom a node dials, and when.

use super::*;

#[test]
fn settings_that_cannot_work_are_named() {
    let good = config();
    assert!(good.validate().is_ok());
    let table: [(LinkConfig, &str); 14] = [
        (
            LinkConfig {
                max_frame: 1 << 15,
                ..good.clone()
            },
            "max_frame",
        ),
        (
            LinkConfig {
                max_frame: u32::MAX,
                window_bytes: u32::MAX,
                ..good.clone()
            },
            "max_frame",
        ),
        (
            LinkConfig {
                window_bytes: 0,
                ..good.clone()
            },
            "window_bytes",
        ),
        (
            LinkConfig {
                max_message: 1000,
                ..good.clone()
            },
            "max_message",
        ),
        (
            LinkConfig {
                fragment: good.max_frame + 1,
                ..good.clone()
            },
            "fragment",
        ),
        (
            LinkConfig {
                max_partial: good.max_message - 1,
                ..good.clone()
            },
            "max_partial",
        ),
        (
            LinkConfig {
                lanes: 0,
                ..good.clone()
            },
            "lanes",
        ),
        (
            LinkConfig {
                window_frames: 0,
                ..good.clone()
            },
            "window_frames",
        ),
        (
            LinkConfig {
                keep_alive: Duration::ZERO,
                ..good.clone()
            },
            "keep_alive",
        ),
        (
            LinkConfig {
                idle_timeout: ms(1500),
                ..good.clone()
            },
            "link_timeout",
        ),
        (
            LinkConfig {
                retry: Duration::ZERO,
                ..good.clone()
            },
            "dial_retry",
        ),
        (
            LinkConfig {
                max_retry: ms(50),
                ..good.clone()
            },
            "max_retry",
        ),
        (
            LinkConfig {
                max_links: 0,
                ..good.clone()
            },
            "max_links",
        ),
        (
            LinkConfig {
                control_bytes: 1000,
                ..good.clone()
            },
            "control_bytes",
        ),
    ];
    for (config, field) in table {
        assert_eq!(config.validate().unwrap_err().field, field);
        assert!(Links::new(Instant::ZERO, config, identity("a", 1)).is_err());
    }
}

#[test]
fn a_seed_is_dialed_with_growing_pauses_until_its_node_is_linked() {
    let mut world = World::new(&["a", "b"]);
    world.unreachable.push("b:1".into());
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.hosts[0].links.add_seed(world.now, "a:1");
    let start = world.now;
    let mut at = Vec::new();
    while at.len() < 12 {
        world.collect(0);
        if world.dials.is_empty() {
            let next = world.hosts[0].links.poll_timeout().unwrap();
            assert!(next > world.now);
            world.now = next;
            world.timeouts();
        } else {
            assert_eq!(world.dials.len(), 1);
            assert_eq!(world.dials[0].2, "b:1", "its own address is not dialed");
            at.push(world.now.since(start));
            world.connect(0);
        }
    }
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (failures, pause) in pauses.iter().enumerate() {
        let longest = ms((100 << failures).min(5000));
        assert!(
            *pause <= longest && *pause >= longest / 2,
            "{failures}: {pause:?}"
        );
    }
    assert!(
        pauses.iter().any(|pause| pause.as_micros() % 1000 != 0),
        "no jitter"
    );
    world.unreachable.clear();
    world.advance(ms(5000));
    assert!(world.is_up(0, 1));
    world.advance(ms(60_000));
    assert_eq!(world.pipes.len(), 1);
    assert!(world.dials.is_empty());
}

#[test]
fn pauses_differ_with_the_seed_and_not_otherwise() {
    let pauses = |seed| {
        let mut world = World::with(&["a"], |_, config| LinkConfig { seed, ..config });
        world.hosts[0].links.add_seed(world.now, "nowhere:1");
        world.run();
        world.hosts[0].links.poll_timeout()
    };
    assert_eq!(pauses(1), pauses(1));
    assert_ne!(pauses(1), pauses(2));
}

#[test]
fn of_two_members_the_lower_dials() {
    let mut world = World::new(&lower_first("a", "b"));
    world.introduce(0, 1);
    world.collect(0);
    world.collect(1);
    assert_eq!(world.dials.len(), 1);
    assert_eq!(world.dials[0].0, 0);
    // No address, no dial.
    let mut world = World::new(&lower_first("a", "b"));
    let b = world.node(1);
    for address in [None, Some("")] {
        world.hosts[0]
            .links
            .handle_member(world.now, b, Incarnation(10), address);
        world.collect(0);
        assert!(world.dials.is_empty());
    }
    world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(10), Some("b:1"));
    world.collect(0);
    assert_eq!(world.dials.len(), 1);
}

#[test]
fn a_seed_that_is_a_member_is_dialed_once() {
    let mut world = World::new(&lower_first("a", "b"));
    let address = world.hosts[1].links.me.address.clone();
    world.hosts[0].links.add_seed(world.now, &address);
    world.run();
    world.introduce(0, 1);
    world.run();
    world.advance(ms(2000));
    assert_eq!(world.pipes.len(), 1);
    world.cut(0);
    world.collect(0);
    assert_eq!(world.dials.len(), 1);
    world.run();
    assert_eq!(world.open().len(), 1);
}

#[test]
fn a_link_that_stood_is_dialed_again_at_once_and_one_that_did_not_is_not() {
    let mut world = World::pair();
    world.advance(ms(1000));
    let pipe = world.only();
    world.cut(pipe);
    world.run();
    assert!(world.is_up(0, 1));
    let pipe = world.only();
    world.cut(pipe);
    world.run();
    assert!(!world.is_up(0, 1));
    world.advance(ms(100));
    assert!(world.is_up(0, 1));
}

#[test]
fn a_new_address_is_dialed_at_once() {
    let mut world = World::new(&lower_first("a", "b"));
    let b = world.node(1);
    world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(10), Some("old:1"));
    for _ in 0..10 {
        world.advance(ms(1000));
    }
    let moved = world.hosts[1].links.me.address.clone();
    world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(10), Some(&moved));
    world.run();
    assert!(world.is_up(0, 1));
}

#[test]
fn a_removed_member_is_not_dialed() {
    let mut world = World::new(&lower_first("a", "b"));
    let b = world.node(1);
    world.hosts[0]
        .links
        .handle_member(world.now, b, Incarnation(10), Some("nowhere:1"));
    world.run();
    world.hosts[0]
        .links
        .handle_removed(world.now, b, Incarnation(10), RemovalCause::Down);
    world.collect(0);
    assert!(world.dials.is_empty());
    world.hosts[0]
        .links
        .handle_timeout(world.now.after(ms(10_000)));
    world.collect(0);
    assert!(world.dials.is_empty());
    assert_eq!(world.hosts[0].links.poll_timeout(), None);
}

#[test]
fn a_dial_that_is_never_answered_is_given_up() {
    let mut world = World::new(&["a", "b"]);
    world.hosts[0].links.add_seed(world.now, "b:1");
    world.collect(0);
    let (_, lost, _) = world.dials.remove(0);
    world.now = world.now.after(ms(15_000));
    world.timeouts();
    world.advance(ms(200));
    assert!(world.is_up(0, 1));
    assert!(
        world.hosts[0]
            .links
            .dialed(world.now, lost, 1, None)
            .is_err()
    );
}

#[test]
fn the_clock_may_run_backwards() {
    let mut world = World::pair();
    world.advance(ms(10_000));
    let up = world.now;
    world.now = Instant::ZERO;
    world.send(0, 1, 0);
    world.run();
    for host in [0, 1] {
        world.hosts[host].links.handle_timeout(Instant::ZERO);
    }
    assert_eq!(world.hosts[1].from(world.node(0)), [0]);
    world.now = up;
    world.advance(ms(10_000));
    assert_eq!(world.pipes.len(), 1);
}

#[test]
fn the_ends_of_lives_are_remembered_in_bounded_memory() {
    let mut world = World::new(&["a"]);
    let now = world.now;
    let links = &mut world.hosts[0].links;
    for node in 0..70_000u64 {
        links.handle_removed(
            now,
            NodeId(node),
            Incarnation(1000 + node),
            RemovalCause::Down,
        );
    }
    let refused = |links: &mut Links, node: u64| {
        links
            .handle_member(now, NodeId(node), Incarnation(1000 + node), None)
            .is_none()
    };
    assert!(refused(links, 69_999));
    assert!(refused(links, 10_000));
    assert!(!refused(links, 0), "the oldest make room");
}
