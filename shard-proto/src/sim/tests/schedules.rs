//! What is drawn, and how it is made smaller.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::leadership::Ownership;
use crate::sim::minimise;
use crate::sim::{Fault, FaultKind, FaultProfile, Report, Schedule, WorldConfig};

const S: u64 = 1_000_000;

#[test]
fn a_seed_has_its_schedule() {
    let config = WorldConfig::new();
    let first = Schedule::draw(1, &config);
    assert_eq!(first, Schedule::draw(1, &config));
    assert_ne!(first, Schedule::draw(2, &config));
}

#[test]
fn every_kind_is_drawn() {
    let mut report = Report::default();
    for seed in 0..200 {
        let ownership = [Ownership::Lease, Ownership::External][seed as usize % 2];
        let config = WorldConfig::from_seed(seed).with_ownership(ownership);
        let schedule = Schedule::draw(seed, &config);
        assert!(schedule.faults.is_sorted_by_key(|(at, _)| *at));
        for (_, fault) in &schedule.faults {
            report.count(fault);
        }
    }
    for kind in FaultKind::ALL {
        assert!(report.faults[kind as usize] > 10, "{kind:?}");
    }
}

#[test]
fn what_is_switched_off_is_not_drawn() {
    let faults = FaultProfile::none().with(FaultKind::Pause, 1);
    let config = WorldConfig::new().with_faults(faults);
    let schedule = Schedule::draw(7, &config);
    let end = config.faulty_for().as_micros() as u64;
    let mut pauses = 0;
    for (at, fault) in schedule.faults {
        match fault {
            Fault::Pause { for_, .. } => {
                pauses += 1;
                assert!(
                    at + for_.as_micros() as u64 <= end,
                    "it outlasts the faults"
                );
            }
            _ => assert!(at >= end, "{fault}"),
        }
    }
    assert!(pauses > 5);
    let quiet = config.with_faults(FaultProfile::none());
    let schedule = Schedule::draw(7, &quiet);
    assert!(schedule.faults.iter().all(|(at, _)| *at >= end));
}

#[test]
fn hosts_and_shards_exist() {
    for seed in 0..200 {
        let config = WorldConfig::from_seed(seed);
        let nodes = config.nodes();
        for (_, fault) in Schedule::draw(seed, &config).faults {
            match fault {
                Fault::Cut { from, to } | Fault::Heal { from, to } => {
                    assert!(from < nodes && to < nodes && from != to);
                }
                Fault::Break { a, b } => assert!(a < nodes && b < nodes && a != b),
                Fault::Suspect { by, of, .. } => assert!(by < nodes && of < nodes && by != of),
                Fault::Burst { host, shard, .. } => {
                    assert!(host < nodes && shard < config.all_shards());
                }
                Fault::Move { shard } => assert!(shard < config.all_shards()),
                Fault::StopRegion { host, ty } => assert!(host < nodes && ty < config.types()),
                // Else the promises of voters would be worth nothing.
                Fault::ClockJump { host, .. } => assert!(host >= config.voters()),
                Fault::ClockRate { ppm, .. } => assert!(ppm.unsigned_abs() <= 20_000),
                _ => {}
            }
        }
    }
}

#[test]
fn a_schedule_reads_well() {
    let pause = Fault::Pause {
        host: 2,
        for_: Duration::from_millis(2500),
    };
    let schedule = Schedule::new(vec![
        (12 * S + 345_678, pause),
        (S, Fault::Cut { from: 0, to: 1 }),
    ]);
    let text = "    1.000000 s  nothing gets from host 0 to host 1\n   12.345678 s  host 2 stands still for 2.5s\n";
    assert_eq!(schedule.to_string(), text);
}

#[test]
fn only_what_is_needed_is_left() {
    let all: Vec<_> = (0..100).map(|at| (at, Fault::Crash { host: 0 })).collect();
    let needed = [3, 4, 50, 97];
    let mut tries = 0;
    let fails = |faults: &[(u64, Fault)]| {
        tries += 1;
        needed
            .iter()
            .all(|at| faults.iter().any(|(time, _)| time == at))
    };
    let least = minimise::shrink(all, fails);
    let least: Vec<_> = least.iter().map(|(at, _)| *at).collect();
    assert_eq!(least, needed);
    assert!(tries < 120, "{tries}");
}

#[test]
fn nothing_is_left_if_nothing_is_needed() {
    let all = vec![(1, Fault::HealAll), (2, Fault::HealAll)];
    assert!(minimise::shrink(all, |_| true).is_empty());
}
