//! Commands, made from the tables when they are asked for.

use super::buffer;
use super::inbound::Verdict;
use super::machine::{Machine, is_member};
use super::path::FlushEnd;
use super::slot::{BufferSlot, Content, NIL, State, flag};
use super::stats::count;
use super::{Command, Origin, RejectReason};
use crate::table::RegionTables;
use crate::wire::control::{Deregister, GetShardHome, HandOffComplete, ShardEpoch, Stats};
use crate::wire::{Control, ReturnReason};
use crate::{NodeId, ShardId};

/// What a look at a shard brought.
enum Step<P> {
    Command(Command<'static, P>),
    /// Nothing to say, but there is more to look at.
    More,
    /// The shard has nothing to say.
    Done,
}

impl Machine {
    /// Everything but the parts of registrations, which need scratch.
    pub(super) fn next_command<P>(
        &mut self,
        t: &mut RegionTables<'_, P>,
    ) -> Option<Command<'static, P>> {
        if let Some(command) = self.coordinator_command() {
            return Some(command);
        }
        loop {
            let Some(index) = self.dirty.front() else {
                if self.wake == 0 {
                    break;
                }
                self.wake = self.wake.saturating_sub(1);
                let Some(index) = self.blocked.front() else {
                    break;
                };
                let wake = self.wake;
                self.touch(t.shards, index);
                self.wake = wake;
                continue;
            };
            match self.step(t, index) {
                Step::Command(command) => {
                    // The other shards have their turn before this one's next command.
                    if self.dirty.front() == Some(index) {
                        self.dirty.rotate(t.shards);
                    }
                    return Some(command);
                }
                Step::More => {}
                Step::Done => self.settle(t, index),
            }
        }
        self.deregister()
    }

    fn send<P>(&self, control: Control<'static>) -> Option<Command<'static, P>> {
        let to = self.leader?.node;
        Some(Command::Send { to, control })
    }

    /// What does not belong to a shard's turn.
    fn coordinator_command<P>(&mut self) -> Option<Command<'static, P>> {
        if let Some(token) = self.stats_query.take() {
            let stats = Stats {
                token,
                shards: self.hosted,
                entities: 0,
                buffered: u64::from(self.slab.used()),
                delivered: self.stats.delivered,
            };
            if let Some(command) = self.send(Control::Stats(stats)) {
                return Some(command);
            }
        }
        if let Some(command) = self.ask_resize() {
            return Some(command);
        }
        while let Some(answer) = self.answers.pop_front() {
            let complete = HandOffComplete {
                shard: ShardId(answer.shard),
                epoch: answer.epoch,
                forced: answer.forced,
            };
            if let Some(command) = self.send(Control::HandOffComplete(complete)) {
                return Some(command);
            }
        }
        None
    }

