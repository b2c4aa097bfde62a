//! Settings of a region.

use core::{fmt, time::Duration};

use super::register::SHARDS_PER_PART;
use crate::micros;

/// Settings of a [`Region`](super::Region).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionConfig {
    pub(super) type_name: &'static str,
    pub(super) shard_count: u32,
    pub(super) shard_hash: u16,
    pub(super) proxy: bool,
    pub(super) retry_interval: Duration,
    pub(super) handoff_timeout: Duration,
    pub(super) drain: Duration,
    pub(super) lease: Duration,
    pub(super) flush_after_lapse: Option<Duration>,
    pub(super) buffer: u32,
    pub(super) buffer_per_shard: u32,
    pub(super) return_window: u32,
    pub(super) storage_id: u64,
    pub(super) remembers: bool,
    pub(super) used: Option<u32>,
    pub(super) seed: u64,
    #[cfg(test)]
    shards_per_part: u32,
}

impl RegionConfig {
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
            proxy: false,
            retry_interval: Duration::from_millis(250),
            handoff_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(8),
            lease: Duration::from_secs(2),
            flush_after_lapse: None,
            buffer: 100_000,
            buffer_per_shard: 10_000,
            return_window: 16_384,
            storage_id: 0,
            remembers: false,
            used: None,
            seed: 0,
            #[cfg(test)]
            shards_per_part: SHARDS_PER_PART,
        }
    }

    /// For a local network and machines without long stalls: repeats every 100 ms, a lease of 500 ms.
    #[must_use]
    pub const fn lan(type_name: &'static str) -> Self {
        Self {
            retry_interval: Duration::from_millis(100),
            lease: Duration::from_millis(500),
            ..Self::new(type_name)
        }
    }

    /// How many shards the type has. Default 256. A constant of the cluster: with another count than the
    /// coordinator's the region is refused. Each costs 64 bytes here.
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

    /// Whether the region only routes and hosts nothing. Default: it hosts.
    #[must_use]
    pub const fn with_proxy(mut self, proxy: bool) -> Self {
        self.proxy = proxy;
        self
    }

    /// After which time what may have been lost is said again: registrations, questions. Default 250 ms. Short costs
    /// frames; long delays what meets a lost frame.
    #[must_use]
    pub const fn with_retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = interval;
        self
    }

    /// How long a handoff may take; the same as the coordinator's. Default 10 s. With `lease` it bounds the wait for
    /// an old home that does not answer: shorter than a real handoff, it reports messages that would have come back.
    #[must_use]
    pub const fn with_handoff_timeout(mut self, timeout: Duration) -> Self {
        self.handoff_timeout = timeout;
        self
    }

    /// How long entities have to stop when the region stops, less than `handoff_timeout`. Default 8 s; what has not
    /// stopped by 80 % of it is aborted. (In a handoff the coordinator says how long.)
    #[must_use]
    pub const fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The cluster's lease. Default 2 s. Only used for how long to wait for an old home; until when the region may
    /// serve is what [`Region::handle_lease`](super::Region::handle_lease) says.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long to wait for an old home whose lease is said to have lapsed. Default: `retry_interval`. Short is a
    /// fast failover, long reports fewer messages when a paused node comes back.
    #[must_use]
    pub const fn with_flush_after_lapse(mut self, wait: Duration) -> Self {
        self.flush_after_lapse = Some(wait);
        self
    }

    /// How many messages the region buffers. Default 100 000, at most what the storage has room for. Buffer slots
    /// beyond it are kept for messages that come back.
    #[must_use]
    pub const fn with_buffer(mut self, messages: u32) -> Self {
        self.buffer = messages;
        self
    }

    /// How many messages the region buffers for one shard. Default 10 000.
    #[must_use]
    pub const fn with_buffer_per_shard(mut self, messages: u32) -> Self {
        self.buffer_per_shard = messages;
        self
    }

    /// How many messages of one shard that come back are taken above `buffer_per_shard`; beyond, they are reported.
    /// Default 16 384, a link's window: as many as can be under way.
    #[must_use]
    pub const fn with_return_window(mut self, messages: u32) -> Self {
        self.return_window = messages;
        self
    }

    /// Identity of the store that the type's entities opened; 0, the default, for none.
    #[must_use]
    pub const fn with_storage_id(mut self, id: u64) -> Self {
        self.storage_id = id;
        self
    }

    /// Whether a store remembers which entities of the type live. The same on every node that hosts it. Default: no.
    #[must_use]
    pub const fn with_remembers(mut self, remembers: bool) -> Self {
        self.remembers = remembers;
        self
    }

    /// How many of the shards are used as long as nobody resized the type, which can then be done
    /// ([`Region::resize`](super::Region::resize)). The same on every node. Default `None`: all, for ever.
    #[must_use]
    pub const fn with_used(mut self, count: Option<u32>) -> Self {
        self.used = count;
        self
    }

    /// Seed of the tokens that name answers. Default 0; take something nobody can guess.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Splits registrations into more parts than they need.
    #[cfg(test)]
    pub(crate) const fn with_shards_per_part(mut self, shards: u32) -> Self {
        assert!(shards > 0 && shards <= SHARDS_PER_PART, "a part has room");
        self.shards_per_part = shards;
        self
    }

    /// How many shards one part of a registration covers.
    pub(super) const fn shards_per_part(&self) -> u32 {
        #[cfg(test)]
        return self.shards_per_part;
        #[cfg(not(test))]
        SHARDS_PER_PART
    }

    /// Name of the entity type.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// See [`RegionConfig::with_shard_count`].
    #[must_use]
    pub const fn shard_count(&self) -> u32 {
        self.shard_count
    }

    /// See [`RegionConfig::with_proxy`].
    #[must_use]
    pub const fn is_proxy(&self) -> bool {
        self.proxy
    }

    /// See [`RegionConfig::with_retry_interval`].
    #[must_use]
    pub const fn retry_interval(&self) -> Duration {
        self.retry_interval
    }

    /// See [`RegionConfig::with_buffer`].
    #[must_use]
    pub const fn buffer(&self) -> u32 {
        self.buffer
    }

    /// Whether the settings go together.
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
        if !is_interval(self.flush_after_lapse()) {
            return Err(ConfigError::FlushAfterLapse);
        }
        if !is_interval(self.handoff_timeout) {
            return Err(ConfigError::HandoffTimeout);
        }
        if !is_interval(self.lease) {
            return Err(ConfigError::Lease);
        }
        if micros(self.drain) >= micros(self.handoff_timeout) {
            return Err(ConfigError::Drain);
        }
        if self.buffer == 0 || self.buffer_per_shard == 0 {
            return Err(ConfigError::Buffer);
        }
        Ok(())
    }

    pub(super) const fn flush_after_lapse(&self) -> Duration {
        match self.flush_after_lapse {
            Some(wait) => wait,
            None => self.retry_interval,
        }
    }
}

