//! What processes and clocks do: pauses, clocks of their own, who is declared gone.

use super::*;
use crate::membership::{MemberChange, MemberState, Roles};

/// A host's clock: when it started, what it said then, and how fast it is, in millionths.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Clock {
    pub(super) since: u64,
    pub(in super::super) offset: u64,
    pub(in super::super) ppm: i64,
}

impl Clock {
    /// What it says.
    pub(super) fn local(&self, now: u64) -> Instant {
        let passed = i128::from(now - self.since);
        let passed = passed * (1_000_000 + i128::from(self.ppm)) / 1_000_000;
        Instant::from_micros(self.offset + passed as u64)
    }

    /// When it says so for the first time.
    pub(super) fn global(&self, local: Instant) -> u64 {
        let ahead = i128::from(local.as_micros().saturating_sub(self.offset));
        let rate = 1_000_000 + i128::from(self.ppm);
        let passed = (ahead * 1_000_000 + rate - 1) / rate;
        let mut at = self
            .since
            .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        while at < u64::MAX / 2 && self.local(at) < local {
            at += 1;
        }
        at
    }
}

impl Cluster {
    /// What a host's clock says.
    pub(in super::super) fn local(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now)
    }

    /// Until when a host may serve, in the cluster's time; `None`: not now.
    pub(super) fn serves_until(&self, host: usize) -> Option<u64> {
        let there = &self.hosts[host];
        let until = there.app.lease?;
        if until == Instant::FAR_FUTURE {
            return Some(u64::MAX);
        }
        let until = there.clock.global(until);
        (until > self.now).then_some(until)
    }

    /// The process handles nothing for a while. What arrives meanwhile waits.
    pub(in super::super) fn pause(&mut self, host: usize, micros: u64) {
        let until = self.now + micros;
        let there = &mut self.hosts[host];
        if there.paused.is_none_or(|old| old < until) {
            there.paused = Some(until);
            self.schedule(until, Event::Wake { host });
        }
    }

    /// First what is due, then what arrived.
    pub(super) fn wake(&mut self, host: usize) {
        let there = &self.hosts[host];
        if !there.alive || there.paused.is_none_or(|until| until > self.now) {
            return;
        }
        self.hosts[host].paused = None;
        let now = self.local(host);
        self.hosts[host].node.handle_timeout(now);
        self.pump(host);
        for event in core::mem::take(&mut self.hosts[host].waiting) {
            self.happen(event);
        }
    }

    pub(in super::super) fn leave(&mut self, host: usize) {
        let now = self.local(host);
        self.hosts[host].node.leave(now, true).unwrap();
        self.pump(host);
    }

    pub(in super::super) fn stop_type(&mut self, host: usize, ty: TypeIndex) {
        let now = self.local(host);
        self.hosts[host].node.stop_type(now, ty);
        self.pump(host);
    }

    fn member(&self, host: usize) -> (MemberChange, &'static str) {
        let there = &self.hosts[host];
        let member = Member {
            node: there.node.me(),
            incarnation: there.node.incarnation(),
            state: MemberState::Up,
            roles: Roles::NONE,
        };
        (MemberChange::Member(member), there.name)
    }

    fn tell_member(&mut self, host: usize, change: MemberChange, address: Option<&'static str>) {
        let at = self.now + self.delay();
        let about = change;
        self.schedule(
            at,
            Event::Member {
                host,
                change: about,
                address,
            },
        );
    }

    /// Under [`MembershipMode::External`]: everybody hears of a new host, and it hears of everybody.
    pub(super) fn introduce(&mut self, host: usize) {
        let (me, name) = self.member(host);
        for other in 0..host {
            if self.hosts[other].alive {
                self.tell_member(other, me, Some(name));
                let (them, name) = self.member(other);
                self.tell_member(host, them, Some(name));
            }
        }
    }

    /// The others are told that a host is gone for good, whether it is or not. It hears nothing.
    pub(in super::super) fn declare_gone(&mut self, host: usize, cause: RemovalCause) {
        let change = MemberChange::Removed {
            node: self.hosts[host].node.me(),
            incarnation: self.hosts[host].node.incarnation(),
            cause,
        };
        for other in 0..self.hosts.len() {
            if other != host && self.hosts[other].alive {
                self.tell_member(other, change, None);
            }
        }
    }
}
