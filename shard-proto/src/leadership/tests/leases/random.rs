//! Random faults; the promises are checked after every step, and a leader must act soon after they end.

use std::println;
use std::string::{String, ToString};
use std::vec::Vec;

use super::model::SHARDS;
use super::world::{World, ms};
use crate::leadership::LeadershipConfig;
use crate::membership::RemovalCause;

/// What a run is like.
pub(super) struct Shape {
    pub(super) lan: bool,
    pub(super) voters: usize,
    pub(super) hosts: usize,
}

impl Shape {
    fn of(seed: u64) -> Self {
        let voters = [3, 5, 3, 1][seed as usize / 2 % 4];
        Self {
            lan: seed % 2 == 1,
            voters,
            hosts: voters + (seed as usize / 8) % 3,
        }
    }
}

fn fault(world: &mut World, nodes: u64) {
    let i = world.random(nodes) as usize;
    let j = world.random(nodes) as usize;
    let alive = world.hosts[i].alive;
    match world.random(22) {
        0 | 1 if alive => world.pause(i),
        2..=4 => world.wake(i),
        5 | 6 => {
            world.cut.insert((i, j));
        }
        7 => {
            for other in 0..nodes as usize {
                world.cut.insert((i, other));
            }
        }
        8 => {
            for other in 0..nodes as usize {
                world.cut.insert((other, i));
            }
        }
        9 | 10 => world.cut.clear(),
        11 if alive => {
            let within = 1_000 + world.random(4_000);
            world.kill(i, within, RemovalCause::Down);
        }
        12 if alive => {
            world.kill(i, 20_000, RemovalCause::Down);
            let after = 1 + world.random(10);
            world.run(ms(after));
            world.restart(i, 50);
        }
        13 | 14 if !alive => world.restart(i, 300),
        15 if alive => world.leave(i),
        16 if alive && i != j => {
            let suspected = world.random(2) == 0;
            world.suspect(j, i, suspected);
        }
        17 | 18 => {
            world.loss = world.random(500);
            world.doubled = world.random(300);
            world.delay = (1, [20, 200, 1_000, 3_000][world.random(4) as usize]);
        }
        19 => {
            (world.loss, world.doubled, world.delay) = (0, 0, (1, 10));
        }
        20 => {
            let rate = world.random(40_001) as i64 - 20_000;
            world.set_rate(i, rate);
        }
        21 if world.random(6) == 0 => {
            // The whole cluster.
            for i in 0..nodes as usize {
                world.kill(i, 20_000, RemovalCause::Down);
            }
            let after = 1 + world.random(2_000);
            world.run(ms(after));
            for i in 0..nodes as usize {
                world.restart(i, 300);
            }
        }
        _ => {}
    }
}

fn calm(world: &mut World, nodes: usize) {
    world.cut.clear();
    (world.loss, world.doubled, world.delay) = (0, 0, (1, 10));
    for i in 0..nodes {
        world.wake(i);
        let leaving = world.hosts[i].state == crate::membership::MemberState::Leaving;
        if leaving && world.hosts[i].alive {
            world.kill(i, 10, RemovalCause::Left);
        }
        if !world.hosts[i].alive {
            world.restart(i, 300);
        }
        for j in 0..nodes {
            world.suspect(j, i, false);
        }
    }
}

pub(super) fn run(seed: u64, log: bool) -> u64 {
    let shape = Shape::of(seed);
    let preset = if shape.lan {
        LeadershipConfig::lan()
    } else {
        LeadershipConfig::new()
    };
    let mut world = World::new(seed, preset, shape.voters, shape.hosts);
    world.log = log;
    let nodes = shape.hosts;
    for i in 0..nodes {
        let rate = world.random(40_001) as i64 - 20_000;
        world.set_rate(i, rate);
        // Where all voters restart at once, nothing but their clocks knows the last term, and the first that acts does so
        // one support lease later.
        let apart = crate::micros(world.config.support_lease()) / 1_000;
        world.hosts[i].skew = world.random(apart * 9 / 10) as i64;
    }
    let scale = if shape.lan { 4 } else { 1 };
    let start = world.random(5_000);
    world.run(ms(start / scale));
    for _ in 0..100 {
        fault(&mut world, nodes as u64);
        let after = 1 + world.random(1_000);
        world.run(ms(after / scale));
    }
    calm(&mut world, nodes);
    // A leader that nobody hears, ignored for 4 S, a quiet start, the barrier.
    world.run(ms(12_000 / scale + 3_300));
    let leader = world.acting().expect("nobody acts after the faults");
    let acted = world.acted.len();
    for shard in 0..SHARDS {
        assert!(world.server(shard).is_some(), "nobody serves {shard}");
    }
    world.run(ms(10_000 / scale));
    assert_eq!(world.acting(), Some(leader));
    assert_eq!(world.acted.len(), acted, "the lead goes on moving");
    acted as u64
}

fn run_all(seeds: core::ops::Range<u64>) -> (u64, Vec<(u64, String)>) {
    let (mut acted, mut failed) = (0, Vec::new());
    for seed in seeds {
        match std::panic::catch_unwind(|| run(seed, false)) {
            Ok(reigns) => acted += reigns,
            Err(cause) => {
                let cause = cause
                    .downcast_ref::<String>()
                    .cloned()
                    .or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string));
                failed.push((seed, cause.unwrap_or_default()));
            }
        }
    }
    (acted, failed)
}

#[test]
fn nothing_breaks_under_random_faults() {
    let seeds = u64::from(crate::testing::cases(48));
    let (acted, failed) = run_all(0..seeds);
    assert_eq!(failed, []);
    assert!(acted > seeds);
}

/// `SEEDS=10000 FROM=0 cargo test --release … leases::random::many -- --ignored --nocapture`
#[test]
#[ignore = "long"]
fn many() {
    let number = |name, default| {
        let value = std::env::var(name).ok();
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let from = number("FROM", 0);
    if let Ok(seed) = std::env::var("SEED") {
        run(seed.parse().unwrap(), true);
        return;
    }
    let seeds = number("SEEDS", 1_000);
    let (acted, failed) = run_all(from..from + seeds);
    println!(
        "{seeds} seeds, {acted} reigns acted, {} failed",
        failed.len()
    );
    for (seed, cause) in &failed {
        println!("{seed}: {cause}");
    }
    assert_eq!(failed.len(), 0);
}
