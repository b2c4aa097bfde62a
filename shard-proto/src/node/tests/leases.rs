//! What holds under leases, one thing at a time. `storm` has all of it at once.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::cluster::*;
use super::moving::{all_answered, formed, traffic};
use crate::leadership::Ownership;
use crate::node::*;
use crate::{Incarnation, Instant, Term};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn new(config: NodeConfig) -> Result<Node<bytes::Bytes>, ConfigError> {
    Node::new(
        Instant::ZERO,
        Identity::new("a", Incarnation(1), "a"),
        config,
    )
}

#[test]
fn settings_name_the_voters_and_the_way_out() {
    let base = || NodeConfig::new(links());
    for voters in [&[][..], &["a", "b"], &["a", "a", "b"], &["a"; 7]] {
        let error = new(base().with_voters(names(voters))).unwrap_err();
        assert_eq!(error.field, "voters");
        let text = error.to_string();
        assert!(
            text.contains("ownership") && text.contains("1, 3 or 5"),
            "{text}"
        );
    }
    assert!(new(base().with_voters(names(&["a", "b", "c"]))).is_ok());
    assert!(new(base().with_ownership(Ownership::Trust)).is_ok());
    assert!(new(base().with_ownership(Ownership::External)).is_ok());
    assert!(new(NodeConfig::standalone()).is_ok());
    let short = base().with_voters(names(&["a"]));
    let short = short.with_lease(Duration::from_millis(900));
    assert_eq!(new(short).unwrap_err().field, "lease");
}

#[test]
fn a_node_with_other_voters_is_refused() {
    let mut cluster = Cluster::new(1);
    cluster.set_voters(&["a", "b", "c"]);
    cluster.start("a", config(links(), &["b"]));
    cluster.set_voters(&["b"]);
    cluster.start("b", config(links(), &["a"]));
    cluster.run(2 * SECOND);
    for host in &cluster.hosts {
        assert_eq!(host.app.members.len(), 1);
        assert!(host.node.stats().links_refused > 0);
    }
}

/// Two voters of three are enough. The second one that leaves would end that; it must insist.
#[test]
fn two_of_three_voters_carry_a_cluster_and_one_does_not() {
    let mut cluster = Cluster::new(2);
    cluster.set_voters(&["a", "b", "c"]);
    for name in ["a", "b"] {
        cluster.start(name, config(links(), &["a", "b"]));
    }
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run_until(5 * SECOND, Cluster::is_open);
    let asks = traffic(&mut cluster, cart, 20, 10 * MS);
    cluster.run(SECOND);
    all_answered(&cluster, &asks);
    let now = cluster.local(1);
    let error = cluster.hosts[1].node.leave(now, false).unwrap_err();
    assert_eq!(
        error,
        LeaveError::EndsQuorum {
            voters_up: 1,
            quorum: 2
        }
    );
    assert!(error.to_string().contains("`voters`"), "{error}");
    assert!(!cluster.hosts[1].node.is_leaving());
    let asks = traffic(&mut cluster, cart, 20, 10 * MS);
    cluster.run(SECOND);
    all_answered(&cluster, &asks);
    cluster.leave(1);
    cluster.run_until(5 * SECOND, |cluster| cluster.hosts[1].app.left.is_some());
    cluster.kill(1);
    cluster.run(2 * SECOND);
    // Nobody supports the one that is left: it serves nothing, and says so by not answering.
    assert!(cluster.hosts[0].app.serving.is_empty());
    assert_eq!(cluster.hosts[0].node.lease_until(), None);
    let again = cluster.start("b", config(links(), &["a"]));
    cluster.add_type(again, CART);
    cluster.run_until(10 * SECOND, |cluster| cluster.is_registered(cart));
    let asks = traffic(&mut cluster, cart, 20, 10 * MS);
    cluster.run(2 * SECOND);
    all_answered(&cluster, &asks);
    cluster.check_pending();
}

/// Scenario 28: how long the shards of a node that is killed are without service, with the settings for a LAN.
#[test]
fn s28_shards_of_a_killed_node_are_served_again_in_time() {
    for seed in seeds() {
        for victim in [0, 1] {
            let (mut cluster, cart) = formed(links(), seed, &["a", "b", "c"]);
            traffic(&mut cluster, cart, 30, 5 * MS);
            let before: usize = cluster.served(cart).iter().sum();
            assert!(cluster.served(cart)[victim] > 0);
            cluster.kill(victim);
            let took = cluster.run_until(3 * SECOND, |cluster| {
                cluster.served(cart).iter().sum::<usize>() == before
            });
            assert!(took < SECOND, "seed {seed}, host {victim}: {took}");
        }
    }
}

