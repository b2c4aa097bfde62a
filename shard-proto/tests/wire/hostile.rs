//! Bytes that a broken or hostile peer may send. Nothing panics, and nothing is taken that does not fit.

use proptest::prelude::*;
use shard_proto::wire::{
    Control, Data, DecodeError, Decoded, Flags, Frame, HEADER_LEN, Header, Kind, MAX_CONTROL_FRAME,
    MAX_CONTROL_LEN, data,
};
use shard_proto::{EntityTypeId, Term};

use super::samples::{CART, MAX_FRAME, Sample, samples};

/// Bytes in front of a part that takes whatever is left.
fn open_ended(kind: Kind) -> Option<usize> {
    match kind {
        Kind::SWIM => Some(0),
        Kind::ENVELOPE => Some(data::ENVELOPE_LEN + "user-42".len()),
        Kind::RETURN => Some(data::RETURN_LEN + "user-42".len()),
        Kind::REPLY => Some(data::REPLY_LEN),
        _ => None,
    }
}

fn decode_body(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    if kind.is_data() {
        Data::decode(kind, body).map(drop)
    } else {
        Control::decode(kind, body).map(drop)
    }
}

fn header(kind: Kind, len: u32) -> Header {
    Header {
        version: 1,
        kind,
        flags: Flags::NONE,
        entity_type: CART,
        number: 1,
        len,
    }
}

#[test]
fn a_stream_cut_anywhere_asks_for_more() {
    for sample in samples() {
        let bytes = sample.encode();
        for cut in 0..bytes.len() {
            let need = if cut < HEADER_LEN {
                HEADER_LEN
            } else {
                bytes.len()
            };
            let decoded = Frame::decode(&bytes[..cut], MAX_FRAME);
            assert_eq!(decoded, Ok(Decoded::Incomplete { need }));
            let exact = Frame::decode_exact(&bytes[..cut], MAX_FRAME);
            assert_eq!(exact, Err(DecodeError::Incomplete { need }));
        }
    }
}

#[test]
fn a_body_cut_anywhere_is_an_error() {
    let fragment = |sample: &Sample| matches!(sample, Sample::Fragment(..));
    for sample in samples().into_iter().filter(|sample| !fragment(sample)) {
        let (kind, bytes) = (sample.kind(), sample.encode());
        let body = &bytes[HEADER_LEN..];
        for cut in 0..body.len() {
            let taken = open_ended(kind).is_some_and(|fixed| cut >= fixed);
            let decoded = decode_body(kind, &body[..cut]);
            assert_eq!(decoded.is_ok(), taken, "{kind} cut at {cut}: {decoded:?}");
        }
    }
}

#[test]
fn trailing_bytes_are_an_error() {
    // What follows a fragment's number may be anything.
    let fragment = |sample: &Sample| matches!(sample, Sample::Fragment(..));
    for sample in samples().into_iter().filter(|sample| !fragment(sample)) {
        let kind = sample.kind();
        let mut bytes = sample.encode();
        bytes.push(0);
        let exact = Frame::decode_exact(&bytes, MAX_FRAME);
        assert_eq!(exact, Err(DecodeError::Trailing), "{kind}");
        let decoded = decode_body(kind, &bytes[HEADER_LEN..]);
        let expected = match open_ended(kind) {
            Some(_) => Ok(()),
            None => Err(DecodeError::Trailing),
        };
        assert_eq!(decoded, expected, "{kind}");
    }
}

#[test]
fn announced_lengths_are_checked_before_anything_arrives() {
    let kinds = (0..=u8::MAX).map(Kind::from_u8);
    for kind in kinds {
        let limit = if kind.is_data() {
            1000
        } else {
            MAX_CONTROL_LEN
        };
        for len in [limit + 1, 1 << 31, u32::MAX] {
            let bytes = header(kind, len).to_bytes();
            let error = DecodeError::TooLong { len, limit };
            assert_eq!(Frame::decode(&bytes, 1000), Err(error), "{kind}");
        }
        let bytes = header(kind, limit).to_bytes();
        let need = HEADER_LEN + limit as usize;
        let decoded = Frame::decode(&bytes, 1000);
        assert_eq!(decoded, Ok(Decoded::Incomplete { need }), "{kind}");
    }
}

