//! A member that is not made of this code, and sends whatever it likes.
#![cfg(target_os = "linux")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use core::time::Duration;
use std::sync::Arc;

use common::log::log;
use common::way::Way;
use common::wire::Wire;
use common::{Answer, Peer, Say, World, free_address, map_that, scribes, within};
use shard_tokio::proto::hash::{entity_type_id, node_id};
use shard_tokio::proto::wire::control::{
    Ack, Deregister, EntityNote, GetShardHome, HandOff, HandOffComplete, LeaderBeat, NodeBeat,
    Previous, Refusal, Register, RegisterAck, RegisterRefusal, RegisterRefused, RememberedEntities,
    ShardEpoch, ShardHome, ShardMapUpdate, Size, Stats, StatsQuery, TermRefused, Welcome,
};
use shard_tokio::proto::wire::header::{Flags, Kind};
use shard_tokio::proto::wire::list::{
    Claim, ClaimsBuilder, EntityIdsBuilder, HomeEntry, HomesBuilder,
};
use shard_tokio::proto::wire::{
    Control, Data, Envelope, Flush, Flushed, Header, Reply, Return, ReturnReason,
};
use shard_tokio::proto::{EntityTypeId, Epoch, Incarnation, Session, Term, Token};
use shard_tokio::{Membership, Preset};
use shard_tokio::{NodeId, ShardId};

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

async fn two(way: &Way) -> (Arc<World>, Peer, Peer) {
    let world = World::new();
    let seeds = common::all(2, |_| free_address());
    let mut peers = Vec::new();
    for (name, address) in ["a", "b"].iter().zip(&seeds) {
        let node = way.builder(name, address, &seeds);
        // A flood must not be mistaken for a pause.
        let node = node.membership(Membership::Links).preset(Preset::Default);
        let node = node.start().await.unwrap();
        let scribes = scribes(&node, &world, |it| it).await;
        peers.push(Peer { node, scribes });
    }
    for peer in &peers {
        peer.scribes.ready().await.unwrap();
    }
    let b = peers.pop().unwrap();
    let a = peers.pop().unwrap();
    for e in 0..200 {
        a.scribes
            .entity(format!("e{e}"))
            .ask(Say::Add(1))
            .await
            .unwrap();
        b.scribes
            .entity(format!("e{e}"))
            .ask(Say::Add(1))
            .await
            .unwrap();
    }
    map_that(&a.scribes, |map| {
        // At rest: no strategy moves anything from here.
        map.known() == 32 && common::hosted_by(map, &b.node) == 16
    })
    .await;
    (world, a, b)
}

async fn works(a: &Peer, b: &Peer) {
    for e in 0..200 {
        for peer in [a, b] {
            let entity = peer.scribes.entity(format!("e{e}"));
            let answer = within(5, "an answer", entity.ask(Say::Add(0))).await;
            assert!(matches!(answer, Ok(Answer::Sum(_))), "{e}: {answer:?}");
        }
    }
}

