//! Links between lives of hosts.
//!
//! Data of a link arrives in order and once, also over connections that break: what had not arrived is sent again.
//! Control may be lost, doubled, late.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::machine::DataFrame;

/// No life.
pub(super) const NOBODY: u32 = u32::MAX;

/// A data frame on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) frame: DataFrame,
    pub(super) sent_at: u64,
    pub(super) arrives: u64,
    /// It left the sender: whether it arrived is not known if the receiver ends.
    pub(super) gone: bool,
}

/// One direction between two hosts.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The life that sends, and the one it sends to.
    pub(super) from_life: u32,
    pub(super) to_life: u32,
    /// Not arrived.
    pub(super) queue: VecDeque<Flight>,
    /// Arrived at that time, and perhaps the sender does not know.
    pub(super) arrived: VecDeque<(u64, DataFrame)>,
    pub(super) last_arrival: u64,
    /// Names the event for the front of the queue.
    pub(super) stamp: u32,
    /// There is one.
    pub(super) armed: bool,
    pub(super) congested: bool,
    /// Nothing comes through.
    pub(super) cut: bool,
    /// Counts connections: control of a former one is lost.
    pub(super) connection: u32,
    /// The connection is being made again until then.
    pub(super) down_until: u64,
}

impl Link {
    const fn new() -> Self {
        Self {
            from_life: NOBODY,
            to_life: NOBODY,
            queue: VecDeque::new(),
            arrived: VecDeque::new(),
            last_arrival: 0,
            stamp: 0,
            armed: false,
            congested: false,
            cut: false,
            connection: 0,
            down_until: 0,
        }
    }

    /// Data that is not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.queue.len() + self.arrived.len()
    }

    /// What arrived before `then` is known to have arrived.
    pub(super) fn acknowledge(&mut self, then: u64) {
        while self.arrived.front().is_some_and(|(at, _)| *at <= then) {
            self.arrived.pop_front();
        }
    }

    /// The pair of lives is over.
    pub(super) fn reset(&mut self) {
        self.queue.clear();
        self.arrived.clear();
        self.from_life = NOBODY;
        self.to_life = NOBODY;
        self.congested = false;
        self.armed = false;
        self.stamp += 1;
    }
}

/// A control frame on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct ControlFlight {
    pub(super) link: u16,
    pub(super) from_life: u32,
    pub(super) to_life: u32,
    pub(super) connection: u32,
    pub(super) bytes: Vec<u8>,
}

/// All links, and the control frames on their way.
#[derive(Debug)]
pub(super) struct Net {
    hosts: usize,
    pub(super) links: Vec<Link>,
    frames: Vec<ControlFlight>,
    free: Vec<u32>,
}

impl Net {
    pub(super) fn new(hosts: usize) -> Self {
        Self {
            hosts,
            links: (0..hosts * hosts).map(|_| Link::new()).collect(),
            frames: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn index(&self, from: usize, to: usize) -> usize {
        from * self.hosts + to
    }

    pub(super) fn ends(&self, link: usize) -> (usize, usize) {
        (link / self.hosts, link % self.hosts)
    }

    pub(super) fn link(&mut self, from: usize, to: usize) -> &mut Link {
        let index = self.index(from, to);
        &mut self.links[index]
    }

    /// Keeps a control frame.
    pub(super) fn keep(&mut self, link: usize, from_life: u32, to_life: u32, bytes: &[u8]) -> u32 {
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.frames.push(ControlFlight::default());
                self.frames.len() as u32 - 1
            }
        };
        let connection = self.links[link].connection;
        let frame = &mut self.frames[at as usize];
        frame.link = link as u16;
        frame.from_life = from_life;
        frame.to_life = to_life;
        frame.connection = connection;
        frame.bytes.clear();
        frame.bytes.extend_from_slice(bytes);
        at
    }

    /// Takes a control frame out; give it back with [`Net::release`].
    pub(super) fn take(&mut self, at: u32) -> ControlFlight {
        core::mem::take(&mut self.frames[at as usize])
    }

    /// Puts it back.
    pub(super) fn put(&mut self, at: u32, frame: ControlFlight) {
        self.frames[at as usize] = frame;
    }

    pub(super) fn release(&mut self, at: u32, frame: ControlFlight) {
        self.frames[at as usize] = frame;
        self.free.push(at);
    }

    /// Nothing that a host sent until `then` is unacknowledged.
    pub(super) fn is_flushed(&self, from: usize, then: u64) -> bool {
        let links = &self.links[from * self.hosts..(from + 1) * self.hosts];
        links.iter().enumerate().all(|(to, link)| {
            let acknowledges = !self.links[to * self.hosts + from].cut;
            let newest = link.arrived.back();
            link.queue.is_empty() && newest.is_none_or(|(at, _)| acknowledges && *at <= then)
        })
    }
}
