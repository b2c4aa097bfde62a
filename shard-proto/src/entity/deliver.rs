//! Messages on their way in.

use super::slot::{Phase, Shard, State, flag};
use super::stats::count;
use super::{Delivered, Entities, EntitySlot, Refusal};
use crate::node::EntityKey;
use crate::{Epoch, Instant, ShardId};

impl<P> Entities<P> {
    /// A message for an entity of a shard that is served here: into its mailbox, if it has one that is open and nothing
    /// is kept for it; kept otherwise. Starts an entity that does not live, or that is queued. O(length of the id).
    ///
    /// Commands may follow. Not a use of the entity as [`Entities::touched`] is, but it puts off idleness.
    pub fn deliver(
        &mut self,
        now: Instant,
        shard: ShardId,
        epoch: Epoch,
        key: &EntityKey,
        payload: P,
    ) -> Delivered<P> {
        let now = self.tick(now);
        let Some(at) = self.served_shard(shard, epoch) else {
            return self.refuse(Refusal::NotHosted, payload);
        };
        let found = self.index.entity(&self.slots, key);
        if let Some(index) = found
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            if slot.shard != at {
                return self.refuse(Refusal::NotHosted, payload);
            }
            if slot.takes() {
                let life = EntitySlot {
                    index,
                    generation: slot.generation,
                };
                match slot.state {
                    State::Starting => slot.set(flag::FRESH),
                    State::Running => self.used_now(index),
                    _ => {}
                }
                return Delivered::Mailbox {
                    slot: life,
                    payload,
                };
            }
            let parked = slot.state == State::Parked;
            if parked && (now < slot.at || !slot.kept.is_empty()) {
                return self.refuse(Refusal::Parked, payload);
            }
            if matches!(slot.state, State::Queued | State::Parked) && !self.has_room() {
                return self.refuse(Refusal::TooMany, payload);
            }
        }
        // What it starts takes it at once: those that cannot take theirs must not keep others from starting.
        let starts = match found.and_then(|index| self.slot(index)) {
            None => !self.config.remember,
            Some(slot) => matches!(slot.state, State::Queued | State::Parked),
        };
        if self.keeps_enough(at) && !starts {
            return self.refuse(Refusal::KeepFull, payload);
        }
        let created = match found {
            None if !self.has_room() => return self.refuse(Refusal::TooMany, payload),
            None if !self.has_key_room(key) => {
                count(&mut self.stats.refused_key_bytes);
                return self.refuse(Refusal::TooMany, payload);
            }
            None => self.create(at, key, State::Recording),
            found => found,
        };
        let Some(index) = created else {
            return self.refuse(Refusal::TooMany, payload);
        };
        if let Some(slot) = self.slots.get_mut(index as usize) {
            self.kept.push_back(&mut slot.kept, payload);
            count(&mut self.stats.kept);
        }
        if let Some(shard) = self.shards.get_mut(at as usize) {
            shard.kept = shard.kept.saturating_add(1);
        }
        self.wanted(index, found.is_none());
        Delivered::Kept
    }

    /// Whether as much is kept as may be, for all or for the shard.
    fn keeps_enough(&self, shard: u32) -> bool {
        let kept = self.shards.get(shard as usize).map_or(0, |it| it.kept);
        self.kept.used() >= self.config.keep || kept >= self.config.keep_per_shard
    }

    /// Whether a message to the entity would be refused because of what is kept already ([`Refusal::KeepFull`]).
    /// O(length of the id).
    #[must_use]
    pub fn is_choked(&self, shard: ShardId, key: &EntityKey) -> bool {
        let Some(at) = self.find_shard(shard).filter(|at| self.keeps_enough(*at)) else {
            return false;
        };
        let serves = |it: &Shard| it.phase == Phase::Serving;
        if !self.shards.get(at as usize).is_some_and(serves) {
            return false;
        }
        let found = self.index.entity(&self.slots, key);
        match found.and_then(|index| self.slot(index)) {
            None => self.config.remember && self.has_room(),
            Some(slot) => {
                slot.shard == at
                    && !slot.takes()
                    && !matches!(slot.state, State::Queued | State::Parked)
            }
        }
    }

    /// A message is kept for it.
    fn wanted(&mut self, index: u32, is_new: bool) {
        let remember = self.config.remember;
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        match slot.state {
            State::Recording if is_new && remember => {
                slot.set(flag::RECORD);
                self.touch(index);
            }
            State::Recording if is_new => self.begin_start(index),
            State::Queued => self.begin_start(index),
            State::Parked => {
                slot.trouble = None;
                self.begin_start(index);
            }
            State::Forgetting => self.remember_again(index),
            State::Starting | State::Running if slot.is_due() => self.touch(index),
            _ => {}
        }
    }

    fn refuse(&mut self, reason: Refusal, payload: P) -> Delivered<P> {
        count(match reason {
            Refusal::NotHosted => &mut self.stats.refused_not_hosted,
            Refusal::TooMany => &mut self.stats.refused_too_many,
            Refusal::KeepFull => &mut self.stats.refused_keep_full,
            Refusal::Parked => &mut self.stats.refused_parked,
        });
        Delivered::Refused { reason, payload }
    }

    /// The mailbox of a [`Delivered::Mailbox`] or [`Deliver`](super::EntityCommand::Deliver) turned out to be closed: the task ends by
    /// itself, and will say so. The message is kept, in order, and so are those that follow. Say it at once, before
    /// anything else is said or asked.
    ///
    /// # Errors
    /// The message, if that life is not known any more; nothing changed.
    pub fn undelivered(&mut self, now: Instant, slot: EntitySlot, payload: P) -> Result<(), P> {
        self.tick(now);
        let Some(at) = self.life(slot).map(|slot| slot.shard) else {
            return Err(payload);
        };
        if let Some(slot) = self.slots.get_mut(slot.index as usize) {
            self.kept.push_front(&mut slot.kept, payload);
            slot.set(flag::GONE);
        }
        if let Some(shard) = self.shards.get_mut(at as usize) {
            shard.kept = shard.kept.saturating_add(1);
        }
        Ok(())
    }
}
