//! Fixed values of every kind, and the largest ones.

use shard_proto::membership::Roles;
use shard_proto::wire::control::*;
use shard_proto::wire::{
    Claim, Claims, ClaimsBuilder, Control, Data, DataHead, Decoded, EntityIds, EntityIdsBuilder,
    Envelope, Flags, Flush, Flushed, Frame, HEADER_LEN, Header, HomeEntry, Homes, HomesBuilder,
    Kind, MAX_CONTROL_FRAME, MAX_ID_LEN, Reply, Return, ReturnReason, list::MAX_LIST_LEN,
};
use shard_proto::{
    EntityTypeId, Epoch, Incarnation, NodeId, Session, ShardId, Term, Token, hash::node_id,
};

pub(crate) const CART: EntityTypeId = EntityTypeId(0x7135_F409);
pub(crate) const MAX_FRAME: u32 = 1024 * 1024;

/// A frame's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sample {
    Control(EntityTypeId, Term, Control<'static>),
    Data(DataHead, Data<'static>),
    /// A part of a message, behind its number.
    Fragment(Kind, DataHead, &'static [u8]),
}

impl Sample {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Control(_, _, control) => control.kind(),
            Self::Data(_, data) => data.kind(),
            Self::Fragment(kind, ..) => *kind,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0xAA; MAX_CONTROL_FRAME];
        let len = match self {
            Self::Control(entity_type, term, control) => {
                control.encode(*entity_type, *term, 1, &mut out)
            }
            Self::Data(head, data) => data.encode(head, MAX_FRAME, &mut out),
            Self::Fragment(kind, head, part) => return fragment(*kind, head, part),
        }
        .unwrap();
        out.truncate(len);
        out
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn encode_into(&self, out: &mut bytes::BytesMut) -> usize {
        match self {
            Self::Control(entity_type, term, control) => {
                control.encode_into(*entity_type, *term, 1, out)
            }
            Self::Data(head, data) => data.encode_into(head, MAX_FRAME, out),
            Self::Fragment(..) => {
                let frame = self.encode();
                out.extend_from_slice(&frame);
                Ok(frame.len())
            }
        }
        .unwrap()
    }

    /// Whether a frame says the same.
    pub(crate) fn is(&self, frame: &Frame<'_>) -> bool {
        let header = &frame.header;
        match *self {
            Self::Control(entity_type, term, control) => {
                (header.entity_type, header.term()) == (entity_type, term)
                    && frame.control() == Ok(control)
            }
            Self::Fragment(kind, head, part) => {
                let bytes = fragment(kind, &head, part);
                let Ok(Decoded::Frame(same)) = Frame::decode(&bytes, MAX_FRAME) else {
                    return false;
                };
                frame.data().is_err() && *frame == same
            }
            Self::Data(head, data) => {
                (header.version, header.entity_type) == (head.version, head.entity_type)
                    && (header.epoch(), header.flags) == (head.epoch, head.flags)
                    && (frame.seq(), frame.data()) == (Ok(head.seq), Ok(data))
            }
        }
    }
}

fn fragment(kind: Kind, head: &DataHead, part: &[u8]) -> Vec<u8> {
    let header = Header {
        version: head.version,
        kind,
        flags: head.flags,
        entity_type: head.entity_type,
        number: head.epoch.to_bits(),
        len: 8 + part.len() as u32,
    };
    [&header.to_bytes()[..], &head.seq.to_le_bytes(), part].concat()
}

pub(crate) fn epoch(term: u64, round: u32) -> Epoch {
    Epoch::new(Term(term), round).unwrap()
}

fn leak(len: usize) -> &'static mut [u8] {
    Box::leak(vec![0; len].into_boxed_slice())
}

pub(crate) fn claims(len: usize, entries: impl IntoIterator<Item = Claim>) -> Claims<'static> {
    let mut builder = ClaimsBuilder::new(leak(len));
    for claim in entries {
        if builder.push(claim).is_err() {
            break;
        }
    }
    builder.finish()
}

pub(crate) fn homes(len: usize, entries: impl IntoIterator<Item = HomeEntry>) -> Homes<'static> {
    let mut builder = HomesBuilder::new(leak(len));
    for home in entries {
        if builder.push(home).is_err() {
            break;
        }
    }
    builder.finish()
}

pub(crate) fn ids(len: usize, entries: &[&[u8]]) -> EntityIds<'static> {
    let mut builder = EntityIdsBuilder::new(leak(len));
    for id in entries {
        builder.push(id).unwrap();
    }
    builder.finish()
}

