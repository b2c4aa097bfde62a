//! What is counted per phase.

use core::time::Duration;
use std::collections::VecDeque;

use super::{
    node::Server,
    plan::{Phase, SECOND},
};
use crate::latency::Latency;

/// How often shares are looked at.
pub(super) const TICK: u64 = SECOND / 4;
/// Over how many ticks a share is taken.
const WINDOW: usize = 4;
/// What part of its fair share a node has when it counts as back.
const BACK: f64 = 0.8;

/// What a policy did in a phase.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which phase.
    pub phase: Phase,
    /// Calls that started in it.
    pub calls: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Their attempts, those of failed calls too.
    pub attempts: u64,
    /// Retries that the budget refused.
    pub refused: u64,
    /// The calls per second of the node that got most of them, over the mean of all nodes.
    pub load: f64,
    /// The longest queue of calls at any node.
    pub queue: usize,
    /// How long answered calls took.
    pub latency: Latency,
    /// What the node that fails got of its fair share, if there is one.
    pub faulty: Option<f64>,
    /// How long nodes that came, or came back, took to have 80 % of their fair share, in seconds; `None` for never.
    pub back: Vec<Option<f64>>,
}

impl Row {
    fn new(phase: Phase) -> Self {
        Self {
            phase,
            calls: 0,
            answered: 0,
            attempts: 0,
            refused: 0,
            load: 0.0,
            queue: 0,
            latency: Latency::new(),
            faulty: None,
            back: Vec::new(),
        }
    }

    /// The part of calls that were answered; 1 if there was none.
    #[must_use]
    pub fn success(&self) -> f64 {
        ratio(self.answered, self.calls, 1.0)
    }

    /// Attempts per call.
    #[must_use]
    pub fn attempts_per_call(&self) -> f64 {
        ratio(self.attempts, self.calls, 0.0)
    }

    /// The longest time until a node was back; `None` if one never was, or none was to be.
    #[must_use]
    pub fn slowest_back(&self) -> Option<f64> {
        let times: Option<Vec<f64>> = self.back.iter().copied().collect();
        times?.into_iter().reduce(f64::max)
    }
}

fn ratio(part: u64, all: u64, none: f64) -> f64 {
    if all == 0 {
        none
    } else {
        part as f64 / all as f64
    }
}

/// A second of virtual time, for the chart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it ended, in seconds.
    pub at: f64,
    /// The most loaded node's calls over the mean.
    pub load: f64,
    /// Calls at the node with the longest queue.
    pub queue: usize,
}

/// A node that came, until it has its share.
#[derive(Clone, Copy, Debug)]
struct Watch {
    node: usize,
    since: u64,
    row: usize,
    /// Its place among those of its row.
    at: usize,
}

/// What one policy did.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) rows: Vec<Row>,
    pub(super) samples: Vec<Sample>,
    /// When phases began, and when they ended.
    pub(super) spans: Vec<(Phase, f64, f64)>,
    /// The phase that is on.
    current: Option<usize>,
    began: u64,
    /// What nodes had received, and for how long they had served, when it began.
    before: Vec<u64>,
    watches: Vec<Watch>,
    /// What nodes had received at the last ticks.
    ticks: VecDeque<Vec<u64>>,
}

impl Meter {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            rows: Vec::new(),
            samples: Vec::new(),
            spans: Vec::new(),
            current: None,
            began: 0,
            before: vec![0; nodes],
            watches: Vec::new(),
            ticks: VecDeque::new(),
        }
    }

    /// Which row a call counts for that starts now.
    pub(super) const fn current(&self) -> Option<usize> {
        self.current
    }

    pub(super) fn begin(&mut self, now: u64, phase: Phase, servers: &mut [Server]) {
        // Whoever is not back by now never was, as far as this is watched.
        self.watches.clear();
        self.rows.push(Row::new(phase));
        self.current = Some(self.rows.len() - 1);
        self.began = now;
        for (before, server) in self.before.iter_mut().zip(servers) {
            *before = server.received;
            server.longest = server.waiting();
        }
        self.spans.push((phase, seconds(now), seconds(now)));
    }

    pub(super) fn end(&mut self, now: u64, servers: &[Server], faulty: Option<usize>) {
        let Some(row) = self.current.take() else {
            return;
        };
        if let Some(span) = self.spans.last_mut() {
            span.2 = seconds(now);
        }
        let (mut most, mut calls, mut time) = (0.0_f64, 0, 0);
        for (server, before) in servers.iter().zip(&self.before) {
            let served = server.served(self.began, now);
            let received = server.received - before;
            calls += received;
            time += served;
            // Of a node that was there for a moment the mean says nothing.
            if served >= SECOND.min(now - self.began) {
                most = most.max(ratio(received, served, 0.0));
            }
        }
        let mean = ratio(calls, time, 0.0);
        let row = &mut self.rows[row];
        row.load = if mean > 0.0 { most / mean } else { 0.0 };
        row.queue = servers
            .iter()
            .map(|server| server.longest)
            .max()
            .unwrap_or(0);
        row.faulty = faulty.map(|node| {
            let received = servers[node].received - self.before[node];
            let served = servers[node].served(self.began, now);
            ratio(received, served, 0.0) / mean
        });
    }

    /// A node came, or is well again: how long it takes counts for the last phase.
    pub(super) fn watch(&mut self, now: u64, node: usize) {
        let Some(row) = self.rows.len().checked_sub(1) else {
            return;
        };
        let back = &mut self.rows[row].back;
        self.watches.push(Watch {
            node,
            since: now,
            row,
            at: back.len(),
        });
        back.push(None);
    }

    /// A node leaves: it is not waited for any more.
    pub(super) fn unwatch(&mut self, node: usize) {
        self.watches.retain(|watch| watch.node != node);
    }

    pub(super) fn tick(&mut self, now: u64, servers: &[Server]) {
        self.ticks
            .push_back(servers.iter().map(|server| server.received).collect());
        if self.ticks.len() <= WINDOW {
            return;
        }
        let Some(before) = self.ticks.pop_front() else {
            return;
        };
        let received = |node: usize| servers[node].received - before[node];
        let up = (0..servers.len()).filter(|node| servers[*node].since.is_some());
        let (mut nodes, mut all, mut most) = (0_u64, 0, 0);
        for node in up {
            nodes += 1;
            all += received(node);
            most = most.max(received(node));
        }
        let mean = ratio(all, nodes, 0.0);
        let window = WINDOW as u64 * TICK;
        let rows = &mut self.rows;
        self.watches.retain(|watch| {
            let from = now.saturating_sub(window);
            let back = from >= watch.since && received(watch.node) as f64 >= BACK * mean;
            if back {
                rows[watch.row].back[watch.at] = Some(seconds(from - watch.since));
            }
            !back
        });
        if now.is_multiple_of(SECOND) && mean > 0.0 {
            self.samples.push(Sample {
                at: seconds(now),
                load: most as f64 / mean,
                queue: servers.iter().map(Server::waiting).max().unwrap_or(0),
            });
        }
    }

    pub(super) fn call(&mut self, row: usize, took: Option<u64>, attempts: u8, refused: bool) {
        let row = &mut self.rows[row];
        row.calls += 1;
        row.attempts += u64::from(attempts);
        row.refused += u64::from(refused);
        if let Some(took) = took {
            row.answered += 1;
            row.latency.record(Duration::from_micros(took));
        }
    }
}

/// Microseconds as seconds.
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / SECOND as f64
}
