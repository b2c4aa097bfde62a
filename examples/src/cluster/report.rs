//! What the job tells a person, or a program.

use core::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{feed::Fed, verdict::Verdict};

/// Everything that is worth telling.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub verdict: Verdict,
    pub fed: Fed,
    /// Who hosted how many shards, and when.
    pub hosts: String,
    pub moves: u64,
    pub buffered: u64,
    pub returned: u64,
    pub nodes: u16,
    pub shards: u32,
    pub keys: usize,
    pub file: PathBuf,
    pub key: String,
}

impl Report {
    /// Every row processed exactly once and in order, and answered.
    pub(super) const fn is_ok(&self) -> bool {
        self.verdict.is_ok() && self.fed.unanswered == 0
    }

    const fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "failed" }
    }

    fn asks_per_s(&self) -> f64 {
        self.fed.fast as f64 / self.fed.fast_took.as_secs_f64().max(1e-9)
    }

    /// One object.
    pub(super) fn to_json(&self) -> Value {
        let mut json = serde_json::to_value(self.verdict).unwrap_or_default();
        let more = json!({
            "unanswered": self.fed.unanswered,
            "keys": self.keys,
            "nodes": self.nodes,
            "shards": self.shards,
            "moves": self.moves,
            "buffered": self.buffered,
            "returned": self.returned,
            "seconds": round(self.fed.took.as_secs_f64()),
            "asks_per_s": self.asks_per_s().round(),
            "p50_us": self.fed.latency.p50_us(),
            "p99_us": self.fed.latency.p99_us(),
            "verdict": self.word(),
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut json, more) {
            all.extend(more);
        }
        json
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, fed, .. } = self;
        let file = self.file.file_name().unwrap_or(self.file.as_os_str());
        writeln!(
            f,
            "{} rows of {}, {} entities by {:?}, {} shards on {} nodes",
            verdict.rows,
            file.display(),
            self.keys,
            self.key,
            self.shards,
            self.nodes
        )?;
        writeln!(f, "\n{}", self.hosts)?;
        writeln!(
            f,
            "{:.1} s in all; at full speed {:.0} asks/s; answers after {:.0} µs (p50), {:.0} µs (p99)",
            fed.took.as_secs_f64(),
            self.asks_per_s(),
            fed.latency.p50_us(),
            fed.latency.p99_us()
        )?;
        writeln!(
            f,
            "{} moves of shards; {} messages buffered, {} returned by a former home",
            self.moves, self.buffered, self.returned
        )?;
        writeln!(
            f,
            "{} rows processed: {} duplicated, {} reordered, {} lost, {} at another entity; \
             {} entities with wrong totals; {} rows without an answer",
            verdict.processed,
            verdict.duplicated,
            verdict.reordered,
            verdict.lost,
            verdict.misplaced,
            verdict.wrong_totals,
            fed.unanswered
        )?;
        if let Some(error) = &fed.first_error {
            writeln!(f, "first row without an answer: {error}")?;
        }
        writeln!(f, "\nverdict: {}", self.word())
    }
}
