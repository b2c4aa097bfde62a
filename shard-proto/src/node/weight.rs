//! How many bytes the long messages of an entity type hold.
//!
//! Buffers are bounded by the number of messages, which says enough about short ones. Long ones are weighed while they
//! are here, from their arrival until they are delivered, sent on or handed back: whoever drops a message takes its
//! weight off.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of long messages that wait, per entity type, beyond which a new one counts as one too many for the buffer.
pub(super) const LIMIT: usize = 64 << 20;
/// A message longer than this is a long one.
const LONG: usize = 1024;

/// The sum, and a part of it that goes when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Weight {
    bytes: usize,
    sum: Arc<AtomicUsize>,
}

/// What an entity type's messages weigh.
#[derive(Debug, Default)]
pub(super) struct Scales(Arc<AtomicUsize>);

impl Scales {
    /// Weighs a message of so many bytes: nothing to carry for a short one.
    #[inline]
    pub(super) fn weigh(&self, bytes: usize) -> Option<Weight> {
        (bytes > LONG).then(|| Weight::new(bytes, Arc::clone(&self.0)))
    }

    /// Whether there is too much already.
    pub(super) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) > LIMIT
    }
}

impl Weight {
    fn new(bytes: usize, sum: Arc<AtomicUsize>) -> Self {
        // Never more than the memory there is.
        sum.fetch_add(bytes, Ordering::Relaxed);
        Self { bytes, sum }
    }
}

impl Clone for Weight {
    fn clone(&self) -> Self {
        Self::new(self.bytes, Arc::clone(&self.sum))
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
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
        let scales = Scales::default();
        assert_eq!(scales.weigh(LONG), None);
        let one = scales.weigh(LIMIT);
        assert!(!scales.is_over());
        let two = one.clone();
        assert!(scales.is_over());
        drop((one, two));
        assert!(!scales.is_over());
        assert_eq!(scales.0.load(Ordering::Relaxed), 0);
    }
}
