//! The payload buffer: slots of one slab, in circular lists of which a shard keeps the last slot.
//!
//! A list has a *cursor*, a slot in it or none. For messages of this node it is the end of what was put in front
//! (given back, or come back): the next of the kind goes behind it. For messages of other nodes it is the end of what
//! was looked at and stays; while the shard drains, it is the end of what was given back.

use super::slot::{BufferSlot, Content, NIL};
use crate::Token;

/// The free slots.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    free: u32,
    fresh: u32,
    used: u32,
    capacity: u32,
}

impl Slab {
    pub(super) const fn new(capacity: u32) -> Self {
        Self {
            free: NIL,
            fresh: 0,
            used: 0,
            capacity,
        }
    }

    pub(super) const fn used(&self) -> u32 {
        self.used
    }

    /// Fills a free slot. Hands the content back if there is none.
    pub(super) fn fill<P>(
        &mut self,
        buffer: &mut [BufferSlot<P>],
        filled: BufferSlot<P>,
    ) -> Result<u32, BufferSlot<P>> {
        let index = if self.free != NIL {
            self.free
        } else if self.fresh < self.capacity {
            self.fresh
        } else {
            return Err(filled);
        };
        let Some(slot) = buffer.get_mut(index as usize) else {
            return Err(filled);
        };
        if self.free == NIL {
            self.fresh = self.fresh.saturating_add(1);
        } else {
            self.free = slot.next;
        }
        *slot = filled;
        self.used = self.used.saturating_add(1);
        Ok(index)
    }

    /// Frees a slot that is in no list and hands back what it held.
    pub(super) fn empty<P>(
        &mut self,
        buffer: &mut [BufferSlot<P>],
        index: u32,
    ) -> Option<BufferSlot<P>> {
        let slot = buffer.get_mut(index as usize)?;
        if matches!(slot.content, Content::Free) {
            return None;
        }
        let free = BufferSlot {
            next: self.free,
            ..BufferSlot::EMPTY
        };
        let held = core::mem::replace(slot, free);
        self.free = index;
        self.used = self.used.saturating_sub(1);
        Some(held)
    }
}

fn get<P>(buffer: &[BufferSlot<P>], index: u32) -> Option<&BufferSlot<P>> {
    buffer.get(index as usize)
}

fn get_mut<P>(buffer: &mut [BufferSlot<P>], index: u32) -> Option<&mut BufferSlot<P>> {
    buffer.get_mut(index as usize)
}

/// The message in a slot.
#[cfg(feature = "alloc")]
pub(super) fn message_mut<P>(buffer: &mut [BufferSlot<P>], index: u32) -> Option<&mut P> {
    match &mut get_mut(buffer, index)?.content {
        Content::Message(payload) => Some(payload),
        _ => None,
    }
}

/// How many slots the list has.
pub(super) fn len<P>(buffer: &[BufferSlot<P>], tail: u32) -> u32 {
    get(buffer, tail).map_or(0, |last| last.len)
}

/// Whether the last slot is that marker of that origin.
pub(super) fn is_last_marker<P>(
    buffer: &[BufferSlot<P>],
    tail: u32,
    origin: u16,
    token: Token,
) -> bool {
    get(buffer, tail).is_some_and(|last| {
        last.origin == origin && matches!(last.content, Content::Marker(marker) if marker == token)
    })
}

/// The first slot.
pub(super) fn front<P>(buffer: &[BufferSlot<P>], tail: u32) -> Option<u32> {
    get(buffer, tail).map(|last| last.next)
}

/// Adds a slot at the end; answers the new tail.
pub(super) fn push_back<P>(buffer: &mut [BufferSlot<P>], tail: u32, index: u32) -> u32 {
    let (first, len, cursor) = match get_mut(buffer, tail) {
        Some(last) => {
            let first = core::mem::replace(&mut last.next, index);
            (first, last.len, last.cursor)
        }
        None => (index, 0, NIL),
    };
    let Some(slot) = get_mut(buffer, index) else {
        return tail;
    };
    slot.next = first;
    slot.len = len.saturating_add(1);
    slot.cursor = cursor;
    index
}

/// Adds a slot behind the cursor, which moves to it; answers the new tail.
pub(super) fn push_at_cursor<P>(buffer: &mut [BufferSlot<P>], tail: u32, index: u32) -> u32 {
    let cursor = get(buffer, tail).map_or(NIL, |last| last.cursor);
    if tail == NIL || cursor == tail {
        let tail = push_back(buffer, tail, index);
        if let Some(last) = get_mut(buffer, tail) {
            last.cursor = index;
        }
        return tail;
    }
    let place = if cursor == NIL { tail } else { cursor };
    let next = match get_mut(buffer, place) {
        Some(before) => core::mem::replace(&mut before.next, index),
        None => return tail,
    };
    if let Some(slot) = get_mut(buffer, index) {
        slot.next = next;
    }
    if let Some(last) = get_mut(buffer, tail) {
        last.len = last.len.saturating_add(1);
        last.cursor = index;
    }
    tail
}

/// Takes the first slot out; answers the new tail and the slot.
pub(super) fn pop_front<P>(buffer: &mut [BufferSlot<P>], tail: u32) -> Option<(u32, u32)> {
    let first = front(buffer, tail)?;
    if first == tail {
        return Some((NIL, first));
    }
    let second = get(buffer, first)?.next;
    let last = get_mut(buffer, tail)?;
    last.next = second;
    last.len = last.len.saturating_sub(1);
    if last.cursor == first {
        last.cursor = NIL;
    }
    Some((tail, first))
}

/// The slot behind the cursor.
pub(super) fn unread<P>(buffer: &[BufferSlot<P>], tail: u32) -> Option<u32> {
    let last = get(buffer, tail)?;
    match last.cursor {
        cursor if cursor == tail => None,
        NIL => Some(last.next),
        cursor => get(buffer, cursor).map(|slot| slot.next),
    }
}

/// Moves the cursor to the slot behind it.
pub(super) fn skip_unread<P>(buffer: &mut [BufferSlot<P>], tail: u32) {
    if let Some(next) = unread(buffer, tail)
        && let Some(last) = get_mut(buffer, tail)
    {
        last.cursor = next;
    }
}

/// Takes the slot behind the cursor out; answers the new tail and the slot.
pub(super) fn take_unread<P>(buffer: &mut [BufferSlot<P>], tail: u32) -> Option<(u32, u32)> {
    let taken = unread(buffer, tail)?;
    let &BufferSlot { cursor, len, .. } = get(buffer, tail)?;
    if cursor == NIL {
        return pop_front(buffer, tail);
    }
    let next = get(buffer, taken)?.next;
    get_mut(buffer, cursor)?.next = next;
    let tail = if taken == tail { cursor } else { tail };
    let last = get_mut(buffer, tail)?;
    last.len = len.saturating_sub(1);
    last.cursor = cursor;
    Some((tail, taken))
}

/// Moves the cursor in front of everything.
pub(super) fn rewind<P>(buffer: &mut [BufferSlot<P>], tail: u32) {
    if let Some(last) = get_mut(buffer, tail) {
        last.cursor = NIL;
    }
}

#[cfg(all(any(test, feature = "_fuzzing"), feature = "alloc"))]
pub(super) fn iter<P>(buffer: &[BufferSlot<P>], tail: u32) -> impl Iterator<Item = u32> {
    let mut next = front(buffer, tail);
    (0..len(buffer, tail)).map_while(move |_| {
        let at = next?;
        next = get(buffer, at).map(|slot| slot.next);
        Some(at)
    })
}
