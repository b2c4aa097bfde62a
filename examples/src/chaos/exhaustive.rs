//! Every order of events in small clusters.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use serde_json::json;
use shard_proto::sim::search::{Explored, Search, Situation};

use super::Chaos;
use crate::failure::{Failure, say};

/// Walks from each situation, deeper than everything can be tried.
const WALKS: u32 = 200;

/// A search and how long it took.
struct Done {
    explored: Explored,
    seconds: f64,
}

/// The clusters: nodes and shards.
fn shapes(options: &Chaos) -> Vec<(u8, u32)> {
    let nodes = options.nodes.map_or(vec![2, 3], |nodes| vec![nodes]);
    let shards = options.shards.map_or(vec![1, 2], |shards| vec![shards]);
    let pairs = nodes
        .iter()
        .flat_map(|nodes| shards.iter().map(move |shards| (*nodes, *shards)));
    pairs.collect()
}

/// Searches from every situation in every shape.
pub(super) fn run(options: &Chaos) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let all: Vec<((u8, u32), Situation)> = shapes(options)
        .into_iter()
        .flat_map(|shape| Situation::ALL.map(|situation| (shape, situation)))
        .collect();
    let progress = options.progress(all.len() as u64);
    let next = AtomicUsize::new(0);
    let (found, results) = mpsc::channel();
    let mut done: Vec<(usize, Done)> = thread::scope(|scope| {
        for _ in 0..options.cores() {
            let (found, next, all) = (found.clone(), &next, &all);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(((nodes, shards), situation)) = all.get(at) else {
                        return;
                    };
                    let started = Instant::now();
                    let explored = Search::new(*nodes, *shards)
                        .with_depth(options.depth)
                        .with_states(options.states)
                        .with_walks(WALKS)
                        .run(*situation);
                    let seconds = started.elapsed().as_secs_f64();
                    let result = explored.map(|explored| (at, Done { explored, seconds }));
                    if found.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(found);
        let mut done = Vec::new();
        for result in results {
            done.push(result.map_err(|error| Failure::usage(format!("--exhaustive: {error}")))?);
            progress.advance(1);
        }
        Ok::<_, Failure>(done)
    })?;
    progress.clear();
    done.sort_by_key(|(at, _)| *at);
    let done: Vec<Done> = done.into_iter().map(|(_, done)| done).collect();
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        say(format_args!("{}\n", to_json(&done, seconds)))?;
    } else {
        say(to_text(&done, seconds))?;
    }
    let broken = done.iter().any(|done| done.explored.violation.is_some());
    Ok(ExitCode::from(u8::from(broken)))
}

fn violations(done: &[Done]) -> usize {
    let broken = done.iter().filter(|done| done.explored.violation.is_some());
    broken.count()
}

fn to_text(done: &[Done], seconds: f64) -> String {
    let mut text = format!(
        "{:<14} {:>5} {:>6} {:>6} {:>9} {:>10} {:>8} {:>10}\n",
        "situation", "nodes", "shards", "depth", "states", "events", "seconds", "violations"
    );
    for done in done {
        let explored = &done.explored;
        text += &format!(
            "{:<14} {:>5} {:>6} {:>6} {:>9} {:>10} {:>8.1} {:>10}\n",
            explored.situation.name(),
            explored.nodes,
            explored.shards,
            explored.depth,
            explored.states,
            explored.events,
            done.seconds,
            u8::from(explored.violation.is_some())
        );
    }
    for explored in done.iter().map(|done| &done.explored) {
        if explored.violation.is_some() {
            text += &format!("\n{explored}\n");
        }
    }
    let states: usize = done.iter().map(|done| done.explored.states).sum();
    text += &format!(
        "\n{states} states in {seconds:.1} s, {} violations\n",
        violations(done)
    );
    text
}

fn to_json(done: &[Done], seconds: f64) -> serde_json::Value {
    let each = done.iter().map(|done| {
        let explored = &done.explored;
        let found = explored.violation.as_ref();
        json!({
            "situation": explored.situation.name(),
            "nodes": explored.nodes,
            "shards": explored.shards,
            "depth": explored.depth,
            "states": explored.states,
            "events": explored.events,
            "seconds": done.seconds,
            "violation": found.map(|found| found.violation.to_string()),
            "path": found.map(|found| found.path.clone()),
        })
    });
    json!({
        "searches": each.collect::<Vec<_>>(),
        "states": done.iter().map(|done| done.explored.states).sum::<usize>(),
        "violations": violations(done),
        "seconds": seconds,
    })
}
