//! Nodes and links fail.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use super::cluster::*;
use super::moving::{all_answered, formed, traffic};
use crate::ShardId;
use crate::membership::RemovalCause;
use crate::node::*;
use crate::region::{Origin, RejectReason};

/// Which shard runs where, and under which epoch.
fn map(cluster: &Cluster) -> Vec<(ShardId, usize, crate::Epoch)> {
    let mut map = Vec::new();
    for (index, host) in cluster.hosts.iter().enumerate() {
        if host.alive {
            for ((_, shard), serving) in &host.app.serving {
                map.push((*shard, index, serving.epoch));
            }
        }
    }
    map.sort();
    map
}

#[test]
fn shards_of_a_dead_node_live_elsewhere() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        let before = map(&cluster);
        assert!(cluster.served(cart)[1] > 0);
        cluster.kill(1);
        traffic(&mut cluster, cart, 400, 10 * MS);
        cluster.run(3 * SECOND);
        for (shard, host, epoch) in before {
            let now = map(&cluster);
            let (_, home, newer) = now.iter().find(|entry| entry.0 == shard).unwrap();
            if host == 1 {
                assert!(*newer > epoch && *home != 1);
            } else {
                assert_eq!(
                    (*home, *newer),
                    (host, epoch),
                    "a shard that lives was moved"
                );
            }
        }
        for host in [0, 2] {
            let app = &cluster.hosts[host].app;
            assert_eq!(app.gone.len(), 1);
            assert_eq!(app.gone[0].1, RemovalCause::Down);
            for (_, _, reason, _) in &app.rejects {
                assert_eq!(*reason, RejectReason::PerhapsDelivered);
            }
        }
        cluster.check_single();
        cluster.check_pending();
        cluster.check_order(false);
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
    }
}

#[test]
fn a_new_leader_moves_nothing_that_lives() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        let before = map(&cluster);
        cluster.kill(0);
        traffic(&mut cluster, cart, 400, 10 * MS);
        cluster.run(3 * SECOND);
        let now = map(&cluster);
        for entry in before.iter().filter(|entry| entry.1 != 0) {
            assert!(now.contains(entry), "{entry:?} was moved");
        }
        assert_eq!(now.len(), before.len());
        let leader = cluster.hosts[1].app.leader.unwrap();
        assert_eq!(leader.node, cluster.hosts[1].node.me());
        cluster.check_single();
        cluster.check_pending();
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
    }
}

#[test]
fn a_node_comes_back_in_a_new_life() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        assert!(cluster.served(cart)[1] > 0);
        cluster.kill(1);
        cluster.run(100 * MS);
        let again = cluster.start("b", config(mode, &["a", "c"]));
        cluster.add_type(again, CART);
        traffic(&mut cluster, cart, 200, 10 * MS);
        cluster.run(2 * SECOND);
        for host in [0, 2] {
            let app = &cluster.hosts[host].app;
            assert_eq!(app.gone.len(), 1, "{:?}", app.gone);
            assert_eq!(app.gone[0].1, RemovalCause::Replaced);
            assert_eq!(app.members.len(), 3);
        }
        cluster.check_single();
        cluster.check_pending();
        cluster.check_order(false);
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
    }
}

#[test]
fn a_reset_connection_loses_and_doubles_nothing() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        let mut asks = Vec::new();
        for _ in 0..20 {
            asks.extend(traffic(&mut cluster, cart, 10, MS));
            let pair = [(0, 1), (1, 2), (0, 2)][cluster.rng.below(3) as usize];
            cluster.reset(pair.0, pair.1);
        }
        cluster.run(5 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        for host in &cluster.hosts {
            assert!(host.app.rejects.is_empty());
            assert!(host.app.gone.is_empty());
        }
    }
}

#[test]
fn a_cut_that_heals_in_time_loses_nothing() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        let mut asks = traffic(&mut cluster, cart, 50, 5 * MS);
        cluster.block(1, 2);
        asks.extend(traffic(&mut cluster, cart, 100, 5 * MS));
        cluster.unblock(1, 2);
        asks.extend(traffic(&mut cluster, cart, 100, 5 * MS));
        cluster.run(8 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        for host in &cluster.hosts {
            assert!(host.app.rejects.is_empty());
            assert!(host.app.gone.is_empty());
        }
    }
}

#[test]
fn a_node_that_was_declared_down_stops() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        // Nobody hears of `c` for longer than `down_after`, then everybody again.
        cluster.block(0, 2);
        cluster.block(1, 2);
        cluster.run(6 * SECOND);
        cluster.unblock(0, 2);
        cluster.unblock(1, 2);
        cluster.run_until(5 * SECOND, |cluster| cluster.hosts[2].app.removed);
        assert!(cluster.hosts[2].app.serving.is_empty());
        assert!(!cluster.tell(2, cart, "user-1"));
        cluster.kill(2);
        cluster.run(SECOND);
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
        cluster.check_single();
        cluster.check_pending();
    }
}