/// Fixed values, at least one of every kind, in the order of kinds. What they encode to is recorded beside this file.
pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = links();
    samples.extend(leadership());
    samples.extend(coordination());
    samples.extend(data());
    samples
}

fn links() -> Vec<Sample> {
    let hello = Hello {
        min_version: 1,
        max_version: 1,
        cluster: 0x1122_3344_5566_7788,
        voters: 0,
        node: node_id("node-a"),
        incarnation: Incarnation(1_700_000_000_000_000),
        name: "node-a",
        address: "127.0.0.1:7400",
        roles: Roles::NONE.with(7).unwrap().with(9).unwrap(),
        lanes: 1,
        max_frame: MAX_FRAME,
        max_message: 64 << 20,
        dialer: true,
    };
    let welcome = Welcome {
        version: 1,
        incarnation: Incarnation(1_700_000_000_000_001),
        expected: &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    };
    let refusals = [
        Refusal::Version { min: 2, max: 3 },
        Refusal::Cluster,
        Refusal::Voters {
            ours: 0x0123_4567_89AB_CDEF,
            theirs: 0,
        },
        Refusal::Identity,
        Refusal::Incarnation {
            newest: Incarnation(1_700_000_000_000_002),
        },
        Refusal::Myself,
        Refusal::Duplicate,
        Refusal::Full,
        Refusal::Handshake,
        Refusal::Client,
        Refusal::Future {
            limit: Incarnation(1_700_000_000_000_003),
        },
    ];
    let mut controls = vec![Control::Hello(hello), Control::Welcome(welcome)];
    controls.extend(refusals.map(Control::Refused));
    controls.extend([
        Control::KeepAlive(KeepAlive { leaving: true }),
        Control::Ack(Ack { lane: 3, next: 300 }),
        Control::Goodbye,
        Control::Swim(b"opaque"),
    ]);
    controls
        .into_iter()
        .map(|control| Sample::Control(EntityTypeId(0), Term::NONE, control))
        .collect()
}

fn leadership() -> Vec<Sample> {
    [
        Control::LeaderBeat(LeaderBeat {
            seq: 1000,
            echo: 999,
            valid: 1_900_000,
        }),
        Control::NodeBeat(NodeBeat {
            seq: 1001,
            echo: 1000,
            lapses: 2,
            types: 0x8765_4321,
            leaving: false,
        }),
        Control::TermRefused(TermRefused {
            highest: Term(27_200_000_123),
        }),
        Control::Resign,
    ]
    .map(|control| Sample::Control(EntityTypeId(0), Term(27_200_000_000), control))
    .to_vec()
}

fn coordination() -> Vec<Sample> {
    let session = Session {
        incarnation: Incarnation(1_700_000_000_000_000),
        lapses: 1,
        starts: 2,
    };
    let (shard, epoch1) = (ShardId(200), epoch(27_200_000_000, 5));
    let size = Size {
        version: epoch(27_200_000_000, 2),
        count: 8,
    };
    let claim = |shard, round, draining| Claim {
        shard: ShardId(shard),
        epoch: epoch(27_200_000_000, round),
        draining,
    };
    let home = |shard, round, node| HomeEntry {
        shard: ShardId(shard),
        epoch: epoch(27_200_000_000, round),
        node: node_id(node),
    };
    let refusals = [
        RegisterRefusal::UnknownType,
        RegisterRefusal::ShardCount {
            coordinator: 33,
            region: 64,
        },
        RegisterRefusal::ShardHash {
            coordinator: 0,
            region: 1,
        },
        RegisterRefusal::SessionEnded,
        RegisterRefusal::Storage {
            expected: 1,
            found: 2,
        },
        RegisterRefusal::Claims,
        RegisterRefusal::Full,
        RegisterRefusal::Remember { region: true },
    ];
    let mut controls = vec![
        Control::Register(Register {
            part: 1,
            parts: 3,
            session,
            type_name: "cart",
            shard_count: 256,
            shard_hash: 2,
            wants_map: true,
            proxy: false,
            last_beat_age: 250_000,
            storage_id: 77,
            remembers: true,
            size,
            // One run of three, one of one, one that drains.
            claims: claims(
                200,
                [
                    claim(3, 1, false),
                    claim(4, 2, false),
                    claim(5, 3, false),
                    claim(6, 9, false),
                    claim(250, 10, true),
                ],
            ),
        }),
        Control::RegisterAck(RegisterAck { session, size }),
    ];
    controls.extend(
        refusals.map(|reason| Control::RegisterRefused(RegisterRefused { session, reason })),
    );
    controls.extend([
        Control::Deregister(Deregister { session }),
        Control::GetShardHome(GetShardHome { shard }),
    ]);
    controls.extend([Previous::Completed, Previous::Lapsed].map(|previous| {
        Control::ShardHome(ShardHome {
            shard,
            epoch: epoch1,
            node: node_id("node-b"),
            session,
            previous,
        })
    }));
    let note = EntityNote {
        shard,
        epoch: epoch1,
        id: b"user-42",
    };
    controls.extend([
        Control::ShardStarted(ShardEpoch {
            shard,
            epoch: epoch1,
        }),
        Control::HandOff(HandOff {
            shard,
            epoch: epoch1,
            drain: 8_000_000,
        }),
        Control::HandOffComplete(HandOffComplete {
            shard,
            epoch: epoch1,
            forced: true,
        }),
        Control::ShardMapUpdate(ShardMapUpdate {
            version: 12,
            last: true,
            homes: homes(
                200,
                [
                    home(0, 1, "node-a"),
                    home(1, 2, "node-a"),
                    home(2, 3, "node-b"),
                ],
            ),
        }),
        Control::RememberedEntities(RememberedEntities {
            shard,
            epoch: epoch1,
            more: false,
            ids: ids(200, &[b"user-42", b"", "é".as_bytes()]),
        }),
        Control::EntityStarted(note),
        Control::EntityStopped(note),
        Control::StatsQuery(StatsQuery {
            token: Token(0x0102_0304),
        }),
        Control::Stats(Stats {
            token: Token(0x0102_0304),
            shards: 64,
            entities: 5000,
            buffered: 3,
            delivered: 123_456_789,
        }),
        Control::Resize(Resize {
            after: epoch1,
            count: 12,
        }),
        Control::Resized(size),
    ]);
    controls
        .into_iter()
        .map(|control| Sample::Control(CART, Term(27_200_000_000), control))
        .collect()
}

