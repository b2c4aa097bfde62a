//! Asks of this node that wait for another one.
//!
//! A slab whose slots are in up to two intrusive lists: one bucket of a timer wheel, or the failed ones; and those that
//! were sent to one peer. So everything here is O(1), and a failing peer costs nothing per ask until it is reported.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;

use super::{Ask, AskFailure, AskKey};
use crate::Instant;
use crate::hash::SplitMix64;
use crate::table::list::{Link, Linked, List};

/// Buckets of the wheel.
const BUCKETS: u64 = 1024;
/// Width of a bucket: `1 << TICK` microseconds, 8.2 ms. A deadline is never early, and at most this late. Deadlines
/// beyond the horizon (8.4 s) wait in the last bucket and are put back when it comes.
const TICK: u32 = 13;
const WORDS: usize = (BUCKETS / 64) as usize;
/// Slots that one call of [`Asks::expire`] looks at.
const BATCH: u32 = 1024;
/// Bucket of a slot that is in no bucket.
const NO_BUCKET: u16 = u16::MAX;
/// Peer of an ask that was not sent, or came back.
const NO_PEER: u16 = u16::MAX;

/// Class of the lists that time is kept in; also of the free list and the failed ones.
#[derive(Debug)]
enum Time {}
/// Class of the lists by peer.
#[derive(Debug)]
enum Peer {}

#[derive(Debug)]
struct Slot {
    correlation: u64,
    ask: Ask,
    bucket: u16,
    peer: u16,
    failure: AskFailure,
    time: Link,
    to: Link,
}

impl Linked<Time> for Slot {
    fn link(&self) -> &Link {
        &self.time
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.time
    }
}

impl Linked<Peer> for Slot {
    fn link(&self) -> &Link {
        &self.to
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.to
    }
}

/// Correlations are random already, and this node made them: they are their own hash.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Random(u64);

impl Hasher for Random {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[derive(Debug)]
pub(super) struct Asks {
    slots: Vec<Slot>,
    free: List<Time>,
    failed: List<Time>,
    by_correlation: HashMap<u64, u32, BuildHasherDefault<Random>>,
    buckets: Box<[List<Time>]>,
    occupied: [u64; WORDS],
    /// The first tick that has not been looked at.
    cursor: u64,
    by_peer: Vec<List<Peer>>,
    limit: u32,
    random: [SplitMix64; 2],
}

impl Asks {
    pub(super) fn new(now: Instant, seed: u64, limit: u32) -> Self {
        let mut random = SplitMix64::new(seed);
        let streams = [random.next_u64(), random.next_u64()];
        Self {
            slots: Vec::new(),
            free: List::new(),
            failed: List::new(),
            by_correlation: HashMap::default(),
            buckets: core::iter::repeat_n(List::new(), WORDS * 64).collect(),
            occupied: [0; WORDS],
            cursor: now.as_micros() >> TICK,
            by_peer: Vec::new(),
            limit,
            random: streams.map(SplitMix64::new),
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.by_correlation.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.limit as usize
    }

    /// Starts to wait. `None`: the limit is reached.
    pub(super) fn insert(&mut self, ask: Ask) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let correlation = self.correlation();
        let slot = Slot {
            correlation,
            ask,
            bucket: NO_BUCKET,
            peer: NO_PEER,
            failure: AskFailure::Timeout,
            time: Link::UNLINKED,
            to: Link::UNLINKED,
        };
        let index = match self.free.pop_front(&mut self.slots) {
            Some(index) => {
                *self.slots.get_mut(index as usize)? = slot;
                index
            }
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(slot);
                index
            }
        };
        self.by_correlation.insert(correlation, index);
        self.schedule(index, ask.deadline);
        Some(correlation)
    }

    /// Two streams, so that who sees a correlation cannot compute the next.
    fn correlation(&mut self) -> u64 {
        let [a, b] = &mut self.random;
        loop {
            let key = a.next_u64();
            let number = key ^ b.next_u64().wrapping_mul(key | 1).rotate_left(32);
            if number != 0 && !self.by_correlation.contains_key(&number) {
                return number;
            }
        }
    }

