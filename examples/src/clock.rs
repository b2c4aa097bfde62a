//! Clocks, and what is made of them.

use shard_proto::Instant;

/// Microseconds since some moment; never goes back. The same in every process.
#[must_use]
pub fn micros() -> u64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        seconds * 1_000_000 + nanos / 1_000
    }
    // The wall clock is the only one that processes share here; nobody should set it meanwhile.
    #[cfg(not(unix))]
    {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
    }
}

/// The time for a core. Where the system can tell, it goes on while the machine sleeps: leases must run out then, too.
#[must_use]
pub fn boot() -> Instant {
    #[cfg(target_os = "linux")]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Instant::from_micros(seconds * 1_000_000 + nanos / 1_000)
    }
    #[cfg(not(target_os = "linux"))]
    Instant::from_micros(micros())
}

/// The wall clock: time since 1970.
#[must_use]
pub fn wall() -> core::time::Duration {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    since.unwrap_or_default()
}

/// 64 bits that nobody can guess.
#[must_use]
pub fn random() -> u64 {
    use core::hash::BuildHasher;
    // The standard library keys its hash maps from the system's source of randomness.
    std::collections::hash_map::RandomState::new().hash_one(wall())
}
