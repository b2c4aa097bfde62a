//! Frames: what decodes can be encoded, and is the same then.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::feed::Feed;
use crate::membership::Roles;
use crate::wire::control::{
    Ack, Deregister, EntityNote, GetShardHome, HandOff, HandOffComplete, Hello, KeepAlive,
    MAX_NAME_LEN, Previous, Refusal, Register, RegisterAck, RegisterRefusal, RegisterRefused,
    RememberedEntities, Resize, ShardEpoch, ShardHome, ShardMapUpdate, Size, Stats, StatsQuery,
    TermRefused, Welcome,
};
use crate::wire::data::DataHead;
use crate::wire::{
    Claim, ClaimsBuilder, Control, DecodeError, Decoded, EntityIdsBuilder, Frame, HEADER_LEN,
    Header, HomeEntry, HomesBuilder, Kind, MAX_CONTROL_FRAME,
};
use crate::{EntityTypeId, Epoch, Incarnation, NodeId, Session, ShardId, Term, Token};

/// How much of a list is looked at, which may claim four billion shards.
const LOOK: usize = 1000;

/// A stream of frames as it arrives: whatever the bytes are, every frame is within the buffer, and what decodes
/// survives a round trip.
pub fn frame_decode(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let max_frame = feed.pick(&[1024 * 1024, 0, 30, 1000]);
    let mut rest = feed.rest();
    loop {
        let frame = match Frame::decode(rest, max_frame) {
            Ok(Decoded::Frame(frame)) => frame,
            Ok(Decoded::Incomplete { need }) => {
                assert!(need > rest.len());
                let exact = Frame::decode_exact(rest, max_frame);
                assert_eq!(exact, Err(DecodeError::Incomplete { need }));
                return;
            }
            Err(error) => {
                assert_eq!(Frame::decode_exact(rest, max_frame), Err(error));
                let _ = format!("{error} {error:?}");
                return;
            }
        };
        let len = frame.encoded_len();
        let (whole, tail) = rest.split_at(len);
        assert_eq!(Frame::decode_exact(whole, max_frame), Ok(frame));
        assert_eq!(frame.header.to_bytes()[..], whole[..HEADER_LEN]);
        assert_eq!(frame.header.frame_len(), len);
        for cut in [0, HEADER_LEN - 1, HEADER_LEN, len - 1] {
            let cut = Frame::decode(&rest[..cut.min(len - 1)], max_frame);
            assert!(matches!(cut, Ok(Decoded::Incomplete { .. })));
        }
        check_frame(&frame, whole);
        rest = tail;
    }
}

fn check_frame(frame: &Frame<'_>, whole: &[u8]) {
    let Header {
        kind,
        entity_type,
        version,
        flags,
        ..
    } = frame.header;
    if kind.is_data() {
        assert!(frame.control().is_err());
        let seq = frame.seq();
        let Ok(data) = frame.data() else { return };
        let head = DataHead {
            flags,
            version,
            entity_type,
            epoch: frame.header.epoch(),
            seq: seq.expect("what decodes has a number"),
        };
        let mut out = vec![0; whole.len()];
        assert_eq!(data.encode(&head, u32::MAX, &mut out), Ok(whole.len()));
        assert_eq!(out, whole, "data has one encoding");
        let mut out = BytesMut::new();
        assert_eq!(data.encode_into(&head, u32::MAX, &mut out), Ok(whole.len()));
        assert_eq!(out, whole);
        assert!(data.lane(3) < 3);
    } else if let Ok(control) = frame.control() {
        assert!(frame.data().is_err());
        let term = frame.header.term();
        round_trip(&control, entity_type, term, version);
        check_lists(&control);
    }
}

