//! Whole clusters: what happens to the lead and to the shards. The world checks the promises after every step.

use super::model::SHARDS;
use super::world::{World, ms};
use crate::leadership::LeadershipConfig;
use crate::membership::RemovalCause;

/// Three voters and two hosts that serve every shard.
fn calm(seed: u64) -> World {
    let mut world = World::new(seed, LeadershipConfig::new(), 3, 5);
    world.run(ms(6_000));
    assert_eq!(world.acting(), Some(0), "the oldest leads");
    assert_eq!(world.acted.len(), 1);
    all_served(&world);
    world
}

fn all_served(world: &World) {
    for shard in 0..SHARDS {
        assert!(world.server(shard).is_some(), "nobody serves {shard}");
    }
}

/// How long each shard is without a server, at most, and how long nobody acts, within `within` ms.
fn outage(world: &mut World, within: u64) -> ([u64; SHARDS], u64) {
    let (mut shards, mut lead) = ([0; SHARDS], 0);
    for _ in 0..within / 10 {
        world.run(ms(10));
        for (shard, without) in shards.iter_mut().enumerate() {
            *without += if world.server(shard).is_none() { 10 } else { 0 };
        }
        lead += if world.acting().is_none() { 10 } else { 0 };
    }
    (shards, lead)
}

#[test]
fn the_lead_stays_in_calm() {
    for seed in 0..10 {
        let mut world = calm(seed);
        world.run(ms(60_000));
        assert_eq!((world.acting(), world.acted.len()), (Some(0), 1));
        let lapses = world.hosts.iter().map(|host| host.machine.lapses());
        assert_eq!(lapses.sum::<u32>(), 0);
    }
}

#[test]
fn a_dead_or_hung_leader_costs_the_others_nothing() {
    for seed in 0..40 {
        let mut world = calm(seed);
        let servers: [usize; SHARDS] = core::array::from_fn(|shard| world.server(shard).unwrap());
        if seed % 2 == 0 {
            world.kill(0, 20_000, RemovalCause::Down);
        } else {
            world.pause(0);
        }
        let (shards, lead) = outage(&mut world, 5_000);
        assert!(lead <= 1_300, "seed {seed}: {lead} ms without a leader");
        for shard in 0..SHARDS {
            let most = if servers[shard] == 0 { 2_600 } else { 0 };
            assert!(shards[shard] <= most, "seed {seed}: {shards:?}");
        }
    }
}

#[test]
fn a_paused_coordinator_wakes_and_does_nothing_under_its_old_term() {
    for seed in 0..40 {
        let mut world = calm(seed);
        let old = *world.hosts[0].begun.last().unwrap();
        world.pause(0);
        // Sometimes another leads by then.
        world.run(ms(900 + seed * 50));
        world.wake(0);
        assert_ne!(world.hosts[0].machine.reign(), Some(old));
        assert_eq!(world.hosts[0].machine.acting_until(), None);
        world.run(ms(6_000));
        assert!(world.acting().is_some());
        all_served(&world);
    }
}

#[test]
fn a_voter_that_restarts_at_once_supports_nobody_for_a_support_lease() {
    for seed in 0..40 {
        let mut world = calm(seed);
        // Only 0 and 1 hear each other, so 1 is needed; then it forgets its promise, and 2 is heard.
        world.kill(1, 20_000, RemovalCause::Down);
        world.run(ms(1 + seed % 10));
        world.restart(1, 10);
        world.cut.extend([(0, 1), (1, 0), (0, 2), (2, 0)]);
        let begun = world.now;
        world.run(ms(790));
        let young = &world.hosts[1].machine;
        assert!(young.leader().is_none() && young.reign().is_none());
        world.run(ms(6_000));
        let leader = world.acting();
        assert!(leader == Some(1) || leader == Some(2));
        let (at, _, _) = world.acted.last().unwrap();
        assert!(*at >= begun + 780_000);
        world.cut.clear();
        world.run(ms(6_000));
        all_served(&world);
    }
}

#[test]
fn the_lead_is_lost_and_won_again_within_a_second() {
    for seed in 0..40 {
        let mut world = calm(seed);
        for other in 1..5 {
            world.cut.insert((0, other));
        }
        world.run(ms(700 + seed * 10));
        world.cut.clear();
        let (shards, _) = outage(&mut world, 8_000);
        assert!(shards.iter().all(|without| *without <= 4_000), "{shards:?}");
        all_served(&world);
        assert!(world.acted.is_sorted_by(|a, b| a.2 < b.2));
    }
}

#[test]
fn the_whole_cluster_restarts_under_higher_terms() {
    for seed in 0..20 {
        let mut world = calm(seed);
        for i in 0..5 {
            world.kill(i, 20_000, RemovalCause::Down);
        }
        world.run(ms(1 + seed * 20));
        for i in 0..5 {
            world.restart(i, 100);
        }
        world.run(ms(7_000));
        assert!(world.acted.len() >= 2);
        all_served(&world);
    }
}

#[test]
fn a_voter_whose_clock_is_an_hour_behind_takes_nothing_over() {
    for skew in [-3_500_000, -3_700_000] {
        let mut world = World::new(7, LeadershipConfig::new(), 3, 5);
        // It is the oldest.
        world.hosts[0].skew = skew;
        world.kill(0, 20_000, RemovalCause::Down);
        world.run(ms(8_000));
        let leader = world.acting();
        assert_eq!(leader, Some(1));
        world.restart(0, 100);
        world.run(ms(20_000));
        assert_eq!((world.acting(), world.acted.len()), (leader, 1));
        all_served(&world);
    }
}

#[test]
fn two_of_three_voters_are_enough_and_one_is_not() {
    let mut world = calm(1);
    world.kill(2, 1_000, RemovalCause::Down);
    world.run(ms(6_000));
    assert_eq!(world.acting(), Some(0));
    all_served(&world);
    assert!(world.hosts[0].machine.leave_ends_quorum());
    world.kill(1, 1_000, RemovalCause::Down);
    world.run(ms(6_000));
    assert_eq!(world.acting(), None);
    for shard in 0..SHARDS {
        assert_eq!(world.server(shard), None, "served without a lease");
    }
    world.restart(2, 100);
    world.run(ms(8_000));
    all_served(&world);
}

#[test]
fn a_leader_that_hears_nobody_is_replaced() {
    // Two rounds of support, two beats, a support lease, a reign.
    for seed in 0..20 {
        let mut world = calm(seed);
        for other in 1..5 {
            world.cut.insert((other, 0));
        }
        let (_, lead) = outage(&mut world, 15_000);
        assert!(lead <= 4_500, "seed {seed}: {lead} ms without a leader");
        assert_ne!(world.acting(), Some(0));
        world.cut.clear();
        world.run(ms(5_000));
        all_served(&world);
    }
}

#[test]
fn a_leaving_leader_hands_over_at_once() {
    for seed in 0..20 {
        let mut world = calm(seed);
        world.leave(0);
        assert_eq!(world.acting(), None);
        let (shards, lead) = outage(&mut world, 3_000);
        assert!(lead <= 400, "seed {seed}: {lead} ms without a leader");
        assert_eq!(shards, [0; SHARDS]);
    }
}
