//! Shards that move, and the order of what is sent meanwhile.

use alloc::vec;
use alloc::vec::Vec;

use super::script::{Script, ms, quick_shard, quiet};
use crate::sim::Fault;

#[test]
fn scenario_20_and_21_a_node_hangs_in_a_handoff() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet(), seed);
        let host = script.follower();
        let shard = script.served_by(host)[0];
        let for_ = ms(1_500);
        script.fault(Fault::HangStops { host, for_ });
        script.fault(Fault::Move { shard });
        script.pass(300);
        assert_eq!(script.home(shard), None, "it is not being handed off");
        script.pause(host, 14_000);
        let epoch = script
            .homes()
            .values()
            .map(|home| home.epoch)
            .max()
            .unwrap();
        // Served elsewhere, and not before its lease is over.
        let took = script.until(13_000, |world| {
            world.serving(shard).is_some_and(|other| other != host)
        });
        assert!(took >= 1_000, "after {took} ms");
        let home = script.home(shard).unwrap();
        assert!(home.epoch > epoch);
        // It wakes up, and serves nothing of it; nor does its end move the shard again.
        script.pass(14_100 - took);
        assert_ne!(script.serving(shard), Some(host));
        script.pass(1_000);
        script.crash(host);
        script.pass(4_000);
        assert_eq!(script.home(shard), Some(home));
        script.finish();
    }
}

#[test]
fn scenario_23_the_leader_changes_in_the_middle_of_a_handoff() {
    for seed in 0..20 {
        let mut script = Script::formed(quiet(), seed);
        let (leader, _) = script.leader();
        let host = script.follower();
        let shard = script.served_by(host)[0];
        // Shorter and longer than it takes to find a new leader; some take until they are aborted.
        let for_ = ms(500 << (seed % 5));
        script.fault(Fault::HangStops { host, for_ });
        script.fault(Fault::Move { shard });
        script.pass(300);
        script.crash(leader);
        script.until_served(12_000);
        // No longer than a drain.
        script.until(12_000, |world| world.home(shard).is_some());
        script.pass(2_000);
        assert!(script.serving(shard).is_some());
        script.finish();
    }
}

#[test]
fn scenario_41_order_through_three_moves() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet().with_buffer(1024).with_window(1024), seed);
        let shard = quick_shard(seed);
        let host = script.another(&[script.serving(shard).unwrap()]);
        let before = script.report();
        let mut homes = Vec::new();
        for number in 0..1_000 {
            script.send(host, shard, 1).unwrap();
            if number % 300 == 50 {
                homes.push(script.home(shard));
                script.fault(Fault::Move { shard });
            }
            script.pass(2);
        }
        assert_eq!(homes.len(), 4);
        script.pass(3_000);
        assert!(script.report().moves >= before.moves + 3);
        // Order and repetition are checked with every delivery.
        let after = script.finish();
        assert_eq!(after.sent, after.delivered);
    }
}

#[test]
fn scenario_44_messages_follow_a_shard_around() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet().with_traffic(ms(20)), seed);
        let shard = quick_shard(seed);
        let first = script.serving(shard).unwrap();
        let mut homes = vec![first];
        let sender = script.another(&[first]);
        // As soon as it is served, it moves on, until it was everywhere and is back.
        for _ in 0..40 {
            script.fault(Fault::Move { shard });
            for _ in 0..10 {
                script.send(sender, shard, 0).unwrap();
                script.pass(3);
            }
            let last = *homes.last().unwrap();
            script.until(3_000, |world| {
                world.home(shard).is_some() && world.serving(shard).is_some_and(|host| host != last)
            });
            homes.push(script.serving(shard).unwrap());
            if homes.len() > 3 && script.serving(shard) == Some(first) {
                break;
            }
        }
        script.pass(3_000);
        let report = script.finish();
        assert_eq!(report.sent, report.delivered, "{homes:?}");
    }
}

#[test]
fn scenario_45_a_connection_breaks_with_200_messages_in_flight() {
    for seed in 0..10 {
        let mut script = Script::steady(quiet().with_buffer(1024).with_window(1024), seed);
        let shard = quick_shard(seed);
        let home = script.serving(shard).unwrap();
        let host = script.another(&[home]);
        let before = script.report();
        script.fault(Fault::Burst {
            host,
            shard,
            count: 200,
        });
        script.fault(Fault::Break { a: host, b: home });
        script.pass(2);
        script.fault(Fault::Break { a: host, b: home });
        script.pass(3_000);
        let after = script.report();
        assert!(after.sent >= before.sent + 200);
        let report = script.finish();
        assert_eq!(report.sent, report.delivered);
    }
}

#[test]
fn scenario_46_lost_doubled_and_late_control_leads_to_the_same_end() {
    let noises = [(400, 0, 0), (0, 700, 0), (0, 0, 400), (200, 300, 200)];
    for (seed, (loss, duplicate, late)) in noises.iter().cycle().take(16).enumerate() {
        let config = quiet().with_moves(ms(500));
        let config = config.with_noise(*loss, *duplicate, *late, ms(3_000));
        let mut script = Script::formed_in(config, seed as u64, 40_000);
        script.pass(20_000);
        script.fault(Fault::Noise {
            loss: 0,
            duplicate: 0,
            late: 0,
            delay: ms(0),
        });
        script.until_served(15_000);
        assert!(script.is_served());
        script.finish();
    }
}
