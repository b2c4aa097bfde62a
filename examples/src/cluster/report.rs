//! What the job tells a person, or a program.

use core::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{feed::Fed, service::Outage, verdict::Verdict};

/// What the entities wrote to their journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct InJournal {
    /// How many events.
    pub events: u64,
    /// How many have a lower epoch than an event before: a former home wrote over its successor.
    pub overwritten: u64,
    /// Entities that told other totals at the end than their events add up to.
    pub wrong_answers: u64,
}

/// Everything that is worth telling.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub verdict: Verdict,
    /// If there is one.
    pub journaled: Option<InJournal>,
    /// How many times a shard was served under an epoch after a newer one had begun.
    pub two_homes: u64,
    pub fed: Fed,
    /// Who hosted how many shards, and when.
    pub hosts: String,
    /// How long shards were without service, for each change.
    pub outages: Vec<Outage>,
    /// Whether that counts.
    pub judged: bool,
    /// How many nodes were made to fail.
    pub failures: usize,
    pub moves: u64,
    pub buffered: u64,
    pub returned: u64,
    pub nodes: u16,
    pub shards: u32,
    pub keys: usize,
    pub file: PathBuf,
    /// Kind and place of the store.
    pub store: String,
    pub key: String,
}

impl Report {
    /// Every row processed exactly once and in order, and answered unless its node failed; no shard with two homes at
    /// once, or without one for too long.
    pub(super) fn is_ok(&self) -> bool {
        let in_journal = |it: InJournal| it.overwritten == 0 && it.wrong_answers == 0;
        self.verdict.is_ok()
            && self.journaled.is_none_or(in_journal)
            && (self.failures > 0 || self.fed.failed.is_empty())
            && self.two_homes == 0
            && (!self.judged || self.outages.iter().all(Outage::is_ok))
    }

    fn word(&self) -> &'static str {
        if self.is_ok() { "ok" } else { "failed" }
    }

    fn asks_per_s(&self) -> f64 {
        self.fed.fast as f64 / self.fed.fast_took.as_secs_f64().max(1e-9)
    }

    /// One object.
    pub(super) fn to_json(&self) -> Value {
        let mut json = serde_json::to_value(self.verdict).unwrap_or_default();
        let more = json!({
            "unanswered": self.fed.failed.len(),
            "failures": self.failures,
            "two_homes": self.two_homes,
            "journal": self.journaled.map(|journal| json!({
                "events": journal.events,
                "overwritten": journal.overwritten,
                "wrong_answers": journal.wrong_answers,
            })),
            "outages": self.outages.iter().map(Outage::to_json).collect::<Vec<_>>(),
            "store": self.store,
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
        writeln!(f, "store: {}", self.store)?;
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
        writeln!(f, "\ntime without service, per shard")?;
        for outage in &self.outages {
            writeln!(f, "  {outage}")?;
        }
        writeln!(
            f,
            "\n{} rows processed: {} duplicated, {} reordered, {} lost, {} at another entity; \
             {} entities with wrong totals; {} times two homes at once",
            verdict.processed,
            verdict.duplicated,
            verdict.reordered,
            verdict.lost,
            verdict.misplaced,
            verdict.wrong_totals,
            self.two_homes
        )?;
        writeln!(
            f,
            "{} rows answered; {} reported as surely not processed ({} of them were), {} as perhaps processed \
             ({} of them were)",
            fed.answered,
            verdict.failed_surely,
            verdict.contradicted,
            verdict.failed_perhaps,
            verdict.perhaps_processed
        )?;
        if let Some(journal) = self.journaled {
            writeln!(
                f,
                "{} events in the journal, {} by a former home after its successor's; {} entities told other totals than \
                 their events add up to",
                journal.events, journal.overwritten, journal.wrong_answers
            )?;
            if self.is_ok() {
                writeln!(
                    f,
                    "every answered row is in the journal exactly once and in order, and every other one at most once"
                )?;
            }
        }
        if let Some(error) = &fed.first_error {
            writeln!(f, "first row without an answer: {error}")?;
        }
        writeln!(f, "\nverdict: {}", self.word())
    }
}