fn data() -> Vec<Sample> {
    let envelope = Envelope {
        shard: ShardId(200),
        correlation: 0x0102_0304_0506_0708,
        id: b"user-42",
        payload: b"hello",
    };
    let (shard, token) = (ShardId(200), Token(0x1112_1314_1516_1718));
    let at = epoch(27_200_000_000, 5);
    let tracked = [
        Data::Envelope(envelope),
        Data::Return(Return {
            reason: ReturnReason::Full,
            envelope,
        }),
    ];
    [
        (at, Data::Envelope(envelope)),
        (
            at,
            Data::Return(Return {
                reason: ReturnReason::Moved,
                envelope,
            }),
        ),
        (
            at,
            Data::Return(Return {
                reason: ReturnReason::Full,
                envelope,
            }),
        ),
        (at, Data::Flush(Flush { shard, token })),
        (Epoch::NONE, Data::Flushed(Flushed { shard, token })),
        (
            Epoch::NONE,
            Data::Reply(Reply {
                correlation: 0x0102_0304_0506_0708,
                status: 2,
                payload: b"world",
            }),
        ),
    ]
    .into_iter()
    .map(|(epoch, data)| (Flags::NONE, epoch, data))
    .chain(tracked.map(|data| (Flags::TRACKED, at, data)))
    .map(|(flags, epoch, data)| {
        let head = DataHead {
            flags,
            version: 1,
            entity_type: CART,
            epoch,
            seq: 0x2122_2324_2526_2728,
        };
        Sample::Data(head, data)
    })
    .chain(on_lanes())
    .collect()
}

/// A message on another lane than the first, and one in fragments.
fn on_lanes() -> impl Iterator<Item = Sample> {
    let head = |flags: Flags, seq| DataHead {
        flags: flags.on_lane(3),
        version: 1,
        entity_type: CART,
        epoch: epoch(27_200_000_000, 5),
        seq,
    };
    let envelope = Data::Envelope(Envelope {
        shard: ShardId(203),
        correlation: 0,
        id: b"user-43",
        payload: b"hello",
    });
    let whole = Sample::Data(head(Flags::TRACKED, 6), envelope)
        .encode()
        .leak();
    let (first, rest) = whole[HEADER_LEN + 8..].split_at(15);
    let (second, third) = rest.split_at(10);
    let parts = [
        (Flags::MORE, first),
        (Flags::MORE, second),
        (Flags::LAST, third),
    ];
    let parts = parts.into_iter().zip(7..).map(move |((flag, part), seq)| {
        let head = head(Flags::TRACKED.with(flag), seq);
        Sample::Fragment(Kind::ENVELOPE, head, part)
    });
    core::iter::once(Sample::Data(head(Flags::NONE, 5), envelope)).chain(parts)
}

