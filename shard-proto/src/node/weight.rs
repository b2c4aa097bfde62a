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
    limit: usize,
}

impl Sum {
    /// One message alone is never too much.
    fn is_over(&self, message: usize) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.limit.max(message)
    }
}

/// What an entity type's messages weigh.
#[derive(Debug)]
pub(super) struct Scales(Arc<Sum>);

impl Scales {
    /// Beyond `limit` bytes, a new message counts as one too many.
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Sum {
            bytes: AtomicUsize::new(0),
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
}
