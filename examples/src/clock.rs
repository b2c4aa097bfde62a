//! A clock that all processes of this machine share.

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
