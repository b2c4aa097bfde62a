//! Shards move while messages flow.

use alloc::format;
use alloc::vec::Vec;

use super::cluster::*;
use crate::node::*;

/// Every host that lives tells, and now and then asks, a few entities, for a while. The asks: host and key.
pub(super) fn traffic(
    cluster: &mut Cluster,
    ty: TypeIndex,
    rounds: u32,
    pause: u64,
) -> Vec<(usize, u64)> {
    let mut asks = Vec::new();
    for round in 0..rounds {
        for host in 0..cluster.hosts.len() {
            let there = &cluster.hosts[host];
            let gone = there.app.left.is_some() || there.app.removed;
            if !there.alive || there.paused.is_some() || gone {
                continue;
            }
            for entity in 0..8 {
                let id = format!("user-{entity}");
                cluster.tell(host, ty, &id);
                if (round + entity) % 10 == 0 {
                    asks.extend(
                        cluster
                            .ask(host, ty, &id, 5 * SECOND)
                            .map(|key| (host, key)),
                    );
                }
            }
        }
        cluster.run(pause);
    }
    asks
}

pub(super) fn all_answered(cluster: &Cluster, asks: &[(usize, u64)]) {
    for (host, key) in asks {
        let app = &cluster.hosts[*host].app;
        assert!(
            app.answers.contains_key(key),
            "{key} of {}: {:?} {}",
            cluster.hosts[*host].name,
            app.failures.get(key),
            cluster.describe()
        );
    }
}

pub(super) fn formed(
    mode: MembershipMode,
    seed: u64,
    names: &[&'static str],
) -> (Cluster, TypeIndex) {
    let mut cluster = Cluster::with_nodes(seed, mode, names);
    cluster.form();
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
    cluster.run_until(5 * SECOND, Cluster::is_open);
    (cluster, cart)
}

#[test]
fn a_joiner_gets_shards_while_messages_flow() {
    let mut back = 0;
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b"]);
        let mut asks = traffic(&mut cluster, cart, 50, 5 * MS);
        for shard in 0..32 {
            cluster.tell(0, cart, &format!("spread-{shard}"));
        }
        let joiner = cluster.start("c", config(mode, &["a", "b"]));
        cluster.add_type(joiner, CART);
        asks.extend(traffic(&mut cluster, cart, 400, 10 * MS));
        cluster.run(3 * SECOND);
        let served = cluster.served(cart);
        assert!(served[2] > 0, "{served:?}");
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        assert!(cluster.hosts.iter().all(|host| host.app.rejects.is_empty()));
        let stats = || cluster.hosts.iter().map(|host| host.node.stats());
        let returned: u64 = stats().map(|stats| stats.returned).sum();
        let came_back: u64 = stats().map(|stats| stats.came_back).sum();
        assert_eq!(came_back, returned, "nobody ended, nothing was full");
        back += came_back;
    }
    assert!(back > 0, "no move met a message");
}

#[test]
fn a_leaving_node_hands_everything_over() {
    for (mode, seed) in runs() {
        // The leader, then another one.
        for leaver in [0, 2] {
            let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
            let mut asks = traffic(&mut cluster, cart, 50, 5 * MS);
            assert!(cluster.served(cart)[leaver] > 0);
            let now = cluster.instant();
            cluster.hosts[leaver].node.leave(now, true).unwrap();
            cluster.pump(leaver);
            let begin = cluster.now;
            asks.extend(traffic(&mut cluster, cart, 400, 5 * MS));
            cluster.run_until(20 * SECOND, |cluster| {
                cluster.hosts[leaver].app.left.is_some()
            });
            let took = cluster.hosts[leaver].app.left.unwrap() - begin;
            assert!(took < 2 * SECOND, "seed {seed}: left after {took}");
            assert!(cluster.hosts[leaver].app.serving.is_empty());
            cluster.kill(leaver);
            cluster.run(2 * SECOND);
            all_answered(&cluster, &asks);
            cluster.check_quiet();
            for host in &cluster.hosts {
                assert!(host.app.rejects.is_empty(), "{:?}", host.app.rejects);
            }
            let gone = &cluster.hosts[1].app.gone;
            assert_eq!(gone.len(), 1);
            assert_eq!(gone[0].1, crate::membership::RemovalCause::Left);
        }
    }
}

