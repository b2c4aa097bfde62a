//! Worlds in virtual time, one per seed, on all cores, until one breaks a promise.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::panic;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use shard_proto::leadership::Ownership;
use shard_proto::sim::{self, HeapStore, Report, Schedule, Violation, World, WorldConfig};

use crate::failure::{Failure, say};
use crate::progress::Progress;

mod exhaustive;
mod summary;
#[cfg(test)]
mod tests;

use summary::Summary;

/// The first seed. It differs from those of the tests.
const FROM: u64 = 1_000_000;

/// Tries what the protocol promises in simulated clusters in which everything goes wrong.
///
/// Each seed is a cluster of its own: networks that lose, double, delay and cut, processes that stand still, crash,
/// leave and start again, clocks that run apart, shards that move all the time. After every step it is checked that at
/// most one coordinator acts, that each shard has at most one home, that messages keep their order, and that none is
/// lost without a report; and after the faults that everything works again. A seed gives the same run on every machine.
///
/// Exit code 1 with the seed and the least that has to go wrong, if a promise is broken.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos", version)]
pub struct Chaos {
    /// How many clusters
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = FROM)]
    pub from: u64,
    /// Run one seed and print what goes wrong in it
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    pub replay: Option<u64>,
    /// Instead of random clusters, try every order of events in clusters of two and three nodes with one and two
    /// shards, from situations where much may go wrong
    #[arg(long, conflicts_with_all = ["seeds", "from", "replay", "hours", "mode"])]
    pub exhaustive: bool,
    /// With --exhaustive: up to so many events from each situation
    #[arg(long, value_name = "N", default_value_t = 7, requires = "exhaustive")]
    pub depth: u32,
    /// With --exhaustive: up to so many states from each situation
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30_000,
        requires = "exhaustive"
    )]
    pub states: usize,
    /// How many nodes. Default: 3 to 7, by seed
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub nodes: Option<u8>,
    /// How many shards. Default: 16 to 64, by seed
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub shards: Option<u32>,
    /// How many hours of virtual time things go wrong in each cluster. Default: a minute or two, by seed
    #[arg(long)]
    pub hours: Option<f64>,
    /// What entitles a node to serve
    #[arg(long, value_enum, default_value_t = Mode::Lease)]
    pub mode: Mode,
    /// Print one JSON object on stdout instead of a report
    #[arg(long)]
    pub json: bool,
    /// How many threads. Default: one per core
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// What entitles a node to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Leases: the default of a node.
    Lease,
    /// Membership is believed. Breaks the promise of one home: shows what the leases are for.
    Trust,
    /// Leases; who leads is decided by a service outside.
    External,
}

impl Mode {
    const fn ownership(self) -> Ownership {
        match self {
            Self::Lease => Ownership::Lease,
            Self::Trust => Ownership::Trust,
            Self::External => Ownership::External,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Trust => "trust",
            Self::External => "external",
        }
    }
}

impl Chaos {
    /// The shape of a seed's cluster.
    ///
    /// # Errors
    /// Numbers that do not fit together.
    pub fn world(&self, seed: u64) -> Result<WorldConfig, Failure> {
        let mut config = WorldConfig::from_seed(seed).with_ownership(self.mode.ownership());
        if let Some(nodes) = self.nodes {
            let voters = [5, 3, 1].into_iter().find(|voters| *voters <= nodes);
            let voters = config.voters().min(voters.unwrap_or(1));
            config = config.with_nodes(nodes).with_voters(voters);
        }
        if let Some(shards) = self.shards {
            config = config.with_shards(shards);
        }
        if let Some(hours) = self.hours {
            let faulty = Duration::try_from_secs_f64(hours * 3600.0);
            let faulty = faulty.map_err(|error| Failure::usage(format!("--hours: {error}")))?;
            let calm = config.calm_for();
            config = config.with_phases(faulty, calm);
        }
        config
            .validate()
            .map_err(|error| Failure::usage(format!("seed {seed}: {error}")))?;
        Ok(config)
    }

