//! Settings of a coordinator.

use core::{fmt, time::Duration};

use super::KeepShards;
use crate::micros;

/// What to do with a region that opened another store than the other regions of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StorageMismatch {
    /// Refuse it: its entities would recover another history.
    #[default]
    Refuse,
    /// Count it in [`CoordinatorStats::storage_mismatches`](super::CoordinatorStats::storage_mismatches) and register it.
    Warn,
}

/// Settings of a [`Coordinator`](super::Coordinator); the same on every node that may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorConfig {
    pub(super) type_name: &'static str,
    pub(super) shard_count: u32,
    pub(super) shard_hash: u16,
    pub(super) role: u32,
    pub(super) retry_interval: Duration,
    pub(super) rebalance_interval: Duration,
    pub(super) handoff_timeout: Duration,
    pub(super) drain: Duration,
    pub(super) announce_interval: Duration,
    pub(super) storage_mismatch: StorageMismatch,
    pub(super) trust: bool,
    pub(super) keep: KeepShards,
}

impl CoordinatorConfig {
    /// The longest name of an entity type, in bytes.
    pub const MAX_TYPE_NAME: usize = 64;
    /// The longest interval or timeout: a day.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

    /// The defaults, for networks and machines with hiccups of a second.
    #[must_use]
    pub const fn new(type_name: &'static str) -> Self {
        Self {
            type_name,
            shard_count: 256,
            shard_hash: 0,
            role: 0,
            retry_interval: Duration::from_millis(250),
            rebalance_interval: Duration::from_secs(2),
            handoff_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(8),
            announce_interval: Duration::from_millis(50),
            storage_mismatch: StorageMismatch::Refuse,
            trust: true,
            keep: KeepShards::Asked,
        }
    }

    /// For a local network and machines without long stalls: repeats every 100 ms.
    #[must_use]
    pub const fn lan(type_name: &'static str) -> Self {
        Self {
            retry_interval: Duration::from_millis(100),
            ..Self::new(type_name)
        }
    }

    /// How many shards the type has. Default 256. A constant of the cluster: a region with another count is refused.
    /// Fewer than ten per node spread unevenly; each costs 64 bytes here.
    #[must_use]
    pub const fn with_shard_count(mut self, shards: u32) -> Self {
        self.shard_count = shards;
        self
    }

    /// How ids become shards: [`ShardHash::id`](crate::hash::ShardHash::id), or a number of your own from 256. Default 0.
    /// A constant of the cluster: a region with another one is refused.
    #[must_use]
    pub const fn with_shard_hash(mut self, id: u16) -> Self {
        self.shard_hash = id;
        self
    }

    /// The role a node must have to host shards ([`crate::hash::role_id`]). Default 0: any node.
    #[must_use]
    pub const fn with_role(mut self, role: u32) -> Self {
        self.role = role;
        self
    }

