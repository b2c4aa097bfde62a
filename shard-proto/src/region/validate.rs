//! Whether the tables of a region agree, for tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

use alloc::vec;
use alloc::vec::Vec;

use super::slot::{Content, Life, NIL, NO_NODE, Place, State, flag};
use super::{BufferSlot, Region, ShardSlot, buffer, members};
use crate::table::RegionStorage;

impl<P, S: RegionStorage<P>> Region<P, S> {
    /// Panics if something in the tables does not agree.
    pub(crate) fn validate(&mut self) {
        let tables = self.storage.tables();
        let (shards, nodes, buffer) = (&*tables.shards, &*tables.nodes, &*tables.buffer);
        let machine = &self.machine;
        let lists = [
            (Place::Dirty, &machine.dirty),
            (Place::Retry, &machine.retry),
            (Place::Lapse, &machine.lapse),
            (Place::Blocked, &machine.blocked),
        ];
        for (place, list) in lists {
            assert!(list.is_intact(shards), "{place:?}");
            for index in list.iter(shards) {
                assert_eq!(shards[index as usize].place, place);
            }
            let placed = shards.iter().filter(|slot| slot.place == place).count();
            assert_eq!(list.len() as usize, placed, "{place:?}");
        }
        let mut held = vec![0u32; nodes.len()];
        let mut used = 0;
        for slot in shards {
            for (tail, is_local) in [(slot.local, true), (slot.remote, false)] {
                let entries: Vec<u32> = buffer::iter(buffer, tail).collect();
                assert_eq!(entries.last().copied().unwrap_or(NIL), tail);
                used += entries.len() as u32;
                for at in entries {
                    let entry = &buffer[at as usize];
                    assert!(!matches!(entry.content, Content::Free));
                    assert_eq!(entry.origin == NO_NODE, is_local);
                    if !is_local {
                        held[usize::from(entry.origin)] += 1;
                    }
                }
            }
            validate_slot(slot, buffer);
        }
        assert_eq!(used, machine.slab.used());
        let filled = buffer
            .iter()
            .filter(|entry| !matches!(entry.content, Content::Free));
        assert_eq!(filled.count() as u32, used);
        for (slot, held) in nodes.iter().zip(held) {
            assert_eq!(slot.buffered, held);
            if slot.life == Life::Member {
                let found = members::find_member(nodes, slot.node).unwrap();
                assert!(core::ptr::eq(&raw const nodes[usize::from(found)], slot));
            }
            assert!(slot.life != Life::Forgotten || held > 0);
        }
        let owned = shards.iter().filter(|slot| slot.state.is_owned());
        assert_eq!(owned.count() as u32, machine.hosted);
        let flushing = shards.iter().filter(|slot| slot.has(flag::FLUSHING));
        assert_eq!(flushing.count() as u32, machine.flushing);
    }
}

fn validate_slot<P>(slot: &ShardSlot, buffer: &[BufferSlot<P>]) {
    let unread = buffer::unread(buffer, slot.remote).is_some();
    if slot.place != Place::Dirty {
        assert!(!unread || slot.state == State::Draining);
        let due =
            flag::COMPLETE | flag::STOP | flag::START | flag::STARTED | flag::FLUSH | flag::HOME;
        assert!(!slot.has(due), "something is due that nobody will say");
        let waits = slot.has(flag::FLUSHING) || slot.wants_home();
        assert!(
            !waits || matches!(slot.place, Place::Retry | Place::Lapse),
            "nobody asks: {slot:?}"
        );
        let stuck = slot.local != NIL && slot.sends() && slot.place == Place::Idle;
        assert!(!stuck, "messages that nobody sends: {slot:?}");
    }
    if slot.state.is_owned() {
        assert!(slot.bar >= slot.epoch);
    }
}