fn round_trip(control: &Control<'_>, entity_type: EntityTypeId, term: Term, version: u8) {
    let mut out = vec![0; MAX_CONTROL_FRAME];
    let len = control
        .encode(entity_type, term, version, &mut out)
        .expect("what decodes can be encoded");
    out.truncate(len);
    let again = Frame::decode_exact(&out, 0).expect("what is encoded decodes");
    assert_eq!(again.control(), Ok(*control));
    assert_eq!(again.header.kind, control.kind());
    assert_eq!(
        (again.header.entity_type, again.header.term()),
        (entity_type, term)
    );
    let mut into = BytesMut::from(&b"before"[..]);
    let written = control.encode_into(entity_type, term, version, &mut into);
    assert_eq!(written, Ok(len));
    assert_eq!(into[..6], b"before"[..]);
    assert_eq!(into[6..], out);
    // No buffer that is too short is overrun, nor half a frame taken for a whole.
    let mut short = vec![0; len - 1];
    assert!(
        control
            .encode(entity_type, term, version, &mut short)
            .is_err()
    );
    let _ = format!("{control:?}");
}

/// Lists end, and say what they validate as.
fn check_lists(control: &Control<'_>) {
    match control {
        Control::Register(register) => {
            let claims = register.claims;
            ascend(
                claims.iter().map(|claim| claim.shard),
                claims.validate(u32::MAX),
            );
            assert!(claims.validate(0) == Ok(0) || claims.validate(0).is_err());
        }
        Control::ShardMapUpdate(update) => {
            let homes = update.homes;
            ascend(
                homes.iter().map(|home| home.shard),
                homes.validate(u32::MAX),
            );
        }
        Control::RememberedEntities(entities) => {
            let count = entities.ids.iter().count();
            if let Ok(ids) = entities.ids.validate() {
                assert_eq!(ids as usize, count);
            }
        }
        Control::Welcome(welcome) => {
            let lanes = (0..=255).take_while(|lane| welcome.expected_on(*lane).is_some());
            assert_eq!(lanes.count(), welcome.expected.len() / 8);
        }
        _ => {}
    }
}

fn ascend(shards: impl Iterator<Item = ShardId>, valid: Result<u32, DecodeError>) {
    let mut last = None;
    let mut seen = 0;
    for shard in shards.take(LOOK) {
        assert!(last < Some(shard), "a list does not ascend");
        last = Some(shard);
        seen += 1;
    }
    if let Ok(count) = valid {
        assert_eq!((count as usize).min(LOOK), seen);
    }
}

/// Control bodies: raw ones, and values made of the bytes field by field. Either way a round trip changes nothing.
pub fn control_roundtrip(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    if feed.flag() {
        let kind = Kind::from_u8(feed.byte());
        let body = feed.rest();
        if let Ok(control) = Control::decode(kind, body) {
            assert_eq!(control.kind(), kind);
            round_trip(&control, EntityTypeId(7), Term(3), 1);
            check_lists(&control);
        }
        return;
    }
    let mut scratch = [0; 600];
    while !feed.is_empty() {
        made(&mut feed, &mut scratch);
    }
}

fn epoch(feed: &mut Feed<'_>) -> Epoch {
    Epoch::from_bits(feed.number())
}

fn size(feed: &mut Feed<'_>) -> Size {
    Size {
        version: epoch(feed),
        count: feed.number() as u32,
    }
}

fn session(feed: &mut Feed<'_>) -> Session {
    Session {
        incarnation: Incarnation(feed.number()),
        lapses: feed.number() as u32,
        starts: feed.number() as u32,
    }
}

fn text(feed: &mut Feed<'_>, limit: usize) -> String {
    // A byte that is none of UTF-8 becomes three.
    String::from_utf8_lossy(feed.bytes(limit / 3)).into_owned()
}

