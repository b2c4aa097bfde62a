//! Time passes: events and deadlines happen one after the other.

use super::*;

impl Cluster {
    /// Does what a node wants until it wants nothing, then writes.
    pub(in crate::node::tests) fn pump(&mut self, host: usize) {
        if !self.hosts[host].alive {
            return;
        }
        while let Some(command) = self.hosts[host].node.poll_command() {
            self.obey(host, command);
        }
        self.flush(host);
        self.check_acting(host);
    }

    /// The host that an event is for.
    pub(super) fn target(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Wake { .. } => None,
            Event::Bytes { pipe, end, .. } | Event::Closed { pipe, end } => {
                Some(self.pipes[*pipe].ends[*end].0)
            }
            Event::Member { host, .. }
            | Event::Dial { host, .. }
            | Event::Started { host, .. }
            | Event::Stopped { host, .. }
            | Event::Handle { host, .. } => Some(*host),
        }
    }

    pub(super) fn happen(&mut self, event: Event) {
        let target = self.target(&event);
        if let Some(host) = target
            && self.hosts[host].paused.is_some()
        {
            return self.hosts[host].waiting.push(event);
        }
        let now = target.map_or(Instant::ZERO, |host| self.local(host));
        match event {
            Event::Wake { host } => self.wake(host),
            Event::Member {
                host,
                change,
                address,
            } => {
                if self.hosts[host].alive {
                    self.hosts[host].node.handle_member(now, change, address);
                    self.pump(host);
                }
            }
            Event::Bytes {
                pipe,
                end,
                stream,
                bytes,
            } => {
                let (host, link) = self.pipes[pipe].ends[end];
                let Some(link) = link else { return };
                if self.pipes[pipe].open && self.hosts[host].alive {
                    let bufs = &mut self.hosts[host].bufs;
                    let buf = bufs.entry((link, stream)).or_default();
                    buf.extend_from_slice(&bytes);
                    self.read(host, link, stream);
                    // What came before the end of the handshake.
                    for lane in (1..=self.lanes).filter(|_| stream == StreamIndex::CONTROL) {
                        self.read(host, link, StreamIndex(lane));
                    }
                    self.pump(host);
                }
            }
            Event::Closed { pipe, end } => {
                let (host, link) = self.pipes[pipe].ends[end];
                self.pipes[pipe].ends[end].1 = None;
                if let Some(link) = link
                    && self.hosts[host].alive
                {
                    self.hosts[host].links.remove(&link);
                    self.hosts[host].bufs.retain(|(of, _), _| *of != link);
                    self.hosts[host].node.handle_closed(now, link);
                    self.pump(host);
                }
            }
            Event::Dial {
                host,
                dial,
                address,
            } => self.dial(host, dial, &address),
            Event::Started {
                host,
                ty,
                shard,
                epoch,
            } => {
                let Host {
                    node, app, alive, ..
                } = &mut self.hosts[host];
                if let Some(serving) = app.serving.get_mut(&(ty, shard))
                    && *alive
                    && serving.epoch == epoch
                    && !serving.stopping
                {
                    serving.started = true;
                    node.shard_started(now, ty, shard, epoch);
                    self.pump(host);
                }
            }
            Event::Stopped {
                host,
                ty,
                shard,
                epoch,
            } => {
                if self.hosts[host].alive {
                    self.hosts[host].app.serving.remove(&(ty, shard));
                    let node = &mut self.hosts[host].node;
                    node.shard_stopped(now, ty, shard, epoch, false);
                    self.pump(host);
                }
            }
            Event::Handle {
                host,
                ty,
                shard,
                epoch,
            } => {
                if self.hosts[host].alive {
                    self.handle(host, ty, shard, epoch);
                }
            }
        }
    }

    /// One event or timeout, not later than `end`. `false`: nothing happens until then.
    pub(super) fn step(&mut self, end: u64) -> bool {
        let timeout = (0..self.hosts.len())
            .filter(|host| self.hosts[*host].alive && self.hosts[*host].paused.is_none())
            .filter_map(|host| {
                let there = &self.hosts[host];
                Some((there.clock.global(there.node.poll_timeout()?), host))
            })
            .min();
        let event = self.events.peek().map(|Reverse((at, _, _))| *at);
        let at = timeout.map(|(at, _)| at.max(self.now));
        match (event, at) {
            (Some(event), at) if event <= end && at.is_none_or(|at| event <= at) => {
                let Some(Reverse((at, _, key))) = self.events.pop() else {
                    return false;
                };
                self.now = self.now.max(at);
                let event = self.bodies.remove(&key).unwrap();
                self.happen(event);
                true
            }
            (_, Some(at)) if at <= end => {
                self.now = at;
                let (_, host) = timeout.unwrap();
                let now = self.local(host);
                self.hosts[host].node.handle_timeout(now);
                self.pump(host);
                true
            }
            _ => {
                self.now = end;
                false
            }
        }
    }

    /// Lets time pass.
    pub(in crate::node::tests) fn run(&mut self, micros: u64) {
        let end = self.now + micros;
        let mut steps = 0_u64;
        while self.step(end) {
            steps += 1;
            assert!(steps < 5_000_000, "nothing but work at {}", self.now);
        }
    }

    /// Lets time pass until something is true; how long it took.
    pub(in crate::node::tests) fn run_until(
        &mut self,
        limit: u64,
        mut done: impl FnMut(&Self) -> bool,
    ) -> u64 {
        let begin = self.now;
        let end = begin + limit;
        while !done(self) {
            if self.now >= end {
                panic!("not within {limit} µs: {}", self.describe());
            }
            let slice = (self.now + MS).min(end);
            while self.step(slice) {}
        }
        self.now - begin
    }
}
