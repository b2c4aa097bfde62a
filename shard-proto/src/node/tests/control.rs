//! Control frames are lost, doubled and late.

use alloc::format;
use alloc::vec::Vec;
use std::println;

use super::cluster::*;
use super::moving::{all_answered, formed, traffic};
use crate::coordinator::KeepShards;
use crate::node::{TypeConfig, TypeIndex};
use crate::wire::Kind;

/// Asks of all entities on the hosts whose type runs.
fn ask_others(cluster: &mut Cluster, cart: TypeIndex) -> Vec<(usize, u64)> {
    let mut asks = Vec::new();
    for host in [0, 1, 3] {
        for entity in 0..8 {
            let id = format!("user-{entity}");
            let key = cluster.ask(host, cart, &id, 5 * SECOND);
            asks.extend(key.map(|key| (host, key)));
        }
    }
    asks
}

/// A type is started, a node joins, the type stops on one and starts again, one leaves, and so does the leader, while messages flow. Returns how often the
/// meddler meddled.
fn run(kind: Kind, how: Meddling) -> u64 {
    println!("{kind:?} {how:?}");
    let names = ["a", "b", "c"];
    let mut cluster = Cluster::new(7);
    // Two of them stay, of which one is yet to come.
    cluster.set_voters(&["a", "c", "d"]);
    for (index, name) in names.iter().enumerate() {
        cluster.start(name, config(links(), &names).with_bootstrap(index == 0));
        cluster.run(MS);
    }
    cluster.form();
    cluster.meddler = Some(Meddler::new(kind, how));
    let cart = cluster.add_type_everywhere(&CART);
    let mut asks = traffic(&mut cluster, cart, 10, 20 * MS);
    let joiner = cluster.start("d", config(links(), &names));
    cluster.add_type(joiner, CART);
    asks.extend(traffic(&mut cluster, cart, 20, 20 * MS));
    // Its node stays.
    let now = cluster.instant();
    cluster.hosts[2].node.stop_type(now, cart);
    cluster.pump(2);
    asks.extend(ask_others(&mut cluster, cart));
    cluster.run(SECOND);
    cluster.add_type(2, CART);
    for host in [1, 0] {
        let now = cluster.instant();
        cluster.hosts[host].node.leave(now, true).unwrap();
        cluster.pump(host);
        asks.extend(traffic(&mut cluster, cart, 20, 20 * MS));
        cluster.run_until(20 * SECOND, |cluster| {
            cluster.hosts[host].app.left.is_some()
        });
        cluster.kill(host);
    }
    asks.extend(traffic(&mut cluster, cart, 10, 20 * MS));
    cluster.run(3 * SECOND);

    all_answered(&cluster, &asks);
    cluster.check_quiet();
    assert!(cluster.is_formed());
    let served = cluster.served(cart);
    assert!(served[0].abs_diff(served[1]) <= 1, "{served:?}");
    for host in &cluster.hosts {
        assert!(host.app.rejects.is_empty(), "{:?}", host.app.rejects);
    }
    cluster.meddler.map_or(0, |meddler| meddler.count)
}

/// Scenario 46, kind by kind: the end is the same, whatever happened on the way.
#[test]
fn s46_each_kind_of_control_may_be_lost_doubled_and_late() {
    let mut untouched = Vec::new();
    for how in [Meddling::Lose, Meddling::Double, Meddling::Delay(450 * MS)] {
        let kinds = Kind::LEADER_BEAT..=Kind::SHARD_MAP_UPDATE;
        for kind in Kind::ALL.iter().filter(|kind| kinds.contains(kind)) {
            if run(*kind, how) == 0 && !untouched.contains(kind) {
                untouched.push(*kind);
            }
        }
    }
    // What such a run has no use for.
    untouched.retain(|kind| ![Kind::TERM_REFUSED, Kind::REGISTER_REFUSED].contains(kind));
    assert_eq!(untouched, []);
}

/// Scenario 32, and the lead that is lost and won again: the leader is cut off from everybody long enough to be
/// replaced, and not long enough to be declared down. Then one leads, and every shard has one home.
#[test]
fn s32_two_who_lead_become_one_and_every_shard_has_a_home() {
    for (mode, seed) in runs() {
        let (mut cluster, cart) = formed(mode, seed, &["a", "b", "c"]);
        traffic(&mut cluster, cart, 20, 5 * MS);
        let before = cluster.hosts[0].app.leader.unwrap();
        cluster.block(0, 1);
        cluster.block(0, 2);
        cluster.run_until(5 * SECOND, |cluster| {
            let leader = |host: usize| cluster.hosts[host].app.leader;
            leader(1).is_some_and(|leader| leader.node != before.node) && leader(1) == leader(2)
        });
        traffic(&mut cluster, cart, 10, 5 * MS);
        cluster.unblock(0, 1);
        cluster.unblock(0, 2);
        cluster.run(10 * SECOND);
        if cluster.hosts[0].app.removed {
            // Found to be down after all: it is another node then.
            cluster.kill(0);
            let again = cluster.start("a", config(mode, &["b", "c"]));
            cluster.add_type(again, CART);
        }
        cluster.form();
        cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
        let asks = traffic(&mut cluster, cart, 20, 5 * MS);
        cluster.run(5 * SECOND);
        all_answered(&cluster, &asks);
        cluster.check_single();
        cluster.check_pending();
        let leader = cluster.hosts[1].app.leader.unwrap();
        assert!(leader.term > before.term || leader == before, "{leader:?}");
    }
}

