//! What a coordinator counted.

/// Counters since the coordinator was made; they wrap never and saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoordinatorStats {
    /// Shards given a home.
    pub allocations: u64,
    /// Homes taken over from claims.
    pub claims_taken: u64,
    /// Claims not believed; their regions were told to give the shard up.
    pub claims_lost: u64,
    /// Handoffs begun.
    pub handoffs: u64,
    /// Handoffs completed.
    pub completions: u64,
    /// Completions in which something was aborted.
    pub forced_completions: u64,
    /// Handoffs that were not completed in time.
    pub handoff_timeouts: u64,
    /// Shards whose owner's session ended.
    pub lapses: u64,
    /// Rounds of the strategy.
    pub rebalances: u64,
    /// Registrations completed.
    pub registrations: u64,
    /// Regions refused. Worth a warning.
    pub refusals: u64,
    /// Regions that opened another store than the rest of their type. Worth a warning.
    pub storage_mismatches: u64,
    /// Frames of senders that are no members or have no registered region, out of range, malformed, or not for a
    /// coordinator. Worth a warning.
    pub dropped: u64,
    /// Late, doubled or foreign frames that were ignored.
    pub ignored: u64,
    /// The strategy named a node that is no candidate: a fault of the strategy.
    pub bad_choices: u64,
}

/// Adds one.
pub(super) const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

/// What a coordinator is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a phase nobody handles must not compile"
)]
pub enum CoordPhase {
    /// Another node leads, or nobody. Members are noted, nothing else happens.
    #[default]
    Idle,
    /// Regions register and claims are taken. Nothing else is said: whether this node leads is not decided yet.
    Recovering,
    /// Homes are told and shards handed off; what nobody claims waits for the barrier.
    Acting,
    /// Everything is allocated.
    Open,
}

/// What the coordinator knows of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a state nobody handles must not compile"
)]
pub enum CoordShardState {
    /// Nobody's.
    Unallocated,
    /// Has a home.
    Allocated {
        /// The home said that it serves the shard, or claimed it.
        started: bool,
    },
    /// Its owner was told to give it up.
    HandingOff,
}
