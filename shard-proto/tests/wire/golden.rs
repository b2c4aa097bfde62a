//! Recorded frames: one file per version and kind, each frame a line for its header and lines for its body.
//!
//! A change of these files is a change of the protocol: other versions, and other languages, read the old bytes. To
//! record a new kind, or all of them after a deliberate break (with a new version number), run
//!
//! ```text
//! SHARD_RECORD_WIRE=1 cargo test -p shard-proto --test wire -- --ignored record
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use shard_proto::wire::{Decoded, Frame, HEADER_LEN, Kind};

use super::samples::{MAX_FRAME, Sample, samples};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

fn file(kind: Kind) -> String {
    format!("v1-{:03}-{}.hex", kind.to_u8(), kind.name().unwrap())
}

fn by_kind() -> BTreeMap<Kind, Vec<Sample>> {
    let mut map = BTreeMap::<_, Vec<_>>::new();
    for sample in samples() {
        map.entry(sample.kind()).or_default().push(sample);
    }
    map
}

/// The frames of a file, back to back.
fn recorded(kind: Kind) -> Vec<u8> {
    let path = directory().join(file(kind));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let digits: Vec<u8> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.bytes().filter(|byte| !byte.is_ascii_whitespace()))
        .map(|digit| (digit as char).to_digit(16).unwrap() as u8)
        .collect();
    let (pairs, []) = digits.as_chunks::<2>() else {
        panic!("odd number of digits");
    };
    pairs.iter().map(|[high, low]| high << 4 | low).collect()
}

#[test]
fn every_kind_is_recorded_and_nothing_else() {
    let kinds: BTreeSet<_> = by_kind().into_keys().collect();
    assert_eq!(kinds, Kind::ALL.iter().copied().collect());
    let files: BTreeSet<_> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".hex"))
        .collect();
    assert_eq!(files, kinds.into_iter().map(file).collect());
}

#[test]
fn frames_are_as_recorded() {
    for (kind, samples) in by_kind() {
        let frames: Vec<u8> = samples.iter().flat_map(Sample::encode).collect();
        assert_eq!(frames, recorded(kind), "{kind}: the wire format changed");
    }
}

#[test]
fn recorded_frames_decode() {
    for (kind, samples) in by_kind() {
        let bytes = recorded(kind);
        let mut rest = &bytes[..];
        for sample in samples {
            let Ok(Decoded::Frame(frame)) = Frame::decode(rest, MAX_FRAME) else {
                panic!("{kind}: no frame");
            };
            assert_eq!(frame.header.kind, kind);
            assert!(sample.is(&frame), "{sample:?} decoded as {frame:?}");
            rest = &rest[frame.encoded_len()..];
        }
        assert_eq!(rest, [], "{kind}: more frames than samples");
    }
}

#[test]
fn a_flipped_bit_never_decodes_to_the_same() {
    for sample in samples() {
        let frame = sample.encode();
        for bit in 0..frame.len() * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(frame) = Frame::decode_exact(&changed, MAX_FRAME) else {
                continue;
            };
            // The version of a `Hello` or `Refused` is not looked at.
            let versionless = bit < 8 && frame.header.kind.is_versionless();
            assert!(versionless || !sample.is(&frame), "{sample:?}, bit {bit}");
        }
    }
}

#[cfg(feature = "alloc")]
#[test]
fn both_encoders_write_the_same() {
    let mut out = bytes::BytesMut::new();
    for sample in samples() {
        let start = out.len();
        let len = sample.encode_into(&mut out);
        assert_eq!(out[start..], sample.encode());
        assert_eq!(start + len, out.len());
    }
}

#[test]
#[ignore = "writes the recorded frames anew"]
fn record() {
    if std::env::var_os("SHARD_RECORD_WIRE").is_none() {
        return;
    }
    for (kind, samples) in by_kind() {
        let mut text = String::new();
        for sample in samples {
            writeln!(text, "# {sample:?}").unwrap();
            let frame = sample.encode();
            let (head, body) = frame.split_at(HEADER_LEN);
            for line in core::iter::once(head).chain(body.chunks(32)) {
                for byte in line {
                    write!(text, "{byte:02x}").unwrap();
                }
                text.push('\n');
            }
        }
        fs::write(directory().join(file(kind)), text).unwrap();
    }
}
