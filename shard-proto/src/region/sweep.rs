//! Work on all shards, in bounded batches, and the timers.

use super::machine::{Machine, has_come, is_member};
use super::members;
use super::path::FlushEnd;
use super::slot::{State, flag};
use crate::table::RegionTables;
use crate::{Instant, earliest};

/// Shards one `handle_timeout` looks at.
const BATCH: u32 = 512;
/// A marker that is not answered is sent again after so many retry intervals.
const FLUSH_AGAIN: u16 = 8;
/// Turns of shards one `handle_timeout` takes, per list.
const TURNS: u32 = 128;

/// How far a pass over all shards is. It starts over, for all its purposes, when another purpose comes up.
#[derive(Clone, Debug, Default)]
pub(super) struct Sweep {
    next: u32,
    left: u32,
    /// Leave homes and paths whose incarnations have ended; then forget those.
    ended: bool,
    /// What is known was learnt under a lower term.
    outdate: bool,
    /// Ask for homes that are not confirmed.
    ask: bool,
    /// ... of which there was one in this pass.
    unconfirmed: bool,
    /// When the next pass that asks begins.
    ask_due: Option<Instant>,
}

impl Machine {
    fn begin_sweep(&mut self) {
        self.sweep.left = self.config.shard_count;
    }

    /// An incarnation has ended.
    pub(super) fn sweep_ended(&mut self) {
        self.sweep.ended = true;
        self.begin_sweep();
    }

    /// Another term was adopted. Homes are asked for after a while, since a map will come anyway.
    pub(super) fn sweep_outdated(&mut self) {
        self.sweep.outdate = true;
        self.begin_sweep();
        self.sweep.ask_due = Some(self.now.after(self.config.retry_interval));
    }

    /// Whether node slots will be free soon; if so, frees them now.
    pub(super) fn finish_ended<P>(&mut self, t: &mut RegionTables<'_, P>) -> bool {
        let has_ended = self.sweep.ended;
        while self.sweep.ended {
            self.step_sweep(t);
        }
        has_ended
    }

    fn step_sweep<P>(&mut self, t: &mut RegionTables<'_, P>) {
        for _ in 0..self.sweep.left.min(BATCH) {
            let index = self.sweep.next;
            self.sweep_shard(t, index);
            let next = index.saturating_add(1);
            self.sweep.next = if next < self.config.shard_count {
                next
            } else {
                0
            };
            self.sweep.left = self.sweep.left.saturating_sub(1);
        }
        if self.sweep.left > 0 {
            return;
        }
        if core::mem::take(&mut self.sweep.ended) {
            members::forget_ended(t.nodes);
        }
        self.sweep.outdate = false;
        if core::mem::take(&mut self.sweep.ask) && core::mem::take(&mut self.sweep.unconfirmed) {
            self.sweep.ask_due = Some(self.now.after(self.config.retry_interval));
        }
    }

    fn sweep_shard<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        if self.sweep.ended {
            self.leave_ended(t, index);
        }
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        let is_remote = slot.state == State::Remote;
        if self.sweep.outdate && is_remote {
            slot.set(flag::UNCONFIRMED);
        }
        if self.sweep.outdate || self.sweep.ended {
            // News may be none any more, or its origin gone.
            self.reread(t, index);
        }
        if let Some(slot) = t.shards.get_mut(index as usize)
            && self.sweep.ask
            && is_remote
            && slot.has(flag::UNCONFIRMED)
        {
            self.sweep.unconfirmed = true;
            slot.set(flag::ASK);
            self.touch(t.shards, index);
        }
    }

    /// See [`Region::handle_timeout`](super::Region::handle_timeout).
    pub(super) fn timeout<P>(&mut self, t: &mut RegionTables<'_, P>) {
        self.tick_registration();
        if self.deregister_at.is_some_and(|at| at <= self.now) {
            self.deregister_at = None;
            self.deregistered = false;
        }
        if self.sweep.ask_due.is_some_and(|due| due <= self.now) {
            self.sweep.ask_due = None;
            if self.leader.is_some() && !self.stopping {
                self.sweep.ask = true;
                self.begin_sweep();
            }
        }
        self.step_sweep(t);
        for _ in 0..TURNS {
            let Some(index) = self.lapse.front() else {
                break;
            };
            if !self.is_due(t, index) {
                break;
            }
            self.end_flush(t, index, FlushEnd::Lapsed);
        }
        for _ in 0..TURNS {
            let Some(index) = self.retry.front() else {
                self.retry_now = 0;
                break;
            };
            let is_due = self.is_due(t, index);
            if !is_due && self.retry_now == 0 {
                break;
            }
            self.retry_now = self.retry_now.saturating_sub(1);
            self.take_turn(t, index, is_due);
        }
    }

    fn is_due<P>(&self, t: &RegionTables<'_, P>, index: u32) -> bool {
        t.shards
            .get(index as usize)
            .is_some_and(|slot| has_come(slot.due, self.millis))
    }

    /// A shard's turn in `retry`.
    fn take_turn<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, is_due: bool) {
        self.touch(t.shards, index);
        let patience = self.patience();
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        slot.set(flag::ASK);
        slot.armed &= !is_due;
        if slot.has(flag::FLUSHING) && is_due {
            slot.patience = slot.patience.saturating_sub(1);
            let path = t.nodes.get(usize::from(slot.path_node));
            let is_full = path.is_some_and(|node| node.congested);
            let knows_newer = slot.state != State::None && slot.epoch > slot.path_epoch;
            if !is_member(t.nodes, slot.path_node) {
                self.end_flush(t, index, FlushEnd::Ended);
            } else if slot.patience == 0 && knows_newer {
                self.end_flush(t, index, FlushEnd::TimedOut);
            } else if slot.patience > 0
                && !is_full
                && patience
                    .wrapping_sub(slot.patience)
                    .is_multiple_of(FLUSH_AGAIN)
            {
                // The old home may have had no room for the marker, or not have known this node. Not while the link is
                // full: the one before it waits there.
                slot.set(flag::FLUSH);
            }
        }
    }

    /// See [`Region::poll_timeout`](super::Region::poll_timeout).
    pub(super) fn next_timeout(&self, shards: &[super::ShardSlot]) -> Option<Instant> {
        if self.sweep.left > 0 || self.retry_now > 0 {
            return Some(self.now);
        }
        let due = |index: Option<u32>| {
            let slot = shards.get(index? as usize)?;
            Some(self.instant_of(slot.due))
        };
        let mut next = earliest(due(self.retry.front()), due(self.lapse.front()));
        next = earliest(next, self.registration.due());
        next = earliest(next, self.resize_due());
        next = earliest(next, self.deregister_at);
        next = earliest(next, self.sweep.ask_due);
        if self.hosted > 0 && !self.lease_over && self.lease < Instant::FAR_FUTURE {
            next = earliest(next, Some(self.lease));
        }
        next
    }
}