/// The longest control body of every kind.
pub(crate) fn maximal() -> Vec<Control<'static>> {
    let session = Session {
        incarnation: Incarnation(u64::MAX),
        lapses: u32::MAX,
        starts: u32::MAX,
    };
    let (shard, top) = (ShardId(u32::MAX), Epoch::from_bits(u64::MAX));
    let name = |len| -> &'static str { String::leak("n".repeat(len)) };
    // Runs that cannot be joined, of the longest numbers.
    let claims = claims(
        MAX_LIST_LEN,
        (0..u32::MAX).map(|shard| Claim {
            shard: ShardId(shard),
            epoch: Epoch::from_bits(u64::MAX - 1),
            draining: true,
        }),
    );
    let homes = homes(
        MAX_LIST_LEN,
        (0..u32::MAX).map(|shard| HomeEntry {
            shard: ShardId(shard),
            epoch: Epoch::from_bits(u64::MAX - 1),
            node: NodeId(u64::MAX),
        }),
    );
    let roles = [u32::MAX, u32::MAX - 1, u32::MAX - 2, u32::MAX - 3]
        .into_iter()
        .fold(Roles::NONE, |roles, role| roles.with(role).unwrap());
    let id: &[u8] = leak(MAX_ID_LEN);
    let size = Size {
        version: top,
        count: u32::MAX,
    };
    let note = EntityNote {
        shard,
        epoch: top,
        id,
    };
    vec![
        Control::Hello(Hello {
            min_version: u8::MAX,
            max_version: u8::MAX,
            cluster: u64::MAX,
            voters: u64::MAX,
            node: NodeId(u64::MAX),
            incarnation: Incarnation(u64::MAX),
            name: name(MAX_NAME_LEN),
            address: name(MAX_ADDRESS_LEN),
            roles,
            lanes: u8::MAX,
            max_frame: u32::MAX,
            max_message: u32::MAX,
            dialer: true,
        }),
        Control::Welcome(Welcome {
            version: u8::MAX,
            incarnation: Incarnation(u64::MAX),
            expected: leak(MAX_LANES_LEN),
        }),
        Control::Refused(Refusal::Incarnation {
            newest: Incarnation(u64::MAX),
        }),
        Control::KeepAlive(KeepAlive { leaving: true }),
        Control::Ack(Ack {
            lane: u8::MAX,
            next: u64::MAX,
        }),
        Control::Goodbye,
        Control::Swim(leak(64 * 1024)),
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
            leaving: true,
        }),
        Control::TermRefused(TermRefused { highest: Term::MAX }),
        Control::Resign,
        Control::Register(Register {
            part: u32::MAX - 1,
            parts: u32::MAX,
            session,
            type_name: name(MAX_NAME_LEN),
            shard_count: u32::MAX,
            shard_hash: u16::MAX,
            wants_map: true,
            proxy: true,
            last_beat_age: u64::MAX,
            storage_id: u64::MAX,
            remembers: true,
            size,
            claims,
        }),
        Control::RegisterAck(RegisterAck { session, size }),
        Control::RegisterRefused(RegisterRefused {
            session,
            reason: RegisterRefusal::Storage {
                expected: u64::MAX,
                found: u64::MAX,
            },
        }),
        Control::Deregister(Deregister { session }),
        Control::GetShardHome(GetShardHome { shard }),
        Control::ShardHome(ShardHome {
            shard,
            epoch: top,
            node: NodeId(u64::MAX),
            session,
            previous: Previous::Lapsed,
        }),
        Control::ShardStarted(ShardEpoch { shard, epoch: top }),
        Control::HandOff(HandOff {
            shard,
            epoch: top,
            drain: u64::MAX,
        }),
        Control::HandOffComplete(HandOffComplete {
            shard,
            epoch: top,
            forced: true,
        }),
        Control::ShardMapUpdate(ShardMapUpdate {
            version: u64::MAX,
            last: true,
            homes,
        }),
        Control::RememberedEntities(RememberedEntities {
            shard,
            epoch: top,
            more: true,
            ids: ids(MAX_ID_LEN + 2, &[id]),
        }),
        Control::EntityStarted(note),
        Control::EntityStopped(note),
        Control::StatsQuery(StatsQuery {
            token: Token(u64::MAX),
        }),
        Control::Stats(Stats {
            token: Token(u64::MAX),
            shards: u32::MAX,
            entities: u64::MAX,
            buffered: u64::MAX,
            delivered: u64::MAX,
        }),
        Control::Resize(Resize {
            after: top,
            count: u32::MAX,
        }),
        Control::Resized(size),
    ]
}