#[test]
fn a_header_says_what_is_wrong_with_it() {
    let good = header(Kind::GOODBYE, 0);
    let with = |change: fn(&mut Header)| {
        let mut header = good;
        change(&mut header);
        Header::decode(&header.to_bytes(), MAX_FRAME)
    };
    assert_eq!(with(|_| ()), Ok(good));
    let found = 0;
    let version = Err(DecodeError::Version { found });
    assert_eq!(with(|header| header.version = 0), version);
    let found = 2;
    let version = Err(DecodeError::Version { found });
    assert_eq!(with(|header| header.version = 2), version);
    // Nothing is the last fragment and has more behind it.
    for found in [Flags::MORE.with(Flags::LAST).to_bits(), 1 << 7, u16::MAX] {
        let header = Header {
            flags: Flags::from_bits(found),
            ..header(Kind::ENVELOPE, 0)
        };
        let decoded = Header::decode(&header.to_bytes(), MAX_FRAME);
        assert_eq!(decoded, Err(DecodeError::Flags { found }));
    }
    // Messages and replies can be in fragments, and data has a lane.
    for kind in Kind::ALL.iter().copied() {
        let marker = matches!(kind, Kind::FLUSH | Kind::FLUSHED);
        for (flags, fit) in [
            (Flags::MORE, kind.is_data() && !marker),
            (Flags::LAST, kind.is_data() && !marker),
            (Flags::NONE.on_lane(200), kind.is_data()),
        ] {
            let header = Header {
                flags,
                ..header(kind, 0)
            };
            let decoded = Header::decode(&header.to_bytes(), MAX_FRAME);
            assert_eq!(decoded.is_ok(), fit, "{kind} {flags:?}");
        }
    }
    assert_eq!(Flags::MORE.on_lane(200).lane(), 200);
    assert_eq!(
        Flags::MORE.on_lane(200).of_whole(),
        Flags::NONE.on_lane(200)
    );
    // A message can be tracked, nothing else can.
    for kind in Kind::ALL.iter().copied() {
        let header = Header {
            flags: Flags::TRACKED,
            ..header(kind, 0)
        };
        let decoded = Header::decode(&header.to_bytes(), MAX_FRAME);
        assert_eq!(
            decoded.is_ok(),
            matches!(kind, Kind::ENVELOPE | Kind::RETURN)
        );
    }
    let term = with(|header| header.number = Term::MAX.0 + 1);
    assert_eq!(term, Err(DecodeError::Range));
    assert!(with(|header| header.number = Term::MAX.0).is_ok());
    // An epoch uses all of its bits.
    let mut data = header(Kind::ENVELOPE, 0);
    data.number = u64::MAX;
    assert_eq!(Header::decode(&data.to_bytes(), MAX_FRAME), Ok(data));
    // What decides about the version is read under any version.
    for kind in [Kind::HELLO, Kind::REFUSED] {
        let mut header = header(kind, 0);
        header.version = 200;
        assert_eq!(Header::decode(&header.to_bytes(), MAX_FRAME), Ok(header));
    }
}

#[test]
fn unknown_kinds_are_told_apart_and_can_be_skipped() {
    for kind in (0..=u8::MAX).map(Kind::from_u8) {
        let mut bytes = header(kind, 9).to_bytes().to_vec();
        bytes.extend([5, 0, 0, 0, 0, 0, 0, 0, 9]);
        let frame = Frame::decode_exact(&bytes, MAX_FRAME).unwrap();
        let unknown = decode_body(kind, frame.body) == Err(DecodeError::UnknownKind(kind));
        assert_eq!(unknown, !kind.is_known(), "{kind}");
        // The number counts, whatever the kind; control has none.
        let number = match kind.is_data() {
            true => Ok(5),
            false => Err(DecodeError::UnknownKind(kind)),
        };
        assert_eq!(frame.seq(), number, "{kind}");
    }
    let envelope = Data::decode(Kind::HELLO, &[0; 50]);
    assert_eq!(envelope, Err(DecodeError::UnknownKind(Kind::HELLO)));
    let hello = Control::decode(Kind::ENVELOPE, &[0; 50]);
    assert_eq!(hello, Err(DecodeError::UnknownKind(Kind::ENVELOPE)));
}

