//! Asks of this node that wait for their answers.

use core::fmt;

use heapless::Vec;
use shard_proto::Instant;
use shard_proto::hash::SplitMix64;

use crate::{ASKS, BODY};

/// Names an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskKey(pub u32);

/// Why an ask was not taken. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// Too much waits: try again after the next event.
    Busy,
    /// The id or the message is too long.
    TooLong,
    /// The node leaves, or its life is over.
    Stopped,
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "too much waits",
            Self::TooLong => "the id or the message is too long",
            Self::Stopped => "the node leaves, or its life is over",
        })
    }
}

impl core::error::Error for AskError {}

/// Why an ask has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// It took too long. The message may still be handled.
    Timeout,
    /// It was certainly not handled.
    Undelivered,
    /// The node that it was sent to is gone, or this life is over: it was perhaps handled.
    PerhapsDelivered,
    /// The entity's node says so: its status.
    Refused(u8),
}

/// What became of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Event {
    /// The answer.
    Answer(AskKey, Vec<u8, BODY>),
    /// There is none.
    Failed(AskKey, Failure),
}

#[derive(Debug)]
struct Slot {
    key: AskKey,
    correlation: u64,
    deadline: Instant,
    event: Option<Event>,
}

#[derive(Debug)]
pub(crate) struct Asks {
    slots: Vec<Slot, ASKS>,
    random: SplitMix64,
    next: u32,
}

impl Asks {
    pub(crate) const fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            random: SplitMix64::new(seed),
            next: 0,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.is_full()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes a slot: until its event is polled. `None`: there is none.
    pub(crate) fn insert(&mut self, deadline: Instant) -> Option<(AskKey, u64)> {
        let key = AskKey(self.next);
        // 0 says that nobody waits.
        let correlation = self.random.next_u64() | 1;
        let slot = Slot {
            key,
            correlation,
            deadline,
            event: None,
        };
        self.slots.push(slot).ok()?;
        self.next = self.next.wrapping_add(1);
        Some((key, correlation))
    }

    /// Gives a slot back whose ask was not taken.
    pub(crate) fn remove(&mut self, key: AskKey) {
        self.slots.retain(|slot| slot.key != key);
    }

    /// The answer came. Whether it was waited for.
    pub(crate) fn answer(&mut self, correlation: u64, status: u8, payload: &[u8]) -> bool {
        self.end(correlation, |key| {
            match (status, Vec::from_slice(payload)) {
                (0, Ok(payload)) => Event::Answer(key, payload),
                _ => Event::Failed(key, Failure::Refused(status)),
            }
        })
    }

    /// There will be none. Whether it was waited for.
    pub(crate) fn fail(&mut self, correlation: u64, failure: Failure) -> bool {
        self.end(correlation, |key| Event::Failed(key, failure))
    }

    fn end(&mut self, correlation: u64, event: impl FnOnce(AskKey) -> Event) -> bool {
        let mut slots = self.slots.iter_mut();
        let slot = slots.find(|slot| slot.correlation == correlation && slot.event.is_none());
        slot.is_some_and(|slot| {
            slot.event = Some(event(slot.key));
            true
        })
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for slot in self.slots.iter_mut().filter(|slot| slot.deadline <= now) {
            slot.event
                .get_or_insert(Event::Failed(slot.key, Failure::Timeout));
        }
    }

    pub(crate) fn fail_all(&mut self, failure: Failure) {
        for slot in &mut self.slots {
            slot.event.get_or_insert(Event::Failed(slot.key, failure));
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.slots.iter().filter(|slot| slot.event.is_none());
        waiting.map(|slot| slot.deadline).min()
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        let at = self.slots.iter().position(|slot| slot.event.is_some())?;
        (at < self.slots.len()).then(|| self.slots.remove(at).event)?
    }
}
