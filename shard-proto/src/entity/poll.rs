//! Commands, made from the tables when they are asked for.

use super::slot::{State, flag};
use super::stats::count;
use super::{Entities, EntityCommand, EntitySlot, Refusal};
use crate::table::list::NIL;

impl<P> Entities<P> {
    pub(super) fn next_command(&mut self) -> Option<EntityCommand<P>> {
        // In turn, so that neither waits for a flood of the other.
        self.shards_first = !self.shards_first;
        let command = if self.shards_first {
            self.shard_command().or_else(|| self.entity_command())
        } else {
            self.entity_command().or_else(|| self.shard_command())
        };
        if command.is_some() {
            return command;
        }
        while self.start_queued() {
            let command = self.entity_command();
            if command.is_some() {
                return command;
            }
        }
        None
    }

    fn entity_command(&mut self) -> Option<EntityCommand<P>> {
        while let Some(index) = self.dirty.front() {
            let command = self.step(index);
            let is_due = self.slot(index).is_some_and(super::slot::Slot::is_due);
            if self.dirty.front() == Some(index) {
                if is_due && command.is_some() {
                    // The others have their turn before this one's next command.
                    self.dirty.rotate(&mut self.slots);
                } else {
                    self.dirty.remove(&mut self.slots, index);
                }
            }
            if command.is_some() {
                return command;
            }
        }
        None
    }

    fn step(&mut self, index: u32) -> Option<EntityCommand<P>> {
        let slot = self.slots.get_mut(index as usize)?;
        let shard = self.shards.get_mut(slot.shard as usize)?;
        if shard.is_stopping() {
            return None;
        }
        let life = EntitySlot {
            index,
            generation: slot.generation,
        };
        let (id, epoch) = (shard.shard, shard.epoch);
        match slot.state {
            State::Starting | State::Running => {
                if slot.has(flag::START) {
                    slot.clear(flag::START);
                    slot.set(flag::TASK);
                    shard.tasks = shard.tasks.saturating_add(1);
                    self.tasks = self.tasks.saturating_add(1);
                    count(&mut self.stats.starts);
                    return Some(EntityCommand::Start {
                        slot: life,
                        shard: id,
                        epoch,
                        key: slot.key.clone(),
                    });
                }
                if slot.has(flag::GONE) {
                    return None;
                }
                if let Some(payload) = self.kept.pop_front(&mut slot.kept) {
                    shard.kept = shard.kept.saturating_sub(1);
                    if slot.state == State::Starting {
                        slot.set(flag::FRESH);
                    }
                    return Some(EntityCommand::Deliver {
                        slot: life,
                        payload,
                    });
                }
                if !slot.has(flag::PUBLISHED) {
                    slot.set(flag::PUBLISHED);
                    return Some(EntityCommand::Publish { slot: life });
                }
                None
            }
            State::Passivating if slot.has(flag::CLOSE) => {
                slot.clear(flag::CLOSE);
                slot.set(flag::CLOSED);
                Some(EntityCommand::Close { slot: life })
            }
            State::Recording | State::Forgetting if slot.has(flag::RECORD) => {
                let alive = slot.state == State::Recording;
                slot.clear(flag::RECORD | flag::RECORDED);
                slot.set(flag::ASKED);
                if alive {
                    slot.set(flag::ASKED_ALIVE);
                }
                Some(EntityCommand::Record {
                    shard: id,
                    epoch,
                    key: slot.key.clone(),
                    alive,
                })
            }
            State::Parked => {
                let payload = self.kept.pop_front(&mut slot.kept)?;
                shard.kept = shard.kept.saturating_sub(1);
                count(&mut self.stats.refused_parked);
                let key = slot.key.clone();
                match (slot.kept.is_empty(), slot.alarm == NIL) {
                    (true, true) => self.unpark(index),
                    (true, false) => self.rest(index),
                    (false, _) => {}
                }
                Some(EntityCommand::Reject {
                    shard: id,
                    key,
                    reason: Refusal::Parked,
                    payload,
                })
            }
            _ => None,
        }
    }
}
