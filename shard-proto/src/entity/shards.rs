//! Shards that start and stop.

use super::slot::{Phase, Shard, State, flag};
use super::stats::count;
use super::{Entities, EntityCommand, EntitySlot};
use crate::node::EntityKey;
use crate::table::list::NIL;
use crate::{Epoch, ShardId};

/// What a look at a shard brought.
enum Look<P> {
    Command(EntityCommand<P>),
    /// There is more to look at.
    More,
    /// It has nothing to say until something else happens.
    Done,
}

impl<P> Entities<P> {
    pub(super) fn find_shard(&self, shard: ShardId) -> Option<u32> {
        self.shard_index.shard(&self.shards, shard)
    }

    /// The shard under that epoch, whatever it does.
    pub(super) fn held_shard(&self, shard: ShardId, epoch: Epoch) -> Option<u32> {
        let index = self.find_shard(shard)?;
        let slot = self.shards.get(index as usize)?;
        (slot.epoch == epoch).then_some(index)
    }

    /// The same if it is served.
    pub(super) fn served_shard(&self, shard: ShardId, epoch: Epoch) -> Option<u32> {
        let index = self.held_shard(shard, epoch)?;
        let slot = self.shards.get(index as usize)?;
        (slot.phase == Phase::Serving).then_some(index)
    }