    /// After how long what was not confirmed is sent again, and a shard without a fitting node is tried again.
    /// Default 250 ms. Short costs frames, long delays what follows a lost frame.
    #[must_use]
    pub const fn with_retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = interval;
        self
    }

    /// How often the strategy looks for moves without any other cause. Default 2 s.
    #[must_use]
    pub const fn with_rebalance_interval(mut self, interval: Duration) -> Self {
        self.rebalance_interval = interval;
        self
    }

    /// How long a handoff may take before its owner is given up. Default 10 s; must be longer than `drain`. What is
    /// slower loses its node; long values delay the messages of a shard on a hung node.
    #[must_use]
    pub const fn with_handoff_timeout(mut self, timeout: Duration) -> Self {
        self.handoff_timeout = timeout;
        self
    }

    /// How long entities have to stop when their shard is handed off. Default 8 s.
    #[must_use]
    pub const fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// How long changes of homes are collected before they are announced together. Default 50 ms. The first change
    /// after a quiet time is announced at once.
    #[must_use]
    pub const fn with_announce_interval(mut self, interval: Duration) -> Self {
        self.announce_interval = interval;
        self
    }

    /// What to do with a region of another store. Default [`StorageMismatch::Refuse`].
    #[must_use]
    pub const fn with_storage_mismatch(mut self, mismatch: StorageMismatch) -> Self {
        self.storage_mismatch = mismatch;
        self
    }

    /// Whether membership is believed instead of leases. Default `true`: shards of a removed member, and a shard whose
    /// handoff timed out, are allocated anew at once. `false`: only when the owner's lease is over.
    #[must_use]
    pub const fn with_trust(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    /// Which shards have homes without being asked for. Default [`KeepShards::Asked`]: none. The same on every
    /// node. Those that are kept are allocated as soon as the barrier is open and a node may host them, so that each costs
    /// a grant at every start of a cluster, and its host whatever a served shard costs there.
    #[must_use]
    pub const fn with_keep(mut self, keep: KeepShards) -> Self {
        self.keep = keep;
        self
    }

    /// See [`Self::with_trust`].
    #[must_use]
    pub const fn trusts_membership(&self) -> bool {
        self.trust
    }

    /// The name of the entity type.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// How many shards the type has.
    #[must_use]
    pub const fn shard_count(&self) -> u32 {
        self.shard_count
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`ConfigError`], which names the setting.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.type_name.is_empty() || self.type_name.len() > Self::MAX_TYPE_NAME {
            return Err(ConfigError::TypeName);
        }
        if self.shard_count == 0 || self.shard_count > MAX_SHARDS {
            return Err(ConfigError::ShardCount);
        }
        if !is_interval(self.retry_interval) {
            return Err(ConfigError::RetryInterval);
        }
        if !is_interval(self.rebalance_interval) {
            return Err(ConfigError::RebalanceInterval);
        }
        if !is_interval(self.announce_interval) {
            return Err(ConfigError::AnnounceInterval);
        }
        if !is_interval(self.handoff_timeout) {
            return Err(ConfigError::HandoffTimeout);
        }
        if micros(self.drain) >= micros(self.handoff_timeout) {
            return Err(ConfigError::Drain);
        }
        Ok(())
    }
}

/// The largest shard count: indices of the table leave two values for "none".
const MAX_SHARDS: u32 = u32::MAX - 2;

const fn is_interval(interval: Duration) -> bool {
    interval.as_millis() >= 1 && interval.as_millis() <= CoordinatorConfig::MAX_INTERVAL.as_millis()
}

/// Why a [`Coordinator`](super::Coordinator) cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `type_name` is empty or longer than [`CoordinatorConfig::MAX_TYPE_NAME`].
    TypeName,
    /// `shard_count` is zero or does not fit the table's indices.
    ShardCount,
    /// `retry_interval` is below a millisecond or above [`CoordinatorConfig::MAX_INTERVAL`].
    RetryInterval,
    /// `rebalance_interval` is out of the same range.
    RebalanceInterval,
    /// `announce_interval` is out of the same range.
    AnnounceInterval,
    /// `handoff_timeout` is out of the same range.
    HandoffTimeout,
    /// `drain` is not shorter than `handoff_timeout`.
    Drain,
    /// The storage has fewer shard slots than there are shards.
    ShardStorage {
        /// How many it needs.
        needed: u32,
        /// How many it has.
        found: usize,
    },
    /// The storage has no node slot, more than 65 534, or fewer candidates than node slots.
    NodeStorage,
}

impl ConfigError {
    /// The setting to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::TypeName => "type_name",
            Self::ShardCount => "shard_count",
            Self::RetryInterval => "retry_interval",
            Self::RebalanceInterval => "rebalance_interval",
            Self::AnnounceInterval => "announce_interval",
            Self::HandoffTimeout => "handoff_timeout",
            Self::Drain => "drain",
            Self::ShardStorage { .. } | Self::NodeStorage => "storage",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeName => write!(
                f,
                "type_name must have 1 to {} bytes",
                CoordinatorConfig::MAX_TYPE_NAME
            ),
            Self::ShardCount => write!(f, "shard_count must be between 1 and {MAX_SHARDS}"),
            Self::RetryInterval
            | Self::RebalanceInterval
            | Self::AnnounceInterval
            | Self::HandoffTimeout => write!(
                f,
                "{} must be between 1 ms and {:?}",
                self.field(),
                CoordinatorConfig::MAX_INTERVAL
            ),
            Self::Drain => f.write_str("drain must be shorter than handoff_timeout"),
            Self::ShardStorage { needed, found } => write!(
                f,
                "storage has {found} shard slots, shard_count needs {needed}"
            ),
            Self::NodeStorage => {
                f.write_str("storage must have 1 to 65534 node slots and as many candidates")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
