//! What came of the policies, as a table and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::{
    measure::Row,
    plan::Phase,
    world::{Outcome, Setup},
};

const HEADER: [&str; 11] = [
    "phase", "policy", "max/mean", "queue", "success", "attempts", "p50 ms", "p99 ms", "faulty",
    "back", "after s",
];

/// What the columns mean.
pub(super) const LEGEND: &str = "\
max/mean: calls per second of the node that got most of them, over the mean. queue: most calls that waited at a node.
attempts: per call. faulty: what the node that fails got of its fair share. back: how many of the nodes that came, or
came back, had 80 % of their fair share before the phase and the time after it were over. after s: how long the
slowest of those took.
";

/// One row per phase and policy, those of a phase together.
pub(super) fn to_table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(HEADER);
    for phase in Phase::ALL {
        let mut name = phase.name();
        for outcome in outcomes {
            let mut rows = outcome.rows.iter();
            if let Some(row) = rows.find(|row| row.phase == phase) {
                table.add_row(cells(name, outcome, row));
                name = "";
            }
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn cells(name: &str, outcome: &Outcome, row: &Row) -> Vec<String> {
    let came = row.back.iter().flatten();
    let slowest = came.clone().copied().reduce(f64::max);
    let none = String::new;
    vec![
        name.to_owned(),
        short(outcome.policy.name()).to_owned(),
        format!("{:.2}", row.load),
        row.queue.to_string(),
        format!("{:.2} %", 100.0 * row.success()),
        format!("{:.3}", row.attempts_per_call()),
        format!("{:.1}", row.latency.micros(0.5) / 1000.0),
        format!("{:.1}", row.latency.micros(0.99) / 1000.0),
        row.faulty
            .map_or_else(none, |share| format!("{:.0} %", 100.0 * share)),
        match row.back.len() {
            0 => none(),
            all => format!("{}/{all}", came.count()),
        },
        slowest.map_or_else(none, |seconds| format!("{seconds:.1}")),
    ]
}

/// Fits a column.
pub(super) fn short(policy: &str) -> &str {
    if policy.starts_with("first-available-") {
        "first-available-identical"
    } else {
        policy
    }
}

/// All that was measured.
pub(super) fn to_json(setup: &Setup, outcomes: &[Outcome]) -> Value {
    let row = |row: &Row| {
        json!({
            "phase": row.phase.name(),
            "calls": row.calls,
            "max_over_mean": row.load,
            "longest_queue": row.queue,
            "success": row.success(),
            "attempts_per_call": row.attempts_per_call(),
            "retries_refused": row.refused,
            "p50_ms": row.latency.micros(0.5) / 1000.0,
            "p99_ms": row.latency.micros(0.99) / 1000.0,
            "share_of_faulty": row.faulty,
            "back_s": row.back,
        })
    };
    let outcomes = outcomes.iter().map(|outcome| {
        let rows: Vec<_> = outcome.rows.iter().map(row).collect();
        json!({ "policy": outcome.policy.name(), "phases": rows })
    });
    json!({
        "clients": setup.clients,
        "clients_per_process": setup.per_process,
        "nodes": setup.nodes,
        "seed": setup.seed,
        "policies": outcomes.collect::<Vec<_>>(),
    })
}
