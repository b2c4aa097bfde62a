//! Full links: what waits for one waits alone.

use alloc::format;
use alloc::vec::Vec;

use super::cluster::*;
use super::moving::traffic;
use crate::node::*;
use crate::region::{Origin, RejectReason};

/// Three nodes with windows of a few frames.
fn narrow(seed: u64) -> (Cluster, TypeIndex) {
    let names = ["a", "b", "c"];
    let mut cluster = Cluster::new(seed);
    cluster.set_voters(&names);
    for name in names {
        cluster.start(name, config(links(), &names).with_window_frames(4));
        cluster.run(MS);
    }
    cluster.form();
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
    cluster.run_until(5 * SECOND, Cluster::is_open);
    traffic(&mut cluster, cart, 20, 5 * MS);
    (cluster, cart)
}

/// Stops the type on a host, to which `b` has sent more than its link to `b` takes back, and which `b` does not hear.
fn stuff(cluster: &mut Cluster, cart: TypeIndex, host: usize) {
    cluster.world.stop = (300 * MS, 300 * MS);
    cluster.stop_type(host, cart);
    for _ in 0..100 {
        for entity in 0..8 {
            cluster.tell(1, cart, &format!("user-{entity}"));
        }
        cluster.run(2 * MS);
    }
    cluster.cut_off(host, 1);
    cluster.run(150 * MS);
    let node = &cluster.hosts[host].node;
    assert!(
        node.types
            .get(cart)
            .is_some_and(|kind| !kind.stuck.is_empty())
    );
}

#[test]
fn a_full_link_holds_back_only_what_goes_over_it() {
    for seed in seeds() {
        // The leader, then another one.
        for host in [0, 2] {
            let (mut cluster, cart) = narrow(seed);
            let homes = cluster.hosts[host].app.serving.keys();
            let shards: Vec<_> = homes.map(|(_, shard)| *shard).collect();
            stuff(&mut cluster, cart, host);
            let other = 2 - host;
            let ids = (0..8).map(|entity| format!("user-{entity}"));
            let ids = ids.filter(|id| shards.contains(&hash::entity_shard(id.as_bytes(), 32)));
            let asks: Vec<_> = ids
                .filter_map(|id| cluster.ask(other, cart, &id, SECOND))
                .collect();
            assert!(!asks.is_empty());
            // A leader whom `b` does not hear may give it some of the shards all the same.
            let wanted = if host == 0 { 1 } else { asks.len() };
            cluster.run_until(500 * MS, |cluster| {
                let answers = &cluster.hosts[other].app.answers;
                asks.iter().filter(|ask| answers.contains_key(ask)).count() >= wanted
            });
            cluster.unblock(host, 1);
            cluster.run(5 * SECOND);
            cluster.check_quiet();
        }
    }
}

/// More at a time than links take, before anything is polled: the rest waits.
#[test]
fn a_burst_waits_for_room() {
    for seed in seeds() {
        let (mut cluster, cart) = narrow(seed);
        for _ in 0..40 {
            for entity in 0..8 {
                cluster.tell(1, cart, &format!("user-{entity}"));
            }
        }
        assert_eq!(cluster.hosts[1].node.stats().refused, 0);
        cluster.run(5 * SECOND);
        cluster.check_quiet();
    }
}

#[test]
fn what_cannot_go_back_is_reported() {
    for seed in seeds() {
        let (mut cluster, cart) = narrow(seed);
        stuff(&mut cluster, cart, 2);
        cluster.kill(1);
        cluster.run(5 * SECOND);
        let mut known = Vec::new();
        for (id, tell, reason, origin) in &cluster.hosts[2].app.rejects {
            if *origin == Origin::Remote(cluster.hosts[1].node.me()) {
                assert_eq!(*reason, RejectReason::OriginEnded);
                known.push((id.clone(), *tell));
            }
        }
        let returned = cluster.hosts[2].node.stats().returned;
        let back = cluster.hosts[1].node.stats().came_back;
        assert!(
            known.len() as u64 >= returned - back,
            "{} {returned} {back}",
            known.len()
        );
        let count = known.len();
        known.sort();
        known.dedup();
        assert_eq!(known.len(), count, "reported twice");
        cluster.check_order(false);
    }
}
