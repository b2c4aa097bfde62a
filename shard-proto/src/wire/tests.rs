#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::cast_possible_truncation)]

use super::*;
use crate::{EntityTypeId, Epoch, ShardId, Term};

#[test]
fn a_control_frame_and_a_data_frame_share_a_stream() {
    let control = Control::GetShardHome(control::GetShardHome {
        shard: ShardId(300),
    });
    let data = Data::Envelope(Envelope {
        shard: ShardId(7),
        correlation: 9,
        id: b"user-42",
        payload: b"hello",
    });
    let head = DataHead {
        flags: Flags::NONE,
        version: 1,
        entity_type: EntityTypeId(5),
        epoch: Epoch::new(Term(3), 4).unwrap(),
        seq: 11,
    };
    let mut stream = [0; 256];
    let first = control
        .encode(EntityTypeId(5), Term(3), 1, &mut stream)
        .unwrap();
    let second = data.encode(&head, 1000, &mut stream[first..]).unwrap();
    let bytes = &stream[..first + second];
    for cut in 0..first {
        let Ok(Decoded::Incomplete { need }) = Frame::decode(&bytes[..cut], 1000) else {
            panic!("cut at {cut}");
        };
        assert!(need > cut && need <= first);
    }
    let Ok(Decoded::Frame(frame)) = Frame::decode(bytes, 1000) else {
        panic!();
    };
    assert_eq!(frame.encoded_len(), first);
    assert_eq!(frame.header.term(), Term(3));
    assert_eq!(frame.control(), Ok(control));
    let frame = Frame::decode_exact(&bytes[first..], 1000).unwrap();
    assert_eq!((frame.seq(), frame.data()), (Ok(11), Ok(data)));
    assert_eq!(frame.header.epoch(), head.epoch);
}

#[cfg(feature = "alloc")]
#[test]
fn a_failed_payload_leaves_the_link_buffer_as_it_was() {
    use bytes::BytesMut;
    let head = DataHead {
        flags: Flags::NONE,
        version: 1,
        entity_type: EntityTypeId(5),
        epoch: Epoch::NONE,
        seq: 1,
    };
    let mut out = BytesMut::new();
    let flush = Data::Flush(Flush {
        shard: ShardId(1),
        token: crate::Token(2),
    });
    flush.encode_into(&head, 1000, &mut out).unwrap();
    let before = out.clone();
    let failed = put::reply(&mut out, &head, 1000, 4, 0, 10, |out| {
        out.clear();
        out.extend_from_slice(b"half");
        Err("no")
    });
    assert_eq!((failed, &out), (Err(PutError::Payload("no")), &before));
    let long = put::reply(&mut out, &head, 30, 4, 0, 0, |out| {
        out.extend_from_slice(&[1; 14]);
        Ok::<_, ()>(())
    });
    let error = EncodeError::TooLong { len: 31, limit: 30 };
    assert_eq!((long, &out), (Err(PutError::Encode(error)), &before));
    let mut expected = before.clone();
    let envelope = Envelope {
        shard: ShardId(3),
        correlation: 4,
        id: b"a",
        payload: b"payload",
    };
    Data::Envelope(envelope)
        .encode_into(&head, 1000, &mut expected)
        .unwrap();
    for hint in [0, 7, 100] {
        let mut out = before.clone();
        put::envelope(&mut out, &head, 1000, ShardId(3), 4, b"a", hint, |out| {
            out.extend_from_slice(b"payload");
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(out, expected);
    }
}

#[cfg(feature = "alloc")]
#[test]
fn a_payload_writer_cannot_touch_frames_before_its_own() {
    use bytes::BytesMut;
    type Abuse = fn(&mut BytesMut);
    let cases: [(&str, Abuse, &[u8]); 5] = [
        ("writes", |out| out.extend_from_slice(b"ab"), b"ab"),
        ("clears", |out| out.clear(), b""),
        ("takes it away", |out| drop(out.split()), b""),
        (
            "puts another in its place",
            |out| *out = BytesMut::from(&b"xyz"[..]),
            b"xyz",
        ),
        ("outgrows the room", |out| out.resize(5000, 7), &[7; 5000]),
    ];
    let envelope = |payload| Envelope {
        shard: ShardId(3),
        correlation: 4,
        id: b"id",
        payload,
    };
    let head = DataHead {
        flags: Flags::NONE,
        version: 1,
        entity_type: EntityTypeId(5),
        epoch: Epoch::NONE,
        seq: 1,
    };
    for (case, abuse, payload) in cases {
        let write = |out: &mut BytesMut| {
            abuse(out);
            Ok::<_, ()>(())
        };
        let mut expected = BytesMut::from(&b"before"[..]);
        let mut out = expected.clone();
        let reason = ReturnReason::Full;
        let envelope = envelope(payload);
        let reply = Reply {
            correlation: 8,
            status: 9,
            payload,
        };
        for data in [
            Data::Envelope(envelope),
            Data::Return(Return { reason, envelope }),
            Data::Reply(reply),
        ] {
            data.encode_into(&head, 9000, &mut expected).unwrap();
        }
        put::envelope(&mut out, &head, 9000, ShardId(3), 4, b"id", 64, write).unwrap();
        put::back(
            &mut out,
            &head,
            9000,
            reason,
            ShardId(3),
            4,
            b"id",
            64,
            write,
        )
        .unwrap();
        put::reply(&mut out, &head, 9000, 8, 9, 64, write).unwrap();
        assert_eq!(out, expected, "{case}");
    }
}