    pub(super) fn create_shard(
        &mut self,
        shard: ShardId,
        epoch: Epoch,
        phase: Phase,
    ) -> Option<u32> {
        let index = match self.free_shards.pop_front(&mut self.shards) {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.shards.len()).ok()?;
                self.shards.push(Shard::FREE);
                index
            }
        };
        let slot = self.shards.get_mut(index as usize)?;
        (slot.shard, slot.epoch, slot.phase) = (shard, epoch, phase);
        self.shard_index.insert_shard(&self.shards, index);
        Some(index)
    }

    fn remove_shard(&mut self, index: u32) {
        self.dirty_shards.remove(&mut self.shards, index);
        self.pacing.remove(&mut self.shards, index);
        self.shard_index.remove_shard(&self.shards, index);
        if let Some(slot) = self.shards.get_mut(index as usize) {
            *slot = Shard::FREE;
        }
        self.free_shards.push_front(&mut self.shards, index);
    }

    /// Has all its entities looked at.
    pub(super) fn review(&mut self, index: u32) {
        if let Some(slot) = self.shards.get_mut(index as usize) {
            slot.todo = slot.members.len();
        }
        self.dirty_shards.push_back(&mut self.shards, index);
    }

    pub(super) fn serve(&mut self, shard: ShardId, epoch: Epoch) {
        let Some(index) = self.find_shard(shard) else {
            self.create_shard(shard, epoch, Phase::Serving);
            return;
        };
        let Some(slot) = self.shards.get_mut(index as usize) else {
            return;
        };
        if slot.phase != Phase::Loading || epoch < slot.epoch {
            return;
        }
        (slot.phase, slot.epoch) = (Phase::Serving, epoch);
        if !slot.queued.is_empty() {
            self.pacing.push_back(&mut self.shards, index);
            self.refill();
        }
    }

    pub(super) fn remember(&mut self, shard: ShardId, epoch: Epoch, key: &EntityKey) {
        let found = match self.find_shard(shard) {
            None => self.create_shard(shard, epoch, Phase::Loading),
            found => found,
        };
        let is_held = |slot: &&mut Shard| slot.epoch == epoch && !slot.is_stopping();
        let slot = found.and_then(|at| self.shards.get_mut(at as usize));
        let (Some(at), Some(_)) = (found, slot.filter(is_held)) else {
            return count(&mut self.stats.remembered_refused);
        };
        let Some(index) = self.index.entity(&self.slots, key) else {
            if self.queued >= self.config.max_entities || !self.has_key_room(key) {
                return count(&mut self.stats.remembered_refused);
            }
            if let Some(index) = self.create(at, key, State::Queued) {
                if let Some(slot) = self.slot_mut(index) {
                    slot.set(flag::RECORDED);
                }
                self.enqueue(index);
            }
            return;
        };
        let Some(slot) = self.slot_mut(index).filter(|slot| slot.shard == at) else {
            return;
        };
        match slot.state {
            State::Recording if slot.has(flag::ASKED) => {}
            State::Recording => {
                slot.set(flag::RECORDED);
                self.begin_start(index);
            }
            // What is passivated now was remembered then.
            State::Forgetting | State::Free => {}
            _ => slot.set(flag::RECORDED),
        }
    }

    pub(super) fn halt(&mut self, shard: ShardId, epoch: Epoch) {
        let found = match self.find_shard(shard) {
            None => self.create_shard(shard, epoch, Phase::Stopping),
            Some(_) => self.held_shard(shard, epoch),
        };
        let Some(index) = found else {
            return;
        };
        self.pacing.remove(&mut self.shards, index);
        if let Some(slot) = self.shards.get_mut(index as usize) {
            slot.phase = Phase::Stopping;
        }
        self.review(index);
    }

    /// A task of a stopping shard ended; what is kept for it goes back.
    pub(super) fn halted(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.clear(flag::TASK);
        let at = slot.shard;
        let Some(shard) = self.shards.get_mut(at as usize) else {
            return;
        };
        shard.members.remove(&mut self.slots, index);
        shard.members.push_front(&mut self.slots, index);
        shard.todo = shard.todo.saturating_add(1);
        self.dirty_shards.push_back(&mut self.shards, at);
    }

    /// What stopping shards have to say.
    pub(super) fn shard_command(&mut self) -> Option<EntityCommand<P>> {
        while let Some(at) = self.dirty_shards.front() {
            match self.look(at) {
                Look::Command(command) => {
                    // The other shards have their turn; this one may be no more.
                    if self.dirty_shards.front() == Some(at) {
                        self.dirty_shards.rotate(&mut self.shards);
                    }
                    return Some(command);
                }
                Look::More => {}
                Look::Done => {
                    self.dirty_shards.remove(&mut self.shards, at);
                }
            }
        }
        None
    }

    fn look(&mut self, at: u32) -> Look<P> {
        let Some(shard) = self.shards.get_mut(at as usize) else {
            return Look::Done;
        };
        let (id, epoch) = (shard.shard, shard.epoch);
        if !shard.is_stopping() {
            return Look::Done;
        }
        let Some(index) = shard.members.front() else {
            let forced = shard.forced;
            self.remove_shard(at);
            return Look::Command(EntityCommand::ShardStopped {
                shard: id,
                epoch,
                forced,
            });
        };
        if shard.todo == 0 {
            return Look::Done;
        }
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return Look::Done;
        };
        if slot.has(flag::TASK) && !shard.abandoned {
            shard.todo = shard.todo.saturating_sub(1);
            let life = EntitySlot {
                index,
                generation: slot.generation,
            };
            let command = if shard.aborting && !slot.has(flag::ABORTED) {
                slot.set(flag::ABORTED);
                shard.forced = true;
                count(&mut self.stats.aborted);
                Some(EntityCommand::Abort { slot: life })
            } else if !shard.aborting && !slot.has(flag::CLOSED) {
                slot.set(flag::CLOSED);
                Some(EntityCommand::Close { slot: life })
            } else {
                None
            };
            shard.members.rotate(&mut self.slots);
            return command.map_or(Look::More, Look::Command);
        }
        if let Some(payload) = self.kept.pop_front(&mut slot.kept) {
            shard.kept = shard.kept.saturating_sub(1);
            count(&mut self.stats.given_back);
            return Look::Command(EntityCommand::GiveBack {
                shard: id,
                epoch,
                key: slot.key.clone(),
                payload,
            });
        }
        shard.todo = shard.todo.saturating_sub(1);
        self.remove(index);
        Look::More
    }

    /// Starts a queued entity if its turn has come.
    pub(super) fn start_queued(&mut self) -> bool {
        if self.allowance == 0 || self.policy.is_full() || !self.has_room() {
            return false;
        }
        let Some(at) = self.pacing.front() else {
            return false;
        };
        let index = self
            .shards
            .get(at as usize)
            .and_then(|shard| shard.queued.front());
        let Some(index) = index else {
            self.pacing.remove(&mut self.shards, at);
            return true;
        };
        self.begin_start(index);
        // Each shard in its turn; this one may have no more.
        if self.pacing.front() == Some(at) {
            self.pacing.rotate(&mut self.shards);
        }
        if self.allowance != NIL {
            self.allowance = self.allowance.saturating_sub(1);
        }
        count(&mut self.stats.starts_remembered);
        true
    }
}