/// Scenario 27: a type stops on a node that stays, and the `Deregister` that says so is lost, every time it is said in
/// another way. Its shards get homes all the same.
#[test]
fn s27_a_lost_deregister_leaves_no_shard_without_a_home() {
    let names = ["a", "b", "c"];
    let (mut cluster, cart) = formed(links(), 3, &names);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.meddler = Some(Meddler::new(Kind::DEREGISTER, Meddling::Lose));
    let now = cluster.instant();
    cluster.hosts[1].node.stop_type(now, cart);
    cluster.pump(1);
    cluster.run(SECOND);
    let mut asks = Vec::new();
    for entity in 0..8 {
        let key = cluster.ask(0, cart, &format!("user-{entity}"), 10 * SECOND);
        asks.extend(key.map(|key| (0, key)));
    }
    cluster.run(11 * SECOND);
    assert!(cluster.meddler.as_ref().is_some_and(|it| it.count > 0));
    all_answered(&cluster, &asks);
}

/// Rule 2.11: the sessions of a type that is started again are above those it had before, in which lapses were counted.
/// If they were not, and the `Deregister` was lost, the coordinator would take all that the new region says for late.
#[test]
fn r2_11_a_type_that_starts_again_after_a_lapse_is_registered() {
    let names = ["a", "b", "c"];
    for seed in 0..5 {
        let (mut cluster, cart) = formed(links(), seed, &names);
        // The node keeps its lease: another type of it needs one.
        let visits = cluster.add_type_everywhere(&TypeConfig::new("visits"));
        cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(visits));
        traffic(&mut cluster, cart, 20, 5 * MS);
        let host = (0..3).find(|host| cluster.hosts[*host].node.reign.is_none());
        let host = host.unwrap();
        let others: Vec<_> = (0..3).filter(|other| *other != host).collect();
        for &other in &others {
            cluster.block(host, other);
        }
        cluster.run_until(10 * SECOND, |cluster| {
            cluster.hosts[host].node.lease_until().is_none()
        });
        for &other in &others {
            cluster.unblock(host, other);
        }
        cluster.run_until(10 * SECOND, |cluster| cluster.is_registered(cart));
        cluster.run(SECOND);
        let session = |cluster: &Cluster| {
            let kind = cluster.hosts[host].node.types.get(cart);
            kind.unwrap().region.session()
        };
        let before = session(&cluster);
        assert!(before.lapses > 0, "seed {seed}: {before}");
        cluster.meddler = Some(Meddler::new(Kind::DEREGISTER, Meddling::Lose));
        cluster.stop_type(host, cart);
        cluster.run_until(10 * SECOND, |cluster| {
            let kind = cluster.hosts[host].node.types.get(cart);
            kind.unwrap().region.is_settled()
        });
        assert!(cluster.meddler.as_ref().is_some_and(|it| it.count > 0));
        cluster.add_type(host, CART);
        let lapses = cluster.hosts[host].node.lapses();
        cluster.run_until(2 * SECOND, |cluster| cluster.is_registered(cart));
        assert_eq!(cluster.hosts[host].node.lapses(), lapses, "seed {seed}");
        let after = session(&cluster);
        assert!(after > before, "seed {seed}: {after} after {before}");
        let asks = traffic(&mut cluster, cart, 20, 10 * MS);
        cluster.run(2 * SECOND);
        all_answered(&cluster, &asks);
    }
}

/// `Resized` is said once to those that did not ask for it. Who misses it hears of it when it registers again, which it
/// does every 20 retry intervals.
#[test]
fn a_size_that_nobody_heard_of_is_heard_of_with_the_next_registration() {
    for how in [Meddling::Lose, Meddling::Delay(450 * MS)] {
        let names = ["a", "b", "c"];
        let mut cluster = Cluster::new(3);
        cluster.set_voters(&names);
        for (index, name) in names.iter().enumerate() {
            cluster.start(name, config(links(), &names).with_bootstrap(index == 0));
            cluster.run(MS);
        }
        cluster.form();
        let workers = CART.with_keep(KeepShards::First(4));
        let workers = cluster.add_type_everywhere(&workers);
        cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(workers));
        cluster.run(SECOND);
        cluster.meddler = Some(Meddler::new(Kind::RESIZED, how));
        let sizes = |cluster: &Cluster| -> Vec<_> {
            let hosts = cluster.hosts.iter();
            hosts.map(|host| host.node.used_shards(workers)).collect()
        };
        assert_eq!(sizes(&cluster), [Some((4, false)); 3]);
        let now = cluster.instant();
        assert_eq!(cluster.hosts[1].node.resize_type(now, workers, 9), Ok(true));
        cluster.pump(1);
        cluster.run(500 * MS);
        assert!(cluster.meddler.as_ref().is_some_and(|it| it.count > 0));
        cluster.run(3 * SECOND);
        assert_eq!(sizes(&cluster), [Some((9, false)); 3], "{how:?}");
    }
}
