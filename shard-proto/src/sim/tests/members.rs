//! Who is in the cluster, and who only seems to be.

use core::time::Duration;

use super::script::{Script, ms, quiet};
use crate::sim::{Fault, Machine, Phase};

#[test]
fn scenario_31_who_was_declared_gone_gets_nothing_back() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let host = script.follower();
        let (shards, before) = (script.served_by(host), script.homes());
        script.fault(Fault::Remove { host });
        // Its shards move when its lease is over, and not before: the promises are checked at every step. If it is back
        // before that, they may move to its next life.
        script.until(4_000, |world| {
            let newer =
                |shard| world.home(shard).map(|home| home.epoch) > Some(before[&shard].epoch);
            let moved = |shard: &u32| world.serving(*shard).is_some() && newer(*shard);
            shards.iter().all(moved)
        });
        let homes = script.homes();
        // It comes back as another life, and what moved stays where it is.
        script.until(8_000, |world| world.machine(host).is_some());
        script.pass(1_000);
        for shard in shards {
            assert_eq!(script.home(shard), homes.get(&shard).copied());
        }
        script.finish();
    }
}

#[test]
fn three_voters_one_of_which_never_started() {
    for seed in 0..5 {
        let mut script = Script::fresh(quiet().with_nodes(3), seed);
        script.pass(1);
        script.crash(2);
        script.pass(300);
        script.crash(2);
        script.until_served(10_000);
        // Until it was given up.
        script.pass(12_000);
        // The last but one may not go just so.
        let host = script.another(&[script.leader().0]);
        assert!(
            script
                .machine(host)
                .unwrap()
                .leadership()
                .leave_ends_quorum()
        );
        script.fault(Fault::Start { host: 2 });
        script.pass(2_000);
        let machine = script.machine(host).unwrap();
        let leader = script.machine(script.leader().0).unwrap();
        assert!(!machine.leadership().leave_ends_quorum());
        assert!(!leader.leadership().leave_ends_quorum());
        script.finish();
    }
}

#[test]
fn a_joiner_whose_clock_is_an_hour_behind_leaves_the_reign_where_it_is() {
    for seed in 0..5 {
        let mut script = Script::fresh(quiet(), seed);
        let host = 3;
        script.pass(1);
        script.crash(host);
        script.pass(300);
        script.crash(host);
        script.until_served(10_000);
        let reign = script.leader();
        script.fault(Fault::WallJump {
            host,
            skew: -3_600_000_000,
        });
        script.fault(Fault::Start { host });
        script.pass(10_000);
        assert_eq!(script.leader(), reign);
        assert!(!script.served_by(host).is_empty(), "it hosts nothing");
        script.finish();
    }
}

#[test]
fn scenario_40_two_leave_at_once() {
    for seed in 0..10 {
        let mut script = Script::formed(quiet().with_nodes(5).with_voters(5), seed);
        let (leader, _) = script.leader();
        let first = if seed % 2 == 0 {
            leader
        } else {
            script.follower()
        };
        let second = script.another(&[first, leader]);
        script.fault(Fault::Leave { host: first });
        script.fault(Fault::Leave { host: second });
        // No timeout: those take 10 s.
        script.until(4_000, |world| {
            world.machine(first).is_none() && world.machine(second).is_none()
        });
        script.until_served(1_000);
        let report = script.finish();
        // But for full buffers, and for what was sent where a node stops.
        assert_eq!(report.reported[2..], [0; 5]);
    }
}

#[test]
fn scenario_40_a_node_leaves_while_shards_move_to_it() {
    for seed in 0..10 {
        let mut script = Script::formed(quiet(), seed);
        let host = script.follower();
        // Its shards go, and then come back to it.
        script.fault(Fault::StopRegion { host, ty: 0 });
        script.pass(1_500);
        script.fault(Fault::StartRegion { host, ty: 0 });
        script.until(6_000, |world| {
            (0..16).any(|shard| world.serving(shard) == Some(host))
        });
        script.fault(Fault::Leave { host });
        script.until(4_000, |world| world.machine(host).is_none());
        script.until_served(1_000);
        script.finish();
    }
}

/// Else it would be missing for ever, and everything with it if nobody else votes.
#[test]
fn who_is_started_while_it_leaves_is_back_once_it_has_left() {
    for seed in 0..10 {
        let voters = 1 + 2 * (seed % 2) as u8;
        let mut script = Script::formed(quiet().with_voters(voters), seed);
        let (host, _) = script.leader();
        // It stands still until its time to leave is up.
        script.fault(Fault::Leave { host });
        script.pause(host, 25_000);
        script.pass(10_000);
        script.fault(Fault::Start { host });
        script.until(20_000, |world| {
            world.machine(host).map(Machine::phase) == Some(Phase::Running)
        });
        script.until_served(5_000);
        script.finish();
    }
}

#[test]
fn who_crashes_while_it_leaves_stays_away() {
    let mut script = Script::formed(quiet(), 1);
    let host = script.follower();
    script.fault(Fault::Leave { host });
    script.fault(Fault::Start { host });
    script.crash(host);
    script.pass(5_000);
    assert!(script.machine(host).is_none());
    script.finish();
}

#[test]
fn late_copies_of_ended_sessions_free_and_revive_nothing() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let host = script.follower();
        // Half of all control frames come twice, and half of them up to three seconds late.
        script.fault(Fault::Noise {
            loss: 0,
            duplicate: 500,
            late: 500,
            delay: ms(3_000),
        });
        for _ in 0..3 {
            script.fault(Fault::StopRegion { host, ty: 0 });
            script.pass(500);
            script.fault(Fault::StartRegion { host, ty: 0 });
            script.pass(1_000);
        }
        script.fault(Fault::Noise {
            loss: 0,
            duplicate: 0,
            late: 0,
            delay: Duration::ZERO,
        });
        script.until_served(10_000);
        script.pass(8_000);
        let homes = script.homes();
        script.pass(4_000);
        assert_eq!(script.homes(), homes, "it does not come to rest");
        script.finish();
    }
}
