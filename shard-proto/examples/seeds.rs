//! Runs simulated clusters, one per seed, and stops at the first that breaks a promise.
//!
//! ```text
//! cargo run --release -p shard-proto --features sim --example seeds -- [--from SEED] [--seeds COUNT]
//!     [--mode lease|trust|external] [--shape plain|skewed|lossy|restless|severed|hasty] [--skew MS] [--stop first|never]
//! ```
//!
//! Exit code 0: none did; 1: one did, and stdout says which and how; 2: the arguments make no sense, or lead to worlds in
//! which nothing is promised, and stderr says why. Always the lowest failing seed is named, however many cores there are. With `--stop never` all are tried, and it is counted how many
//! broke which promise.
#![allow(
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core,
    reason = "a program"
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shard_proto::leadership::Ownership;
use shard_proto::sim::{HeapStore, Shape, World, WorldConfig};

struct Options {
    from: u64,
    seeds: u64,
    ownership: Ownership,
    shape: Shape,
    skew: Option<Duration>,
    stop: bool,
}

fn parse() -> Result<Options, String> {
    let mut options = Options {
        from: 0,
        seeds: 1000,
        ownership: Ownership::Lease,
        shape: Shape::Plain,
        skew: None,
        stop: true,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or(format!("{name}: a value is missing"))?;
        let number = || {
            let number = value.parse::<u64>();
            number.map_err(|_| format!("{name}: {value} is no number"))
        };
        match name.as_str() {
            "--from" => options.from = number()?,
            "--seeds" => options.seeds = number()?,
            "--skew" => options.skew = Some(Duration::from_millis(number()?)),
            "--stop" => {
                options.stop = match value.as_str() {
                    "first" => true,
                    "never" => false,
                    _ => return Err(format!("--stop: {value} is neither first nor never")),
                }
            }
            "--shape" => {
                let shape = Shape::ALL.into_iter().find(|shape| shape.name() == value);
                options.shape = shape.ok_or(format!("--shape: {value} is not known"))?;
            }
            "--mode" => {
                options.ownership = match value.as_str() {
                    "lease" => Ownership::Lease,
                    "trust" => Ownership::Trust,
                    "external" => Ownership::External,
                    _ => return Err(format!("--mode: {value} is none of lease, trust, external")),
                }
            }
            _ => return Err(format!("{name} is not known")),
        }
    }
    Ok(options)
}

/// Instead of a promise: the world was refused.
const SETTINGS: &str = "settings";

/// What is wrong with a seed: the broken promise, and a sentence.
fn judge(seed: u64, options: &Options) -> Result<(), (String, String)> {
    let mut config = WorldConfig::from_seed(seed)
        .with_shape(options.shape)
        .with_ownership(options.ownership);
    if let Some(skew) = options.skew {
        config = config.with_wall_skew(skew);
    }
    let run = catch_unwind(AssertUnwindSafe(|| {
        match World::<HeapStore>::new(config, seed) {
            Ok(world) => world
                .run()
                .map(drop)
                .map_err(|failure| (failure.violation.name().to_owned(), failure.to_string())),
            Err(error) => Err((SETTINGS.to_owned(), error.to_string())),
        }
    }));
    run.unwrap_or_else(|_| Err(("panic".to_owned(), format!("seed {seed} panicked"))))
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let end = options.from.saturating_add(options.seeds);
    let next = AtomicU64::new(options.from);
    let lowest = AtomicU64::new(end);
    let found = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= lowest.load(Ordering::Relaxed) {
                return;
            }
            let Err(failure) = judge(seed, &options) else {
                continue;
            };
            if options.stop {
                lowest.fetch_min(seed, Ordering::Relaxed);
            }
            if let Ok(mut found) = found.lock() {
                found.insert(seed, failure);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().unwrap_or_default();
    let Some((seed, (promise, text))) = found.first_key_value() else {
        return ExitCode::SUCCESS;
    };
    if let Some((seed, (_, text))) = found.iter().find(|(_, (promise, _))| promise == SETTINGS) {
        eprintln!("error: seed {seed}: {text}");
        return ExitCode::from(2);
    }
    println!("{seed}\n{promise}\n{text}");
    if !options.stop {
        let mut counts = BTreeMap::<&str, (usize, u64)>::new();
        for (seed, (promise, _)) in &found {
            let count = &mut counts.entry(promise).or_insert((0, *seed)).0;
            *count = usize::saturating_add(*count, 1);
        }
        for (promise, (count, first)) in counts {
            println!("{count:6} {promise}, first with seed {first}");
        }
    }
    ExitCode::FAILURE
}