#[test]
fn two_leave_at_once() {
    for (mode, seed) in runs() {
        // Five, so that those who stay are a majority.
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c", "d", "e"]);
        let mut asks = traffic(&mut cluster, cart, 50, 5 * MS);
        let now = cluster.instant();
        for leaver in [0, 1] {
            cluster.hosts[leaver].node.leave(now, true).unwrap();
            cluster.pump(leaver);
        }
        let begin = cluster.now;
        asks.extend(traffic(&mut cluster, cart, 300, 5 * MS));
        for leaver in [0, 1] {
            cluster.run_until(20 * SECOND, |cluster| {
                cluster.hosts[leaver].app.left.is_some()
            });
            let took = cluster.hosts[leaver].app.left.unwrap() - begin;
            assert!(took < 3 * SECOND, "seed {seed}: left after {took}");
            cluster.kill(leaver);
        }
        cluster.run(2 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
    }
}

#[test]
fn the_last_node_stops_at_once() {
    let (mut cluster, cart) = formed(links(), 3, &["a"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    let now = cluster.instant();
    cluster.hosts[0].node.leave(now, true).unwrap();
    cluster.pump(0);
    let took = cluster.run_until(SECOND, |cluster| cluster.hosts[0].app.left.is_some());
    assert!(took < 100 * MS, "{took}");
    assert!(cluster.hosts[0].app.serving.is_empty());
    cluster.check_quiet();
}

#[test]
fn every_node_leaves() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let now = cluster.instant();
        for host in 0..3 {
            cluster.hosts[host].node.leave(now, true).unwrap();
            cluster.pump(host);
        }
        cluster.run_until(3 * SECOND, |cluster| {
            cluster.hosts.iter().all(|host| host.app.left.is_some())
        });
        cluster.check_order(true);
    }
}

#[test]
fn a_stopped_type_lives_on_elsewhere() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        assert!(cluster.served(cart)[1] > 0);
        let now = cluster.instant();
        cluster.hosts[1].node.stop_type(now, cart);
        cluster.pump(1);
        let asks: Vec<_> = traffic(&mut cluster, cart, 200, 5 * MS);
        cluster.run(2 * SECOND);
        assert_eq!(cluster.served(cart)[1], 0);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        // Started again, it hosts again what is given to it.
        cluster.add_type(1, CART);
        cluster.run_until(2 * SECOND, |cluster| cluster.is_registered(cart));
        let asks = traffic(&mut cluster, cart, 100, 5 * MS);
        cluster.run(2 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
    }
}

#[test]
fn what_waits_for_a_drain_arrives_without_further_messages() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        cluster.world.stop = (300 * MS, 300 * MS);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let now = cluster.instant();
        cluster.hosts[1].node.leave(now, true).unwrap();
        cluster.pump(1);
        cluster.run(50 * MS);
        let before = cluster.handled.len();
        for host in 0..3 {
            for entity in 0..8 {
                assert!(cluster.tell(host, cart, &format!("user-{entity}")));
            }
        }
        cluster.run(2 * SECOND);
        assert_eq!(cluster.handled.len(), before + 24);
        cluster.check_quiet();
    }
}

#[test]
fn nodes_come_and_go() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        let mut asks = Vec::new();
        let names = ["d", "e", "f", "g", "h"];
        for (round, name) in names.iter().enumerate() {
            let seeds = ["a", "b", "c", "d", "e", "f", "g"];
            let joiner = cluster.start(name, config(mode, &seeds));
            cluster.add_type(joiner, CART);
            asks.extend(traffic(&mut cluster, cart, 60, 5 * MS));
            // Two of the voters stay.
            let leaver = if seed & TRUST == 0 { round + 2 } else { round };
            cluster.leave(leaver);
            asks.extend(traffic(&mut cluster, cart, 300, 5 * MS));
            cluster.run_until(20 * SECOND, |cluster| {
                cluster.hosts[leaver].app.left.is_some()
            });
            cluster.kill(leaver);
        }
        cluster.run(5 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        for host in &cluster.hosts {
            assert!(
                host.app.rejects.is_empty(),
                "seed {seed} {}: {:?}",
                host.name,
                host.app.rejects
            );
        }
    }
}
