//! What all clusters together did, as a table and as JSON.

use core::fmt::Write as _;
use core::time::Duration;

use serde_json::{Map, Value, json};
use shard_proto::sim::{Cause, FaultKind, Report, WorldConfig};

use super::{Broken, Chaos, Mode};

/// Why the default is what it is.
const TRUST: &str = "\
Under `trust` a node that is believed to be gone loses its shards at once, whether it is gone or not: a shard had two \
homes. Its epochs differ, so a store that checks them refuses the former one; nothing else does. Leases (`--mode \
lease`, the default of a node) wait until the former home must have stopped.";

/// What all clusters together did.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    mode: Mode,
    from: u64,
    worlds: u64,
    report: Report,
    /// By the promise that was broken.
    violations: Vec<(&'static str, u64)>,
    /// The one that is shown.
    pub(super) broken: Option<Broken>,
    pub(super) seconds: f64,
}

impl Summary {
    pub(super) fn new(options: &Chaos) -> Self {
        Self {
            mode: options.mode,
            from: options.replay.unwrap_or(options.from),
            worlds: 0,
            report: Report::default(),
            violations: Vec::new(),
            broken: None,
            seconds: 0.0,
        }
    }

    pub(super) fn add(&mut self, report: &Report) {
        self.worlds += 1;
        self.report.merge(report);
    }

    /// A cluster broke a promise. Whether that is enough.
    pub(super) fn breaks(&mut self, broken: Broken) -> bool {
        self.worlds += 1;
        let name = broken.violation.name();
        match self.violations.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => self.violations.push((name, 1)),
        }
        // Two homes are what this mode is to show; other broken promises are on the way there.
        let wanted = |name| self.mode != Mode::Trust || name == "two homes";
        let better = self.broken.as_ref().is_none_or(|old| {
            (wanted(name), old.seed) > (wanted(old.violation.name()), broken.seed)
        });
        let enough = wanted(name);
        if better {
            self.broken = Some(broken);
        }
        enough
    }

    fn violations(&self) -> u64 {
        self.violations.iter().map(|(_, count)| count).sum()
    }

    fn reported(&self) -> u64 {
        self.report.reported.iter().sum()
    }

    pub(super) fn to_json(&self) -> Value {
        let report = &self.report;
        let faults: Map<_, _> = FaultKind::ALL
            .iter()
            .map(|kind| (key(kind.name()), json!(report.faults[*kind as usize])))
            .collect();
        let reasons = Report::REASONS.iter().zip(report.reported);
        let reasons: Map<_, _> = reasons.map(|(name, n)| (key(name), json!(n))).collect();
        let outages: Map<_, _> = Cause::ALL
            .iter()
            .map(|cause| {
                let outage = report.outage(*cause);
                let value = json!({
                    "tried": outage.tried,
                    "count": outage.count,
                    "mean_ms": outage.mean() / 1000,
                    "worst_ms": outage.worst / 1000,
                    "worst_of_others_ms": outage.worst_of_others / 1000,
                });
                (key(cause.name()), value)
            })
            .collect();
        let mut json = json!({
            "mode": self.mode.name(),
            "from": self.from,
            "seeds": self.worlds,
            "steps": report.steps,
            "virtual_s": report.time / 1_000_000,
            "faults": faults,
            "moves": report.moves,
            "reigns": report.reigns,
            "failovers": report.failovers,
            "sent": report.sent,
            "delivered": report.delivered,
            "reported": reasons,
            "outages": outages,
            "violations": self.violations(),
            "seconds": (self.seconds * 1000.0).round() / 1000.0,
        });
        if let (Some(broken), Some(object)) = (&self.broken, json.as_object_mut()) {
            let schedule = broken.schedule.to_string();
            let schedule: Vec<_> = schedule.lines().map(str::trim).collect();
            object.insert(
                "violation".to_owned(),
                json!({
                    "seed": broken.seed,
                    "invariant": broken.violation.name(),
                    "what": broken.violation.to_string(),
                    "at_s": broken.at.map(|at| at as f64 / 1e6),
                    "schedule": schedule,
                }),
            );
        }
        json
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> core::fmt::Result {
        let report = &self.report;
        let hours = report.time as f64 / 3.6e9;
        writeln!(
            out,
            "{} clusters, {hours:.1} h of virtual time, in {:.1} s",
            group(self.worlds),
            self.seconds
        )?;
        let mut line = |name: &str, count: u64| writeln!(out, "{name:<28} {:>16}", group(count));
        line("steps", report.steps)?;
        line("moves", report.moves)?;
        line("reigns", report.reigns)?;
        line("failovers", report.failovers)?;
        line("messages sent", report.sent)?;
        line("  handled", report.delivered)?;
        line("  reported", self.reported())?;
        for (name, count) in Report::REASONS.iter().zip(report.reported) {
            if count > 0 {
                line(&format!("    {name}"), count)?;
            }
        }
        line("faults", report.all_faults())?;
        for kind in FaultKind::ALL {
            let count = report.faults[kind as usize];
            if count > 0 {
                line(&format!("  {}", kind.name()), count)?;
            }
        }
        writeln!(
            out,
            "\n{:<28} {:>8} {:>10} {:>10} {:>10} {:>14}",
            "shards without service", "tried", "shards", "mean ms", "worst ms", "others' worst"
        )?;
        for cause in Cause::ALL {
            let outage = report.outage(cause);
            if outage.tried == 0 && outage.count == 0 {
                continue;
            }
            writeln!(
                out,
                "{:<28} {:>8} {:>10} {:>10} {:>10} {:>14}",
                cause.name(),
                group(outage.tried),
                group(outage.count),
                group(outage.mean() / 1000),
                group(outage.worst / 1000),
                group(outage.worst_of_others / 1000),
            )?;
        }
        match &self.broken {
            None => writeln!(out, "\nno promise was broken"),
            Some(broken) => {
                writeln!(out)?;
                for (name, count) in &self.violations {
                    writeln!(out, "{name}: {count} of {} clusters", self.worlds)?;
                }
                writeln!(out, "\n{}", describe(broken))?;
                if self.mode == Mode::Trust && broken.violation.name() == "two homes" {
                    writeln!(out, "{TRUST}")?;
                }
                Ok(())
            }
        }
    }
}

/// A broken promise, and what led to it.
pub(super) fn describe(broken: &Broken) -> String {
    let when = broken.at.map_or(String::new(), |at| {
        format!(" after {:?}", Duration::from_micros(at))
    });
    format!(
        "violation in seed {}{when}\n{}\nwith these faults:\n{}",
        broken.seed, broken.violation, broken.schedule
    )
}

/// A cluster in one line.
pub(super) fn shape(config: &WorldConfig) -> String {
    format!(
        "{} nodes, {} voters, {} shards, {} types, lease {:?}, {:?} of faults",
        config.nodes(),
        config.voters(),
        config.shards(),
        config.types(),
        config.leadership().lease(),
        config.faulty_for(),
    )
}

fn key(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

/// Groups of thousands.
fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
