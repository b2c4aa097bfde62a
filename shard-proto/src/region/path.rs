//! The path that messages of this node take to a shard: one at a time, flushed before the next.

use super::buffer;
use super::machine::{Machine, is_member, whole_millis};
use super::slot::{NO_NODE, State, flag};
use super::stats::count;
use crate::table::RegionTables;
use crate::{Epoch, Instant, NodeId, ShardId, Token, micros};

/// Why a flush is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushEnd {
    /// `Flushed` came.
    Answered,
    /// The old home's incarnation has ended.
    Ended,
    /// The old home's lease had lapsed.
    Lapsed,
    /// The old home is silent, and a newer one known.
    TimedOut,
    /// The region stops.
    Stopped,
}

impl Machine {
    /// Stops sending to the home in use, and marks the end of what was sent. The home stays what it is.
    pub(super) fn begin_flush<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        if slot.state != State::Remote || slot.has(flag::FLUSHING) || slot.sent == 0 {
            return;
        }
        if !is_member(t.nodes, slot.node) {
            slot.sent = 0;
            count(&mut self.stats.paths_ended);
            return;
        }
        slot.path_node = slot.node;
        slot.path_epoch = slot.epoch;
        slot.set(flag::FLUSHING);
        buffer::rewind(t.buffer, slot.local);
        self.flushing = self.flushing.saturating_add(1);
        self.mark(t, index);
    }

    /// Sends a marker down the path that is flushed. Answers to an earlier one end nothing from here on.
    fn mark<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        let patience = self.patience();
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        slot.flush = slot.flush.wrapping_add(1);
        slot.set(flag::FLUSH);
        slot.clear(flag::LAPSED);
        slot.patience = patience;
        self.touch(t.shards, index);
    }

    /// How many retries a silent path is waited for: `handoff_timeout + lease`.
    pub(super) fn patience(&self) -> u16 {
        let patience = micros(
            self.config
                .handoff_timeout
                .saturating_add(self.config.lease),
        );
        let retries = patience
            .checked_div(micros(self.config.retry_interval))
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        u16::try_from(retries).unwrap_or(u16::MAX)
    }

    /// Goes on sending, or waits for a home.
    pub(super) fn end_flush<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, end: FlushEnd) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        if !slot.has(flag::FLUSHING) {
            return;
        }
        let is_in_use = slot.flushes_home();
        slot.clear(flag::FLUSHING | flag::FLUSH | flag::LAPSED);
        if !is_in_use {
            slot.sent = 0;
        }
        buffer::rewind(t.buffer, slot.local);
        self.flushing = self.flushing.saturating_sub(1);
        let stats = &mut self.stats;
        match end {
            FlushEnd::Answered => count(&mut stats.flushed),
            FlushEnd::Ended => count(&mut stats.paths_ended),
            FlushEnd::Lapsed => count(&mut stats.paths_lapsed),
            FlushEnd::TimedOut => count(&mut stats.paths_timed_out),
            FlushEnd::Stopped => {}
        }
        let gave_up = match end {
            FlushEnd::Lapsed | FlushEnd::TimedOut | FlushEnd::Stopped => true,
            // Without leases a home that was replaced may serve when it answers, and stop later.
            FlushEnd::Answered => !is_in_use && self.lease == Instant::FAR_FUTURE,
            FlushEnd::Ended => false,
        };
        if gave_up {
            slot.set(flag::GAVE_UP);
        }
        if end != FlushEnd::Answered {
            // A path that was given up is never used again.
            if is_in_use {
                slot.sent = 0;
            }
            if is_in_use && end == FlushEnd::Ended {
                self.forget_home(t, index);
            } else if is_in_use {
                self.leave_home(t, index);
            }
        }
        self.touch(t.shards, index);
    }

    /// The home in use is none any more: flushes the path to it, and takes neither it nor an older one again.
    pub(super) fn leave_home<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        if let Some(left) = self.forget_home(t, index) {
            self.raise_floor(t, index, left);
        }
    }

    /// The same for a home whose incarnation has ended. A map may have named its next life, which membership did not
    /// know yet: a `ShardHome` for that one is taken.
    pub(super) fn forget_home<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
    ) -> Option<Epoch> {
        if t.shards.get(index as usize)?.flushes_home() {
            // What the home answers while it serves, it may give back undelivered when it stops; not what it answers
            // then.
            self.mark(t, index);
        } else {
            self.begin_flush(t, index);
        }
        let slot = t.shards.get_mut(index as usize)?;
        if slot.state != State::Remote {
            return None;
        }
        let left = slot.epoch;
        if !slot.has(flag::FLUSHING) {
            slot.sent = 0;
        }
        slot.state = State::None;
        slot.epoch = Epoch::NONE;
        slot.node = NO_NODE;
        slot.clear(flag::UNCONFIRMED);
        slot.set(flag::HOME | flag::ASK);
        self.raise_bar(t, index, left);
        self.reread(t, index);
        self.touch(t.shards, index);
        Some(left)
    }

    /// Ends the flush of a path, and leaves a home, whose incarnations have ended.
    pub(super) fn leave_ended<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        let Some(slot) = t.shards.get(index as usize) else {
            return;
        };
        let home_ended = slot.state == State::Remote && !is_member(t.nodes, slot.node);
        if slot.has(flag::FLUSHING) && !is_member(t.nodes, slot.path_node) {
            self.end_flush(t, index, FlushEnd::Ended);
        }
        if home_ended {
            self.forget_home(t, index);
        }
    }

    /// A `ShardHome` says that the epoch before it lapsed: `Flushed` may never come.
    pub(super) fn note_lapsed<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        if !slot.has(flag::FLUSHING) || slot.has(flag::LAPSED) {
            return;
        }
        slot.set(flag::LAPSED);
        slot.armed = false;
        let wait = whole_millis(self.config.flush_after_lapse());
        slot.due = self.millis.wrapping_add(wait);
        self.touch(t.shards, index);
    }

    /// See [`Region::handle_flushed`](super::Region::handle_flushed).
    pub(super) fn flushed<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        shard: ShardId,
        token: Token,
    ) -> bool {
        let is_outstanding = t.shards.get(shard.0 as usize).is_some_and(|slot| {
            slot.has(flag::FLUSHING)
                && is_member(t.nodes, slot.path_node)
                && t.nodes
                    .get(usize::from(slot.path_node))
                    .is_some_and(|node| node.node == from)
                && self.token(shard.0, from, slot.path_epoch, slot.flush) == token
        });
        if is_outstanding {
            self.end_flush(t, shard.0, FlushEnd::Answered);
        } else {
            count(&mut self.stats.refused_returns);
        }
        is_outstanding
    }

    /// See [`Region::flush_paths`](super::Region::flush_paths).
    pub(super) fn flush_paths<P>(&mut self, t: &mut RegionTables<'_, P>) {
        for index in 0..self.config.shard_count {
            self.begin_flush(t, index);
        }
    }
}
