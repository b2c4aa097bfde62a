//! Messages that are kept: first in, first out per entity, in one slab.

use alloc::vec::Vec;

use crate::table::list::NIL;

/// The messages of one entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
}

impl Fifo {
    pub(super) const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

#[derive(Debug)]
struct Held<P> {
    payload: Option<P>,
    next: u32,
}

/// All messages.
#[derive(Debug)]
pub(super) struct Kept<P> {
    held: Vec<Held<P>>,
    free: u32,
    used: u32,
}

/// From how many slots on they are given back once all are free.
const LARGE: usize = 1024;

impl<P> Kept<P> {
    pub(super) const fn new() -> Self {
        Self {
            held: Vec::new(),
            free: NIL,
            used: 0,
        }
    }

    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    fn insert(&mut self, payload: P, next: u32) -> u32 {
        self.used = self.used.saturating_add(1);
        let new = Held {
            payload: Some(payload),
            next,
        };
        let index = self.free;
        if let Some(held) = self.held.get_mut(index as usize) {
            self.free = held.next;
            *held = new;
            return index;
        }
        // Fits: what is kept and what mailboxes hold is far below.
        let index = u32::try_from(self.held.len()).unwrap_or(NIL);
        self.held.push(new);
        index
    }

    pub(super) fn push_back(&mut self, fifo: &mut Fifo, payload: P) {
        let index = self.insert(payload, NIL);
        match self.held.get_mut(fifo.tail as usize) {
            Some(tail) => tail.next = index,
            None => fifo.head = index,
        }
        fifo.tail = index;
    }

    pub(super) fn push_front(&mut self, fifo: &mut Fifo, payload: P) {
        fifo.head = self.insert(payload, fifo.head);
        if fifo.tail == NIL {
            fifo.tail = fifo.head;
        }
    }

    /// Moves everything of `other` behind what is in `fifo`.
    pub(super) fn append(&mut self, fifo: &mut Fifo, other: Fifo) {
        if other.is_empty() {
            return;
        }
        match self.held.get_mut(fifo.tail as usize) {
            Some(tail) => tail.next = other.head,
            None => fifo.head = other.head,
        }
        fifo.tail = other.tail;
    }

    pub(super) fn pop_front(&mut self, fifo: &mut Fifo) -> Option<P> {
        let index = fifo.head;
        let held = self.held.get_mut(index as usize)?;
        let payload = held.payload.take();
        fifo.head = core::mem::replace(&mut held.next, self.free);
        if fifo.head == NIL {
            fifo.tail = NIL;
        }
        self.free = index;
        self.used = self.used.saturating_sub(1);
        if self.used == 0 && self.held.len() > LARGE {
            // Each slot was filled since the last time, so this costs nothing more in the long run.
            *self = Self::new();
        }
        payload
    }

    #[cfg(test)]
    pub(super) fn len(&self, fifo: Fifo) -> u32 {
        let (mut count, mut at, mut last) = (0u32, fifo.head, NIL);
        while let Some(held) = self.held.get(at as usize) {
            assert!(held.payload.is_some(), "a free slot in a queue");
            count = count.saturating_add(1);
            (last, at) = (at, held.next);
        }
        assert_eq!((at, last), (NIL, fifo.tail));
        count
    }
}
