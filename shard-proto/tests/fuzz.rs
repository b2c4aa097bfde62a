//! The bodies of the fuzz targets, on any toolchain: with the seeds beside the targets, and with random bytes.
#![cfg(feature = "_fuzzing")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use shard_proto::fuzzing::{Body, TARGETS};

/// Where seeds and targets are. `None` in a package of this crate alone.
fn fuzz() -> Option<PathBuf> {
    let fuzz = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    fuzz.is_dir().then_some(fuzz)
}

fn body(name: &str) -> Body {
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("no target {name}")).1
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Mostly short, some long; some of small numbers.
    fn bytes(&mut self) -> Vec<u8> {
        let len = 1 << (self.next() % 12);
        let mask = if self.next().is_multiple_of(4) {
            7
        } else {
            255
        };
        (0..len).map(|_| (self.next() as u8) & mask).collect()
    }
}

fn random(name: &str, cases: u64) {
    let cases = std::env::var("FUZZ_CASES")
        .ok()
        .map_or(cases, |set| set.parse().unwrap());
    let body = body(name);
    for case in 0..cases {
        let bytes = Random(case).bytes();
        if std::panic::catch_unwind(|| body(&bytes)).is_err() {
            panic!("{name}: case {case}, {} bytes", bytes.len());
        }
    }
}

#[test]
fn seeds_of_every_target_do_no_harm() {
    let Some(fuzz) = fuzz() else { return };
    for (name, body) in TARGETS {
        let seeds = fs::read_dir(fuzz.join("seeds").join(name)).unwrap();
        let mut count = 0;
        for seed in seeds {
            let seed = seed.unwrap().path();
            let bytes = fs::read(&seed).unwrap();
            assert!(bytes.len() <= 4096, "{seed:?} is long");
            if std::panic::catch_unwind(|| body(&bytes)).is_err() {
                panic!("{name}: {seed:?}");
            }
            count += 1;
        }
        assert!(count >= 5, "{name} has {count} seeds");
    }
}

#[test]
fn there_is_a_target_for_every_body() {
    let Some(fuzz) = fuzz() else { return };
    let targets = fs::read_dir(fuzz.join("fuzz_targets")).unwrap();
    let targets: BTreeSet<_> = targets
        .map(|target| {
            target
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let bodies: BTreeSet<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(targets, bodies);
}

macro_rules! random {
    ($($name:ident: $cases:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                random(stringify!($name), $cases);
            }
        )*
    };
}

random! {
    frame_decode: 4000,
    control_roundtrip: 4000,
    handshake: 2000,
    region_ops: 2000,
    coordinator_ops: 2000,
    leadership_ops: 2000,
    balance_ops: 2000,
    world: 40,
}

/// Frames as recorded, one file per kind.
fn recorded() -> Vec<(String, Vec<u8>)> {
    let wire = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let mut files = Vec::new();
    for file in fs::read_dir(wire).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|end| end != "hex") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let digits: String = lines.collect();
        let frames = (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap());
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        files.push((name, frames.collect()));
    }
    files.sort();
    files
}

#[test]
#[ignore = "writes the seeds anew"]
fn record() {
    if std::env::var_os("SHARD_RECORD_SEEDS").is_none() {
        return;
    }
    let seeds = fuzz().expect("the repository").join("seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let directory = seeds.join(target);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(name), bytes).unwrap();
    };
    for (name, frames) in recorded() {
        write("frame_decode", &name, &[&[0], &frames[..]].concat());
        let len = u32::from_le_bytes(frames[16..20].try_into().unwrap()) as usize;
        if frames[1] < 64 {
            let body = &frames[20..20 + len];
            write(
                "control_roundtrip",
                &name,
                &[&[1, frames[1]], body].concat(),
            );
        }
    }
    for (target, _) in TARGETS {
        for case in 0..6 {
            let bytes = Random(1000 + case).bytes();
            write(
                target,
                &format!("random-{case}"),
                &bytes[..bytes.len().min(600)],
            );
        }
    }
}
