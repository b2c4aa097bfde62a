//! Members that say what they may not say.

use alloc::format;
use alloc::vec::Vec;

use super::cluster::*;
use super::moving::{all_answered, formed, traffic};
use crate::hash::entity_shard;
use crate::node::*;
use crate::wire::Control;
use crate::wire::control::*;
use crate::wire::{Claim, ClaimsBuilder, HomesBuilder};
use crate::{EntityTypeId, Epoch, Session, ShardId, Term, Token, hash};

/// A host sends a control frame that its own state machines would not.
fn inject(cluster: &mut Cluster, from: usize, to: usize, term: Term, control: &Control<'_>) {
    let now = cluster.instant();
    let to = cluster.hosts[to].node.me();
    let node = &mut cluster.hosts[from].node;
    let peer = node.links.slot(to).unwrap();
    let cart = EntityTypeId(hash::entity_type_id("cart").0);
    assert!(node.links.control(now, peer, cart, term, control));
    cluster.pump(from);
}

fn serving(cluster: &Cluster, host: usize) -> Vec<(ShardId, Epoch)> {
    let serving = &cluster.hosts[host].app.serving;
    serving
        .iter()
        .map(|((_, shard), serving)| (*shard, serving.epoch))
        .collect()
}

#[test]
fn directives_of_a_node_that_does_not_lead_change_nothing() {
    let (mut cluster, cart) = formed(links(), 1, &["a", "b", "x"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    let before = serving(&cluster, 1);
    let (shard, epoch) = before[0];
    let x = cluster.hosts[2].node.me();
    let term = cluster.hosts[1].app.leader.unwrap().term;
    let newer = Epoch::new(term, 1_000).unwrap();
    let session = Session {
        incarnation: cluster.hosts[1].node.incarnation(),
        ..Session::default()
    };
    let mut homes = [0; 64];
    let mut homes = HomesBuilder::new(&mut homes);
    for shard in 0..32 {
        let entry = crate::wire::HomeEntry {
            shard: ShardId(shard),
            epoch: newer,
            node: x,
        };
        if homes.push(entry).is_err() {
            break;
        }
    }
    let lies = [
        Control::HandOff(HandOff {
            shard,
            epoch,
            drain: 1_000_000,
        }),
        Control::ShardHome(ShardHome {
            shard,
            epoch: newer,
            node: x,
            session,
            previous: Previous::Completed,
        }),
        Control::ShardMapUpdate(ShardMapUpdate {
            version: 1_000,
            last: true,
            homes: homes.finish(),
        }),
        Control::RegisterAck(RegisterAck {
            session,
            size: Size::default(),
        }),
        Control::RegisterRefused(RegisterRefused {
            session,
            reason: RegisterRefusal::SessionEnded,
        }),
        Control::StatsQuery(StatsQuery { token: Token(1) }),
        Control::Resized(Size {
            version: newer,
            count: 1,
        }),
    ];
    // Under the term that is adopted, a lower and a higher one.
    for term in [term, Term(term.0 - 1), term.next()] {
        for lie in &lies {
            inject(&mut cluster, 2, 1, term, lie);
        }
    }
    cluster.run(SECOND);
    assert_eq!(serving(&cluster, 1), before);
    let node = &cluster.hosts[1].node;
    assert_eq!(node.stats().directives_refused, 3 * lies.len() as u64);
    let warnings = &cluster.hosts[1].app.warnings;
    let named = warnings
        .iter()
        .filter(|warning| matches!(warning, Warning::NotTheLeader { peer, .. } if *peer == x));
    assert_eq!(named.count(), lies.len(), "{warnings:?}");
    let asks = traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    all_answered(&cluster, &asks);
    cluster.check_quiet();
}

#[test]
fn a_member_speaks_for_its_own_region_only() {
    let (mut cluster, cart) = formed(links(), 2, &["a", "b", "x"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    let before = serving(&cluster, 1);
    let (shard, epoch) = before[0];
    let term = cluster.hosts[0].app.leader.unwrap().term;
    let session = Session {
        incarnation: cluster.hosts[1].node.incarnation(),
        ..Session::default()
    };
    let mut claims = [0; 256];
    let mut claims = ClaimsBuilder::new(&mut claims);
    for (shard, epoch) in &before {
        let _ = claims.push(Claim {
            shard: *shard,
            epoch: Epoch::from_bits(epoch.to_bits() + 1_000),
            draining: false,
        });
    }
    let own = Session {
        incarnation: cluster.hosts[2].node.incarnation(),
        ..Session::default()
    };
    let lies = [
        Control::HandOffComplete(HandOffComplete {
            shard,
            epoch,
            forced: false,
        }),
        Control::Deregister(Deregister { session }),
        Control::ShardStarted(ShardEpoch { shard, epoch }),
        Control::EntityStopped(EntityNote {
            shard,
            epoch,
            id: b"user-1",
        }),
        Control::Register(Register {
            part: 0,
            parts: 1,
            session: own,
            type_name: "cart",
            shard_count: 32,
            shard_hash: 0,
            wants_map: true,
            proxy: false,
            last_beat_age: 0,
            storage_id: 0,
            remembers: false,
            size: Size::default(),
            claims: claims.finish(),
        }),
        Control::Register(Register {
            part: 0,
            parts: 1,
            session,
            type_name: "cart",
            shard_count: 32,
            shard_hash: 0,
            wants_map: true,
            proxy: false,
            last_beat_age: 0,
            storage_id: 0,
            remembers: false,
            size: Size::default(),
            claims: ClaimsBuilder::new(&mut []).finish(),
        }),
    ];
    for lie in &lies {
        inject(&mut cluster, 2, 0, term, lie);
    }
    for _ in 0..12 {
        let shard = ShardId(1_000);
        inject(
            &mut cluster,
            2,
            0,
            term,
            &Control::GetShardHome(GetShardHome { shard }),
        );
    }
    cluster.run(3 * SECOND);
    assert_eq!(serving(&cluster, 1), before);
    let asks = traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    all_answered(&cluster, &asks);
    cluster.check_quiet();
}

#[test]
fn the_leader_hands_nothing_off_that_is_not_there() {
    let (mut cluster, cart) = formed(links(), 3, &["a", "b", "c"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    let term = cluster.hosts[0].app.leader.unwrap().term;
    let (shard, epoch) = serving(&cluster, 1)[0];
    let home = cluster.hosts[2].node.home(cart, shard);
    assert!(home.is_some());
    let hand_off = Control::HandOff(HandOff {
        shard,
        epoch: Epoch::from_bits(epoch.to_bits() - 1),
        drain: 1_000_000,
    });
    inject(&mut cluster, 0, 2, term, &hand_off);
    cluster.run(SECOND);
    assert_eq!(cluster.hosts[2].node.home(cart, shard), home);
    assert!(serving(&cluster, 1).contains(&(shard, epoch)));
    cluster.check_quiet();
}

#[test]
fn a_guessed_reply_is_ignored() {
    let (mut cluster, cart) = formed(links(), 4, &["a", "b", "x"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.run(SECOND);
    // An entity on `b`, slow to answer.
    let of_b = serving(&cluster, 1);
    let id = (0..8)
        .map(|entity| format!("user-{entity}"))
        .find(|id| {
            of_b.iter()
                .any(|(shard, _)| *shard == entity_shard(id.as_bytes(), 32))
        })
        .unwrap();
    cluster.world.service = (500 * MS, 500 * MS);
    let key = cluster.ask(0, cart, &id, 5 * SECOND).unwrap();
    cluster.run(100 * MS);
    let correlation = cluster.hosts[0].node.asks.any_correlation().unwrap();
    let now = cluster.instant();
    let victim = ReplyTo {
        node: cluster.hosts[0].node.me(),
        incarnation: cluster.hosts[0].node.incarnation(),
        correlation,
    };
    let liar = &mut cluster.hosts[2].node;
    assert!(liar.reply(now, victim, REPLY_FAILED, |_| Ok(())));
    cluster.pump(2);
    cluster.run(100 * MS);
    assert_eq!(cluster.hosts[0].node.stats().replies_ignored, 1);
    assert!(!cluster.hosts[0].app.answers.contains_key(&key));
    cluster.run(SECOND);
    assert_eq!(cluster.hosts[0].app.answers[&key], REPLY_ANSWER);
}

#[test]
fn a_late_reply_is_ignored() {
    let (mut cluster, cart) = formed(links(), 5, &["a", "b"]);
    traffic(&mut cluster, cart, 20, 5 * MS);
    cluster.world.service = (500 * MS, 500 * MS);
    let mut keys = Vec::new();
    for entity in 0..8 {
        keys.extend(cluster.ask(0, cart, &format!("user-{entity}"), 100 * MS));
    }
    cluster.run(2 * SECOND);
    let app = &cluster.hosts[0].app;
    let stats = cluster.hosts[0].node.stats();
    assert!(stats.replies_ignored > 0);
    assert_eq!(stats.replies_ignored, stats.asks_timed_out);
    assert_eq!(app.failures.len() as u64, stats.asks_timed_out);
    assert!(
        keys.iter()
            .all(|key| app.failures.contains_key(key) != app.answers.contains_key(key))
    );
}

#[test]
fn a_type_must_be_started_on_the_leader() {
    let mut cluster = Cluster::with_nodes(6, links(), &["a", "b"]);
    cluster.form();
    let cart = cluster.add_type(1, CART);
    assert!(cluster.tell(1, cart, "user-1"));
    cluster.run(SECOND);
    assert_eq!(
        cluster.hosts[1].app.refused[0],
        RegisterRefusal::UnknownType
    );
    let warned =
        |warning: &Warning| matches!(warning, Warning::UnknownType { name, .. } if name == "cart");
    assert_eq!(
        cluster.hosts[0]
            .app
            .warnings
            .iter()
            .filter(|w| warned(w))
            .count(),
        1
    );
    assert!(cluster.handled.is_empty());
    cluster.add_type(0, CART.with_proxy(true));
    cluster.run_until(3 * SECOND, |cluster| cluster.handled.len() == 1);
    cluster.check_quiet();
}

#[test]
fn shard_counts_must_agree() {
    let mut cluster = Cluster::with_nodes(7, links(), &["a", "b"]);
    cluster.form();
    let cart = cluster.add_type(0, CART);
    cluster.add_type(1, CART.with_shards(64));
    for entity in 0..8 {
        cluster.tell(0, cart, &format!("user-{entity}"));
        cluster.tell(1, cart, &format!("user-{entity}"));
    }
    cluster.run(3 * SECOND);
    let refusal = RegisterRefusal::ShardCount {
        coordinator: 32,
        region: 64,
    };
    assert_eq!(cluster.hosts[1].app.refused, [refusal]);
    assert!(cluster.hosts[1].app.serving.is_empty());
    assert_eq!(cluster.hosts[1].node.buffered(cart), 8);
    assert_eq!(cluster.handled.len(), 8);
}

#[test]
fn a_proxy_waits_for_a_host() {
    for (mode, seed) in runs() {
        let mut cluster = Cluster::with_nodes(seed, mode, &["a", "b"]);
        cluster.form();
        let cart = cluster.add_type(0, CART.with_proxy(true));
        cluster.add_type(1, CART.with_proxy(true));
        for entity in 0..8 {
            assert!(cluster.tell(1, cart, &format!("user-{entity}")));
        }
        cluster.run(3 * SECOND);
        assert!(cluster.handled.is_empty());
        let host = cluster.start("c", config(mode, &["a", "b"]));
        cluster.add_type(host, CART);
        cluster.run_until(3 * SECOND, |cluster| cluster.handled.len() == 8);
        assert!(cluster.handled.iter().all(|handled| handled.host == host));
        cluster.run(SECOND);
        cluster.check_quiet();
    }
}
