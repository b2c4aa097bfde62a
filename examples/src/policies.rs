//! Clients that pick nodes by policies, in virtual time.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::{path::PathBuf, process::ExitCode, sync::mpsc, thread};

use clap::Parser;
use shard_proto::balance::Policy;

use crate::failure::{Failure, say};
use crate::progress::Progress;

mod chart;
mod event;
mod measure;
mod node;
mod plan;
mod report;
#[cfg(test)]
mod tests;
mod world;

pub use measure::{Row, Sample};
pub use plan::Phase;
pub use world::{Outcome, Setup};

/// Tries the load balancing policies on many clients and nodes in virtual time.
///
/// Each client has a stub of the core, with its default settings, and makes calls at random times to a service that the
/// nodes provide; a node has four workers, which take 10 ms per call on average, and a queue of 200 calls. With as many
/// nodes as usual 30 % of the workers are busy. A call is idempotent; an attempt waits for 250 ms, a call for 2 s. In
/// phases nodes restart, come, go and fail, one policy after the other under the same circumstances, and after each
/// fault it is watched how soon the node has its share of calls again.
///
/// Prints a table of what each policy made of each phase. The same arguments print the same figures.
#[derive(Clone, Debug, Parser)]
#[command(name = "policies", version)]
pub struct Options {
    /// How many clients. Default: 500
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Option<u32>,
    /// How many clients are in one process, and elect together under first-available-identical-all-proxies. Default: 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub per_process: Option<u32>,
    /// How many nodes; twice as many at times. Default: 20
    #[arg(long, value_parser = clap::value_parser!(u16).range(4..=1000))]
    pub nodes: Option<u16>,
    /// Decides all that is random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Only this policy; may be repeated. An unknown name lists those there are
    #[arg(long, value_name = "NAME")]
    pub policy: Vec<Policy>,
    /// Only this phase; may be repeated. `shrink` comes with `grow`
    #[arg(long, value_enum)]
    pub phase: Vec<Phase>,
    /// Shorter phases, and 50 clients, 2 per process, and 10 nodes unless they are given: to see that it works
    #[arg(long)]
    pub quick: bool,
    /// Draw how the load of the most loaded node changes over time
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object on stdout instead of the table
    #[arg(long)]
    pub json: bool,
}

impl Options {
    fn setup(&self) -> Setup {
        let phases = if self.phase.is_empty() {
            Phase::ALL.to_vec()
        } else {
            self.phase.clone()
        };
        let (clients, per_process, nodes) = if self.quick {
            (50, 2, 10)
        } else {
            (500, 10, 20)
        };
        Setup {
            clients: self.clients.unwrap_or(clients),
            per_process: self.per_process.unwrap_or(per_process),
            nodes: self.nodes.unwrap_or(nodes),
            seed: self.seed,
            phases,
            quick: self.quick,
        }
    }
}

/// Runs it.
///
/// # Errors
/// Bad arguments, or output that cannot be written.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    let setup = options.setup();
    let policies = if options.policy.is_empty() {
        Policy::ALL
    } else {
        &options.policy
    };
    let outcomes = simulate(&setup, policies, options.json)?;
    if let Some(file) = &options.svg {
        chart::draw(file, &outcomes)?;
    }
    if options.json {
        say(format_args!("{}\n", report::to_json(&setup, &outcomes)))?;
    } else {
        say(format_args!(
            "{}\n{}",
            report::to_table(&outcomes),
            report::LEGEND
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One policy after the other, as many at a time as there are cores.
fn simulate(setup: &Setup, policies: &[Policy], quiet: bool) -> Result<Vec<Outcome>, Failure> {
    let length = world::World::new(setup, Policy::RoundRobin)?.length();
    let progress = if quiet {
        Progress::hidden()
    } else {
        Progress::new(length * policies.len() as u64)
    };
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes = thread::scope(|scope| {
        for _ in 0..cores.min(policies.len()) {
            let (done, next, progress) = (done.clone(), &next, &progress);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(policy) = policies.get(number) else {
                        return;
                    };
                    let outcome = world::World::new(setup, *policy)
                        .map(|world| world.run(|| progress.advance(1)));
                    if done.send((number, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        results.into_iter().collect::<Vec<_>>()
    });
    progress.clear();
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
