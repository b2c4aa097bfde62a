//! Options, and what is printed.

use super::*;
use crate::chaos::summary::Summary;

fn options(arguments: &[&str]) -> Result<Chaos, clap::Error> {
    Chaos::try_parse_from([&["chaos"], arguments].concat())
}

#[test]
fn options_shape_every_world() {
    let options = options(&["--nodes", "4", "--shards", "20", "--hours", "0.5"]).unwrap();
    for seed in 0..20 {
        let config = options.world(seed).unwrap();
        assert_eq!((config.nodes(), config.shards()), (4, 20));
        assert!(matches!(config.voters(), 1 | 3));
        assert_eq!(config.faulty_for(), Duration::from_secs(1800));
    }
}

#[test]
fn bad_options_are_refused() {
    for arguments in [
        &["--seeds", "0"][..],
        &["--nodes", "17"],
        &["--shards", "65"],
        &["--mode", "hope"],
        &["--replay", "1", "--seeds", "2"],
        &["--exhaustive", "--seeds", "2"],
        &["--depth", "2"],
    ] {
        assert_eq!(options(arguments).unwrap_err().exit_code(), 2);
    }
    for hours in ["-1", "NaN", "1e9"] {
        let arguments = format!("--hours={hours}");
        let options = options(&[&arguments]).unwrap();
        assert_eq!(options.world(1).unwrap_err().code(), 2, "{hours}");
    }
}

fn broken(seed: u64, violation: Violation) -> Broken {
    Broken {
        seed,
        violation,
        at: Some(1_500_000),
        schedule: Schedule::default(),
    }
}

fn panic(seed: u64) -> Broken {
    broken(
        seed,
        Violation::Panic {
            what: "boom".to_owned(),
        },
    )
}

#[test]
fn the_lowest_seed_is_shown() {
    let mut summary = Summary::new(&options(&[]).unwrap());
    assert!(summary.breaks(panic(9)));
    assert!(summary.breaks(panic(7)));
    assert!(summary.breaks(panic(8)));
    let json = summary.to_json();
    assert_eq!(json["violations"], 3);
    assert_eq!(json["seeds"], 3);
    assert_eq!(json["violation"]["seed"], 7);
    assert_eq!(json["violation"]["invariant"], "panic");
    assert!(summary.to_text().contains("seed 7 after 1.5s\npanic: boom"));
}

#[test]
fn json_has_what_scripts_look_for() {
    let mut summary = Summary::new(&options(&["--from", "5"]).unwrap());
    summary.add(&Report::default());
    let json = summary.to_json();
    for key in ["seeds", "steps", "moves", "failovers", "violations"] {
        assert!(json[key].is_u64(), "{key}");
    }
    assert!(json["violation"].is_null());
    assert!(summary.to_text().ends_with("no promise was broken\n"));
}

#[test]
fn trust_goes_on_until_there_are_two_homes() {
    let mut summary = Summary::new(&options(&["--mode", "trust"]).unwrap());
    assert!(!summary.breaks(panic(1)));
    let two_homes = Violation::TwoHomes {
        shard: 1,
        first: (0, shard_proto::Epoch::NONE),
        until: u64::MAX,
        second: (1, shard_proto::Epoch::NONE),
    };
    assert!(summary.breaks(broken(2, two_homes)));
    assert!(!summary.breaks(panic(0)));
    assert_eq!(summary.to_json()["violation"]["invariant"], "two homes");
    assert!(summary.to_text().contains("Leases"));
}
