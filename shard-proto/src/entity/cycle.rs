//! What becomes of an entity.

use alloc::boxed::Box;
use core::time::Duration;

use super::slot::{Phase, Slot, State, Trouble, flag};
use super::stats::count;
use super::{End, Entities, EntitySlot, StartRate};
use crate::node::EntityKey;
use crate::table::list::NIL;
use crate::{Instant, micros};

/// Why an entity is passivated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Because {
    Idle,
    Limit,
    Asked,
}

fn key_len(key: &EntityKey) -> u64 {
    u64::try_from(key.as_bytes().len()).unwrap_or(u64::MAX)
}

impl<P> Entities<P> {
    pub(super) fn tick(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    pub(super) fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)
    }

    pub(super) fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    /// Entities but for queued ones, and parked ones for which nothing is kept.
    pub(super) fn used(&self) -> u32 {
        let slots = u32::try_from(self.slots.len()).unwrap_or(NIL);
        slots
            .saturating_sub(self.free.len())
            .saturating_sub(self.queued)
            .saturating_sub(self.at_rest.len())
    }

    /// Whether one more entity may live.
    pub(super) fn has_room(&self) -> bool {
        self.used() < self.config.max_entities.saturating_mul(2)
    }

    /// Whether the id of one more entity fits.
    pub(super) fn has_key_room(&self, key: &EntityKey) -> bool {
        let bytes = self.key_bytes.saturating_add(key_len(key));
        bytes <= self.config.max_key_bytes
    }

    /// Whether its shard stops.
    pub(super) fn is_stopping(&self, index: u32) -> bool {
        self.slot(index)
            .and_then(|slot| self.shards.get(slot.shard as usize))
            .is_none_or(|shard| shard.phase == Phase::Stopping)
    }

    /// The slot of a life whose task has not ended.
    pub(super) fn life(&self, life: EntitySlot) -> Option<&Slot> {
        let slot = self.slot(life.index)?;
        let given_up = self
            .shards
            .get(slot.shard as usize)
            .is_none_or(|shard| shard.abandoned);
        let is_it = slot.generation == life.generation && slot.has(flag::TASK) && !given_up;
        is_it.then_some(slot)
    }

    /// The same, unless its shard stops.
    pub(super) fn serving_life(&self, life: EntitySlot) -> Option<&Slot> {
        self.life(life).filter(|_| !self.is_stopping(life.index))
    }

    /// Has its commands asked for.
    pub(super) fn touch(&mut self, index: u32) {
        self.dirty.push_back(&mut self.slots, index);
    }

    /// A slot for an entity that has none.
    pub(super) fn create(&mut self, shard: u32, key: &EntityKey, state: State) -> Option<u32> {
        let index = match self.free.pop_front(&mut self.slots) {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(Slot::free(self.first_generation));
                index
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        // A key that lies in what was read from a connection would keep all of that for as long as the entity lives.
        slot.key = EntityKey::new(key.as_bytes());
        slot.shard = shard;
        slot.state = state;
        self.key_bytes = self.key_bytes.saturating_add(key_len(key));
        self.index.insert_entity(&self.slots, index);
        let shard = self.shards.get_mut(shard as usize)?;
        shard.members.push_back(&mut self.slots, index);
        Some(index)
    }

    /// Forgets an entity that has neither task nor messages.
    pub(super) fn remove(&mut self, index: u32) {
        self.leave_lists(index);
        self.dirty.remove(&mut self.slots, index);
        self.index.remove_entity(&self.slots, index);
        let Some(slot) = self.slots.get(index as usize) else {
            return;
        };
        let (generation, shard) = (slot.generation, slot.shard);
        self.key_bytes = self.key_bytes.saturating_sub(key_len(&slot.key));
        if let Some(shard) = self.shards.get_mut(shard as usize) {
            shard.members.remove(&mut self.slots, index);
        }
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Slot::free(generation);
        }
        // The one that is used next is the one that was used last: caches, and tables that grow to the highest index.
        self.free.push_front(&mut self.slots, index);
    }

    /// Takes it out of everything that belongs to its state: the order it is in, the policy, the alarms.
    fn leave_lists(&mut self, index: u32) {
        self.alarms.remove(&mut self.slots, index);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        if slot.has(flag::ADMITTED) {
            slot.clear(flag::ADMITTED);
            self.policy.remove(index);
        }
        let (state, shard) = (slot.state, slot.shard);
        match state {
            State::Queued => {}
            State::Parked => {
                self.at_rest.remove(&mut self.slots, index);
                return;
            }
            _ => {
                self.idle.remove(&mut self.slots, index);
                return;
            }
        }
        let Some(shard) = self.shards.get_mut(shard as usize) else {
            return;
        };
        if shard.queued.remove(&mut self.slots, index) {
            self.queued = self.queued.saturating_sub(1);
        }
        if shard.queued.is_empty() {
            let shard = self.slot(index).map_or(NIL, |slot| slot.shard);
            self.pacing.remove(&mut self.shards, shard);
        }
    }

    /// Begins a life: of one that has neither task nor mailbox.
    pub(super) fn begin_start(&mut self, index: u32) {
        self.leave_lists(index);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.clear(flag::LIFE | flag::RECORD);
        slot.set(flag::START | flag::ADMITTED);
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Starting;
        if let Some(victim) = self.policy.admit(index) {
            if let Some(slot) = self.slots.get_mut(victim as usize) {
                slot.clear(flag::ADMITTED);
            }
            self.passivate_for(victim, Because::Limit);
        }
        self.touch(index);
    }

    /// Ends a life in order, or will once it has started.
    pub(super) fn passivate_for(&mut self, index: u32, because: Because) {
        if self.is_stopping(index) {
            return;
        }
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let lives = matches!(slot.state, State::Starting | State::Running);
        let limit = matches!(because, Because::Limit);
        // A wish overrides what waits for the limit's sake.
        if !lives || (slot.has(flag::PASSIVATE) && (limit || slot.has(flag::AT_ONCE))) {
            return;
        }
        count(match because {
            Because::Idle => &mut self.stats.passivated_idle,
            Because::Limit => &mut self.stats.passivated_limit,
            Because::Asked => &mut self.stats.passivated_asked,
        });
        // What was started for a message handles one: else those that want more room than there is would only drive
        // each other out.
        let later = slot.state == State::Starting || (limit && slot.has(flag::FRESH));
        slot.set(flag::PASSIVATE);
        if !limit {
            slot.set(flag::AT_ONCE);
        }
        self.leave_lists(index);
        if !later {
            self.close(index);
        } else if self
            .slot(index)
            .is_some_and(|it| it.state == State::Starting)
        {
            let limit = self.config.start_limit;
            self.alarm_after(index, limit);
        }
    }

    pub(super) fn close(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.state = State::Passivating;
            slot.set(flag::CLOSE);
        }
        self.touch(index);
    }

    pub(super) fn begin_running(&mut self, index: u32) {
        let now = self.now;
        self.alarms.remove(&mut self.slots, index);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.state = State::Running;
        slot.at = now;
        if !slot.kept.is_empty() {
            slot.set(flag::FRESH);
        }
        if slot.has(flag::PASSIVATE) {
            if slot.has(flag::AT_ONCE) || !slot.has(flag::FRESH) {
                self.close(index);
            }
        } else if self.config.passivate_after > Duration::ZERO {
            self.idle.push_back(&mut self.slots, index);
        }
    }

    /// It was used: it is the last one now to be idle.
    pub(super) fn used_now(&mut self, index: u32) {
        if self.idle.remove(&mut self.slots, index) {
            self.idle.push_back(&mut self.slots, index);
        }
        let now = self.now;
        if let Some(slot) = self.slot_mut(index) {
            slot.at = now;
        }
    }

    /// A task is no more. What was left of its mailbox is kept already.
    pub(super) fn end_life(&mut self, index: u32, end: End) {
        self.leave_lists(index);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let asked = slot.state == State::Passivating;
        // What waits for it would only have it hang once more: not without a pause, nor for ever.
        let hung = slot.has(flag::HUNG) && end == End::Stopped;
        let end = if hung { End::Failed } else { end };
        slot.clear(flag::LIFE);
        let left = !slot.kept.is_empty();
        match end {
            End::Stopped if left => self.begin_start(index),
            End::Stopped if self.config.remember => {
                if let Some(slot) = self.slot_mut(index) {
                    slot.state = State::Forgetting;
                    slot.set(flag::RECORD);
                }
                self.touch(index);
            }
            End::Stopped => self.remove(index),
            // It crashed on its way out: it is gone, but not forgotten.
            End::Failed | End::Aborted if asked && !left => self.remove(index),
            End::Failed | End::Aborted => self.fail(index),
        }
    }

    fn fail(&mut self, index: u32) {
        let (now, window) = (self.now, self.config.restart_window);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let trouble = slot.trouble.get_or_insert_default();
        if now.since(trouble.last) >= window {
            // Long without failure is a success.
            (trouble.streak, trouble.count) = (0, 0);
        }
        if trouble.count == 0 || now.since(trouble.first) >= window {
            (trouble.first, trouble.count) = (now, 0);
        }
        trouble.last = now;
        trouble.streak = trouble.streak.saturating_add(1);
        trouble.count = trouble.count.saturating_add(1);
        if trouble.count > self.config.max_restarts {
            slot.state = State::Parked;
            count(&mut self.stats.parked);
            let has_messages = !slot.kept.is_empty();
            self.alarm_after(index, window);
            if has_messages {
                self.touch(index);
            } else {
                self.rest(index);
            }
            return;
        }
        let streak = trouble.streak;
        slot.state = State::Waiting;
        let pause = self.pause(streak);
        self.alarm_after(index, pause);
    }

    /// It is parked, and has nothing more to say: it takes no room that another one needs. The one that was parked
    /// longest ago is forgotten for it if there are too many, and with it that it failed.
    pub(super) fn rest(&mut self, index: u32) {
        self.at_rest.push_back(&mut self.slots, index);
        if self.at_rest.len() > self.config.max_entities
            && let Some(oldest) = self.at_rest.front()
        {
            count(&mut self.stats.parked_forgotten);
            self.remove(oldest);
        }
    }

    /// It was parked for long enough, and has nothing more to say. What is remembered starts again though nobody sends
    /// to it; the rest is gone until somebody does.
    pub(super) fn unpark(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else {
            return;
        };
        if !slot.has(flag::RECORDED) {
            return self.remove(index);
        }
        if !self.has_room() {
            let (rests, longest) = (slot.order.is_linked(), self.config.pause.1);
            self.alarm_after(index, longest);
            if !rests {
                self.rest(index);
            }
            return;
        }
        self.leave_lists(index);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.state = State::Waiting;
        }
        self.restart(index);
    }

    /// Half fixed, half random, so that what failed together does not come back together.
    fn pause(&mut self, times: u32) -> Duration {
        let (first, longest) = self.config.pause;
        let doubled = 1u32.checked_shl(times.saturating_sub(1));
        let pause = doubled.and_then(|factor| first.checked_mul(factor));
        let half = micros(pause.unwrap_or(longest).min(longest)) / 2;
        let random = self.random.below(half.saturating_add(1));
        Duration::from_micros(half.saturating_add(random))
    }

    fn alarm_after(&mut self, index: u32, pause: Duration) {
        self.alarms.remove(&mut self.slots, index);
        let at = self.now.after(pause);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.at = at;
            self.alarms.set(&mut self.slots, index);
        }
    }

    /// Its alarm went off, and is no more.
    pub(super) fn wake(&mut self, index: u32) {
        if self.is_stopping(index) {
            return;
        }
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        match slot.state {
            State::Recording | State::Forgetting => {
                slot.set(flag::RECORD);
                self.touch(index);
            }
            State::Parked if slot.kept.is_empty() => self.unpark(index),
            State::Waiting => self.restart(index),
            State::Starting if slot.has(flag::START) => {
                let limit = self.config.start_limit;
                self.alarm_after(index, limit);
            }
            State::Starting => {
                slot.set(flag::HUNG);
                count(&mut self.stats.starts_given_up);
                self.close(index);
            }
            _ => {}
        }
    }

    /// Nobody is passivated for one that nobody waits for.
    fn restart(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else {
            return;
        };
        if !slot.kept.is_empty() || !self.policy.is_full() {
            count(&mut self.stats.restarts);
            return self.begin_start(index);
        }
        if !slot.has(flag::RECORDED) {
            return self.remove(index);
        }
        if self.queued < self.config.max_entities {
            return self.enqueue(index);
        }
        let longest = self.config.pause.1;
        self.alarm_after(index, longest);
    }

    /// Has it started when its turn comes.
    pub(super) fn enqueue(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.state = State::Queued;
        let at = slot.shard;
        let Some(shard) = self.shards.get_mut(at as usize) else {
            return;
        };
        if shard.queued.push_back(&mut self.slots, index) {
            self.queued = self.queued.saturating_add(1);
        }
        if shard.phase == Phase::Serving {
            self.pacing.push_back(&mut self.shards, at);
        }
        self.refill();
    }

    /// A message came for one that the store is to forget, or was told to.
    pub(super) fn remember_again(&mut self, index: u32) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        if slot.has(flag::RECORDED) {
            return self.begin_start(index);
        }
        // What is under way is answered first, so that the store is told in order.
        slot.state = State::Recording;
    }

    /// The store answered.
    pub(super) fn answer(&mut self, index: u32, alive: bool, done: bool) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        slot.clear(flag::ASKED | flag::ASKED_ALIVE);
        if done && let Some(trouble) = &mut slot.trouble {
            trouble.records = 0;
        }
        match (slot.state, alive) {
            (State::Recording, true) if done => {
                slot.set(flag::RECORDED);
                return self.begin_start(index);
            }
            (State::Forgetting, false) if done => return self.remove(index),
            (State::Recording, false) if done => {
                slot.set(flag::RECORD);
                return self.touch(index);
            }
            _ => {}
        }
        count(&mut self.stats.record_failures);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let trouble = slot.trouble.get_or_insert_with(Box::<Trouble>::default);
        trouble.records = trouble.records.saturating_add(1);
        let times = trouble.records;
        let pause = self.pause(times);
        self.alarm_after(index, pause);
    }

    /// Allows a new interval's starts if it is time.
    pub(super) fn refill(&mut self) {
        if let StartRate::PerInterval { count, interval } = self.config.start_rate
            && self.now >= self.window_ends
        {
            self.window_ends = self.now.after(interval);
            self.allowance = count;
        }
    }
}