fn made(feed: &mut Feed<'_>, scratch: &mut [u8]) {
    let shard = ShardId(feed.number() as u32);
    let check = |control: &Control<'_>| {
        round_trip(control, EntityTypeId(shard.0), Term(u64::from(shard.0)), 1);
        check_lists(control);
    };
    match feed.below(22) {
        0 => {
            let (name, address) = (text(feed, MAX_NAME_LEN), text(feed, 512));
            check(&Control::Hello(Hello {
                min_version: feed.byte(),
                max_version: feed.byte(),
                cluster: feed.number(),
                voters: feed.number(),
                node: NodeId(feed.number()),
                incarnation: Incarnation(feed.number()),
                name: &name,
                address: &address,
                roles: Roles::NONE.with(feed.number() as u32).unwrap_or_default(),
                lanes: feed.byte(),
                max_frame: feed.number() as u32,
                max_message: feed.number() as u32,
                dialer: feed.flag(),
            }));
        }
        1 => {
            let lanes = feed.below(4);
            let expected: Vec<u8> = (0..lanes)
                .flat_map(|_| feed.number().to_le_bytes())
                .collect();
            check(&Control::Welcome(Welcome {
                version: feed.byte(),
                incarnation: Incarnation(feed.number()),
                expected: &expected,
            }));
        }
        2 => {
            let refusals = [
                Refusal::Version {
                    min: feed.byte(),
                    max: feed.byte(),
                },
                Refusal::Cluster,
                Refusal::Voters {
                    ours: feed.number(),
                    theirs: feed.number(),
                },
                Refusal::Incarnation {
                    newest: Incarnation(feed.number()),
                },
                Refusal::Handshake,
            ];
            check(&Control::Refused(feed.pick(&refusals)));
        }
        3 => check(&Control::KeepAlive(KeepAlive {
            leaving: feed.flag(),
        })),
        4 => check(&Control::Ack(Ack {
            lane: feed.byte(),
            next: feed.number(),
        })),
        5 => check(&Control::Swim(feed.bytes(255))),
        6 => check(&Control::TermRefused(TermRefused {
            highest: Term(feed.number().min(Term::MAX.0)),
        })),
        7 => claims(feed, scratch, check),
        8 => check(&Control::RegisterAck(RegisterAck {
            session: session(feed),
            size: size(feed),
        })),
        9 => {
            let (a, b) = (feed.number(), feed.number());
            let reasons = [
                RegisterRefusal::UnknownType,
                RegisterRefusal::ShardCount {
                    coordinator: a as u32,
                    region: b as u32,
                },
                RegisterRefusal::Storage {
                    expected: a,
                    found: b,
                },
                RegisterRefusal::Full,
            ];
            check(&Control::RegisterRefused(RegisterRefused {
                session: session(feed),
                reason: feed.pick(&reasons),
            }));
        }
        10 => check(&Control::Deregister(Deregister {
            session: session(feed),
        })),
        11 => check(&Control::GetShardHome(GetShardHome { shard })),
        12 => check(&Control::ShardHome(ShardHome {
            shard,
            epoch: epoch(feed),
            node: NodeId(feed.number()),
            session: session(feed),
            previous: feed.pick(&[Previous::Completed, Previous::Lapsed]),
        })),
        13 => check(&Control::ShardStarted(ShardEpoch {
            shard,
            epoch: epoch(feed),
        })),
        14 => check(&Control::HandOff(HandOff {
            shard,
            epoch: epoch(feed),
            drain: feed.number(),
        })),
        15 => check(&Control::HandOffComplete(HandOffComplete {
            shard,
            epoch: epoch(feed),
            forced: feed.flag(),
        })),
        16 => homes(feed, scratch, check),
        17 => ids(feed, scratch, check),
        20 => check(&Control::Resize(Resize {
            after: epoch(feed),
            count: feed.number() as u32,
        })),
        21 => check(&Control::Resized(size(feed))),
        18 => check(&Control::EntityStopped(EntityNote {
            shard,
            epoch: epoch(feed),
            id: feed.bytes(255),
        })),
        _ => {
            let token = Token(feed.number());
            check(&Control::StatsQuery(StatsQuery { token }));
            check(&Control::Stats(Stats {
                token,
                shards: feed.number() as u32,
                entities: feed.number(),
                buffered: feed.number(),
                delivered: feed.number(),
            }));
        }
    }
}

