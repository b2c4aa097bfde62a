//! What an entity knows of those that send to it reliably.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use shard_proto::entity::EntitySlot;

use super::Tag;
use crate::lock::lock;
use crate::store::{MAX_SENDERS, Sequence};

/// Of the entities of a type on this node, by their slots, so that one that sees no tracked message takes no memory.
#[derive(Default)]
pub(crate) struct Senders {
    stripes: [Mutex<Tables>; STRIPES],
    tables: AtomicUsize,
}

const STRIPES: usize = 16;

type Tables = HashMap<EntitySlot, Table, foldhash::fast::RandomState>;

/// Of one life of an entity.
#[derive(Default)]
struct Table {
    senders: HashMap<u64, Known, foldhash::fast::RandomState>,
    /// Counts uses.
    clock: u64,
}

struct Known {
    /// The number that is taken next.
    next: u64,
    used: u64,
}

/// What to do with a tracked message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the next one.
    Handle,
    /// It was handled, or one before it is missing: do not handle it, and say which number is taken next.
    Answer(u64),
}

impl Senders {
    fn stripe(&self, slot: EntitySlot) -> MutexGuard<'_, Tables> {
        lock(&self.stripes[slot.index as usize % STRIPES])
    }

    pub(crate) fn verdict(&self, slot: EntitySlot, tag: Tag) -> Verdict {
        let tables = self.stripe(slot);
        let table = tables.get(&slot);
        let known = table.and_then(|table| table.senders.get(&tag.sender));
        // What is below the base was acknowledged or given up: in an earlier life perhaps, and never comes again.
        let next = known.map_or(tag.base, |known| known.next.max(tag.base));
        if tag.seq == next {
            Verdict::Handle
        } else {
            Verdict::Answer(next)
        }
    }

    /// The message was handled. Returns the number that is taken next.
    pub(crate) fn done(&self, slot: EntitySlot, sequence: Sequence) -> u64 {
        let mut tables = self.stripe(slot);
        let table = tables.entry(slot).or_insert_with(|| {
            self.tables.fetch_add(1, Ordering::Relaxed);
            Table::default()
        });
        table.done(sequence)
    }

    /// The life is over.
    pub(crate) fn forget(&self, slot: EntitySlot) {
        // Its own marks are seen by its own task.
        if self.tables.load(Ordering::Relaxed) == 0 {
            return;
        }
        let table = self.stripe(slot).remove(&slot);
        if table.is_some() {
            self.tables.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Table {
    /// Keeps as many as a store does. Whoever was heard of longest ago goes.
    fn done(&mut self, Sequence { sender, seq }: Sequence) -> u64 {
        self.clock += 1;
        let used = self.clock;
        if self.senders.len() >= MAX_SENDERS && !self.senders.contains_key(&sender) {
            let oldest = self.senders.iter().min_by_key(|(_, known)| known.used);
            if let Some((&oldest, _)) = oldest {
                self.senders.remove(&oldest);
            }
        }
        let known = self
            .senders
            .entry(sender)
            .or_insert(Known { next: 0, used });
        known.used = used;
        known.next = known.next.max(seq.saturating_add(1));
        known.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: EntitySlot = EntitySlot {
        index: 17,
        generation: 3,
    };

    fn tag(sender: u64, seq: u64, base: u64) -> Tag {
        Tag { sender, seq, base }
    }

    #[test]
    fn only_the_next_number_is_taken() {
        let senders = Senders::default();
        // It knows nothing: the base is the next.
        assert_eq!(senders.verdict(LIFE, tag(1, 7, 5)), Verdict::Answer(5));
        assert_eq!(senders.verdict(LIFE, tag(1, 5, 5)), Verdict::Handle);
        // Not handled yet: it is still the next.
        assert_eq!(senders.verdict(LIFE, tag(1, 5, 5)), Verdict::Handle);
        assert_eq!(senders.done(LIFE, tag(1, 5, 5).sequence()), 6);
        assert_eq!(senders.verdict(LIFE, tag(1, 5, 5)), Verdict::Answer(6));
        assert_eq!(senders.verdict(LIFE, tag(1, 7, 5)), Verdict::Answer(6));
        assert_eq!(senders.verdict(LIFE, tag(1, 6, 5)), Verdict::Handle);
        // The sender gave some up.
        assert_eq!(senders.verdict(LIFE, tag(1, 20, 20)), Verdict::Handle);
        // Another sender is another matter.
        assert_eq!(senders.verdict(LIFE, tag(2, 1, 1)), Verdict::Handle);
    }

    #[test]
    fn what_a_store_knew_is_not_handled_again() {
        let senders = Senders::default();
        senders.done(LIFE, Sequence { sender: 1, seq: 41 });
        assert_eq!(senders.verdict(LIFE, tag(1, 41, 40)), Verdict::Answer(42));
        assert_eq!(senders.verdict(LIFE, tag(1, 42, 40)), Verdict::Handle);
    }

    #[test]
    fn the_sender_heard_of_longest_ago_goes() {
        let senders = Senders::default();
        let many = MAX_SENDERS as u64;
        for sender in 0..many {
            senders.done(LIFE, Sequence { sender, seq: 8 });
        }
        senders.done(LIFE, Sequence { sender: 0, seq: 9 });
        senders.done(
            LIFE,
            Sequence {
                sender: many,
                seq: 8,
            },
        );
        let tables = senders.stripe(LIFE);
        let table = &tables[&LIFE];
        assert_eq!(table.senders.len(), MAX_SENDERS);
        assert!(!table.senders.contains_key(&1));
        assert!(table.senders.contains_key(&0) && table.senders.contains_key(&many));
    }

    #[test]
    fn lives_know_nothing_of_each_other_and_leave_nothing_behind() {
        let senders = Senders::default();
        let next = EntitySlot {
            generation: 4,
            ..LIFE
        };
        senders.done(LIFE, tag(1, 5, 5).sequence());
        assert_eq!(senders.verdict(next, tag(1, 5, 5)), Verdict::Handle);
        senders.forget(next);
        senders.forget(LIFE);
        assert_eq!(senders.verdict(LIFE, tag(1, 5, 5)), Verdict::Handle);
        assert_eq!(senders.tables.load(Ordering::Relaxed), 0);
        assert!(senders.stripe(LIFE).is_empty());
    }
}
