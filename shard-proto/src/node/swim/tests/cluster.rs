//! Nodes join, leave, die, stop, come back, and lose each other.

use core::time::Duration;

use super::world::{World, ms, node};
use crate::membership::{MemberChange, MemberState, RemovalCause};
use crate::node::swim::{Swim, SwimConfig};

fn configs() -> [(SwimConfig, Duration); 2] {
    // With how long it may take until a dead member is removed everywhere.
    [
        (SwimConfig::new(), ms(7_000)),
        (SwimConfig::lan(), ms(2_900)),
    ]
}

#[test]
fn nodes_join_through_one_seed() {
    for (config, _) in configs() {
        for seed in 0..4 {
            let mut world = World::cluster(seed, 5, config);
            world.run(ms(2_000));
            world.assert_complete();
            world.run(ms(60_000));
            world.assert_complete();
            for host in &world.hosts {
                assert_eq!(host.changes.len(), 4, "only the four that came");
            }
        }
    }
}

#[test]
fn a_large_cluster_gets_together() {
    let mut world = World::cluster(1, 40, SwimConfig::lan());
    world.run(ms(8_000));
    world.assert_complete();
}

#[test]
fn a_graceful_leave_is_told_as_such() {
    for (config, _) in configs() {
        for seed in 0..4 {
            let mut world = World::cluster(seed, 5, config);
            world.run(ms(3_000));
            world.call(2, Swim::begin_leave);
            world.call(2, Swim::begin_leave);
            world.run(ms(2_000));
            for at in [0, 1, 3, 4] {
                assert_eq!(
                    world.state(at, 2),
                    Some(MemberState::Leaving),
                    "seed {seed}"
                );
            }
            world.call(2, Swim::leave);
            world.call(2, Swim::leave);
            world.run(ms(10));
            world.hosts[2].alive = false;
            world.run(ms(2_000));
            for at in [0, 1, 3, 4] {
                let cause = world.removal(at, 2).map(|(_, cause)| cause);
                assert_eq!(cause, Some(RemovalCause::Left), "seed {seed}, node {at}");
            }
            assert!(!world.hosts[2].defunct);
            world.assert_complete();
        }
    }
}

#[test]
fn a_dead_member_is_removed_in_time() {
    for (config, bound) in configs() {
        for seed in 0..4 {
            let mut world = World::cluster(seed, 5, config);
            world.run(ms(3_000));
            world.hosts[1].alive = false;
            let died = world.instant();
            world.run(bound);
            for at in [0, 2, 3, 4] {
                let (when, cause) = world.removal(at, 1).expect("removed");
                assert_eq!(cause, RemovalCause::Down);
                let took = when.since(died);
                assert!(took >= config.suspicion, "{took:?}");
                // It was suspected before.
                let member = world.hosts[at]
                    .changes
                    .iter()
                    .rev()
                    .find_map(|(_, change)| match change {
                        MemberChange::Member(member) if member.node == node(1) => Some(member),
                        _ => None,
                    });
                assert_eq!(member.unwrap().state, MemberState::Unreachable);
            }
            world.run(ms(30_000));
            world.assert_complete();
        }
    }
}

#[test]
fn a_restart_replaces_the_older_life() {
    for (config, bound) in configs() {
        for seed in 0..4 {
            for unnoticed in [true, false] {
                let mut world = World::cluster(seed, 4, config);
                world.run(ms(3_000));
                world.hosts[1].alive = false;
                if !unnoticed {
                    world.run(bound);
                }
                world.restart(1);
                world.join(1, 0);
                world.run(ms(5_000));
                world.assert_complete();
                for at in [0, 2, 3] {
                    let cause = world.removal(at, 1).map(|(_, cause)| cause);
                    let expected = if unnoticed {
                        RemovalCause::Replaced
                    } else {
                        RemovalCause::Down
                    };
                    assert_eq!(cause, Some(expected), "seed {seed}");
                }
            }
        }
    }
}

#[test]
fn a_life_that_was_replaced_is_over() {
    // The old process still runs when the new one starts.
    let mut world = World::cluster(3, 3, SwimConfig::lan());
    world.run(ms(2_000));
    let old = core::mem::replace(&mut world.hosts[1].incarnation, 5_000);
    let newer = super::world::identity(1, 5_000);
    let now = world.instant();
    let fresh = Swim::new(now, newer, world.config, 9).unwrap();
    let mut stale = core::mem::replace(&mut world.hosts[1].swim, fresh);
    world.hosts[1].view.clear();
    world.join(1, 0);
    world.run(ms(2_000));
    let seed = super::world::identity(0, 1_000);
    // It hears of its successor from a node that knows it.
    let mut packets = alloc::vec::Vec::new();
    world.call(0, |swim, now| {
        swim.announce(now, super::world::identity(1, old));
        while let Some(event) = swim.poll_event() {
            packets.push(event);
        }
    });
    stale.announce(now, seed);
    while stale.poll_event().is_some() {}
    world.run(ms(2_000));
    for at in [0, 2] {
        assert_eq!(world.state(at, 1), Some(MemberState::Up));
    }
}

