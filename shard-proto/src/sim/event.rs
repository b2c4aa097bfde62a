//! What is going to happen, by time and order of making.

use alloc::collections::BinaryHeap;
use core::cmp::{Ordering, Reverse};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A control frame arrives.
    Control { frame: u32 },
    /// The next data frame of a link arrives.
    Data { link: u16, stamp: u32 },
    /// The sender of a link learns that there is room again.
    Room { link: u16 },
    /// A shard has started.
    Started { host: u8, shard: u16, stamp: u32 },
    /// A shard has stopped.
    Stopped { host: u8, shard: u16, stamp: u32 },
    /// An entity handles the next message of its mailbox.
    Handle { host: u8, shard: u16, stamp: u32 },
    /// A caller sends.
    Traffic { host: u8, life: u32 },
    /// Membership has news for a host.
    News { news: u32 },
    /// A host goes on.
    Wake { host: u8, stamp: u32 },
    /// A process starts again.
    Restart { host: u8, life: u32 },
    /// A type is started again.
    StartType { host: u8, ty: u8, life: u32 },
    /// The membership script's own time.
    Script,
    /// A host looks for the lock that decides who leads.
    Lock { host: u8, life: u32 },
    /// A shard is moved for no reason.
    Move,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    at: u64,
    order: u64,
    what: What,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events to come.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    order: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: u64, what: What) {
        let order = self.order;
        self.order += 1;
        self.heap.push(Reverse(Event { at, order, what }));
    }

    pub(super) fn next_at(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |event| event.0.at)
    }

    pub(super) fn pop(&mut self) -> Option<(u64, What)> {
        let Reverse(event) = self.heap.pop()?;
        Some((event.at, event.what))
    }
}