/// A coordinator that was paused until its support was over does nothing before it has a fresh term.
#[test]
fn a_leader_that_wakes_up_late_follows_the_next() {
    for (mode, seed) in runs().into_iter().filter(|(_, seed)| seed & TRUST == 0) {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let before = cluster.hosts[1].app.leader.unwrap();
        let index = |cluster: &Cluster, leader: Leader| {
            let mut hosts = cluster.hosts.iter();
            hosts
                .position(|host| host.node.me() == leader.node)
                .unwrap()
        };
        let paused = index(&cluster, before);
        cluster.pause(paused, 1_200 * MS);
        let during = traffic(&mut cluster, cart, 100, 10 * MS);
        let other = (paused + 1) % 3;
        let leader = cluster.hosts[other].app.leader.unwrap();
        assert!(leader.term > before.term && leader.node != before.node);
        cluster.run(SECOND);
        let asks = traffic(&mut cluster, cart, 20, 10 * MS);
        cluster.run(6 * SECOND);
        assert_eq!(cluster.hosts[paused].app.leader, Some(leader));
        assert!(cluster.hosts[paused].node.lapses() > 0);
        // What was on its way to the paused node comes back late, and is reported to its callers.
        for (host, key) in during {
            let app = &cluster.hosts[host].app;
            assert!(app.answers.contains_key(&key) || app.failures.contains_key(&key));
        }
        all_answered(&cluster, &asks);
        cluster.check_order(true);
        cluster.check_pending();
    }
}

/// Whatever is called first after a long pause: nothing is served that may live elsewhere by then.
#[test]
fn no_input_comes_before_the_end_of_the_lease() {
    let (mut cluster, cart) = formed(links(), 3, &["a", "b", "c"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    let late = Instant::from_micros(cluster.now + SECOND);
    for host in 0..3 {
        let (_, shard) = *cluster.hosts[host].app.serving.keys().next().unwrap();
        let id = (0..8).map(|entity| format!("user-{entity}"));
        let id = id
            .into_iter()
            .find(|id| hash::entity_shard(id.as_bytes(), 32) == shard)
            .unwrap();
        let node = &mut cluster.hosts[host].node;
        assert!(node.lease_until().is_some_and(|until| until < late));
        let body = Tell {
            sender: 9,
            number: 0,
        };
        let sent = node.send(late, cart, shard, id.as_str().into(), body.encode(), None);
        assert_eq!(sent, Ok(Sent::Queued));
        assert_eq!(node.lease_until(), None);
        assert_eq!(node.poll_command(), Some(NodeCommand::Lease(None)));
    }
}

/// A joiner whose clock is behind looks older than all, and changes nothing.
#[test]
fn a_joiner_with_a_clock_an_hour_behind_changes_nothing() {
    for (mode, seed) in runs().into_iter().filter(|(_, seed)| seed & TRUST == 0) {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let before = cluster.hosts[1].app.leader;
        cluster.skew = -3_500 * SECOND as i64;
        cluster.next_clock = (Some(5 * SECOND), -15_000);
        let joiner = cluster.start("d", config(mode, &["a", "b", "c"]));
        cluster.add_type(joiner, CART);
        let asks = traffic(&mut cluster, cart, 200, 10 * MS);
        cluster.run(2 * SECOND);
        for host in &cluster.hosts {
            assert_eq!(host.app.leader, before, "{}", host.name);
            assert_eq!(host.node.lapses(), 0);
        }
        all_answered(&cluster, &asks);
        cluster.check_quiet();
    }
}

/// The lease for the leader is held elsewhere: whoever has it leads, under its token.
#[test]
fn an_outside_lease_says_who_leads() {
    let mut cluster = Cluster::new(4);
    cluster.set_voters(&["a"]);
    cluster.ownership = Ownership::External;
    for name in ["a", "b", "c"] {
        cluster.start(name, config(links(), &["a", "b", "c"]));
    }
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run(2 * SECOND);
    assert!(cluster.alive().all(|host| host.app.leader.is_none()));
    for (host, token) in [(1, 20_000), (2, 20_001)] {
        let now = cluster.local(host);
        cluster.hosts[host]
            .node
            .handle_external(now, Some(Term(token)));
        cluster.pump(host);
        cluster.run_until(3 * SECOND, |cluster| cluster.is_formed());
        cluster.run_until(3 * SECOND, Cluster::is_open);
        let leader = cluster.hosts[0].app.leader.unwrap();
        assert_eq!(leader.node, cluster.hosts[host].node.me());
        assert_eq!(leader.term, Term(token));
        let asks = traffic(&mut cluster, cart, 20, 10 * MS);
        cluster.run(SECOND);
        all_answered(&cluster, &asks);
        let now = cluster.local(host);
        cluster.hosts[host].node.handle_external(now, None);
        cluster.pump(host);
    }
    cluster.check_order(true);
    cluster.run(2 * SECOND);
    assert!(cluster.alive().all(|host| host.app.serving.is_empty()));
}
