//! A table of the time without service, by cause, over many undisturbed worlds: for measuring, not run by default.

use alloc::vec::Vec;
use std::{env, println};

use super::script::{Script, ms};
use crate::sim::{Cause, Fault, FaultProfile, Outage, WorldConfig};

fn number(name: &str, usual: u64) -> u64 {
    env::var(name).map_or(usual, |value| value.parse().unwrap())
}

fn shape(seed: u64, lan: bool) -> WorldConfig {
    let like = (seed..)
        .map(WorldConfig::from_seed)
        .find(|config| (config.leadership().beat() < ms(100)) == lan)
        .unwrap();
    let voters = if like.voters() == 1 { 3 } else { like.voters() };
    let like = match number("SMALL", 0) {
        0 => like.with_buffer(512).with_window(512),
        _ => like,
    };
    like.with_voters(voters)
        .with_faults(FaultProfile::none())
        .with_noise(0, 0, 0, ms(0))
        .with_moves(ms(0))
        .with_phases(ms(200_000), ms(40_000))
        .with_probe(ms(0))
        .with_traffic(ms(20))
}

/// `CAUSE=4 FROM=0 SEEDS=100 LAN=0`
#[test]
#[ignore = "measures"]
fn outages() {
    let (from, seeds, lan) = (
        number("FROM", 0),
        number("SEEDS", 50),
        number("LAN", 0) == 1,
    );
    let only = env::var("CAUSE").ok();
    for cause in Cause::PROBED {
        if only.as_ref().is_some_and(|only| only != cause.name()) {
            continue;
        }
        let mut total = Outage::default();
        let (mut worst, mut others, mut cold) = (Vec::new(), Vec::new(), Vec::new());
        for seed in from..from + seeds {
            let text = env::var("TEXT").is_ok();
            let mut script = Script::fresh(shape(seed, lan).with_text(text), seed);
            script.until_served(30_000);
            cold.push((script.report().outage(Cause::ColdStart).worst, seed));
            script.pass(2_000 + seed % 400);
            script.fault(Fault::Probe(cause));
            script.pass(14_000);
            script.fault(Fault::ProbeOver);
            script
                .trace()
                .lines()
                .iter()
                .for_each(|line| println!("{line}"));
            let report = script.report();
            let outage = report.outage(cause);
            total.merge(outage);
            worst.push((outage.worst, seed));
            others.push((outage.worst_of_others, seed));
        }
        for list in [&mut worst, &mut others, &mut cold] {
            list.sort_unstable_by(|a, b| b.cmp(a));
            list.truncate(4);
            for (time, _) in list.iter_mut() {
                *time /= 1_000;
            }
        }
        let mean = total.mean() / 1_000;
        println!("{cause:>15} mean {mean} worst {worst:?} others {others:?} cold {cold:?}");
    }
}
