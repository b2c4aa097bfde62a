//! Full windows, full buffers, large messages, strangers.

use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::cluster::*;
use super::moving::{all_answered, traffic};
use crate::hash::entity_shard;
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::node::*;
use crate::{Epoch, Term};

/// Two nodes with windows of a few frames.
fn narrow(seed: u64) -> (Cluster, TypeIndex) {
    let mut cluster = Cluster::new(seed);
    for (index, name) in ["a", "b"].iter().enumerate() {
        let config = config(links(), &["a", "b"])
            .with_bootstrap(index == 0)
            .with_window_frames(16)
            .with_max_message(1 << 20);
        cluster.start(name, config);
    }
    cluster.form();
    let cart = cluster.add_type_everywhere(&CART);
    cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(cart));
    traffic(&mut cluster, cart, 20, 5 * MS);
    (cluster, cart)
}

#[test]
fn a_full_window_holds_back_and_loses_nothing() {
    for seed in seeds() {
        let (mut cluster, cart) = narrow(seed);
        let mut refused = 0;
        for _ in 0..2_000 {
            for host in 0..2 {
                for entity in 0..8 {
                    refused += u32::from(!cluster.tell(host, cart, &format!("user-{entity}")));
                }
            }
        }
        assert!(cluster.hosts[0].node.stats().queued > 100);
        assert!(refused > 0, "the buffer has no bound");
        cluster.run(10 * SECOND);
        cluster.check_quiet();
        assert!(cluster.hosts.iter().all(|host| host.app.rejects.is_empty()));
    }
}

#[test]
fn a_full_window_while_a_node_leaves() {
    for seed in seeds() {
        let (mut cluster, cart) = narrow(seed);
        let now = cluster.instant();
        for round in 0..300 {
            for host in 0..2 {
                for entity in 0..8 {
                    cluster.tell(host, cart, &format!("user-{entity}"));
                }
            }
            cluster.run(200);
            if round == 100 {
                cluster.hosts[1].node.leave(now, true).unwrap();
                cluster.pump(1);
            }
        }
        cluster.run_until(20 * SECOND, |cluster| cluster.hosts[1].app.left.is_some());
        cluster.run(10 * SECOND);
        cluster.check_order(true);
        for host in &cluster.hosts {
            assert!(host.app.rejects.is_empty(), "{:?}", host.app.rejects);
        }
    }
}

#[test]
fn a_message_too_large_changes_nothing() {
    let (mut cluster, cart) = narrow(1);
    let now = cluster.instant();
    let body = Bytes::from(vec![0; 2 << 20]);
    let node = &mut cluster.hosts[0].node;
    let shard = entity_shard(b"user-1", 32);
    let ask = Ask {
        key: AskKey(1_000),
        deadline: now.after(Duration::from_secs(1)),
    };
    match node.send(now, cart, shard, "user-1".into(), body.clone(), Some(ask)) {
        Err(SendError::TooLarge {
            size,
            limit,
            body: back,
        }) => {
            assert!(size > limit && back == body);
        }
        other => panic!("{other:?}"),
    }
    let id = EntityKey::new(&vec![7; 70_000]);
    let sent = node.send(now, cart, shard, id, Bytes::new(), None);
    assert!(matches!(sent, Err(SendError::TooLarge { .. })));
    assert_eq!(node.asks.len(), 0);
    assert!(
        node.send(now, TypeIndex(9), shard, "x".into(), Bytes::new(), None)
            .is_err()
    );
    cluster.run(SECOND);
    cluster.check_quiet();
}

