//! Hosts that die, hang and come back, and what becomes of their shards and of the lead.

use alloc::vec::Vec;

use super::script::{Script, ms, quiet};
use crate::leadership::LeadershipConfig;
use crate::sim::{Cause, Fault, Report, WorldConfig};

/// One incident in each of a few worlds, measured.
fn measured(config: &WorldConfig, cause: Cause) -> Report {
    let mut total = Report::default();
    for seed in 0..6 {
        let mut script = Script::formed(config.clone().with_traffic(ms(8)), seed);
        script.fault(Fault::Probe(cause));
        script.pass(12_000);
        script.fault(Fault::ProbeOver);
        total.merge(&script.report());
    }
    let outage = total.outage(cause);
    assert_eq!(outage.tried, 6);
    assert!(outage.count > 0, "nothing was missing");
    total
}

fn lan() -> WorldConfig {
    let lan = WorldConfig::lan();
    quiet()
        .with_leadership(LeadershipConfig::lan())
        .with_retry_interval(ms(100))
        .with_delay(ms(1), ms(3))
        .with_hosting(ms(50), ms(100))
        .with_detection(lan.detection.0, lan.detection.1)
}

#[test]
fn scenario_28_shards_of_a_killed_node_are_served_within_the_bound() {
    for cause in [
        Cause::Crash,
        Cause::LeaderCrash,
        Cause::Pause,
        Cause::LeaderPause,
    ] {
        let total = measured(&quiet(), cause);
        let outage = total.outage(cause);
        assert!(outage.worst <= 2_900_000, "{cause}: {outage:?}");
        assert_eq!(outage.worst_of_others, 0, "{cause}");
    }
}

#[test]
fn scenario_28_on_a_local_network() {
    for cause in [
        Cause::Crash,
        Cause::LeaderCrash,
        Cause::Pause,
        Cause::LeaderPause,
    ] {
        let total = measured(&lan(), cause);
        let outage = total.outage(cause);
        assert!(outage.worst <= 1_000_000, "{cause}: {outage:?}");
        assert_eq!(outage.worst_of_others, 0, "{cause}");
    }
}

#[test]
fn a_planned_leave_costs_two_round_trips_and_the_stop() {
    for cause in [Cause::Leave, Cause::LeaderLeave, Cause::Move] {
        let total = measured(&quiet(), cause);
        let outage = total.outage(cause);
        // Starts take up to 200 ms.
        assert!(outage.worst <= 450_000, "{cause}: {outage:?}");
        assert_eq!(outage.worst_of_others, 0, "{cause}");
        // But for full buffers, and for what was sent where a node stops.
        assert_eq!(total.reported[2..], [0; 5], "{cause}");
    }
}

#[test]
fn scenario_29_a_quick_restart_gives_each_shard_one_new_home() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let host = script.follower();
        let (before, moved) = (script.homes(), script.served_by(host));
        script.fault(Fault::Restart { host });
        script.until_served(3_500);
        script.pass(1_500);
        let after = script.homes();
        for (shard, home) in &before {
            let again = after[shard];
            if moved.contains(shard) {
                assert!(again.epoch > home.epoch, "shard {shard}");
            }
        }
        // The lead was not touched, so allocations are counted.
        let allocated = after.values().map(|home| home.epoch.round()).max().unwrap();
        let rounds = before
            .values()
            .map(|home| home.epoch.round())
            .max()
            .unwrap();
        assert!(u64::from(allocated - rounds) <= 2 * moved.len() as u64);
        script.finish();
    }
}