    fn cores(&self) -> usize {
        match self.threads {
            Some(threads) => usize::from(threads),
            None => thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn progress(&self, steps: u64) -> Progress {
        if self.json {
            Progress::hidden()
        } else {
            Progress::new(steps)
        }
    }
}

/// Runs it.
///
/// # Errors
/// Bad arguments, or output that cannot be written. A broken promise is none: it is exit code 1.
pub fn run(options: &Chaos) -> Result<ExitCode, Failure> {
    if options.exhaustive {
        return exhaustive::run(options);
    }
    // All seeds fit or none does, but for the number of nodes.
    options.world(options.replay.unwrap_or(options.from))?;
    // What panics is reported with its seed.
    panic::set_hook(Box::new(|_| {}));
    match options.replay {
        Some(seed) => replay(options, seed),
        None => all(options),
    }
}

/// A seed whose cluster broke a promise.
#[derive(Clone, Debug)]
struct Broken {
    seed: u64,
    violation: Violation,
    /// In microseconds of virtual time; unknown after a panic.
    at: Option<u64>,
    schedule: Schedule,
}

/// Runs the cluster of a seed with these faults, or those of the seed.
fn try_seed(
    config: &WorldConfig,
    seed: u64,
    schedule: Option<&Schedule>,
) -> Result<Report, Box<Broken>> {
    let schedule = match schedule {
        Some(schedule) => schedule.clone(),
        None => Schedule::draw(seed, config),
    };
    let world = || {
        World::<HeapStore>::with_schedule(config.clone(), seed, schedule.clone()).map(World::run)
    };
    let panicked = |what: String| {
        Box::new(Broken {
            seed,
            violation: Violation::Panic { what },
            at: None,
            schedule: schedule.clone(),
        })
    };
    match panic::catch_unwind(AssertUnwindSafe(world)) {
        Ok(Ok(Ok(report))) => Ok(report),
        Ok(Ok(Err(failure))) => Err(Box::new(Broken {
            seed,
            violation: failure.violation,
            at: Some(failure.at),
            schedule: failure.schedule,
        })),
        Ok(Err(error)) => Err(panicked(error.to_string())),
        Err(payload) => Err(panicked(text_of(&*payload))),
    }
}

fn text_of(payload: &(dyn core::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something that is no text".to_owned())
}

/// The same with as few faults as possible.
fn least(config: &WorldConfig, broken: &Broken) -> Broken {
    // A panic within: what there is, is good enough.
    let Some(at) = broken.at else {
        return broken.clone();
    };
    let failure = sim::Failure::new(
        broken.seed,
        broken.violation.clone(),
        at,
        broken.schedule.clone(),
    );
    let least = AssertUnwindSafe(|| sim::minimise::<HeapStore>(config, &failure));
    match panic::catch_unwind(least) {
        Ok(Ok(least)) => Broken {
            seed: broken.seed,
            violation: least.violation,
            at: Some(least.at),
            schedule: least.schedule,
        },
        _ => broken.clone(),
    }
}

fn all(options: &Chaos) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let progress = options.progress(options.seeds);
    let mut summary = Summary::new(options);
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let (found, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..options.cores() {
            let (found, next, stop) = (found.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.seeds {
                        return;
                    }
                    let seed = options.from.wrapping_add(number);
                    let result = options
                        .world(seed)
                        .map(|config| try_seed(&config, seed, None));
                    if found.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(found);
        for result in results {
            match result? {
                Ok(report) => summary.add(&report),
                Err(broken) => {
                    progress.say(format!("seed {}: {}", broken.seed, broken.violation.name()));
                    if summary.breaks(*broken) {
                        stop.store(true, Ordering::Relaxed);
                    }
                }
            }
            progress.advance(1);
        }
        Ok::<_, Failure>(())
    })?;
    if let Some(broken) = &summary.broken {
        progress.say("looking for the least that has to go wrong");
        let least = least(&options.world(broken.seed)?, broken);
        summary.broken = Some(least);
    }
    progress.clear();
    summary.seconds = started.elapsed().as_secs_f64();
    if options.json {
        say(format_args!("{}\n", summary.to_json()))?;
    } else {
        say(summary.to_text())?;
    }
    Ok(ExitCode::from(u8::from(summary.broken.is_some())))
}

fn replay(options: &Chaos, seed: u64) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let config = options.world(seed)?;
    let mut summary = Summary::new(options);
    if !options.json {
        say(format_args!(
            "seed {seed}: {}\n{}\n",
            summary::shape(&config),
            Schedule::draw(seed, &config)
        ))?;
    }
    match try_seed(&config, seed, None) {
        Ok(report) => summary.add(&report),
        Err(broken) => {
            if !options.json {
                say(format_args!("{}\n", summary::describe(&broken)))?;
            }
            let _ = summary.breaks(least(&config, &broken));
        }
    }
    summary.seconds = started.elapsed().as_secs_f64();
    if options.json {
        say(format_args!("{}\n", summary.to_json()))?;
    } else {
        say(summary.to_text())?;
    }
    Ok(ExitCode::from(u8::from(summary.broken.is_some())))
}
