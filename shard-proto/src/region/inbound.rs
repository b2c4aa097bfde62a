//! Data frames of other nodes.

use super::machine::{Machine, is_member};
use super::path::FlushEnd;
use super::slot::{BufferSlot, Content, NIL, ShardSlot, State, flag};
use super::stats::count;
use super::{Arrival, ReturnError, buffer, members};
use crate::table::RegionTables;
use crate::wire::ReturnReason;
use crate::{Epoch, NodeId, ShardId, Token};

/// What is to be done with something that another node addressed to an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The shard is served here under that epoch.
    Deliver,
    /// It is not here under that epoch, nor will be.
    Return,
    /// It is about to be served, or stops.
    Wait,
    /// The epoch is news.
    News,
}

impl Machine {
    pub(super) fn verdict(&self, slot: &ShardSlot, epoch: Epoch) -> Verdict {
        match slot.state {
            State::Draining => Verdict::Wait,
            State::Starting if epoch == slot.epoch => Verdict::Wait,
            State::Active if epoch == slot.epoch => Verdict::Deliver,
            State::Starting | State::Active if epoch < slot.epoch => Verdict::Return,
            State::Remote if epoch <= slot.epoch => Verdict::Return,
            State::None | State::Remote if epoch < slot.bar || self.stopping => Verdict::Return,
            State::None | State::Remote | State::Starting | State::Active => Verdict::News,
        }
    }

    /// Whether something of another node waits for its verdict, so that nothing newer may be decided on.
    fn has_unread<P>(t: &RegionTables<'_, P>, slot: &ShardSlot) -> bool {
        match slot.state {
            State::Draining => slot.remote != NIL,
            _ => buffer::unread(t.buffer, slot.remote).is_some(),
        }
    }