#[test]
fn scenario_30_a_new_leader_moves_nothing_that_is_claimed() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let (leader, term) = script.leader();
        let lost = script.served_by(leader);
        let before = script.homes();
        script.crash(leader);
        script.until(2_000, |world| {
            world.acting().is_some_and(|(_, newer)| newer > term)
        });
        // Nothing is allocated before the barrier, which is a lease after the last beat of the former leader.
        let open = |world: &crate::sim::World| {
            let leader = world.acting().and_then(|(host, _)| world.machine(host));
            leader.is_some_and(|machine| machine.leadership().is_open())
        };
        let barrier = script.until(3_000, |world| {
            let is_open = open(world);
            for shard in &lost {
                let early = !is_open && world.serving(*shard).is_some();
                assert!(!early, "allocated before the barrier");
            }
            is_open
        });
        assert!(barrier > 500, "the barrier took only {barrier} ms");
        script.until_served(1_000);
        let after = script.homes();
        for (shard, home) in before {
            if !lost.contains(&shard) {
                assert_eq!(after[&shard], home, "shard {shard} moved");
            }
        }
        script.finish();
    }
}

#[test]
fn scenario_32_two_that_believe_to_lead() {
    for seed in 0..20 {
        let mut script = Script::formed(quiet().with_nodes(5), seed);
        let (leader, term) = script.leader();
        // Half of the others do not hear the leader, and it does not hear them: both sides name one.
        let others: Vec<u8> = script.hosts().filter(|host| *host != leader).collect();
        for (number, other) in others.iter().enumerate() {
            if number % 2 == seed as usize % 2 {
                script.fault(Fault::Cut {
                    from: leader,
                    to: *other,
                });
            }
            let (by, of) = (*other, leader);
            script.fault(Fault::Suspect {
                by,
                of,
                for_: ms(6_000),
            });
        }
        script.pass(6_000);
        script.fault(Fault::HealAll);
        script.until_served(5_000);
        script.pass(3_000);
        let (_, now) = script.leader();
        assert!(now >= term);
        script.finish();
    }
}

#[test]
fn a_coordinator_that_wakes_after_its_support_is_over_does_nothing_under_the_old_term() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let (leader, term) = script.leader();
        let mine = script.served_by(leader);
        script.pause(leader, 5_000);
        script.pass(5_001);
        // Whoever acts now does so under a fresh term, and the woken node serves nothing of what it had.
        assert!(script.acting().is_none_or(|(_, newer)| newer > term));
        for shard in mine {
            assert_ne!(script.serving(shard), Some(leader));
        }
        script.until_served(3_000);
        assert!(script.leader().1 > term);
        script.finish();
    }
}

#[test]
fn a_node_that_restarts_supports_nobody_for_a_support_lease() {
    for seed in 0..10 {
        let mut script = Script::formed(quiet().with_nodes(3), seed);
        let (leader, term) = script.leader();
        let host = script.another(&[leader]);
        script.crash(leader);
        script.crash(host);
        script.pass(10);
        script.fault(Fault::Start { host });
        // One voter is left that may support another, and one is not enough.
        let least = script.config().leadership().support_lease();
        let took = script.until(10_000, |world| world.acting().is_some());
        let clocks = 98 * least.as_millis() as u64 / 100;
        assert!(took >= clocks, "supported after {took} ms");
        assert!(script.leader().1 > term);
        script.until_served(5_000);
        script.finish();
    }
}

#[test]
fn the_lead_is_lost_and_won_again_within_a_second() {
    for seed in 0..20 {
        let mut script = Script::formed(quiet(), seed);
        let (leader, term) = script.leader();
        script.isolate(leader);
        script.until(1_500, |world| world.acting().is_none());
        script.fault(Fault::HealAll);
        script.until(3_000, |world| {
            world.acting().is_some_and(|(_, newer)| newer > term)
        });
        script.until_served(4_000);
        script.pass(3_000);
        assert_eq!(script.homes().len(), 16, "without a home");
        script.finish();
    }
}

#[test]
fn epochs_are_above_the_old_ones_after_a_restart_of_all() {
    for (seed, down) in [(1, 10), (2, 100), (3, 3_000), (4, 20_000)] {
        let mut script = Script::formed(quiet(), seed);
        let before = script.homes();
        for host in script.hosts() {
            script.crash(host);
        }
        script.pass(down);
        for host in script.hosts() {
            script.fault(Fault::Start { host });
        }
        script.until_served(6_000);
        for (shard, home) in script.homes() {
            assert!(home.epoch > before[&shard].epoch, "shard {shard}");
        }
        script.finish();
    }
}
