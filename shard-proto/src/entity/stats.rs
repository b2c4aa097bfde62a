//! What the entities of a type counted.

/// Counters since they were made; they saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntityStats {
    /// Tasks started.
    pub starts: u64,
    /// ... of remembered entities, without a message.
    pub starts_remembered: u64,
    /// ... of entities that had failed.
    pub restarts: u64,
    /// Tasks that failed.
    pub failures: u64,
    /// Starts given up, since they took too long and the entity was to go.
    pub starts_given_up: u64,
    /// Entities that failed too often.
    pub parked: u64,
    /// ... and were forgotten early, since more than `max_entities` were parked.
    pub parked_forgotten: u64,
    /// Entities passivated since they were not used.
    pub passivated_idle: u64,
    /// Entities passivated since there were too many.
    pub passivated_limit: u64,
    /// Entities passivated since they, or somebody, asked for it.
    pub passivated_asked: u64,
    /// Messages kept for entities without a mailbox.
    pub kept: u64,
    /// Messages that tasks handed back.
    pub handed_back: u64,
    /// Messages given back to the region.
    pub given_back: u64,
    /// Messages refused: their shard does not run here.
    pub refused_not_hosted: u64,
    /// Messages refused: too many entities.
    pub refused_too_many: u64,
    /// ... because of the bytes of their ids.
    pub refused_key_bytes: u64,
    /// Messages refused: too many are kept.
    pub refused_keep_full: u64,
    /// Messages refused or rejected: their entity is parked.
    pub refused_parked: u64,
    /// Tasks aborted.
    pub aborted: u64,
    /// Tasks given up.
    pub abandoned: u64,
    /// Remembered ids not taken: there were too many of them, or their shard does not run here.
    pub remembered_refused: u64,
    /// Times the store could not write what it was told.
    pub record_failures: u64,
}

pub(super) const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