#[test]
fn asks_have_a_limit() {
    let mut cluster = Cluster::new(1);
    cluster.start("a", config(links(), &[]).with_max_asks(3));
    let cart = cluster.add_type(0, CART);
    for _ in 0..3 {
        assert!(cluster.ask(0, cart, "user-1", 200 * MS).is_some());
    }
    let now = cluster.instant();
    let ask = Ask {
        key: AskKey(99),
        deadline: now,
    };
    let shard = entity_shard(b"user-1", 32);
    let node = &mut cluster.hosts[0].node;
    let sent = node.send(now, cart, shard, "user-1".into(), Bytes::new(), Some(ask));
    assert!(matches!(sent, Err(SendError::TooManyAsks(_))));
    // Nobody leads, so they wait, and time out.
    cluster.run(SECOND);
    assert_eq!(cluster.hosts[0].app.failures.len(), 3);
    assert_eq!(cluster.hosts[0].node.asks.len(), 0);
}

/// Tells hosts of one another as an outside membership service would.
fn introduce(cluster: &mut Cluster, to: usize, of: usize) {
    let now = cluster.instant();
    let member = Member {
        node: cluster.hosts[of].node.me(),
        incarnation: cluster.hosts[of].node.incarnation(),
        state: MemberState::Up,
        roles: Roles::NONE,
    };
    let address = cluster.hosts[of].name;
    let node = &mut cluster.hosts[to].node;
    node.handle_member(now, MemberChange::Member(member), Some(address));
    cluster.pump(to);
}

#[test]
fn an_outside_service_says_who_is_a_member() {
    for seed in seeds() {
        let mut cluster = Cluster::new(seed);
        for (index, name) in ["a", "b", "x"].iter().enumerate() {
            cluster.start(
                name,
                config(MembershipMode::External, &[]).with_bootstrap(index == 0),
            );
        }
        for (to, of) in [(0, 1), (1, 0)] {
            introduce(&mut cluster, to, of);
        }
        cluster.run(2 * SECOND);
        // `x` waits: nobody says that it belongs to them.
        let cart = cluster.add_type_everywhere(&CART);
        let asks = traffic(&mut cluster, cart, 50, 5 * MS);
        cluster.run(2 * SECOND);
        all_answered(
            &cluster,
            &asks
                .into_iter()
                .filter(|ask| ask.0 != 2)
                .collect::<Vec<_>>(),
        );
        assert!(cluster.hosts[2].app.serving.is_empty());
        assert!(
            cluster
                .handled
                .iter()
                .all(|handled| handled.tell.sender != 2)
        );
        // Then they do.
        for (to, of) in [(0, 2), (1, 2), (2, 0), (2, 1)] {
            introduce(&mut cluster, to, of);
        }
        cluster.run(5 * SECOND);
        assert!(
            cluster
                .handled
                .iter()
                .any(|handled| handled.tell.sender == 2)
        );
        cluster.check_single();
        cluster.check_order(true);
        cluster.check_pending();
    }
}

#[test]
fn a_message_of_a_stranger_goes_back() {
    let mut cluster = Cluster::new(1);
    for name in ["a", "x"] {
        cluster.start(
            name,
            config(MembershipMode::External, &[]).with_bootstrap(true),
        );
    }
    introduce(&mut cluster, 1, 0);
    let cart = cluster.add_type(0, CART);
    cluster.add_type(1, CART);
    cluster.run(2 * SECOND);
    let now = cluster.instant();
    // As if `a` were the home.
    let (a, shard) = (cluster.hosts[0].node.me(), entity_shard(b"user-1", 32));
    let message = Message::new(
        "user-1".into(),
        Tell {
            sender: 1,
            number: 0,
        }
        .encode(),
        None,
    );
    let node = &mut cluster.hosts[1].node;
    let epoch = Epoch::new(Term(1), 1).unwrap();
    assert!(
        node.put_envelope(now, cart, a, shard, epoch, &message)
            .is_ok()
    );
    cluster.pump(1);
    cluster.run(SECOND);
    assert!(cluster.hosts[0].node.stats().not_a_member > 0);
    assert_eq!(cluster.hosts[0].node.stats().returned, 1);
    assert!(cluster.handled.is_empty());
}

