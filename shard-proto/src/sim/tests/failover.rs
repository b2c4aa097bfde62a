//! Hosts that die, hang and come back, and what becomes of their shards and of the lead.

use alloc::vec::Vec;

use super::script::{Script, ms, quiet};
use crate::leadership::LeadershipConfig;
use crate::sim::{Cause, Fault, Report, WorldConfig};

/// Worlds per cause.
const SEEDS: u64 = 20;

/// One incident in each of a few worlds, of three and of five voters, measured.
fn measured(config: &WorldConfig, cause: Cause, time: u64) -> Report {
    let mut total = Report::default();
    for seed in 0..SEEDS {
        let (nodes, voters) = [(4, 3), (5, 5)][seed as usize % 2];
        let config = config.clone().with_nodes(nodes).with_voters(voters);
        let mut script = Script::formed(config.with_traffic(ms(8)), seed);
        // Not always at the same point between two beats.
        script.pass(7 * seed);
        script.fault(Fault::Probe(cause));
        script.pass(time);
        script.fault(Fault::ProbeOver);
        total.merge(&script.report());
    }
    let outage = total.outage(cause);
    assert_eq!(outage.tried, SEEDS);
    assert!(outage.count > 0, "nothing was missing");
    total
}

/// Nobody's shards are missed for longer, and only the victim's at all.
fn assert_bounds(config: &WorldConfig, time: u64, bounds: &[(Cause, u64)]) {
    for (cause, bound) in bounds {
        let total = measured(config, *cause, time);
        let outage = total.outage(*cause);
        assert!(outage.worst <= bound * 1_000, "{cause}: {outage:?}");
        assert_eq!(outage.worst_of_others, 0, "{cause}");
    }
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
    let bounds = [
        (Cause::Crash, 2_900),
        (Cause::LeaderCrash, 2_900),
        (Cause::Pause, 2_900),
        (Cause::LeaderPause, 2_900),
        // Its next life frees them as soon as it registers, which a voter does after its quiet start.
        (Cause::Restart, 1_700),
    ];
    assert_bounds(&quiet(), 6_000, &bounds);
}

#[test]
fn scenario_28_on_a_local_network() {
    let bounds = [
        (Cause::Crash, 1_000),
        (Cause::LeaderCrash, 1_000),
        (Cause::Pause, 1_000),
        (Cause::LeaderPause, 1_000),
        (Cause::Restart, 500),
    ];
    assert_bounds(&lan(), 2_000, &bounds);
}

/// Who is cut off serves until its lease is over: from then on it counts.
#[test]
fn shards_of_a_node_that_is_cut_off_are_served_again_soon() {
    let causes = [Cause::Cut, Cause::LeaderCut, Cause::LeaderMute];
    assert_bounds(&quiet(), 6_000, &causes.map(|cause| (cause, 1_200)));
    assert_bounds(&lan(), 2_000, &causes.map(|cause| (cause, 450)));
}

/// A leader that is heard, but hears nobody, has to be noticed first; then everything has to move, since nobody's lease
/// is extended meanwhile.
#[test]
fn a_leader_that_hears_nobody_is_replaced() {
    for (config, time, bound) in [(quiet(), 10_000, 4_500), (lan(), 3_000, 1_360)] {
        let total = measured(&config, Cause::LeaderDeaf, time);
        let outage = total.outage(Cause::LeaderDeaf);
        let worst = outage.worst.max(outage.worst_of_others);
        assert!(worst <= bound * 1_000, "{outage:?}");
    }
}

#[test]
fn a_cold_start_takes_a_lease() {
    for (config, bound) in [(quiet(), 2_500), (lan(), 800)] {
        for seed in 0..SEEDS {
            let config = config.clone().with_nodes(3).with_traffic(ms(8));
            let script = Script::formed(config, seed);
            let report = script.report();
            let outage = report.outage(Cause::ColdStart);
            // They start within 300 ms.
            assert!(outage.worst <= (bound + 300) * 1_000, "{seed}: {outage:?}");
        }
    }
}

#[test]
fn a_planned_leave_costs_two_round_trips_and_the_stop() {
    // Starts take up to 200 ms, or 50 ms.
    for (config, time, bound) in [(quiet(), 6_000, 450), (lan(), 3_000, 200)] {
        for cause in [Cause::Leave, Cause::LeaderLeave, Cause::Move] {
            let total = measured(&config, cause, time);
            let outage = total.outage(cause);
            assert!(outage.worst <= bound * 1_000, "{cause}: {outage:?}");
            assert_eq!(outage.worst_of_others, 0, "{cause}");
            // But for full buffers, and for what was sent where a node stops.
            assert_eq!(total.reported[2..], [0; 5], "{cause}");
        }
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
