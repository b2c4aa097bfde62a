//! Writes that are tried again while the store is unavailable.

use core::time::Duration;
use std::time::Instant;

use shard_proto::hash::mix;

use super::counters::{Counters, add};
use crate::runtime::Handle;
use crate::store::StoreError;

/// The first pause and the longest one.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a write is tried before the entity fails. Askers wait for as long, unless told otherwise.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The pauses of one write.
pub(super) struct Retry<'a> {
    runtime: &'a Handle,
    counters: &'a Counters,
    began: Option<Instant>,
    pause: Duration,
    seed: u64,
}

impl<'a> Retry<'a> {
    pub(super) const fn new(runtime: &'a Handle, counters: &'a Counters, seed: u64) -> Self {
        Self {
            runtime,
            counters,
            began: None,
            pause: PAUSE.0,
            seed,
        }
    }

    /// Waits if it is worth a try again; gives the error back if not.
    pub(super) async fn after(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !matches!(error, StoreError::Unavailable(_)) {
            return Err(error);
        }
        let now = self.runtime.now();
        let began = *self.began.get_or_insert(now);
        if now.duration_since(began) + self.pause > PATIENCE {
            return Err(error);
        }
        add(&self.counters.retried, 1);
        tracing::debug!(%error, "a write is tried again");
        self.seed = mix(self.seed);
        // Half fixed, half random, so that what failed together does not come back together.
        let chance = (self.seed % 512) as f64;
        let pause = self.pause.mul_f64((512.0 + chance) / 1024.0);
        self.runtime.sleep(pause).await;
        self.pause = (self.pause * 2).min(PAUSE.1);
        Ok(())
    }
}
