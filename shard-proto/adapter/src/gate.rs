//! One word per shard that tells a caller, without asking the driver, which way its message goes.
//!
//! A message takes the short way, straight into the mailbox of a running entity, only while the gate is open *and* no
//! message of this node for the shard is still on the long way (to the driver, buffered, in the core). So what a caller
//! sends later never overtakes what it sent before.
//!
//! The word also holds the number of the opening. A mailbox knows the number it belongs to, and a caller compares the
//! whole word: one that was preempted between looking at the gate and pushing cannot slip into a mailbox of a later
//! opening, in front of what that was still waiting for.

use core::sync::atomic::{AtomicU64, Ordering};

/// `opening (30 bits) | state (2 bits) | pending (32 bits)`
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU64);

const STATE: u64 = 0b11 << 32;
const OPEN: u64 = 0b01 << 32;
const REMOTE: u64 = 0b10 << 32;
const PENDING: u64 = u32::MAX as u64;

/// Where a shard is, as far as callers need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Not known, or on the move: messages are buffered.
    Closed,
    /// It runs here.
    Open,
    /// It runs elsewhere: encode at once.
    Remote,
}

/// The word of a gate that is open for the `n`-th time and has nothing pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening(u64);

impl Gate {
    /// Whether the short way into a mailbox of `opening` is free. Pairs with [`Gate::settle`]: a caller that sees
    /// nothing pending also sees where its earlier messages went.
    #[inline]
    pub(crate) fn is_free(&self, opening: Opening) -> bool {
        self.0.load(Ordering::Acquire) == opening.0
    }

    pub(crate) fn way(&self) -> Way {
        way(self.0.load(Ordering::Acquire))
    }

    /// How many messages are on the long way.
    pub(crate) fn pending(&self) -> u32 {
        (self.0.load(Ordering::Acquire) & PENDING) as u32
    }

    /// Counts a message that takes the long way, unless as many do as `limit` says for the way. Returns what the gate
    /// said.
    pub(crate) fn enter(&self, limit: impl FnOnce(Way) -> u32) -> Result<Way, Way> {
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        let way = way(before);
        if before & PENDING >= u64::from(limit(way)) {
            self.0.fetch_sub(1, Ordering::AcqRel);
            return Err(way);
        }
        Ok(way)
    }

    /// `count` messages reached a mailbox, a link, or their end.
    pub(crate) fn settle(&self, count: u32) {
        let before = self.0.fetch_sub(u64::from(count), Ordering::AcqRel);
        debug_assert!(before & PENDING >= u64::from(count));
    }

    /// The shard starts here: closed, under the next number.
    pub(crate) fn start(&self) -> Opening {
        let next = |word: u64| {
            let opening = (word >> 34).wrapping_add(1) << 34;
            opening | (word & PENDING)
        };
        let before = self.update(next);
        Opening((next(before) & !PENDING) | OPEN)
    }

    /// Sets the way; what is pending stays.
    pub(crate) fn set(&self, way: Way) {
        let state = match way {
            Way::Closed => 0,
            Way::Open => OPEN,
            Way::Remote => REMOTE,
        };
        self.update(|word| (word & !STATE) | state);
    }

    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                Some(change(word))
            })
            .unwrap_or_else(|word| word)
    }
}

const fn way(word: u64) -> Way {
    match word & STATE {
        OPEN => Way::Open,
        REMOTE => Way::Remote,
        _ => Way::Closed,
    }
}

#[cfg(test)]
mod tests;
