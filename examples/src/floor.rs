//! What this machine can do without sharding: the floor that our figures stand on.

pub mod channel;
pub mod tcp;

use core::time::Duration;
use std::time::Instant;

/// How many operations a second.
pub(crate) fn per_second(operations: u64, took: Duration) -> f64 {
    operations as f64 / took.as_secs_f64().max(1e-9)
}

/// How long something takes.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// How long something takes that waits.
pub(crate) async fn timed_async<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let result = work.await;
    (result, start.elapsed())
}
