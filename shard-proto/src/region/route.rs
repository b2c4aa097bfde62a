//! Messages of this node's callers.

use super::machine::Machine;
use super::slot::{BufferSlot, Content, Life, NIL, Place, State, flag};
use super::stats::count;
use super::{Route, RouteError, buffer};
use crate::ShardId;
use crate::table::RegionTables;

impl Machine {
    /// See [`Region::route`](super::Region::route).
    pub(super) fn route<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        shard: ShardId,
        payload: P,
    ) -> Result<Route<P>, RouteError<P>> {
        if self.stopping {
            return Err(RouteError::Stopped(payload));
        }
        if shard.0 >= self.config.shard_count {
            return Err(RouteError::UnknownShard(payload));
        }
        let Some(slot) = t.shards.get_mut(shard.0 as usize) else {
            return Err(RouteError::UnknownShard(payload));
        };
        if slot.local == NIL && !slot.has(flag::FLUSHING) {
            let epoch = slot.epoch;
            match slot.state {
                State::Active => {
                    self.count_delivery();
                    return Ok(Route::Local { epoch, payload });
                }
                State::Remote => {
                    if let Some(home) = t.nodes.get(usize::from(slot.node))
                        && home.life == Life::Member
                        && !home.congested
                    {
                        slot.sent = slot.sent.saturating_add(1);
                        count(&mut self.stats.sent);
                        let to = home.node;
                        return Ok(Route::Remote { to, epoch, payload });
                    }
                }
                State::None | State::Starting | State::Draining => {}
            }
        }
        self.buffer_local(t, shard.0, payload)
    }

    #[cold]
    fn buffer_local<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
        payload: P,
    ) -> Result<Route<P>, RouteError<P>> {
        self.leave_ended(t, index);
        let has_room = t
            .shards
            .get(index as usize)
            .is_some_and(|slot| self.has_room(t, slot));
        if !has_room {
            count(&mut self.stats.rejected_full);
            return Err(RouteError::BufferFull(payload));
        }
        let filled = BufferSlot {
            content: Content::Message(payload),
            ..BufferSlot::EMPTY
        };
        match self.slab.fill(t.buffer, filled) {
            Ok(at) => self.queue_local(t, index, at),
            Err(BufferSlot {
                content: Content::Message(payload),
                ..
            }) => {
                count(&mut self.stats.rejected_full);
                return Err(RouteError::BufferFull(payload));
            }
            Err(_) => {}
        }
        Ok(Route::Queued)
    }

    fn queue_local<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32, at: u32) {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return;
        };
        let wanted = slot.wants_home();
        slot.local = buffer::push_back(t.buffer, slot.local, at);
        count(&mut self.stats.buffered);
        if !wanted && slot.wants_home() {
            slot.set(flag::ASK);
            self.touch(t.shards, index);
        } else if slot.place == Place::Idle && slot.sends() {
            // For a home that is congested.
            self.touch(t.shards, index);
        }
    }
}
