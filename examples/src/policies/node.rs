//! A node: some workers, and a queue before them.

use std::collections::VecDeque;

/// How many calls a node works on at a time.
pub(super) const WORKERS: usize = 4;
/// How many calls wait at a node before it refuses more.
pub(super) const QUEUE: usize = 200;

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Well,
    Breaks,
    Sheds,
    Hangs,
    Slow,
}

/// A call that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) call: usize,
    /// Which call in that place.
    pub(super) generation: u32,
    pub(super) attempt: u8,
}

/// What a node does with a call that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reception {
    /// Works on it at once.
    Serves,
    Queues,
    /// Answers that it has too much to do.
    Busy,
    Breaks,
    /// Does not answer.
    Holds,
    Leaving,
    /// There is no process.
    Refused,
}

/// Whether there is a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Down,
    Up,
    /// Takes no more calls.
    Draining,
}

/// A node.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) life: Life,
    pub(super) mode: Mode,
    /// Counts its starts.
    pub(super) incarnation: u64,
    /// Changes when what it works on is lost.
    pub(super) epoch: u32,
    serving: Vec<Job>,
    queue: VecDeque<Job>,
    /// Calls that have arrived.
    pub(super) received: u64,
    /// Since when it is in service.
    pub(super) since: Option<u64>,
    /// Earlier times of service, in microseconds.
    spans: Vec<(u64, u64)>,
    /// The longest queue since that was last asked for.
    pub(super) longest: usize,
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            life: Life::Down,
            mode: Mode::Well,
            incarnation: 0,
            epoch: 0,
            serving: Vec::new(),
            queue: VecDeque::new(),
            received: 0,
            since: None,
            spans: Vec::new(),
            longest: 0,
        }
    }

    pub(super) fn start(&mut self, now: u64) {
        self.life = Life::Up;
        self.mode = Mode::Well;
        self.incarnation += 1;
        self.since = Some(now);
    }

    /// Is not in service any more: no client is to call it.
    pub(super) fn retire(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.spans.push((since, now));
        }
    }

    /// For how many microseconds it was in service between two times.
    pub(super) fn served(&self, from: u64, to: u64) -> u64 {
        let current = self.since.map(|since| (since, to));
        let spans = self.spans.iter().copied().chain(current);
        spans
            .map(|(start, end)| end.min(to).saturating_sub(start.max(from)))
            .sum()
    }

    /// Loses all calls it has.
    pub(super) fn lose(&mut self) -> Vec<Job> {
        self.epoch += 1;
        let queue = self.queue.drain(..);
        self.serving.drain(..).chain(queue).collect()
    }

    pub(super) fn receive(&mut self, incarnation: u64, job: Job) -> Reception {
        match self.life {
            Life::Down => return Reception::Refused,
            Life::Draining => return Reception::Leaving,
            Life::Up if incarnation != self.incarnation => return Reception::Refused,
            Life::Up => {}
        }
        self.received += 1;
        match self.mode {
            Mode::Breaks => Reception::Breaks,
            Mode::Sheds => Reception::Busy,
            Mode::Hangs => Reception::Holds,
            Mode::Well | Mode::Slow if self.serving.len() < WORKERS => {
                self.serving.push(job);
                Reception::Serves
            }
            Mode::Well | Mode::Slow if self.queue.len() < QUEUE => {
                self.queue.push_back(job);
                self.longest = self.longest.max(self.queue.len());
                Reception::Queues
            }
            Mode::Well | Mode::Slow => Reception::Busy,
        }
    }

    /// A worker is done with a call: the one it does next.
    pub(super) fn done(&mut self, job: Job) -> Option<Job> {
        self.serving.retain(|other| *other != job);
        let next = self.queue.pop_front()?;
        self.serving.push(next);
        Some(next)
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }
}
