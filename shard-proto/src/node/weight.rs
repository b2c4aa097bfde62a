//! How many bytes the messages of an entity type hold, ids included.
//!
//! What is buffered is weighed, and so is any long message that is here, from its arrival until it is handled, sent on
//! or handed back: whoever drops a message takes its weight off. An adapter whose mailboxes keep what was delivered
//! keeps the weight with it. Short messages that pass through, to a mailbox or a link, are not weighed, since that would
//! cost more than the rest of their way; the number of messages in a mailbox bounds them.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A message that is longer than this, with its id, is a long one.
const LONG: usize = 1024;

/// What a message adds to what its entity type holds on this node, until this is dropped.
#[derive(Debug)]
pub struct Weight {
    bytes: usize,
    sum: Arc<Sum>,
}

#[derive(Debug)]
struct Sum {
    bytes: AtomicUsize,
    /// Those of them that are of small messages.
    small: AtomicUsize,
    limit: usize,
}

impl Sum {
    /// Room that large messages leave to small ones, and the size of the largest small one.
    const fn spare(&self) -> usize {
        self.limit / 8
    }

    const fn is_small(&self, message: usize) -> bool {
        message <= self.spare()
    }

    /// One message alone is never too much, and what is large is not at the expense of what is small.
    fn is_over(&self, message: usize) -> bool {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let small = self.small.load(Ordering::Relaxed);
        if self.is_small(message) {
            bytes > self.limit && small > self.spare()
        } else {
            bytes.saturating_sub(small.min(self.spare())) > self.limit.max(message)
        }
    }
}

/// What an entity type's messages weigh.
#[derive(Debug)]
pub(super) struct Scales(Arc<Sum>);

impl Scales {
    /// Beyond `limit` bytes, a new message counts as one too many. Those of up to an eighth of it are small; for them
    /// there is an eighth more.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Sum {
            bytes: AtomicUsize::new(0),
            small: AtomicUsize::new(0),
            limit,
        }))
    }

    /// Weighs a message of so many bytes that passes through: nothing to carry for a short one.
    #[inline]
    pub(super) fn weigh(&self, bytes: usize) -> Option<Weight> {
        (bytes > LONG).then(|| Weight::new(bytes, Arc::clone(&self.0)))
    }

    /// Weighs a message of so many bytes that stays, unless it was.
    pub(super) fn weigh_kept(&self, bytes: usize, weight: &mut Option<Weight>) {
        weight.get_or_insert_with(|| Weight::new(bytes, Arc::clone(&self.0)));
    }

    /// Whether there is too much already, with a message of so many bytes.
    #[inline]
    pub(super) fn is_over(&self, message: usize) -> bool {
        self.0.is_over(message)
    }

    /// Whether there is too much even if so many bytes more are on their way back to where they came from.
    pub(super) fn is_over_by(&self, bytes: usize) -> bool {
        self.0.bytes.load(Ordering::Relaxed) > self.0.limit.saturating_add(bytes)
    }
}

impl Weight {
    fn new(bytes: usize, sum: Arc<Sum>) -> Self {
        // Never more than the memory there is.
        sum.bytes.fetch_add(bytes, Ordering::Relaxed);
        if sum.is_small(bytes) {
            sum.small.fetch_add(bytes, Ordering::Relaxed);
        }
        Self { bytes, sum }
    }

    /// Whether the type holds more than [`TypeConfig::with_buffer_bytes`](super::TypeConfig::with_buffer_bytes) with
    /// this message: a mailbox then takes none of another node, but has it
    /// [returned](super::Node::return_full).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sum.is_over(self.bytes)
    }
}

impl Clone for Weight {
    fn clone(&self) -> Self {
        Self::new(self.bytes, Arc::clone(&self.sum))
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.sum.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.sum.is_small(self.bytes) {
            self.sum.small.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// It is no part of what a message says.
impl PartialEq for Weight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Weight {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn long_messages_weigh_as_long_as_they_are_here() {
        let scales = Scales::new(5000);
        assert_eq!(scales.weigh(LONG), None);
        let mut kept = None;
        scales.weigh_kept(1, &mut kept);
        scales.weigh_kept(1, &mut kept);
        assert_eq!(scales.0.bytes.load(Ordering::Relaxed), 1);
        drop(kept);
        let one = scales.weigh(5000);
        assert!(!scales.is_over(0));
        let two = one.clone();
        assert!(scales.is_over(5000) && two.as_ref().is_some_and(Weight::is_over));
        assert!(scales.is_over_by(4999) && !scales.is_over_by(5000));
        drop((one, two));
        assert!(!scales.is_over(0));
        // One that is longer than the limit is taken alone.
        let alone = scales.weigh(7000);
        assert!(!scales.is_over(7000) && !alone.as_ref().is_some_and(Weight::is_over));
        let another = scales.weigh(LONG + 1);
        assert!(scales.is_over(LONG + 1) && alone.as_ref().is_some_and(Weight::is_over));
        drop((alone, another));
        assert_eq!(scales.0.bytes.load(Ordering::Relaxed), 0);
    }

    /// However much large ones weigh, small ones have an eighth of the limit; without large ones they have it all.
    #[test]
    fn large_messages_leave_room_to_small_ones() {
        let scales = Scales::new(80_000);
        let small = || {
            let mut kept = Vec::new();
            while !scales.is_over(1000) && kept.len() < 1000 {
                let mut weight = None;
                scales.weigh_kept(1000, &mut weight);
                kept.push(weight);
            }
            kept
        };
        assert_eq!(small().len(), 81);
        // What is left to small ones, large ones do not take.
        let large = [scales.weigh(60_000), scales.weigh(20_001)];
        assert!(scales.is_over(20_001));
        let kept = small();
        assert_eq!(kept.len(), 11);
        drop(large);
        assert!(!scales.is_over(1000));
        drop(kept);
        // A few small ones keep no large one out.
        scales.weigh_kept(10, &mut None);
        let one = scales.weigh(80_000);
        assert!(!scales.is_over(80_000));
        drop(one);
        assert_eq!(scales.0.small.load(Ordering::Relaxed), 0);
    }
}
