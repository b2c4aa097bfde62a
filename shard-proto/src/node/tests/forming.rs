//! Clusters form, route, and take nodes in.

use alloc::vec::Vec;

use super::cluster::*;
use crate::node::*;

#[test]
fn a_node_alone_serves_at_once() {
    let mut cluster = Cluster::new(1);
    cluster.start("a", NodeConfig::standalone().lan());
    let cart = cluster.add_type(0, CART);
    assert!(cluster.tell(0, cart, "user-42"));
    let key = cluster.ask(0, cart, "user-42", SECOND).unwrap();
    let took = cluster.run_until(SECOND, |cluster| cluster.handled.len() == 2);
    assert!(took < 50 * MS, "{took}");
    assert_eq!(cluster.hosts[0].app.answers[&key], REPLY_ANSWER);
    cluster.run(SECOND);
    cluster.check_quiet();
}

#[test]
fn three_nodes_form_a_cluster_and_route() {
    for (mode, seed) in runs() {
        let mut cluster = Cluster::with_nodes(seed, mode, &["a", "b", "c"]);
        cluster.form();
        let cart = cluster.add_type_everywhere(&CART);
        cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
        let mut keys = Vec::new();
        for round in 0..20 {
            for host in 0..3 {
                for entity in 0..10 {
                    let id = alloc::format!("user-{entity}");
                    assert!(cluster.tell(host, cart, &id));
                    if round % 5 == 0 {
                        keys.push((host, cluster.ask(host, cart, &id, SECOND).unwrap()));
                    }
                }
            }
            cluster.run(5 * MS);
        }
        cluster.run(2 * SECOND);
        for (host, key) in keys {
            assert_eq!(
                cluster.hosts[host].app.answers.get(&key),
                Some(&REPLY_ANSWER)
            );
        }
        cluster.check_quiet();
        assert!(cluster.hosts.iter().all(|host| host.app.rejects.is_empty()));
        let served = cluster.served(cart);
        assert!(served.iter().all(|count| *count > 0), "{served:?}");
    }
}