#[test]
fn announced_inner_lengths_are_not_believed() {
    // Shard 1, epoch 1, and an id of 4 294 967 295 bytes.
    let body = [1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, b'x'];
    let decoded = Control::decode(Kind::ENTITY_STARTED, &body);
    assert_eq!(decoded, Err(DecodeError::Truncated));
    // An id of 65 535 bytes, above the limit although its length field can say it.
    let mut body = vec![0; data::ENVELOPE_LEN];
    body[20..22].fill(0xFF);
    body.resize(body.len() + 70_000, 0);
    let decoded = Data::decode(Kind::ENVELOPE, &body);
    assert_eq!(decoded, Err(DecodeError::Range));
}

#[test]
fn values_that_nobody_can_mean_are_out_of_range() {
    // `Welcome`: a number of 7 bytes.
    let welcome = [1, 0, 7, 1, 2, 3, 4, 5, 6, 7];
    // `TermRefused`: 2^36.
    let term = [0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
    // `Register`: part 1 of 1; part 0 of 0.
    let part = |part, parts| [part, parts, 0, 0, 0, 1, b'c', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, body) in [
        (Kind::WELCOME, &welcome[..]),
        (Kind::TERM_REFUSED, &term),
        (Kind::REGISTER, &part(1, 1)),
        (Kind::REGISTER, &part(0, 0)),
    ] {
        assert_eq!(decode_body(kind, body), Err(DecodeError::Range), "{kind}");
    }
    assert_eq!(decode_body(Kind::REGISTER, &part(0, 1)), Ok(()));
    // A reason that does not exist.
    let mut bytes = vec![0; data::RETURN_LEN];
    assert_eq!(decode_body(Kind::RETURN, &bytes), Ok(()));
    bytes[20] = 2;
    let reason = decode_body(Kind::RETURN, &bytes);
    assert_eq!(reason, Err(DecodeError::Range));
    // A bool that is neither, a refusal that does not exist, a name that is not UTF-8.
    let keep_alive = decode_body(Kind::KEEP_ALIVE, &[2]);
    assert_eq!(keep_alive, Err(DecodeError::Body));
    assert_eq!(decode_body(Kind::REFUSED, &[99]), Err(DecodeError::Body));
    let name = [0, 1, 0, 0, 0, 1, 0xFF, 1, 0, 0, 0, 0];
    assert_eq!(decode_body(Kind::REGISTER, &name), Err(DecodeError::Body));
}

/// Encodes what was decoded and decodes it again: the same value.
fn survives_a_round_trip(kind: Kind, body: &[u8]) {
    let mut out = vec![0; MAX_CONTROL_FRAME + body.len()];
    if kind.is_data() {
        let (Ok(value), Ok(seq)) = (Data::decode(kind, body), data::seq(body)) else {
            return;
        };
        let head = data::DataHead {
            flags: Flags::NONE,
            version: 1,
            entity_type: CART,
            epoch: shard_proto::Epoch::NONE,
            seq,
        };
        let len = value.encode(&head, MAX_FRAME, &mut out).unwrap();
        assert_eq!(&out[HEADER_LEN..len], body, "data has one encoding");
        assert!(value.lane(3) < 3);
    } else if let Ok(value) = Control::decode(kind, body) {
        let len = value.encode(EntityTypeId(1), Term(1), 1, &mut out).unwrap();
        let frame = Frame::decode_exact(&out[..len], MAX_FRAME).unwrap();
        assert_eq!(frame.control(), Ok(value));
        let _ = format!("{value:?}");
    }
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => proptest::sample::select(Kind::ALL),
        1 => any::<u8>().prop_map(Kind::from_u8),
    ]
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Decoded::Frame(frame)) = Frame::decode(&bytes, 100) {
            let _ = (frame.seq(), frame.control(), frame.data());
            prop_assert!(frame.encoded_len() <= bytes.len());
        }
    }

    #[test]
    fn random_bodies_decode_to_values_that_encode(
        kind in any_kind(),
        body in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..120),
    ) {
        survives_a_round_trip(kind, &body);
    }

    #[test]
    fn damaged_frames_do_no_harm(
        sample in proptest::sample::select(samples()),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Sample::encode(&sample);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(Decoded::Frame(frame)) = Frame::decode(&bytes, MAX_FRAME) {
            survives_a_round_trip(frame.header.kind, frame.body);
        }
    }
}
