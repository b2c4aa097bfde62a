//! Whether the tables of entities agree, for tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use super::slot::{Phase, Shard, Slot, State, flag};
use super::{Entities, StartRate};
use crate::table::list::{Linked, NIL};

impl<P> Entities<P> {
    /// Panics if something in the tables does not agree.
    pub(crate) fn validate(&self) {
        let (slots, shards) = (&self.slots[..], &self.shards[..]);
        for list in [&self.free, &self.idle, &self.at_rest] {
            assert!(list.is_intact(slots));
        }
        assert!(self.dirty.is_intact(slots));
        assert!(self.dirty_shards.is_intact(shards));
        assert!(self.pacing.is_intact(shards) && self.free_shards.is_intact(shards));

        let count = |is: &dyn Fn(&Slot) -> bool| slots.iter().filter(|slot| is(slot)).count();
        let free = count(&|slot| slot.state == State::Free);
        assert_eq!(free as u32, self.free.len());
        assert_eq!(self.index.len(), slots.len() - free);
        let given_up = |slot: &Slot| shards[slot.shard as usize].abandoned;
        let tasks = count(&|slot| slot.has(flag::TASK) && !given_up(slot));
        assert_eq!(tasks, self.running());
        assert_eq!(count(&|slot| slot.state == State::Queued), self.queued());
        assert_eq!(
            count(&|slot| slot.has(flag::ADMITTED)) as u32,
            self.policy.len()
        );
        let limit = self.config.max_entities;
        assert!(self.policy.len() <= limit && self.queued <= limit);
        assert!(self.used() <= 2 * limit, "{} slots", self.used());
        let at_rest = count(&|slot| slot.state == State::Parked && slot.order.is_linked()) as u32;
        assert_eq!(at_rest, self.at_rest.len());
        assert!(at_rest <= limit, "{at_rest} are parked");
        let others = slots.len() as u32 - free as u32 - self.queued - at_rest;
        assert_eq!(others, self.used());

        let keys = slots.iter().map(|slot| slot.key.as_bytes().len() as u64);
        assert_eq!(keys.sum::<u64>(), self.key_bytes());

        self.validate_alarms();
        let mut kept = 0;
        for (index, slot) in slots.iter().enumerate() {
            kept += self.kept.len(slot.kept);
            self.validate_slot(index as u32, slot);
        }
        assert_eq!(kept, self.kept.used());
        for (index, shard) in shards.iter().enumerate() {
            self.validate_shard(index as u32, shard);
        }
        let known = shards.iter().filter(|shard| shard.phase != Phase::Free);
        assert_eq!(known.clone().count(), self.shard_index.len());
        let members: u32 = known.map(|shard| shard.members.len()).sum();
        assert_eq!(members as usize, slots.len() - free);
    }

    fn validate_alarms(&self) {
        let heap = self.alarms.all();
        for (place, index) in heap.iter().enumerate() {
            let slot = &self.slots[*index as usize];
            assert_eq!(slot.alarm as usize, place);
            let parent = &self.slots[heap[place.saturating_sub(1) / 2] as usize];
            assert!(parent.at <= slot.at, "the heap is not in order");
        }
        let set = self.slots.iter().filter(|slot| slot.alarm != NIL);
        assert_eq!(set.count(), heap.len());
    }