    /// Once nothing runs any more, the coordinator may allocate what was here.
    fn deregister<P>(&mut self) -> Option<Command<'static, P>> {
        if !self.stopping || self.deregistered || self.hosted > 0 {
            return None;
        }
        self.deregistered = true;
        if let Some(left) = self.deregister_left.checked_sub(1) {
            self.deregister_left = left;
            self.deregister_at = Some(self.now.after(self.config.retry_interval));
        }
        self.send(Control::Deregister(Deregister {
            session: self.session,
        }))
    }

    fn step<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) -> Step<P> {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Step::Done;
        };
        let shard = ShardId(index);
        if slot.has(flag::HOME) {
            slot.clear(flag::HOME);
            let home = self.home_of(t.nodes, slot);
            return Step::Command(Command::HomeChanged { shard, home });
        }
        if slot.has(flag::COMPLETE | flag::STARTED | flag::START | flag::STOP | flag::FLUSH) {
            return self.step_duties(t, index);
        }
        if slot.state != State::Draining && buffer::unread(t.buffer, slot.remote).is_some() {
            return self.step_remote(t, index);
        }
        if slot.local != NIL && (self.stopping || slot.sends()) {
            match self.step_local(t, index) {
                Step::Done => {}
                step => return step,
            }
        }
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Step::Done;
        };
        let is_open = slot.state == State::Active && slot.sends() && slot.local == NIL;
        if is_open && !slot.has(flag::OPENED) {
            slot.set(flag::OPENED);
            let epoch = slot.epoch;
            return Step::Command(Command::Open { shard, epoch });
        }
        if slot.has(flag::ASK) {
            slot.clear(flag::ASK);
            let wanted =
                slot.wants_home() || (slot.state == State::Remote && slot.has(flag::UNCONFIRMED));
            if wanted && self.registration.confirmed && !self.stopping {
                let ask = Control::GetShardHome(GetShardHome { shard });
                if let Some(command) = self.send(ask) {
                    count(&mut self.stats.asks);
                    return Step::Command(command);
                }
            }
        }
        Step::Done
    }

    /// What the slot's flags say is due.
    fn step_duties<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) -> Step<P> {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Step::Done;
        };
        let (shard, epoch) = (ShardId(index), slot.epoch);
        if slot.has(flag::COMPLETE) {
            let forced = slot.has(flag::FORCED);
            slot.clear(flag::COMPLETE | flag::FORCED);
            let complete = HandOffComplete {
                shard,
                epoch,
                forced,
            };
            let command = self.send(Control::HandOffComplete(complete));
            return command.map_or(Step::More, Step::Command);
        }
        if slot.has(flag::STOP) {
            slot.clear(flag::STOP);
            let abort_at = self.instant_of(slot.abort_at);
            return Step::Command(Command::StopShard {
                shard,
                epoch,
                abort_at,
            });
        }
        if slot.has(flag::START) {
            slot.clear(flag::START);
            return Step::Command(Command::StartShard { shard, epoch });
        }
        if slot.has(flag::STARTED) {
            slot.clear(flag::STARTED);
            let started = ShardEpoch { shard, epoch };
            let command = self.send(Control::ShardStarted(started));
            return command.map_or(Step::More, Step::Command);
        }
        slot.clear(flag::FLUSH);
        let (path, epoch) = (slot.path_node, slot.path_epoch);
        match t.nodes.get(usize::from(path)) {
            Some(node) if is_member(t.nodes, path) => Step::Command(Command::Flush {
                to: node.node,
                shard,
                epoch,
                token: self.token(index, node.node, epoch, slot.flush),
            }),
            _ => {
                self.end_flush(t, index, FlushEnd::Ended);
                Step::More
            }
        }
    }

    /// The next message or marker of another node.
    fn step_remote<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) -> Step<P> {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Step::Done;
        };
        let Some((epoch, origin)) = buffer::unread(t.buffer, slot.remote)
            .and_then(|at| t.buffer.get(at as usize))
            .map(|held| (held.epoch, held.origin))
        else {
            return Step::Done;
        };
        let has_origin = is_member(t.nodes, origin);
        let verdict = match self.verdict(slot, epoch) {
            Verdict::Wait => {
                buffer::skip_unread(t.buffer, slot.remote);
                return Step::More;
            }
            Verdict::News if has_origin => {
                buffer::skip_unread(t.buffer, slot.remote);
                // Who has not heard of the epoch's term cannot say where it is.
                let may_know = self
                    .leader
                    .is_some_and(|leader| epoch.term() <= leader.term);
                if may_know && !slot.has(flag::NEWS) {
                    slot.set(flag::NEWS | flag::ASK);
                }
                return Step::More;
            }
            verdict => verdict,
        };
        let Some((tail, at)) = buffer::take_unread(t.buffer, slot.remote) else {
            return Step::Done;
        };
        slot.remote = tail;
        let to = t
            .nodes
            .get(usize::from(origin))
            .map_or(NodeId(0), |node| node.node);
        let Some(held) = self.unbuffer(t, at) else {
            return Step::More;
        };
        self.dispose(held, ShardId(index), to, has_origin, verdict)
    }

    /// What becomes of a message or marker of another node that leaves the buffer.
    fn dispose<P>(
        &mut self,
        held: BufferSlot<P>,
        shard: ShardId,
        to: NodeId,
        has_origin: bool,
        verdict: Verdict,
    ) -> Step<P> {
        let epoch = held.epoch;
        match held.content {
            Content::Message(payload) if verdict == Verdict::Deliver => {
                self.count_delivery();
                Step::Command(Command::Deliver {
                    shard,
                    epoch,
                    origin: Origin::Remote(to),
                    payload,
                })
            }
            Content::Message(payload) if has_origin => {
                count(&mut self.stats.returned);
                Step::Command(Command::Return {
                    to,
                    shard,
                    epoch,
                    reason: ReturnReason::Moved,
                    payload,
                })
            }
            Content::Message(payload) => {
                count(&mut self.stats.rejected_origin_ended);
                Step::Command(Command::Reject {
                    shard,
                    origin: Origin::Remote(to),
                    reason: RejectReason::OriginEnded,
                    payload,
                })
            }
            Content::Marker(token) if has_origin => {
                Step::Command(Command::Flushed { to, shard, token })
            }
            Content::Marker(_) | Content::Free => Step::More,
        }
    }

    /// The next message of this node. `Done`: it stays.
    fn step_local<P>(&mut self, t: &mut RegionTables<'_, P>, index: u32) -> Step<P> {
        let Some(slot) = t.shards.get_mut(index as usize) else {
            return Step::Done;
        };
        let (shard, epoch, state) = (ShardId(index), slot.epoch, slot.state);
        let mut to = self.me;
        if state == State::Remote && !self.stopping {
            match t.nodes.get(usize::from(slot.node)) {
                Some(home) if is_member(t.nodes, slot.node) => {
                    if home.congested {
                        return Step::Done;
                    }
                    to = home.node;
                    slot.sent = slot.sent.saturating_add(1);
                }
                _ => {
                    self.leave_ended(t, index);
                    return Step::More;
                }
            }
        }
        let Some((tail, at)) = buffer::pop_front(t.buffer, slot.local) else {
            return Step::Done;
        };
        slot.local = tail;
        let Some(Content::Message(payload)) = self.unbuffer(t, at).map(|held| held.content) else {
            return Step::More;
        };
        if self.stopping {
            count(&mut self.stats.rejected_stopped);
            return Step::Command(Command::Reject {
                shard,
                origin: Origin::Local,
                reason: RejectReason::Stopped,
                payload,
            });
        }
        if state == State::Active {
            self.count_delivery();
            return Step::Command(Command::Deliver {
                shard,
                epoch,
                origin: Origin::Local,
                payload,
            });
        }
        count(&mut self.stats.sent);
        Step::Command(Command::Forward {
            to,
            shard,
            epoch,
            payload,
        })
    }
}
