//! Whole nodes whose members are found by SWIM, over their links.

use super::cluster::*;
use super::moving::{all_answered, traffic};
use crate::membership::RemovalCause;
use crate::node::*;

const MODE: MembershipMode = MembershipMode::Swim;

/// Nodes of which each but the first knows the address of one other.
fn chain(seed: u64, names: &[&'static str]) -> (Cluster, TypeIndex) {
    let mut cluster = Cluster::new(seed);
    for (index, name) in names.iter().enumerate() {
        let seeds = match index.checked_sub(1) {
            Some(before) => &names[before..index],
            None => &[],
        };
        cluster.start(name, config(MODE, seeds).with_bootstrap(index == 0));
        cluster.run(MS);
    }
    let all = names.len();
    cluster.run_until(5 * SECOND, |cluster| {
        let mut hosts = cluster.hosts.iter();
        hosts.all(|host| host.app.members.len() == all && host.app.leader.is_some())
    });
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
    (cluster, cart)
}

#[test]
fn a_chain_of_seeds_becomes_a_cluster() {
    for seed in seeds() {
        let (mut cluster, cart) = chain(seed, &["a", "b", "c", "d"]);
        let leader = cluster.hosts[0].node.me();
        for host in &cluster.hosts {
            assert_eq!(host.app.leader.unwrap().node, leader);
        }
        let asks = traffic(&mut cluster, cart, 100, 5 * MS);
        cluster.run(2 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_quiet();
        let unexpected = |host: &Host| host.node.stats().unexpected;
        assert!(cluster.hosts.iter().all(|host| unexpected(host) == 0));
    }
}

#[test]
fn leaving_dying_and_coming_back_are_told_apart() {
    for seed in seeds() {
        let (mut cluster, cart) = chain(seed, &["a", "b", "c", "d"]);
        traffic(&mut cluster, cart, 50, 5 * MS);
        let now = cluster.instant();
        cluster.hosts[1].node.leave(now, true).unwrap();
        cluster.pump(1);
        let mut asks = traffic(&mut cluster, cart, 200, 5 * MS);
        cluster.run_until(5 * SECOND, |cluster| cluster.hosts[1].app.left.is_some());
        let left = cluster.hosts[1].node.me();
        cluster.kill(2);
        traffic(&mut cluster, cart, 400, 5 * MS);
        cluster.run(3 * SECOND);
        let dead = cluster.hosts[2].node.me();
        for host in [0, 3] {
            let gone = &cluster.hosts[host].app.gone;
            let expected = [(left, RemovalCause::Left), (dead, RemovalCause::Down)];
            assert_eq!(gone.as_slice(), expected, "seed {seed}");
        }
        let again = cluster.start("c", config(MODE, &["d"]));
        cluster.add_type(again, CART);
        cluster.run(3 * SECOND);
        for host in [0, 3, again] {
            assert_eq!(cluster.hosts[host].app.members.len(), 3);
        }
        asks.retain(|(host, _)| [0, 3].contains(host));
        all_answered(&cluster, &asks);
        let asks = traffic(&mut cluster, cart, 50, 5 * MS);
        cluster.run(2 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_single();
        cluster.check_pending();
    }
}
