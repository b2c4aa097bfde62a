//! Shards that are served here: how they start, stop and are given up.

use core::time::Duration;

use super::machine::{Machine, millis};
use super::slot::{BufferSlot, Content, NO_NODE, ShardSlot, State, flag};
use super::stats::count;
use super::{Origin, buffer, members};
use crate::table::RegionTables;
use crate::{Epoch, Instant, ShardId};

impl Machine {
    /// When a host that has `drain` to stop aborts what has not stopped: after 80 % of it.
    pub(super) fn abort_at(&self, drain: Duration) -> Instant {
        let part = drain.checked_div(5).unwrap_or_default().saturating_mul(4);
        self.now.after(part)
    }

    fn held<'a>(
        &self,
        shards: &'a mut [ShardSlot],
        shard: ShardId,
        epoch: Epoch,
    ) -> Option<&'a mut ShardSlot> {
        shards
            .get_mut(shard.0 as usize)
            .filter(|slot| slot.state.is_owned() && slot.epoch == epoch)
    }

    /// See [`Region::handle_shard_started`](super::Region::handle_shard_started).
    pub(super) fn started<P>(&mut self, t: &mut RegionTables<'_, P>, shard: ShardId, epoch: Epoch) {
        let Some(slot) = self.held(t.shards, shard, epoch) else {
            return;
        };
        if slot.state != State::Starting || slot.has(flag::START) {
            return;
        }
        slot.state = State::Active;
        slot.set(flag::STARTED);
        self.reread(t, shard.0);
        self.touch(t.shards, shard.0);
    }

    /// Stops serving a shard. It is claimed, as one that drains, until nothing of it runs.
    pub(super) fn retire<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, abort_at: Instant) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        match slot.state {
            State::None | State::Remote => {}
            State::Starting if slot.has(flag::START) => {
                // The host has not heard of it.
                slot.clear(flag::START);
                self.finish_stop(t, index, false);
            }
            State::Starting | State::Active => {
                slot.state = State::Draining;
                slot.clear(flag::STARTED | flag::OPENED);
                slot.set(flag::STOP);
                slot.abort_at = millis(abort_at);
                buffer::rewind(t.buffer, slot.remote);
                if !slot.has(flag::FLUSHING) {
                    buffer::rewind(t.buffer, slot.local);
                }
                self.touch(t.shards, index);
            }
            State::Draining => {
                let abort_at = millis(abort_at);
                if super::machine::has_come(abort_at, slot.abort_at) && abort_at != slot.abort_at {
                    // Told to stop already, but has less time.
                    slot.abort_at = abort_at;
                    slot.set(flag::STOP);
                    self.touch(t.shards, index);
                }
            }
        }
    }

    /// See [`Region::give_back`](super::Region::give_back).
    pub(super) fn give_back<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        payload: P,
    ) -> Result<(), P> {
        let node = match origin {
            Origin::Local => NO_NODE,
            Origin::Remote(node) => match members::find_any(t.nodes, node) {
                Some(node) => node,
                None => return Err(payload),
            },
        };
        let Some(slot) = self
            .held(t.shards, shard, epoch)
            .filter(|slot| slot.state == State::Draining)
        else {
            return Err(payload);
        };
        let filled = BufferSlot {
            content: Content::Message(payload),
            epoch,
            origin: node,
            ..BufferSlot::EMPTY
        };
        match self.slab.fill(t.buffer, filled) {
            Ok(at) if node == NO_NODE => {
                slot.local = buffer::push_at_cursor(t.buffer, slot.local, at);
                Ok(())
            }
            Ok(at) => {
                slot.remote = buffer::push_at_cursor(t.buffer, slot.remote, at);
                members::hold(t.nodes, node);
                Ok(())
            }
            Err(BufferSlot {
                content: Content::Message(payload),
                ..
            }) => Err(payload),
            Err(_) => Ok(()),
        }
    }

    /// See [`Region::handle_shard_stopped`](super::Region::handle_shard_stopped).
    pub(super) fn stopped<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
    ) {
        let is_known = self
            .held(t.shards, shard, epoch)
            .is_some_and(|slot| !slot.has(flag::START));
        if is_known {
            self.finish_stop(t, shard.0, forced);
        }
    }

    /// Nothing of the shard runs here any more.
    fn finish_stop<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, forced: bool) {
        let Some(epoch) = t.shards.get(index as usize).map(|slot| slot.epoch) else {
            return;
        };
        self.raise_floor(t, index, epoch);
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        let answered = if slot.has(flag::ANSWER_FLOOR) {
            Epoch::from_bits(slot.bar.to_bits().saturating_sub(1))
        } else {
            epoch
        };
        slot.clear(
            flag::STOP
                | flag::STARTED
                | flag::OPENED
                | flag::NEWS
                | flag::VOID
                | flag::ANSWER_FLOOR,
        );
        slot.state = State::None;
        slot.epoch = Epoch::NONE;
        slot.set(flag::HOME | flag::ASK);
        if !self.stopping {
            slot.epoch = answered;
            slot.set(flag::COMPLETE);
            if forced {
                slot.set(flag::FORCED);
            }
        }
        if forced {
            count(&mut self.stats.forced_stops);
        }
        if !slot.has(flag::FLUSHING) {
            buffer::rewind(t.buffer, slot.local);
        }
        self.hosted = self.hosted.saturating_sub(1);
        if self.hosted == 0 && core::mem::take(&mut self.halting) {
            self.restart_registration();
        }
        self.reread(t, index);
        self.touch(t.shards, index);
    }

    /// Stops everything: nothing that was granted so far is taken again.
    fn give_up_all<P>(&mut self, t: &mut RegionTables<'_, P>, abort_at: Instant, flags: u16) {
        if self.hosted == 0 {
            return;
        }
        for index in 0..self.config.shard_count {
            if let Some(slot) = t.shards.get_mut(index as usize)
                && slot.state.is_owned()
            {
                slot.set(flags);
                let epoch = slot.epoch;
                self.raise_floor(t, index, epoch);
                self.retire(t, index, abort_at);
            }
        }
    }

    /// The lease lapsed: what still runs is nobody's, and is not claimed any more.
    pub(super) fn lapse<P>(&mut self, t: &mut RegionTables<'_, P>, lapses: u32) {
        if self.hosted > 0 {
            count(&mut self.stats.lapses);
        }
        self.session.lapses = self.session.lapses.max(lapses);
        self.give_up_all(t, self.now, flag::VOID);
        self.halting = false;
        self.restart_registration();
    }

    /// The session ended, while the lease may last: under the next one nothing is claimed, so that one begins when
    /// nothing of this one runs any more, or the lease is over.
    pub(super) fn end_session<P>(&mut self, t: &mut RegionTables<'_, P>) {
        self.session.lapses = self.session.lapses.saturating_add(1);
        self.give_up_all(t, self.now, flag::VOID);
        self.halting = self.hosted > 0;
        self.restart_registration();
    }

    /// The coordinator refuses this region for good. What it hosts stays claimed; without leases it stops at once, with
    /// leases when the node's lease is over, which nobody extends meanwhile.
    pub(super) fn refuse_all<P>(&mut self, t: &mut RegionTables<'_, P>) {
        if self.lease == Instant::FAR_FUTURE {
            self.give_up_all(t, self.now, 0);
        }
    }

    /// See [`Region::stop`](super::Region::stop).
    pub(super) fn stop<P>(&mut self, t: &mut RegionTables<'_, P>) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.give_up_all(t, self.abort_at(self.config.drain), 0);
        for index in 0..self.config.shard_count {
            self.abandon_path(t, index);
            self.reread(t, index);
            self.touch(t.shards, index);
        }
    }
}