/// Nodes with room for two members, whose leases last long.
fn small(mode: MembershipMode, seeds: &[&str]) -> NodeConfig {
    let seeds = seeds.iter().map(ToString::to_string).collect();
    NodeConfig::new(mode)
        .with_seeds(seeds)
        .with_max_nodes(2)
        .with_lease(Duration::from_secs(5))
        .with_drift(Duration::from_millis(250))
}

fn is_full(cluster: &Cluster, host: usize, of: usize) -> bool {
    let node = cluster.hosts[of].node.me();
    let warnings = &cluster.hosts[host].app.warnings;
    warnings.contains(&Warning::NodesFull { node })
}

#[test]
fn who_finds_no_slot_gets_one_once_a_lease_is_over() {
    for seed in seeds() {
        let mut cluster = Cluster::new(seed);
        cluster.set_voters(&["a"]);
        cluster.introduces = true;
        let config = small(MembershipMode::External, &[]);
        cluster.start("a", config.clone());
        let cart = cluster.add_type(0, CART);
        cluster.run_until(20 * SECOND, Cluster::is_open);
        for name in ["b", "c", "d"] {
            let host = cluster.start(name, config.clone());
            cluster.add_type(host, CART);
            cluster.run_until(2 * SECOND, |cluster| {
                cluster.hosts[host].app.lease.is_some() && cluster.is_registered(cart)
            });
            cluster.kill(host);
            cluster.declare_gone(host, RemovalCause::Down);
            cluster.run(50 * MS);
        }
        let host = cluster.start("e", config);
        cluster.add_type(host, CART);
        cluster.run(SECOND);
        assert!(is_full(&cluster, 0, host) && !cluster.is_registered(cart));
        cluster.run_until(6 * SECOND, |cluster| cluster.is_registered(cart));
        cluster.run(SECOND);
        let asks = traffic(&mut cluster, cart, 20, 50 * MS);
        cluster.run(5 * SECOND);
        all_answered(&cluster, &asks);
    }
}

#[test]
fn who_finds_no_room_among_the_members_waits_for_it() {
    for (mode, seed) in [(links(), 1), (MembershipMode::External, 1)] {
        let mut cluster = Cluster::new(seed);
        cluster.set_voters(&["a"]);
        cluster.introduces = mode == MembershipMode::External;
        for name in ["a", "b", "c"] {
            cluster.start(name, small(mode, &["a"]));
            cluster.run(SECOND);
        }
        assert!(is_full(&cluster, 0, 2));
        let cart = cluster.add_type_everywhere(&CART);
        cluster.kill(1);
        cluster.declare_gone(1, RemovalCause::Down);
        cluster.run_until(20 * SECOND, |cluster| cluster.is_registered(cart));
    }
}

/// Short messages, and ids of up to 64 KiB, weigh what they are long while they are buffered, wherever they came from.
#[test]
fn what_is_buffered_is_bounded_in_bytes() {
    let mut cluster = Cluster::new(1);
    for name in ["a", "b"] {
        cluster.start(name, config(links(), &["a", "b"]));
    }
    let cart = CART.with_buffer_bytes(3000);
    let ty = cluster.add_type_everywhere(&cart);
    let id = "x".repeat(900);
    // Nobody leads: there is no home.
    let taken = (0..10).filter(|_| cluster.tell(0, ty, &id)).count();
    assert_eq!(taken, 4, "that is one more than 3000 bytes");
    let small = (0..1000).filter(|_| cluster.tell(0, ty, "y")).count();
    assert!(
        (1..100).contains(&small),
        "an eighth of it is for small ones: {small}"
    );
    cluster.form();
    cluster.run_until(5 * SECOND, |cluster| cluster.is_registered(ty));
    cluster.run(5 * SECOND);
    cluster.check_quiet();
    // Nothing of it is left on the scales.
    for _ in 0..100 {
        assert!(cluster.tell(0, ty, &id));
    }
    cluster.run(5 * SECOND);
    cluster.check_quiet();
}
