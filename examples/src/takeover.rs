//! How long shards are without service when their node hangs, over many runs.

use core::{fmt, time::Duration};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::{
    cli::{Takeover, Who},
    clock,
    failure::{Failure, say},
    fleet::{Fleet, Keeping, node_name},
    ledger::{Ledger, Shelf},
    progress::Progress,
    runtimes::Runtimes,
    service::BUSY,
    shape::Shape,
    stop,
};

const NODES: u16 = 3;

/// Runs it, on this thread: the processes share the machine's cores.
///
/// # Errors
/// A process failed.
pub fn run_here(options: &Takeover) -> Result<ExitCode, Failure> {
    stop::run_here(run(options))
}

async fn run(options: &Takeover) -> Result<ExitCode, Failure> {
    let shape = Shape {
        shards: options.shards,
        voters: (0..NODES).map(node_name).collect(),
        lan: options.lan,
        tls: None,
    };
    let shelf = Shelf::new()?;
    let progress = Progress::new(2 * u64::from(options.runs.get()));
    progress.say("starting nodes");
    let keeping = Keeping::Books { each_row: false };
    let mut fleet =
        Fleet::<Ledger>::start(shape.clone(), Runtimes::Tokio, NODES, &shelf, keeping).await?;
    let prober = fleet.probe().await?;
    let mut report = Report {
        other: Vec::new(),
        leader: Vec::new(),
        bystanders: Duration::ZERO,
        resolution: Duration::ZERO,
        two_homes: 0,
        shape,
    };
    for _ in 0..options.runs.get() {
        for who in [Who::Other, Who::Leader] {
            let index = fleet.find(&who)?;
            progress.say(format!("{} hangs", fleet.name(index)));
            prober.forget(clock::micros().saturating_sub(1_000_000));
            let [froze, _] = fleet.freeze(index, Duration::ZERO, &prober).await?;
            report.bystanders = report.bystanders.max(froze.others.max);
            report.resolution = report.resolution.max(froze.resolution);
            match who {
                Who::Leader => report.leader.push(froze.hit.max),
                _ => report.other.push(froze.hit.max),
            }
            progress.advance(1);
        }
    }
    report.two_homes = prober.servings().beside_a_newer_home();
    progress.say("stopping nodes");
    drop(prober);
    fleet.stop().await?;
    progress.clear();
    if options.json {
        say(format_args!("{}\n", report.to_json()))?;
    } else {
        say(&report)?;
    }
    Ok(if report.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The longest time without service of a shard, for each run.
struct Report {
    other: Vec<Duration>,
    leader: Vec<Duration>,
    /// The longest one of a shard of another node.
    bystanders: Duration,
    resolution: Duration,
    two_homes: u64,
    shape: Shape,
}

impl Report {
    fn is_ok(&self) -> bool {
        let bound = self.shape.takeover_bound();
        let mut all = self.other.iter().chain(&self.leader);
        all.all(|time| *time <= bound)
            && self.bystanders <= self.shape.move_bound() + self.resolution + BUSY
            && self.two_homes == 0
    }

    fn to_json(&self) -> Value {
        let spread = |times: &[Duration]| {
            let spread = Spread::new(times);
            json!({
                "runs": times.len(),
                "min_ms": spread.min.as_millis(),
                "p50_ms": spread.p50.as_millis(),
                "p90_ms": spread.p90.as_millis(),
                "max_ms": spread.max.as_millis(),
            })
        };
        json!({
            "other": spread(&self.other),
            "leader": spread(&self.leader),
            "others_max_ms": self.bystanders.as_millis(),
            "bound_ms": self.shape.takeover_bound().as_millis(),
            "resolution_ms": self.resolution.as_millis(),
            "two_homes": self.two_homes,
            "verdict": self.word(),
        })
    }

    fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "failed" }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.shape.takeover_bound().as_millis();
        writeln!(
            f,
            "longest time without service of a shard of a node that hangs, ms\n{:24}{:>6}{:>6}{:>6}{:>6}{:>6}{:>8}",
            "", "runs", "min", "p50", "p90", "max", "bound"
        )?;
        let rows = [
            ("a node that does not lead", &self.other),
            ("the leading node", &self.leader),
        ];
        for (what, times) in rows {
            let Spread { min, p50, p90, max } = Spread::new(times);
            let [min, p50, p90, max] = [min, p50, p90, max].map(|time| time.as_millis());
            let runs = times.len();
            writeln!(
                f,
                "{what:24}{runs:>6}{min:>6}{p50:>6}{p90:>6}{max:>6}{bound:>8}"
            )?;
        }
        writeln!(
            f,
            "shards of the other nodes: max {} ms; what is shorter than {} ms counts as 0\n\
             two homes at once: {} times\n\nverdict: {}",
            self.bystanders.as_millis(),
            self.resolution.as_millis(),
            self.two_homes,
            self.word()
        )
    }
}

/// How times are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spread {
    min: Duration,
    p50: Duration,
    p90: Duration,
    max: Duration,
}

impl Spread {
    fn new(times: &[Duration]) -> Self {
        let mut times = times.to_vec();
        times.sort_unstable();
        let at = |percent: usize| {
            // The smallest one that so many percent do not exceed.
            let rank = (times.len() * percent).div_ceil(100).max(1);
            times.get(rank - 1).copied().unwrap_or_default()
        };
        Self {
            min: at(0),
            p50: at(50),
            p90: at(90),
            max: at(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread() {
        let ms = Duration::from_millis;
        let times: Vec<_> = (1..=10).rev().map(ms).collect();
        let spread = Spread {
            min: ms(1),
            p50: ms(5),
            p90: ms(9),
            max: ms(10),
        };
        assert_eq!(Spread::new(&times), spread);
        assert_eq!(Spread::new(&[]), Spread::default());
        assert_eq!(Spread::new(&[ms(3)]).min, ms(3));
    }
}