#[test]
fn a_stopped_member_is_refused_and_learns_of_it() {
    for (config, bound) in configs() {
        for seed in 0..4 {
            let mut world = World::cluster(seed, 4, config);
            world.run(ms(3_000));
            world.hosts[3].stopped = true;
            world.run(bound + ms(1_000));
            assert!(world.removal(0, 3).is_some());
            world.hosts[3].stopped = false;
            world.run(ms(2_000));
            assert!(world.hosts[3].defunct, "seed {seed}");
            assert_eq!(world.hosts[3].swim.poll_timeout(), None);
            for at in 0..3 {
                assert_eq!(world.hosts[at].view.len(), 2, "nobody else was called down");
            }
            world.restart(3);
            world.join(3, 1);
            world.run(ms(5_000));
            world.assert_complete();
        }
    }
}

#[test]
fn a_short_stop_costs_nobody_its_membership() {
    for seed in 0..4 {
        let config = SwimConfig::new();
        let mut world = World::cluster(seed, 4, config);
        world.run(ms(3_000));
        world.hosts[3].stopped = true;
        world.run(ms(2_500));
        world.hosts[3].stopped = false;
        world.run(ms(20_000));
        world.assert_complete();
        for host in &world.hosts {
            let removed =
                |(_, change): &(_, MemberChange)| matches!(change, MemberChange::Removed { .. });
            assert!(!host.changes.iter().any(removed), "seed {seed}");
        }
    }
}

#[test]
fn one_in_ten_packets_lost_removes_nobody() {
    for seed in 0..4 {
        let mut world = World::cluster(seed, 5, SwimConfig::new());
        world.run(ms(3_000));
        world.loss = 100;
        world.run(ms(120_000));
        world.loss = 0;
        world.run(ms(10_000));
        world.assert_complete();
    }
}

#[test]
fn a_silent_link_makes_a_member_unreachable() {
    let mut world = World::cluster(1, 3, SwimConfig::new());
    world.run(ms(3_000));
    world.call(0, |swim, now| swim.handle_silence(now, node(1), true));
    assert_eq!(world.state(0, 1), Some(MemberState::Unreachable));
    world.call(0, |swim, now| swim.handle_silence(now, node(1), false));
    assert_eq!(world.state(0, 1), Some(MemberState::Up));
    world.call(0, |swim, now| swim.handle_silence(now, node(9), true));
    world.run(ms(2_000));
    world.assert_complete();
}

#[test]
fn halves_that_lost_each_other_come_together() {
    for seed in 0..4 {
        let config = SwimConfig::lan();
        let mut world = World::cluster(seed, 5, config);
        world.run(ms(3_000));
        for a in [0, 3] {
            for b in [1, 2, 4] {
                world.cut.insert((a, b));
                world.cut.insert((b, a));
            }
        }
        world.run(ms(8_000));
        assert_eq!(world.hosts[0].view.len(), 1);
        assert_eq!(world.hosts[1].view.len(), 2);
        world.cut.clear();
        for _ in 0..600 {
            world.run(ms(100));
            for i in 0..5 {
                if world.hosts[i].defunct {
                    assert_ne!(i, 0, "the oldest yields to nobody");
                    world.restart(i);
                    world.join(i, 0);
                }
            }
        }
        world.assert_complete();
        assert_eq!(
            world.hosts[3].incarnation,
            1_003 + 1_000 * u64::from(world.hosts[3].incarnation > 1_003)
        );
    }
}

#[test]
fn the_same_seeds_make_the_same_run() {
    let run = || {
        let mut world = World::cluster(7, 5, SwimConfig::lan());
        world.loss = 50;
        world.run(ms(10_000));
        world.hosts[2].alive = false;
        world.run(ms(10_000));
        let hosts = world.hosts.into_iter();
        hosts
            .map(|host| (host.changes, host.packets))
            .collect::<alloc::vec::Vec<_>>()
    };
    assert_eq!(run(), run());
}
