//! Runs simulated clusters, one per seed, and stops at the first that breaks a promise.
//!
//! ```text
//! cargo run --release -p shard-proto --features sim --example seeds -- [--from SEED] [--seeds COUNT]
//!     [--mode lease|trust|external] [--skew MS]
//! ```
//!
//! Exit code 0: none did; 1: one did, and stdout says which and how; 2: the arguments make no sense. Always the lowest
//! failing seed is named, however many cores there are.
#![allow(
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core,
    reason = "a program"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use shard_proto::leadership::Ownership;
use shard_proto::sim::{HeapStore, World, WorldConfig};

struct Options {
    from: u64,
    seeds: u64,
    ownership: Ownership,
    skew: Option<Duration>,
}

fn parse() -> Result<Options, String> {
    let mut options = Options {
        from: 0,
        seeds: 1000,
        ownership: Ownership::Lease,
        skew: None,
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

/// What is wrong with a seed: the broken promise, and a sentence.
fn judge(seed: u64, options: &Options) -> Result<(), (String, String)> {
    let mut config = WorldConfig::from_seed(seed).with_ownership(options.ownership);
    if let Some(skew) = options.skew {
        config = config.with_wall_skew(skew);
    }
    let run = catch_unwind(AssertUnwindSafe(|| {
        match World::<HeapStore>::new(config, seed) {
            Ok(world) => world
                .run()
                .map(drop)
                .map_err(|failure| (failure.violation.name().to_owned(), failure.to_string())),
            Err(error) => Err(("settings".to_owned(), error.to_string())),
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
    let found = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= lowest.load(Ordering::Relaxed) {
                return;
            }
            if let Err(failure) = judge(seed, &options)
                && lowest.fetch_min(seed, Ordering::Relaxed) > seed
                && let Ok(mut found) = found.lock()
                && found.as_ref().is_none_or(|(other, _)| *other > seed)
            {
                *found = Some((seed, failure));
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    match found.into_inner() {
        Ok(Some((seed, (promise, text)))) => {
            println!("{seed}\n{promise}\n{text}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