fn flood(wire: &mut Wire, terms: &[Term], shards: u32, me: u64) -> u64 {
    let x = node_id("x");
    let mut count = 0;
    let mut claims_scratch = vec![0; 4096];
    let mut homes_scratch = vec![0; 4096];
    let mut ids_scratch = vec![0; 4096];
    for term in terms {
        for round in [0, 1, 40, 500, Epoch::MAX_ROUND] {
            let epoch = Epoch::new(*term, round).unwrap_or(Epoch::NONE);
            let session = Session {
                incarnation: Incarnation(me),
                lapses: round,
                starts: u32::MAX,
            };
            let mut claims = ClaimsBuilder::new(&mut claims_scratch);
            let mut homes = HomesBuilder::new(&mut homes_scratch);
            for shard in (0..shards).map(ShardId) {
                let _ = claims.push(Claim {
                    shard,
                    epoch,
                    draining: round == 1,
                });
                let _ = homes.push(HomeEntry {
                    shard,
                    epoch,
                    node: x,
                });
            }
            let mut ids = EntityIdsBuilder::new(&mut ids_scratch);
            for n in 0..100_u32 {
                let _ = ids.push(&n.to_le_bytes());
            }
            let (claims, homes, ids) = (claims.finish(), homes.finish(), ids.finish());
            for shard in [0, 1, 31, 32, 1000, u32::MAX].map(ShardId) {
                let frames = [
                    Control::Deregister(Deregister { session }),
                    Control::HandOff(HandOff {
                        shard,
                        epoch,
                        drain: u64::MAX,
                    }),
                    Control::ShardHome(ShardHome {
                        shard,
                        epoch,
                        node: x,
                        session,
                        previous: Previous::Lapsed,
                    }),
                    Control::ShardHome(ShardHome {
                        shard,
                        epoch,
                        node: NodeId(0),
                        session,
                        previous: Previous::Completed,
                    }),
                    Control::ShardMapUpdate(ShardMapUpdate {
                        version: u64::MAX,
                        last: true,
                        homes,
                    }),
                    Control::RememberedEntities(RememberedEntities {
                        shard,
                        epoch,
                        more: true,
                        ids,
                    }),
                    Control::RegisterAck(RegisterAck {
                        session,
                        size: Size::default(),
                    }),
                    Control::RegisterRefused(RegisterRefused {
                        session,
                        reason: RegisterRefusal::UnknownType,
                    }),
                    Control::LeaderBeat(LeaderBeat {
                        seq: u64::MAX,
                        echo: u64::MAX,
                        valid: u64::MAX,
                    }),
                    Control::NodeBeat(NodeBeat {
                        seq: u64::MAX,
                        echo: u64::MAX,
                        lapses: u32::MAX,
                        types: u32::MAX,
                        leaving: false,
                    }),
                    Control::TermRefused(TermRefused { highest: Term::MAX }),
                    Control::TermRefused(TermRefused {
                        highest: Term(term.0 + 1),
                    }),
                    Control::Resign,
                    Control::HandOffComplete(HandOffComplete {
                        shard,
                        epoch,
                        forced: true,
                    }),
                    Control::ShardStarted(ShardEpoch { shard, epoch }),
                    Control::GetShardHome(GetShardHome { shard }),
                    Control::EntityStarted(EntityNote {
                        shard,
                        epoch,
                        id: &[0; 60_000],
                    }),
                    Control::EntityStopped(EntityNote {
                        shard,
                        epoch,
                        id: b"",
                    }),
                    Control::StatsQuery(StatsQuery { token: Token(1) }),
                    Control::Stats(Stats {
                        token: Token(1),
                        shards: u32::MAX,
                        entities: u64::MAX,
                        buffered: u64::MAX,
                        delivered: u64::MAX,
                    }),
                    Control::Swim(&[7; 900]),
                    Control::Register(Register {
                        part: 0,
                        parts: u32::MAX,
                        session,
                        type_name: "scribe",
                        shard_count: 32,
                        shard_hash: 0,
                        wants_map: true,
                        proxy: false,
                        last_beat_age: u64::MAX,
                        storage_id: u64::MAX,
                        remembers: false,
                        size: Size::default(),
                        claims,
                    }),
                    Control::Register(Register {
                        part: u32::MAX,
                        parts: 1,
                        session,
                        type_name: "scribe",
                        shard_count: u32::MAX,
                        shard_hash: 9,
                        wants_map: true,
                        proxy: true,
                        last_beat_age: 0,
                        storage_id: 0,
                        remembers: false,
                        size: Size::default(),
                        claims,
                    }),
                    Control::Register(Register {
                        part: 0,
                        parts: 1,
                        session,
                        type_name: "scribe",
                        shard_count: 32,
                        shard_hash: 0,
                        wants_map: true,
                        proxy: false,
                        last_beat_age: 0,
                        storage_id: 0,
                        remembers: false,
                        size: Size::default(),
                        claims,
                    }),
                ];
                for frame in &frames {
                    if wire.say(*term, frame) {
                        count += 1;
                    }
                }
            }
        }
    }
    count
}

fn data_flood(wire: &mut Wire, epochs: &[Epoch]) {
    let scribe = entity_type_id("scribe");
    for ty in [scribe, EntityTypeId(77), EntityTypeId(0)] {
        for epoch in epochs {
            for shard in [0, 5, 31, 32, 1000, u32::MAX].map(ShardId) {
                for (id, payload) in [
                    (&b"e1"[..], &b"\x02"[..]),
                    (b"", b""),
                    (b"\xff\xff", b"zz"),
                    (&[b'i'; 65_472], b"\0\0\0"),
                ] {
                    for correlation in [0, 1, u64::MAX] {
                        let envelope = Envelope {
                            shard,
                            correlation,
                            id,
                            payload,
                        };
                        wire.data(ty, *epoch, &Data::Envelope(envelope));
                        wire.data(
                            ty,
                            *epoch,
                            &Data::Return(Return {
                                reason: ReturnReason::Moved,
                                envelope,
                            }),
                        );
                        wire.data(
                            ty,
                            *epoch,
                            &Data::Return(Return {
                                reason: ReturnReason::Full,
                                envelope,
                            }),
                        );
                    }
                }
                wire.data(
                    ty,
                    *epoch,
                    &Data::Flush(Flush {
                        shard,
                        token: Token(3),
                    }),
                );
                wire.data(
                    ty,
                    Epoch::NONE,
                    &Data::Flushed(Flushed {
                        shard,
                        token: Token(3),
                    }),
                );
                wire.data(
                    ty,
                    Epoch::NONE,
                    &Data::Reply(Reply {
                        correlation: 9,
                        status: 9,
                        payload: b"?",
                    }),
                );
            }
        }
    }
}

