//! Everything at once.

use alloc::vec::Vec;

use super::cluster::*;
use super::moving::{all_answered, formed, traffic};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The host that now has the name, if it lives and stays.
fn living(cluster: &Cluster, name: &str) -> Option<usize> {
    (0..cluster.hosts.len()).find(|host| {
        let host = &cluster.hosts[*host];
        host.name == name && host.alive && host.app.left.is_none() && !host.node.is_leaving()
    })
}

fn is_running(cluster: &Cluster, name: &str) -> bool {
    let mut hosts = cluster.hosts.iter();
    hosts.any(|host| host.name == name && host.alive)
}

/// Processes that are done end.
fn reap(cluster: &mut Cluster) {
    for host in 0..cluster.hosts.len() {
        let app = &cluster.hosts[host].app;
        if cluster.hosts[host].alive && (app.left.is_some() || app.removed) {
            cluster.kill(host);
        }
    }
}

#[test]
fn nodes_and_links_fail_while_messages_flow() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &NAMES);
        for _ in 0..20 {
            let name = NAMES[cluster.rng.below(5) as usize];
            let others: Vec<_> = NAMES
                .iter()
                .filter_map(|name| living(&cluster, name))
                .collect();
            let now = cluster.instant();
            match (living(&cluster, name), cluster.rng.below(6)) {
                (Some(host), 0) if others.len() > 2 => cluster.kill(host),
                (Some(host), 1) if others.len() > 2 => {
                    cluster.hosts[host].node.leave(now, true).unwrap();
                    cluster.pump(host);
                }
                (Some(host), 2) => {
                    let other = others[cluster.rng.below(others.len() as u64) as usize];
                    if other != host {
                        cluster.block(host, other);
                        traffic(&mut cluster, cart, 20, 10 * MS);
                        cluster.unblock(host, other);
                    }
                }
                (Some(host), 3) => {
                    for other in others {
                        cluster.reset(host, other);
                    }
                }
                (Some(host), 4) => {
                    cluster.hosts[host].node.stop_type(now, cart);
                    cluster.pump(host);
                    traffic(&mut cluster, cart, 10, 10 * MS);
                    cluster.run(500 * MS);
                    if cluster.hosts[host].alive {
                        cluster.try_add_type(host, CART);
                    }
                }
                (None, _) if !is_running(&cluster, name) => {
                    let host = cluster.start(name, config(mode, &NAMES));
                    cluster.add_type(host, CART);
                }
                _ => {}
            }
            traffic(&mut cluster, cart, 10, 10 * MS);
            reap(&mut cluster);
            cluster.check_order(false);
        }
        // All that was cut is whole again; who was declared dead comes back.
        cluster.run(10 * SECOND);
        reap(&mut cluster);
        for name in NAMES {
            if !is_running(&cluster, name) {
                let host = cluster.start(name, config(mode, &NAMES));
                cluster.add_type(host, CART);
            }
        }
        cluster.form();
        cluster.run_until(10 * SECOND, |cluster| cluster.is_registered(cart));
        cluster.run(3 * SECOND);
        let asks = traffic(&mut cluster, cart, 50, 10 * MS);
        cluster.run(5 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_single();
        cluster.check_order(false);
        cluster.check_pending();
    }
}