    fn schedule(&mut self, index: u32, deadline: Instant) {
        let last = self.cursor.saturating_add(BUCKETS - 1);
        let width = 1u64 << TICK;
        let tick = (deadline.as_micros() / width)
            .saturating_add(u64::from(!deadline.as_micros().is_multiple_of(width)))
            .clamp(self.cursor, last);
        let bucket = tick % BUCKETS;
        if let Some(list) = self.buckets.get_mut(bucket as usize) {
            list.push_back(&mut self.slots, index);
        }
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.bucket = bucket as u16;
        }
        if let Some(word) = self.occupied.get_mut((bucket / 64) as usize) {
            *word |= 1 << (bucket % 64);
        }
    }

    /// Takes a slot out of its bucket, or of the failed ones.
    fn unschedule(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let bucket = usize::from(slot.bucket);
        slot.bucket = NO_BUCKET;
        let Some(list) = self.buckets.get_mut(bucket) else {
            self.failed.remove(&mut self.slots, index);
            return;
        };
        list.remove(&mut self.slots, index);
        if list.is_empty()
            && let Some(word) = self.occupied.get_mut(bucket / 64)
        {
            *word &= !(1 << (bucket % 64));
        }
    }

    fn detach_peer(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize) {
            let peer = core::mem::replace(&mut slot.peer, NO_PEER);
            if let Some(list) = self.by_peer.get_mut(usize::from(peer)) {
                list.remove(&mut self.slots, index);
            }
        }
    }

    /// The ask was sent to the member in this slot of the table; only that one may answer.
    pub(super) fn sent(&mut self, correlation: u64, peer: u16) {
        let Some(&index) = self.by_correlation.get(&correlation) else {
            return;
        };
        self.detach_peer(index);
        if self.by_peer.len() <= usize::from(peer) {
            self.by_peer
                .resize(usize::from(peer).saturating_add(1), List::new());
        }
        if let Some(list) = self.by_peer.get_mut(usize::from(peer))
            && list.push_back(&mut self.slots, index)
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            slot.peer = peer;
        }
    }

    /// The ask, if an answer of `peer` is waited for.
    pub(super) fn waits_for(&self, correlation: u64, peer: u16) -> Option<Ask> {
        let &index = self.by_correlation.get(&correlation)?;
        let slot = self.slots.get(index as usize)?;
        (slot.peer == peer).then_some(slot.ask)
    }

    /// The message of the ask came back from `peer`. `Some` if somebody still waits for it.
    pub(super) fn came_back(&mut self, correlation: u64, peer: u16) -> Option<Ask> {
        let ask = self.waits_for(correlation, peer)?;
        let &index = self.by_correlation.get(&correlation)?;
        self.detach_peer(index);
        Some(ask)
    }

    /// Ends the wait. `None` if it was over.
    pub(super) fn take(&mut self, correlation: u64) -> Option<Ask> {
        let index = self.by_correlation.remove(&correlation)?;
        self.unschedule(index);
        self.detach_peer(index);
        let ask = self.slots.get(index as usize)?.ask;
        self.free.push_back(&mut self.slots, index);
        Some(ask)
    }

    /// Ends the wait with an answer of `peer`. `None` if nobody waits for an answer of that one.
    pub(super) fn answered(&mut self, correlation: u64, peer: u16) -> Option<Ask> {
        self.waits_for(correlation, peer)?;
        self.take(correlation)
    }

    fn fail(&mut self, index: u32, failure: AskFailure) {
        self.unschedule(index);
        self.detach_peer(index);
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.failure = failure;
            let correlation = slot.correlation;
            self.by_correlation.remove(&correlation);
            self.failed.push_back(&mut self.slots, index);
        }
    }

    /// The life of a peer ended: what it was asked has no answer.
    pub(super) fn peer_ended(&mut self, peer: u16) {
        while let Some(index) = self.by_peer.get(usize::from(peer)).and_then(List::front) {
            self.fail(index, AskFailure::PerhapsDelivered);
        }
    }

    /// Nothing is answered any more.
    pub(super) fn fail_all(&mut self, failure: AskFailure) {
        for bucket in 0..self.buckets.len() {
            while let Some(index) = self.buckets.get(bucket).and_then(List::front) {
                self.fail(index, failure);
            }
        }
    }

    /// Fails what is due, a bounded batch.
    pub(super) fn expire(&mut self, now: Instant) {
        let due = now.as_micros() >> TICK;
        for _ in 0..BATCH {
            let Some(tick) = self.next_tick().filter(|tick| *tick <= due) else {
                self.cursor = self.cursor.max(due.saturating_add(1));
                return;
            };
            self.cursor = self.cursor.max(tick);
            let bucket = (tick % BUCKETS) as usize;
            let Some(index) = self.buckets.get(bucket).and_then(List::front) else {
                return;
            };
            let Some(deadline) = self.slots.get(index as usize).map(|slot| slot.ask.deadline)
            else {
                return;
            };
            if deadline <= now {
                self.fail(index, AskFailure::Timeout);
            } else {
                self.unschedule(index);
                self.cursor = self.cursor.max(tick.saturating_add(u64::from(
                    self.buckets.get(bucket).is_some_and(List::is_empty),
                )));
                self.schedule(index, deadline);
            }
        }
    }

    /// The first tick of the wheel, from the cursor on, in which something waits.
    fn next_tick(&self) -> Option<u64> {
        let start = self.cursor % BUCKETS;
        let first = (start / 64) as usize;
        for step in 0..=WORDS {
            let word = first.wrapping_add(step) % WORDS;
            let mut bits = *self.occupied.get(word)?;
            let mask = u64::MAX.wrapping_shl((start % 64) as u32);
            if step == 0 {
                bits &= mask;
            } else if step == WORDS {
                bits &= !mask;
            }
            if bits != 0 {
                let bucket = (word as u64)
                    .wrapping_mul(64)
                    .wrapping_add(u64::from(bits.trailing_zeros()));
                let distance = bucket.wrapping_sub(start) % BUCKETS;
                return Some(self.cursor.saturating_add(distance));
            }
        }
        None
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let tick = self.next_tick()?;
        Some(Instant::from_micros(tick.saturating_mul(1 << TICK)))
    }

    /// The next ask to report as failed.
    pub(super) fn poll_failed(&mut self) -> Option<(AskKey, AskFailure)> {
        let index = self.failed.pop_front(&mut self.slots)?;
        let slot = self.slots.get(index as usize)?;
        let failed = (slot.ask.key, slot.failure);
        self.free.push_back(&mut self.slots, index);
        Some(failed)
    }
}

#[cfg(test)]
impl Asks {
    /// What a liar cannot know.
    pub(super) fn any_correlation(&self) -> Option<u64> {
        self.by_correlation.keys().next().copied()
    }
}