#[tokio::test]
async fn a_member_says_everything_it_must_not() {
    everything(Way::Tcp).await;
}

/// With a certificate that is good.
#[tokio::test]
async fn a_member_says_everything_it_must_not_over_tls() {
    everything(Way::tls()).await;
}

/// Every kind of control under every term, every kind of data under every epoch: the cluster goes on as it was.
async fn everything(way: Way) {
    within(120, "hostile", async {
        let (log, _guard) = log();
        let (_world, a, b) = two(&way).await;
        let before = a.scribes.shard_map();
        let term = before.home(ShardId(0)).unwrap().epoch.term();
        for target in [a.node.address().to_owned(), b.node.address().to_owned()] {
            let me = 1_000_000;
            let door = way.door(&target, "x").await;
            let mut wire = tokio::task::spawn_blocking({
                move || {
                    let mut wire = door.open("x", me).unwrap();
                    wire.drain();
                    let terms = [
                        term,
                        Term(term.0 - 1),
                        term.next(),
                        Term(term.0 + 50),
                        Term::MAX,
                        Term(0),
                    ];
                    let sent = flood(&mut wire, &terms, 32, me);
                    assert!(sent > 4000, "the link stays up: {sent}");
                    wire
                }
            })
            .await
            .unwrap();
            works(&a, &b).await;
            assert_eq!(a.node.members().len(), 3);
            let epochs = [
                Epoch::NONE,
                Epoch::new(term, 1).unwrap(),
                Epoch::new(term, 9).unwrap(),
                Epoch::new(term, 5000).unwrap(),
                Epoch::new(Term::MAX, Epoch::MAX_ROUND).unwrap(),
            ];
            wire = tokio::task::spawn_blocking(move || {
                data_flood(&mut wire, &epochs);
                wire
            })
            .await
            .unwrap();
            works(&a, &b).await;
            drop(wire);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        works(&a, &b).await;
        assert_eq!(a.scribes.shard_map(), before);
        for peer in [&a, &b] {
            let stats = peer.node.stats().core;
            assert!(
                stats.directives_refused > 1000 && stats.unexpected > 1000,
                "{stats:?}"
            );
            assert!(
                stats.unknown_type > 1000 && stats.replies_ignored > 0,
                "{stats:?}"
            );
        }
        // One warning for each thing, naming who did it, however often it was done.
        let peer = format!("peer={}", node_id("x").0);
        let by = [&peer[..], "WARN", "127.0.0.1:1"];
        for what in ["a node that does not lead", "what a node may not send"] {
            let lines = log.lines_with(&[&by[..], &[what]].concat());
            assert!((2..40).contains(&lines), "{what}: {lines}");
        }
        let lines = log.lines_with(&[&peer, "WARN"]);
        assert!(lines < 100, "{lines}");
        // The only voter.
        a.node.leave_forced().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn links_that_break_the_rules_are_closed() {
    rules(Way::Tcp).await;
}

#[tokio::test]
async fn links_that_break_the_rules_are_closed_over_tls() {
    rules(Way::tls()).await;
}

/// Gaps, acknowledgements of what was not sent, lanes that are not there, garbage, false names.
async fn rules(way: Way) {
    within(120, "rules", async {
        let (log, _guard) = log();
        let (_world, a, b) = two(&way).await;
        let target = a.node.address().to_owned();
        // Whoever has a node's certificate can say that it is that node.
        let (as_a, as_b) = (way.door(&target, "a").await, way.door(&target, "b").await);
        let door = way.door(&target, "x").await;
        let again = door.clone();
        tokio::task::spawn_blocking(move || {
            for case in 0..8 {
                let mut wire = door.open("x", 5 + case).unwrap();
                let scribe = entity_type_id("scribe");
                match case {
                    0 => {
                        wire.seq = 7;
                        wire.data(
                            scribe,
                            Epoch::NONE,
                            &Data::Flush(Flush {
                                shard: ShardId(0),
                                token: Token(1),
                            }),
                        );
                    }
                    1 => {
                        wire.say(
                            Term(0),
                            &Control::Ack(Ack {
                                lane: 0,
                                next: 1_000_000,
                            }),
                        );
                    }
                    2 => {
                        wire.say(Term(0), &Control::Ack(Ack { lane: 7, next: 0 }));
                    }
                    3 => {
                        wire.raw(&[0xee; 4096]);
                    }
                    4 => {
                        wire.say(
                            Term(0),
                            &Control::Welcome(Welcome {
                                version: 1,
                                incarnation: Incarnation(1),
                                expected: &[],
                            }),
                        );
                    }
                    5 => {
                        let header = Header {
                            version: 1,
                            kind: Kind::ENVELOPE,
                            flags: Flags::NONE,
                            entity_type: scribe,
                            number: 0,
                            len: u32::MAX,
                        };
                        wire.raw(&header.to_bytes());
                    }
                    6 => {
                        let header = Header {
                            version: 1,
                            kind: Kind::SWIM,
                            flags: Flags::MORE,
                            entity_type: scribe,
                            number: 0,
                            len: 0,
                        };
                        wire.raw(&header.to_bytes());
                    }
                    _ => {
                        wire.say(Term(0), &Control::Refused(Refusal::Full));
                    }
                }
                assert!(wire.closed(), "case {case}");
            }
            assert_eq!(as_a.open("a", 1).err(), Some(Refusal::Myself));
            assert_eq!(as_a.open("a", u64::MAX).err(), Some(Refusal::Myself));
            let old = as_b.open("b", 1).err();
            assert!(matches!(old, Some(Refusal::Incarnation { .. })));
            let old = door.open("x", 4).err();
            assert!(matches!(old, Some(Refusal::Incarnation { .. })));
        })
        .await
        .unwrap();
        works(&a, &b).await;
        let x = node_id("x").0.to_string();
        for (reason, times) in [
            ("a data frame is missing: 7 came, 0 is next", 1),
            ("acknowledged that was never sent", 1),
            ("unknown lane", 1),
            ("malformed frame", 2),
            ("not a handshake", 1),
            ("refused by the other side: no room", 1),
            ("that life of the node has ended", 1),
        ] {
            let lines = log.lines_with(&["WARN", "peer=\"127.0.0.1:", &x, reason]);
            assert_eq!(lines, times, "{reason}");
        }
        let stats = a.node.stats().core;
        assert_eq!(
            (stats.links_refused, stats.link_faults),
            (3, 7),
            "{stats:?}"
        );
        // Again and again: not a line each.
        let knock = move || (0..40).for_each(|_| drop(again.open("x", 4)));
        tokio::task::spawn_blocking(knock).await.unwrap();
        let lines = log.lines_with(&["WARN", &x, "that life of the node has ended"]);
        assert_eq!(lines, 6, "1, 2, 4, … 32");
    })
    .await;
}

/// What a member sends for a home that is news is kept, but not without a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_member_has_buffered_is_bounded() {
    within(120, "bounded", async {
        let way = Way::Tcp;
        let (_world, a, b) = two(&way).await;
        let term = a.scribes.shard_map().home(ShardId(0)).unwrap().epoch.term();
        let target = a.node.address().to_owned();
        let before = resident();
        let peak = tokio::task::spawn_blocking(move || {
            let mut wire = Wire::open(&target, "x", 9).unwrap();
            wire.drain();
            let payload = vec![7; 500_000];
            let mut peak = 0;
            for n in 0..800_u32 {
                let envelope = Envelope {
                    shard: ShardId(n % 32),
                    correlation: 0,
                    id: b"e",
                    payload: &payload,
                };
                wire.data(
                    entity_type_id("scribe"),
                    Epoch::new(term, 100_000).unwrap(),
                    &Data::Envelope(envelope),
                );
                peak = peak.max(resident());
            }
            std::thread::sleep(Duration::from_millis(500));
            peak.max(resident())
        })
        .await
        .unwrap();
        works(&a, &b).await;
        let grew = peak.saturating_sub(before);
        assert!(grew < 200 << 20, "{grew} bytes");
    })
    .await;
}