    /// See [`Region::handle_envelope`](super::Region::handle_envelope).
    pub(super) fn envelope<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        payload: P,
    ) -> Arrival<P> {
        let Some(origin) = members::find_member(t.nodes, from) else {
            count(&mut self.stats.refused_envelopes);
            return Arrival::Refused(payload);
        };
        let index = shard.0;
        let slot = match t.shards.get(index as usize) {
            Some(slot) if index < self.config.shard_count => slot,
            _ => {
                count(&mut self.stats.refused_envelopes);
                return Arrival::Refused(payload);
            }
        };
        let has_unread = Self::has_unread(t, slot);
        self.remind();
        match self.verdict(slot, epoch) {
            Verdict::Deliver if !has_unread => {
                self.count_delivery();
                return Arrival::Deliver(payload);
            }
            Verdict::Return if !has_unread => {
                count(&mut self.stats.returned);
                return Arrival::Return {
                    reason: ReturnReason::Moved,
                    payload,
                };
            }
            // A draining shard under a higher epoch than this: it waits in line.
            _ => {}
        }
        let message = Content::Message(payload);
        let kept = if self.has_room(t, slot) {
            self.buffer_remote(t, index, origin, epoch, message)
        } else {
            Err(message)
        };
        match kept {
            Err(Content::Message(payload)) => {
                count(&mut self.stats.returned_full);
                Arrival::Return {
                    reason: ReturnReason::Full,
                    payload,
                }
            }
            _ => {
                count(&mut self.stats.buffered);
                self.read_later(t, index, epoch, has_unread);
                Arrival::Queued
            }
        }
    }

    /// Somebody sends to a region that has stopped: the coordinator may not know it.
    const fn remind(&mut self) {
        if self.stopping && self.deregistered && self.deregister_at.is_none() {
            self.deregister_left = super::machine::DEREGISTER_AGAIN;
            self.deregister_at = Some(self.now);
        }
    }

    /// Something was added to the shard's list of other nodes' messages, all of which was read before or not.
    fn read_later<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
        epoch: Epoch,
        had_unread: bool,
    ) {
        let Some(slot) = t.shards.get(index as usize) else {
            return;
        };
        // While it drains, the cursor is the place for what is given back.
        if slot.state == State::Draining || had_unread {
            return;
        }
        match self.verdict(slot, epoch) {
            Verdict::Wait => buffer::skip_unread(t.buffer, slot.remote),
            Verdict::News if slot.has(flag::NEWS) => buffer::skip_unread(t.buffer, slot.remote),
            _ => self.touch(t.shards, index),
        }
    }

    /// See [`Region::handle_flush`](super::Region::handle_flush).
    pub(super) fn flush<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        token: Token,
    ) {
        let index = shard.0;
        let origin =
            members::find_member(t.nodes, from).filter(|_| index < self.config.shard_count);
        let (Some(origin), Some(slot)) = (origin, t.shards.get(index as usize)) else {
            count(&mut self.stats.refused_envelopes);
            return;
        };
        if buffer::is_last_marker(t.buffer, slot.remote, origin, token) {
            // Said again.
            return;
        }
        let has_unread = Self::has_unread(t, slot);
        let marker = Content::Marker(token);
        let kept = if self.has_room_above(t, slot) {
            self.buffer_remote(t, index, origin, epoch, marker)
        } else {
            Err(marker)
        };
        match kept {
            Ok(()) => self.read_later(t, index, epoch, has_unread),
            Err(_) => count(&mut self.stats.dropped_markers),
        }
    }

    /// See [`Region::handle_return`](super::Region::handle_return).
    pub(super) fn come_back<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        reason: ReturnReason,
        payload: P,
    ) -> Result<(), ReturnError<P>> {
        let index = shard.0;
        let Some(slot) = t
            .shards
            .get_mut(index as usize)
            .filter(|_| index < self.config.shard_count)
        else {
            count(&mut self.stats.refused_returns);
            return Err(ReturnError::Unexpected(payload));
        };
        let (node, path) = if slot.has(flag::FLUSHING) {
            (slot.path_node, slot.path_epoch)
        } else if slot.state == State::Remote {
            (slot.node, slot.epoch)
        } else {
            (super::slot::NO_NODE, Epoch::NONE)
        };
        let is_from_path = path == epoch
            && slot.sent > 0
            && is_member(t.nodes, node)
            && t.nodes
                .get(usize::from(node))
                .is_some_and(|home| home.node == from);
        if !is_from_path {
            if slot.has(flag::GAVE_UP)
                && epoch < slot.bar
                && members::find_member(t.nodes, from).is_some()
            {
                count(&mut self.stats.rejected_given_up);
                return Err(ReturnError::PathGivenUp(payload));
            }
            count(&mut self.stats.refused_returns);
            return Err(ReturnError::Unexpected(payload));
        }
        slot.sent = slot.sent.saturating_sub(1);
        if reason == ReturnReason::Full {
            count(&mut self.stats.rejected_full);
            return Err(ReturnError::Full(payload));
        }
        if self.stopping {
            count(&mut self.stats.rejected_stopped);
            return Err(ReturnError::Stopped(payload));
        }
        if slot.state == State::Remote && slot.epoch == path {
            // This one has come back, but is still to be flushed behind.
            slot.sent = slot.sent.saturating_add(1);
            self.leave_home(t, index);
            if let Some(slot) = t.shards.get_mut(index as usize) {
                slot.sent = slot.sent.saturating_sub(1);
            }
        }
        self.buffer_in_front(t, index, payload)
    }

    /// See [`Region::take_back`](super::Region::take_back).
    pub(super) fn take_back<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        from: NodeId,
        shard: ShardId,
        epoch: Epoch,
        payload: P,
    ) -> Result<(), ReturnError<P>> {
        let index = shard.0;
        if let Some(slot) = t.shards.get(index as usize)
            && slot.state == State::Remote
            && slot.epoch == epoch
            && !slot.has(flag::FLUSHING)
            && t.nodes
                .get(usize::from(slot.node))
                .is_some_and(|home| home.node == from)
        {
            // Before the return is taken for one of a home that lives, and its epoch is never taken again.
            self.forget_home(t, index);
        }
        self.come_back(t, from, shard, epoch, ReturnReason::Moved, payload)
    }

    fn buffer_in_front<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        index: u32,
        payload: P,
    ) -> Result<(), ReturnError<P>> {
        let has_room = t
            .shards
            .get(index as usize)
            .is_some_and(|slot| self.has_room_above(t, slot));
        let filled = BufferSlot {
            content: Content::Message(payload),
            ..BufferSlot::EMPTY
        };
        let kept = if has_room {
            self.slab.fill(t.buffer, filled)
        } else {
            Err(filled)
        };
        match kept {
            Ok(at) => {
                if let Some(slot) = t.shards.get_mut(index as usize) {
                    slot.local = buffer::push_at_cursor(t.buffer, slot.local, at);
                }
                count(&mut self.stats.came_back);
                Ok(())
            }
            Err(BufferSlot {
                content: Content::Message(payload),
                ..
            }) => {
                count(&mut self.stats.rejected_full);
                Err(ReturnError::Full(payload))
            }
            Err(_) => Ok(()),
        }
    }

    /// A member appeared or changed.
    pub(super) fn member<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        node: NodeId,
        incarnation: crate::Incarnation,
    ) -> Result<(), crate::membership::NodesFull> {
        if node == self.me || members::find_incarnation(t.nodes, node, incarnation).is_some() {
            return Ok(());
        }
        let old = members::find_member(t.nodes, node);
        if old
            .and_then(|old| t.nodes.get(usize::from(old)))
            .is_some_and(|old| old.incarnation > incarnation)
        {
            return Ok(());
        }
        let added = members::add(t.nodes, node, incarnation).is_some()
            || (self.finish_ended(t) && members::add(t.nodes, node, incarnation).is_some());
        if !added {
            return Err(crate::membership::NodesFull);
        }
        if let Some(old) = old {
            self.end_incarnation(t, old);
        }
        // It may be a home that was named before it was known.
        self.retry_now = self.retry.len();
        Ok(())
    }

    /// An incarnation is gone for good.
    pub(super) fn removed<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        node: NodeId,
        incarnation: crate::Incarnation,
    ) {
        if node == self.me {
            if incarnation == self.session.incarnation {
                self.end_session(t);
            }
            return;
        }
        let gone = members::find_incarnation(t.nodes, node, incarnation);
        if let Some(gone) = gone.filter(|&gone| is_member(t.nodes, gone)) {
            self.end_incarnation(t, gone);
        }
    }

    fn end_incarnation<P>(&mut self, t: &mut RegionTables<'_, P>, index: u16) {
        if let Some(slot) = t.nodes.get_mut(usize::from(index)) {
            slot.life = super::slot::Life::Ended;
            self.sweep_ended();
        }
    }

    /// See [`Region::handle_congestion`](super::Region::handle_congestion).
    pub(super) fn congestion<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
        node: NodeId,
        congested: bool,
    ) {
        let Some(index) = members::find_member(t.nodes, node) else {
            return;
        };
        if let Some(slot) = t.nodes.get_mut(usize::from(index))
            && core::mem::replace(&mut slot.congested, congested)
            && !congested
        {
            self.wake = self.blocked.len();
        }
    }

    /// Stops everything that messages of this node wait for.
    pub(super) fn abandon_path<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) {
        self.end_flush(t, index, FlushEnd::Stopped);
    }
}
