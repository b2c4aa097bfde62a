//! Doubly linked lists over slices: the links live in the slots, the list is three numbers.
//!
//! A slot type that can be in several lists at once has one [`Link`] per list and implements [`Linked`] once per
//! *class*, a marker type that also names the [`List`]; so a list cannot be used with the wrong link. Every operation
//! is O(1) except iteration, none allocates, none panics: an index out of range is treated as "not in the list".

use core::marker::PhantomData;

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;
/// In `prev` of a slot that is in no list of the class.
const UNLINKED: u32 = u32::MAX - 1;

/// A slot's place in the list of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    prev: u32,
    next: u32,
}

impl Link {
    /// In no list.
    pub(crate) const UNLINKED: Self = Self {
        prev: UNLINKED,
        next: UNLINKED,
    };

    /// Whether the slot is in a list of this class.
    pub(crate) const fn is_linked(&self) -> bool {
        self.prev != UNLINKED
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::UNLINKED
    }
}

/// A slot that can be in a list of the class `C`.
pub(crate) trait Linked<C> {
    /// The slot's link for this class.
    fn link(&self) -> &Link;
    /// The slot's link for this class.
    fn link_mut(&mut self) -> &mut Link;
}

/// A list of slots of the class `C`, first in first out.
#[derive(Debug)]
pub(crate) struct List<C> {
    head: u32,
    tail: u32,
    len: u32,
    class: PhantomData<fn(C)>,
}

impl<C> Clone for List<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for List<C> {}

impl<C> Default for List<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> PartialEq for List<C> {
    fn eq(&self, other: &Self) -> bool {
        (self.head, self.tail, self.len) == (other.head, other.tail, other.len)
    }
}

fn link_of<C, T: Linked<C>>(slots: &[T], index: u32) -> Option<&Link> {
    slots.get(index as usize).map(Linked::link)
}

fn link_of_mut<C, T: Linked<C>>(slots: &mut [T], index: u32) -> Option<&mut Link> {
    slots.get_mut(index as usize).map(Linked::link_mut)
}

impl<C> List<C> {
    /// The empty list.
    pub(crate) const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            len: 0,
            class: PhantomData,
        }
    }

    /// How many slots are in it.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is in it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first slot.
    pub(crate) const fn front(&self) -> Option<u32> {
        some(self.head)
    }

    /// Adds a slot at the end. `false`, and nothing changes, if it is in a list of the class or out of range.
    pub(crate) fn push_back<T: Linked<C>>(&mut self, slots: &mut [T], index: u32) -> bool {
        self.insert(slots, index, self.tail, NIL)
    }

    /// Adds a slot at the front. `false`, and nothing changes, if it is in a list of the class or out of range.
    pub(crate) fn push_front<T: Linked<C>>(&mut self, slots: &mut [T], index: u32) -> bool {
        self.insert(slots, index, NIL, self.head)
    }

    fn insert<T: Linked<C>>(&mut self, slots: &mut [T], index: u32, prev: u32, next: u32) -> bool {
        match link_of_mut::<C, T>(slots, index) {
            Some(link) if !link.is_linked() => *link = Link { prev, next },
            _ => return false,
        }
        match link_of_mut::<C, T>(slots, prev) {
            Some(link) => link.next = index,
            None => self.head = index,
        }
        match link_of_mut::<C, T>(slots, next) {
            Some(link) => link.prev = index,
            None => self.tail = index,
        }
        self.len = self.len.saturating_add(1);
        true
    }

    /// Takes a slot out, which must be in this list if it is in one of the class. `false` if it is in none.
    pub(crate) fn remove<T: Linked<C>>(&mut self, slots: &mut [T], index: u32) -> bool {
        let link = match link_of_mut::<C, T>(slots, index) {
            Some(link) if link.is_linked() => core::mem::replace(link, Link::UNLINKED),
            _ => return false,
        };
        match link_of_mut::<C, T>(slots, link.prev) {
            Some(prev) => prev.next = link.next,
            None => self.head = link.next,
        }
        match link_of_mut::<C, T>(slots, link.next) {
            Some(next) => next.prev = link.prev,
            None => self.tail = link.prev,
        }
        self.len = self.len.saturating_sub(1);
        true
    }

    /// Takes the first slot out.
    pub(crate) fn pop_front<T: Linked<C>>(&mut self, slots: &mut [T]) -> Option<u32> {
        let index = self.front()?;
        self.remove(slots, index).then_some(index)
    }

    /// Moves the first slot to the end and names it. For round robin over a list.
    pub(crate) fn rotate<T: Linked<C>>(&mut self, slots: &mut [T]) -> Option<u32> {
        let index = self.pop_front(slots)?;
        self.push_back(slots, index).then_some(index)
    }

    /// Moves everything of `other` behind what is here, in O(1).
    pub(crate) fn append<T: Linked<C>>(&mut self, slots: &mut [T], other: &mut Self) {
        if other.is_empty() {
            return;
        }
        match link_of_mut::<C, T>(slots, self.tail) {
            Some(link) => link.next = other.head,
            None => self.head = other.head,
        }
        if let Some(link) = link_of_mut::<C, T>(slots, other.head) {
            link.prev = self.tail;
        }
        self.tail = other.tail;
        self.len = self.len.saturating_add(other.len);
        *other = Self::new();
    }

    /// The slots from the first to the last.
    #[cfg_attr(not(test), allow(dead_code, reason = "for tests and the simulator"))]
    pub(crate) fn iter<'a, T: Linked<C>>(&self, slots: &'a [T]) -> Iter<'a, T, C> {
        Iter {
            slots,
            next: self.head,
            left: self.len,
            class: PhantomData,
        }
    }

    /// Whether links, ends and length agree. O(n), for tests and the simulator.
    #[cfg_attr(not(test), allow(dead_code, reason = "for tests and the simulator"))]
    pub(crate) fn is_intact<T: Linked<C>>(&self, slots: &[T]) -> bool {
        let (mut prev, mut at) = (NIL, self.head);
        for _ in 0..self.len {
            match link_of::<C, T>(slots, at) {
                Some(link) if link.is_linked() && link.prev == prev => (prev, at) = (at, link.next),
                _ => return false,
            }
        }
        at == NIL && self.tail == prev
    }
}

const fn some(index: u32) -> Option<u32> {
    if index == NIL { None } else { Some(index) }
}

/// See [`List::iter`].
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a, T, C> {
    slots: &'a [T],
    next: u32,
    left: u32,
    class: PhantomData<fn(C)>,
}

impl<T: Linked<C>, C> Iterator for Iter<'_, T, C> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let index = some(self.next)?;
        self.next = link_of::<C, T>(self.slots, index)?.next;
        Some(index)
    }
}

#[cfg(test)]
mod tests;
