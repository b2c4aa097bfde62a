//! The coordinator as its node sees it.

use super::{
    ConfigError, ControlError, CoordPhase, CoordShardState, CoordinatorCommand, CoordinatorConfig,
    CoordinatorStats,
};
use crate::{
    Home, Instant, NodeId, ShardId, Term,
    allocation::AllocationStrategy,
    membership::{MemberChange, NodesFull},
    table::CoordinatorStorage,
    wire::Control,
};

/// Decides which node is the home of each shard of one entity type.
#[derive(Debug)]
pub struct Coordinator<A, S> {
    config: CoordinatorConfig,
    strategy: A,
    storage: S,
    stats: CoordinatorStats,
}

impl<A: AllocationStrategy, S: CoordinatorStorage> Coordinator<A, S> {
    /// A coordinator of a node that does not lead yet. Empties the tables. O(shards + nodes).
    ///
    /// # Errors
    /// [`ConfigError`]: a setting, or a storage too small for the settings.
    pub fn new(
        _now: Instant,
        config: CoordinatorConfig,
        strategy: A,
        storage: S,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            config,
            strategy,
            storage,
            stats: CoordinatorStats::default(),
        })
    }

    /// This node leads under a fresh term: from here on claims are taken and homes told. O(shards + nodes).
    pub fn begin(&mut self, _now: Instant, _term: Term) {}

    /// Every lease of a predecessor is over: what nobody claims may be allocated.
    pub fn open_barrier(&mut self, _now: Instant) {}

    /// The reign is over: everything is forgotten except the members.
    pub fn end(&mut self, _now: Instant) {}

    /// The view changed. Also while this node does not lead.
    ///
    /// # Errors
    /// [`NodesFull`]: the member has no slot and gets no shards; state is unchanged.
    pub fn handle_member(&mut self, _now: Instant, _change: MemberChange) -> Result<(), NodesFull> {
        Ok(())
    }

    /// A control frame of a region. `from` is the authenticated peer, `term` is in the frame's header.
    ///
    /// # Errors
    /// [`ControlError`]: dropped, state is unchanged except for what [`ControlError::Refused`] says.
    pub fn handle_control(
        &mut self,
        _now: Instant,
        _from: NodeId,
        _term: Term,
        _control: &Control<'_>,
    ) -> Result<(), ControlError> {
        Ok(())
    }

    /// The node's lease is over for sure: its session ends, its shards are allocated anew.
    pub fn handle_lapsed(&mut self, _now: Instant, _node: NodeId) {}

    /// Does a bounded batch of what is due; [`Self::poll_timeout`] stays due if more is left.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// When to call [`Self::handle_timeout`]. A time that has passed: now. O(1).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// What the node shall do next; poll until `None`. O(1).
    pub fn poll_command(&mut self) -> Option<CoordinatorCommand<'_>> {
        None
    }

    /// Where a shard lives; `None` while it has no home, or is being handed off.
    #[must_use]
    pub fn home(&self, _shard: ShardId) -> Option<Home> {
        None
    }

    /// State of a shard; `None` out of range.
    #[must_use]
    pub fn shard_state(&self, _shard: ShardId) -> Option<CoordShardState> {
        None
    }

    /// How many shards a node owns, those being handed off included.
    #[must_use]
    pub fn owned_by(&self, _node: NodeId) -> u32 {
        0
    }

    /// What this coordinator is doing.
    #[must_use]
    pub fn phase(&self) -> CoordPhase {
        CoordPhase::Idle
    }

    /// The reign, while there is one.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        None
    }

    /// How many shards are being handed off.
    #[must_use]
    pub fn moves_in_flight(&self) -> u32 {
        0
    }

    /// What was counted since [`Self::new`].
    #[must_use]
    pub fn stats(&self) -> &CoordinatorStats {
        &self.stats
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// The strategy, for instance to change what is pinned. Call [`Self::rebalance`] afterwards.
    pub fn strategy_mut(&mut self) -> &mut A {
        &mut self.strategy
    }

    /// Lets the strategy look for moves at the next [`Self::handle_timeout`], which is due at once.
    pub fn rebalance(&mut self, _now: Instant) {
        let _ = self.storage.tables();
    }
}