    fn validate_slot(&self, index: u32, slot: &Slot) {
        let dirty = Linked::<super::Turn>::link(slot).is_linked();
        if slot.state == State::Free {
            assert!(slot.kept.is_empty() && slot.alarm == NIL && !dirty && slot.flags == 0);
            return;
        }
        assert_eq!(self.index.entity(&self.slots, &slot.key), Some(index));
        let shard = &self.shards[slot.shard as usize];
        assert_ne!(shard.phase, Phase::Free);
        assert_eq!(slot.has(flag::ADMITTED), self.policy.contains(index));
        assert!(!slot.has(flag::START) || (slot.state == State::Starting && !slot.has(flag::TASK)));
        if shard.phase == Phase::Stopping {
            return;
        }
        let name = (&slot.key, slot.state, slot.flags);
        // Nothing waits that nobody will wake.
        assert!(
            dirty || !slot.is_due(),
            "{name:?} is due, and nobody says so"
        );
        let lives = matches!(
            slot.state,
            State::Starting | State::Running | State::Passivating
        );
        assert_eq!(lives, slot.has(flag::TASK | flag::START), "{name:?}");
        let running = slot.state == State::Running && !slot.has(flag::PASSIVATE);
        let may_idle = running && !self.config.passivate_after.is_zero();
        assert_eq!(
            slot.order.is_linked(),
            may_idle
                || slot.state == State::Queued
                || (slot.state == State::Parked && slot.kept.is_empty()),
            "{name:?}"
        );
        let admitted = match slot.state {
            State::Starting => !slot.has(flag::PASSIVATE),
            _ => running,
        };
        assert_eq!(slot.has(flag::ADMITTED), admitted, "{name:?}");
        let alarm = slot.alarm != NIL;
        match slot.state {
            State::Waiting => assert!(alarm, "{name:?}"),
            State::Parked => assert!(alarm || !slot.kept.is_empty()),
            State::Recording | State::Forgetting => {
                assert!(self.config.remember);
                let ways = [alarm, slot.has(flag::ASKED), slot.has(flag::RECORD)];
                let ways = ways.into_iter().filter(|way| *way).count();
                assert_eq!(ways, 1, "{name:?}");
            }
            // One that shall go while it starts has no more time than that.
            State::Starting => assert_eq!(alarm, slot.has(flag::PASSIVATE), "{name:?}"),
            _ => assert!(!alarm, "{name:?}"),
        }
        if matches!(slot.state, State::Queued | State::Forgetting) {
            assert!(slot.kept.is_empty(), "{name:?}");
        }
        if slot.state == State::Recording {
            assert!(!slot.kept.is_empty(), "{name:?}");
        }
        assert!(shard.phase == Phase::Serving || slot.state == State::Queued);
    }

    fn validate_shard(&self, index: u32, shard: &Shard) {
        if shard.phase == Phase::Free {
            assert!(shard.members.is_empty() && shard.queued.is_empty());
            return;
        }
        assert_eq!(self.find_shard(shard.shard), Some(index));
        assert!(shard.members.is_intact(&self.slots) && shard.queued.is_intact(&self.slots));
        let members = || {
            shard
                .members
                .iter(&self.slots)
                .map(|at| &self.slots[at as usize])
        };
        assert!(members().all(|slot| slot.shard == index));
        let has_task = |slot: &&Slot| slot.has(flag::TASK) && !shard.abandoned;
        let tasks = members().filter(has_task).count();
        assert_eq!(tasks as u32, shard.tasks);
        let kept: u32 = members().map(|slot| self.kept.len(slot.kept)).sum();
        assert_eq!(kept, shard.kept);
        let queued = members().filter(|slot| slot.state == State::Queued).count();
        assert_eq!(queued as u32, shard.queued.len());
        let paced = Linked::<super::Pace>::link(shard).is_linked();
        assert_eq!(paced, shard.phase == Phase::Serving && queued > 0);
        if paced && matches!(self.config.start_rate, StartRate::PerInterval { .. }) {
            let can = self.allowance > 0 || self.poll_timeout().is_some();
            assert!(can || self.policy.is_full() || !self.has_room());
        }
        let dirty = Linked::<super::Turn>::link(shard).is_linked();
        if shard.phase == Phase::Stopping && !dirty {
            assert!(tasks > 0, "a shard without tasks does not stop");
            let left = members().all(|slot| slot.has(flag::TASK) && !shard.abandoned);
            assert!(left, "something of a shard is not given back");
        }
    }
}