#[test]
fn asks_of_a_dead_node_fail_at_once() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        cluster.world.service = (10 * SECOND, 10 * SECOND);
        let mut keys = Vec::new();
        for entity in 0..30 {
            let id = format!("user-{entity}");
            keys.push(cluster.ask(0, cart, &id, 60 * SECOND).unwrap());
        }
        cluster.run(SECOND);
        let away: Vec<_> = keys
            .iter()
            .filter(|key| !cluster.hosts[0].app.answers.contains_key(key))
            .collect();
        assert!(!away.is_empty());
        cluster.kill(1);
        cluster.kill(2);
        cluster.run(5 * SECOND);
        let app = &cluster.hosts[0].app;
        let failed = app
            .failures
            .values()
            .filter(|reason| **reason == AskFailure::PerhapsDelivered);
        assert!(failed.count() > 0);
        assert!(app.failures.len() < keys.len());
    }
}

/// The whole cluster restarts: whatever is served then has an epoch above all that was, so that stores which saw the old
/// ones take what is written under the new ones.
#[test]
fn epochs_grow_over_a_restart_of_the_whole_cluster() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let newest = map(&cluster).iter().map(|entry| entry.2).max().unwrap();
        for host in 0..3 {
            cluster.kill(host);
        }
        cluster.run(100 * MS);
        for (index, name) in ["a", "b", "c"].iter().enumerate() {
            let config = config(mode, &["a", "b", "c"]).with_bootstrap(index == 0);
            cluster.start(name, config);
        }
        cluster.form();
        cluster.add_type_everywhere(&CART);
        cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
        cluster.check_single();
        for (shard, _, epoch) in map(&cluster) {
            assert!(epoch > newest, "{shard:?}: {epoch:?} after {newest:?}");
        }
    }
}

#[test]
fn what_a_life_left_in_a_mailbox_is_not_its_successors() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        cluster.world.service = (600 * SECOND, 600 * SECOND);
        for number in 0..60 {
            cluster.tell(1, cart, &format!("cart-{number}"));
        }
        cluster.run(SECOND);
        let waiting = |cluster: &Cluster| {
            let serving = cluster.hosts[2].app.serving.values();
            let foreign = |serving: &Serving| {
                let remote = serving.mailbox.iter().filter(|m| m.origin != Origin::Local);
                remote.count()
            };
            serving.map(foreign).sum::<usize>()
        };
        let left_behind = waiting(&cluster);
        assert!(left_behind > 0);
        cluster.kill(1);
        let again = cluster.start("b", config(mode, &["a", "c"]));
        cluster.add_type(again, CART);
        cluster.world.service = (0, 500);
        cluster.run(2 * SECOND);
        cluster.leave(2);
        cluster.run_until(20 * SECOND, |cluster| cluster.hosts[2].app.left.is_some());
        cluster.run(SECOND);
        assert!(
            cluster
                .handled
                .iter()
                .all(|handled| handled.tell.sender != 1)
        );
        let rejects = &cluster.hosts[2].app.rejects;
        let reported = rejects.iter().filter(|(_, tell, reason, origin)| {
            tell.sender == 1 && *reason == RejectReason::OriginEnded && *origin != Origin::Local
        });
        assert_eq!(reported.count(), left_behind);
        assert!(cluster.hosts[again].app.warnings.is_empty());
        cluster.check_pending();
    }
}

#[test]
fn what_nobody_acknowledged_by_the_end_of_a_leave_is_reported() {
    for seed in seeds() {
        let names = ["a", "b", "c"];
        let mut cluster = Cluster::new(seed);
        cluster.set_voters(&names);
        for (index, name) in names.iter().enumerate() {
            let config = config(links(), &names).with_leave_deadline(Duration::from_millis(300));
            cluster.start(name, config.with_bootstrap(index == 0));
            cluster.run(MS);
        }
        cluster.form();
        let cart = cluster.add_type_everywhere(&CART);
        cluster.run_until(5 * SECOND, Cluster::is_open);
        traffic(&mut cluster, cart, 100, 5 * MS);
        cluster.run(SECOND);
        let (handled, rejected) = (cluster.handled.len(), cluster.hosts[1].app.rejects.len());
        cluster.pause(2, SECOND);
        for number in 0..60 {
            assert!(cluster.tell(1, cart, &format!("cart-{number}")));
        }
        cluster.leave(1);
        cluster.run_until(SECOND, |cluster| cluster.hosts[1].app.left.is_some());
        let rejects = &cluster.hosts[1].app.rejects[rejected..];
        let perhaps = rejects
            .iter()
            .filter(|(.., reason, _)| *reason == RejectReason::PerhapsDelivered);
        assert!(perhaps.count() > 0);
        let handled = cluster.handled[handled..]
            .iter()
            .filter(|handled| handled.tell.sender == 1);
        assert_eq!(handled.count() + rejects.len(), 60);
    }
}