/// A shard at some distance from the one before, mostly the next.
fn next_shard(feed: &mut Feed<'_>, last: u32) -> ShardId {
    let gap = if feed.flag() { 1 } else { feed.number() as u32 };
    ShardId(last.wrapping_add(gap))
}

fn next_epoch(feed: &mut Feed<'_>, last: Epoch) -> Epoch {
    if feed.flag() {
        Epoch::from_bits(last.to_bits().wrapping_add(1))
    } else {
        epoch(feed)
    }
}

fn claims(feed: &mut Feed<'_>, scratch: &mut [u8], check: impl Fn(&Control<'_>)) {
    let (session, count) = (session(feed), feed.below(24));
    let mut builder = ClaimsBuilder::new(scratch);
    let mut pushed = Vec::new();
    let mut last = (0, Epoch::NONE);
    for _ in 0..count {
        let claim = Claim {
            shard: next_shard(feed, last.0),
            epoch: next_epoch(feed, last.1),
            draining: feed.byte() < 64,
        };
        last = (claim.shard.0, claim.epoch);
        if builder.push(claim).is_ok() {
            pushed.push(claim);
        }
    }
    let claims = builder.finish();
    // A run may not end beyond the last number.
    if pushed
        .iter()
        .all(|claim| claim.shard.0 < u32::MAX && claim.epoch.to_bits() < u64::MAX)
    {
        assert!(
            claims.iter().eq(pushed.iter().copied()),
            "{pushed:?} {claims:?}"
        );
        assert_eq!(claims.validate(u32::MAX), Ok(pushed.len() as u32));
    }
    let name = text(feed, MAX_NAME_LEN);
    let parts = (feed.number() as u32).max(1);
    check(&Control::Register(Register {
        part: (feed.number() as u32) % parts,
        parts,
        session,
        type_name: &name,
        shard_count: feed.number() as u32,
        shard_hash: feed.number() as u16,
        wants_map: feed.flag(),
        proxy: feed.flag(),
        last_beat_age: feed.number(),
        storage_id: feed.number(),
        remembers: feed.flag(),
        size: size(feed),
        claims,
    }));
}

fn homes(feed: &mut Feed<'_>, scratch: &mut [u8], check: impl Fn(&Control<'_>)) {
    let (version, last_part, count) = (feed.number(), feed.flag(), feed.below(24));
    let mut builder = HomesBuilder::new(scratch);
    let mut pushed = Vec::new();
    let mut last = (0, Epoch::NONE);
    for _ in 0..count {
        let home = HomeEntry {
            shard: next_shard(feed, last.0),
            epoch: next_epoch(feed, last.1),
            node: NodeId(feed.number()),
        };
        last = (home.shard.0, home.epoch);
        if builder.push(home).is_ok() {
            pushed.push(home);
        }
    }
    let homes = builder.finish();
    if pushed
        .iter()
        .all(|home| home.shard.0 < u32::MAX && home.epoch.to_bits() < u64::MAX)
    {
        assert!(
            homes.iter().eq(pushed.iter().copied()),
            "{pushed:?} {homes:?}"
        );
        assert_eq!(homes.validate(u32::MAX), Ok(pushed.len() as u32));
    }
    check(&Control::ShardMapUpdate(ShardMapUpdate {
        version,
        last: last_part,
        homes,
    }));
}

fn ids(feed: &mut Feed<'_>, scratch: &mut [u8], check: impl Fn(&Control<'_>)) {
    let mut builder = EntityIdsBuilder::new(scratch);
    let mut pushed = Vec::new();
    for _ in 0..feed.below(12) {
        let id = feed.bytes(255);
        if builder.push(id).is_ok() {
            pushed.push(id);
        }
    }
    let ids = builder.finish();
    assert!(ids.iter().eq(pushed.iter().copied()));
    assert_eq!(ids.validate(), Ok(pushed.len() as u32));
    check(&Control::RememberedEntities(RememberedEntities {
        shard: ShardId(feed.number() as u32),
        epoch: epoch(feed),
        more: feed.flag(),
        ids,
    }));
}
