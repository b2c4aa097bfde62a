//! Time for the core.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use shard_proto::{Incarnation, Instant, Term};

/// A monotonic clock that counts suspend where the system has one: a lease must run out while the machine sleeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    #[cfg(not(target_os = "linux"))]
    start: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            start: std::time::Instant::now(),
        }
    }

    #[cfg(target_os = "linux")]
    #[expect(clippy::unused_self, reason = "other systems need an origin")]
    pub(crate) fn now(&self) -> Instant {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Instant::from_micros(seconds * 1_000_000 + nanos / 1_000)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO.after(self.start.elapsed())
    }

    /// Another one after 10 ms at the latest, also for a process that was stopped meanwhile. `None`: the system has
    /// none.
    #[cfg(target_os = "linux")]
    #[inline]
    #[expect(clippy::unused_self, reason = "other systems need an origin")]
    pub(crate) fn tick(&self) -> Option<Tick> {
        let tick = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Some(Tick(tick.tv_sec, tick.tv_nsec))
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on other systems")]
    pub(crate) fn tick(&self) -> Option<Tick> {
        None
    }
}

/// The kernel's tick, much cheaper to read than the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick(i64, i64);

fn wall_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, shard_proto::micros)
}

/// This life of a node, unless the application says otherwise.
pub(crate) fn incarnation() -> Incarnation {
    Incarnation(wall_micros())
}

/// The highest life of another node that can be: one that begins when its clock, which may be ahead, shows that time.
pub(crate) fn incarnation_limit(ahead: Duration) -> Incarnation {
    Incarnation(wall_micros().saturating_add(shard_proto::micros(ahead)))
}

/// The floor of terms: the wall clock in 1/16 s.
pub(crate) fn term_floor() -> Term {
    Term(wall_micros() / 62_500)
}

/// 64 bits that nobody can guess.
pub(crate) fn random_seed() -> u64 {
    use core::hash::BuildHasher;
    // The standard library keys its hash maps from the system's source of randomness.
    std::collections::hash_map::RandomState::new().hash_one(wall_micros())
}