/// The largest shard count: indices of the table leave two values for "none".
const MAX_SHARDS: u32 = u32::MAX - 2;

const fn is_interval(interval: Duration) -> bool {
    interval.as_millis() >= 1 && interval.as_millis() <= RegionConfig::MAX_INTERVAL.as_millis()
}

/// Why a [`Region`](super::Region) cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `type_name` is empty or longer than [`RegionConfig::MAX_TYPE_NAME`].
    TypeName,
    /// `shard_count` is zero or does not fit the table's indices.
    ShardCount,
    /// `retry_interval` is below a millisecond or above [`RegionConfig::MAX_INTERVAL`].
    RetryInterval,
    /// `flush_after_lapse` is out of the same range.
    FlushAfterLapse,
    /// `handoff_timeout` is out of the same range.
    HandoffTimeout,
    /// `lease` is out of the same range.
    Lease,
    /// `drain` is not shorter than `handoff_timeout`.
    Drain,
    /// `buffer` or `buffer_per_shard` is zero.
    Buffer,
    /// The storage has fewer shard slots than there are shards.
    ShardStorage {
        /// How many it needs.
        needed: u32,
        /// How many it has.
        found: usize,
    },
    /// The storage has more than 65 534 node slots.
    NodeStorage,
    /// The storage has no buffer slot, or more than 4 294 967 293.
    BufferStorage,
}

impl ConfigError {
    /// The setting to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::TypeName => "type_name",
            Self::ShardCount => "shard_count",
            Self::RetryInterval => "retry_interval",
            Self::FlushAfterLapse => "flush_after_lapse",
            Self::HandoffTimeout => "handoff_timeout",
            Self::Lease => "lease",
            Self::Drain => "drain",
            Self::Buffer => "buffer",
            Self::ShardStorage { .. } | Self::NodeStorage | Self::BufferStorage => "storage",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeName => write!(
                f,
                "type_name must have 1 to {} bytes",
                RegionConfig::MAX_TYPE_NAME
            ),
            Self::ShardCount => write!(f, "shard_count must be between 1 and {MAX_SHARDS}"),
            Self::RetryInterval | Self::FlushAfterLapse | Self::HandoffTimeout | Self::Lease => {
                write!(
                    f,
                    "{} must be between 1 ms and {:?}",
                    self.field(),
                    RegionConfig::MAX_INTERVAL
                )
            }
            Self::Drain => f.write_str("drain must be shorter than handoff_timeout"),
            Self::Buffer => f.write_str("buffer and buffer_per_shard must be at least 1"),
            Self::ShardStorage { needed, found } => write!(
                f,
                "storage has {found} shard slots, shard_count needs {needed}"
            ),
            Self::NodeStorage => f.write_str("storage must have at most 65534 node slots"),
            Self::BufferStorage => {
                f.write_str("storage must have between 1 and 4294967293 buffer slots")
            }
        }
    }
}

impl core::error::Error for ConfigError {}
