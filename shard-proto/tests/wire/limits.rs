//! Limits and versions.

use shard_proto::wire::control::{self, EntityNote};
use shard_proto::wire::{
    Control, Data, DataHead, EncodeError, Envelope, Frame, HEADER_LEN, Kind, MAX_CONTROL_FRAME,
    MAX_CONTROL_LEN, MAX_ID_LEN, MAX_VERSION, MIN_VERSION, VersionMismatch, negotiate,
};
use shard_proto::{EntityTypeId, Epoch, ShardId, Term};

use super::samples::{CART, MAX_FRAME, maximal};

#[test]
fn the_largest_value_of_every_kind_fits() {
    let kinds: Vec<_> = maximal().iter().map(Control::kind).collect();
    let control: Vec<_> = Kind::ALL.iter().filter(|kind| !kind.is_data()).collect();
    assert_eq!(kinds.iter().collect::<Vec<_>>(), control);

    let mut out = vec![0; MAX_CONTROL_FRAME];
    for value in maximal() {
        let kind = value.kind();
        let len = value
            .encode(EntityTypeId(u32::MAX), Term::MAX, 1, &mut out)
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        let frame = Frame::decode_exact(&out[..len], 0).unwrap();
        assert!(frame.header.len <= MAX_CONTROL_LEN, "{kind}");
        assert_eq!(frame.control(), Ok(value), "{kind}");
        // One byte less is refused, and says which end is too short.
        let short = value.encode(CART, Term::MAX, 1, &mut out[..len - 1]);
        assert_eq!(short, Err(EncodeError::OutputFull), "{kind}");
    }
}

#[test]
fn kinds_without_a_list_fit_a_small_buffer() {
    for value in maximal() {
        let list = matches!(
            value.kind(),
            Kind::HELLO
                | Kind::WELCOME
                | Kind::SWIM
                | Kind::REGISTER
                | Kind::SHARD_MAP_UPDATE
                | Kind::REMEMBERED_ENTITIES
                | Kind::ENTITY_STARTED
                | Kind::ENTITY_STOPPED
        );
        let fits = value.encode(CART, Term::MAX, 1, &mut [0; 96]);
        assert_eq!(fits.is_err(), list, "{:?}", value.kind());
    }
}

#[test]
fn what_is_too_long_is_refused_by_encoders() {
    let mut out = vec![0; 4 * MAX_CONTROL_FRAME];
    let packet = vec![0; MAX_CONTROL_LEN as usize + 1];
    let name = "n".repeat(control::MAX_NAME_LEN + 1);
    let id = vec![0; MAX_ID_LEN + 1];
    let Some(Control::Hello(mut hello)) = maximal().first().copied() else {
        panic!();
    };
    hello.name = &name;
    let note = EntityNote {
        shard: ShardId(1),
        epoch: Epoch::NONE,
        id: &id,
    };
    for (value, expected) in [
        (
            Control::Swim(&packet),
            EncodeError::TooLong {
                len: MAX_CONTROL_LEN as usize + 1,
                limit: MAX_CONTROL_LEN,
            },
        ),
        (
            Control::Hello(hello),
            EncodeError::FieldTooLong {
                limit: control::MAX_NAME_LEN,
            },
        ),
        (
            Control::EntityStopped(note),
            EncodeError::FieldTooLong { limit: MAX_ID_LEN },
        ),
    ] {
        assert_eq!(value.encode(CART, Term(1), 1, &mut out), Err(expected));
        #[cfg(feature = "alloc")]
        {
            let mut out = bytes::BytesMut::from(&b"before"[..]);
            assert_eq!(value.encode_into(CART, Term(1), 1, &mut out), Err(expected));
            assert_eq!(out, &b"before"[..]);
        }
    }
}

#[test]
fn data_bodies_end_at_max_frame() {
    let head = DataHead {
        flags: shard_proto::wire::Flags::NONE,
        version: 1,
        entity_type: CART,
        epoch: Epoch::NONE,
        seq: 1,
    };
    let payload = vec![7; MAX_FRAME as usize];
    let mut out = vec![0; 2 * MAX_FRAME as usize];
    let data = |len: usize| {
        Data::Envelope(Envelope {
            shard: ShardId(1),
            correlation: 2,
            id: b"id",
            payload: &payload[..len],
        })
    };
    let room = MAX_FRAME as usize - data(0).body_len();
    let len = data(room).encode(&head, MAX_FRAME, &mut out).unwrap();
    assert_eq!(len, HEADER_LEN + MAX_FRAME as usize);
    let frame = Frame::decode_exact(&out[..len], MAX_FRAME).unwrap();
    assert_eq!(frame.data(), Ok(data(room)));
    assert!(Frame::decode_exact(&out[..len], MAX_FRAME - 1).is_err());
    let error = EncodeError::TooLong {
        len: MAX_FRAME as usize + 1,
        limit: MAX_FRAME,
    };
    assert_eq!(
        data(room + 1).encode(&head, MAX_FRAME, &mut out),
        Err(error)
    );
    let short = data(room).encode(&head, MAX_FRAME, &mut out[..len - 1]);
    assert_eq!(short, Err(EncodeError::OutputFull));
}

#[test]
fn versions_are_negotiated() {
    let mismatch = |ours, theirs| Err(VersionMismatch { ours, theirs });
    for (ours, theirs, expected) in [
        ((1, 1), (1, 1), Ok(1)),
        ((1, 3), (1, 3), Ok(3)),
        ((1, 3), (2, 5), Ok(3)),
        ((2, 5), (1, 3), Ok(3)),
        ((1, 9), (4, 4), Ok(4)),
        ((4, 4), (1, 9), Ok(4)),
        ((0, 255), (0, 255), Ok(255)),
        ((1, 1), (2, 3), mismatch((1, 1), (2, 3))),
        ((2, 3), (1, 1), mismatch((2, 3), (1, 1))),
        // An empty range meets nothing.
        ((3, 1), (1, 3), mismatch((3, 1), (1, 3))),
        ((1, 3), (3, 1), mismatch((1, 3), (3, 1))),
        ((1, 9), (5, 2), mismatch((1, 9), (5, 2))),
    ] {
        assert_eq!(negotiate(ours, theirs), expected, "{ours:?} {theirs:?}");
        assert_eq!(
            negotiate(ours, theirs).ok(),
            negotiate(theirs, ours).ok(),
            "both sides compute the same"
        );
    }
    assert_eq!(
        negotiate((MIN_VERSION, MAX_VERSION), (1, 1)),
        Ok(1),
        "version 1 is spoken"
    );
    let message = negotiate((1, 1), (2, 3)).unwrap_err().to_string();
    assert_eq!(
        message,
        "no common wire version: this side speaks 1 to 1, the other 2 to 3"
    );
}
