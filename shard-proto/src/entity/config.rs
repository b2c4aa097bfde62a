//! Settings of the entities of a type.

use core::{fmt, time::Duration};

use super::Passivation;
use crate::micros;

/// How fast remembered entities are started when their shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartRate {
    /// As fast as commands are polled.
    AtOnce,
    /// At most so many in each interval, of all shards together.
    PerInterval {
        /// How many; at least 1.
        count: u32,
        /// How often; 1 ms to a day.
        interval: Duration,
    },
}

impl Default for StartRate {
    /// 1000 per 100 ms.
    fn default() -> Self {
        Self::PerInterval {
            count: 1000,
            interval: Duration::from_millis(100),
        }
    }
}

/// Settings of [`Entities`](super::Entities).
#[derive(Clone, Debug, PartialEq)]
pub struct EntityConfig {
    pub(super) passivate_after: Duration,
    pub(super) max_entities: u32,
    pub(super) passivation: Passivation,
    pub(super) max_key_bytes: u64,
    pub(super) keep: u32,
    pub(super) keep_per_shard: u32,
    pub(super) pause: (Duration, Duration),
    pub(super) start_limit: Duration,
    pub(super) max_restarts: u32,
    pub(super) restart_window: Duration,
    pub(super) start_rate: StartRate,
    pub(super) remember: bool,
    pub(super) seed: u64,
}

impl EntityConfig {
    /// The longest pause, interval or window: a day.
    pub const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
    /// The most that [`EntityConfig::with_max_entities`] takes: 2^28.
    pub const MAX_ENTITIES: u32 = 1 << 28;
    /// The most that [`EntityConfig::with_keep`] takes: 2^30.
    pub const MAX_KEEP: u32 = 1 << 30;

    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            passivate_after: Duration::from_secs(5 * 60),
            max_entities: 1_000_000,
            passivation: Passivation::default(),
            max_key_bytes: 1 << 30,
            keep: 100_000,
            keep_per_shard: 10_000,
            pause: (Duration::from_millis(10), Duration::from_secs(10)),
            start_limit: Duration::from_millis(6400),
            max_restarts: 10,
            restart_window: Duration::from_secs(60),
            start_rate: StartRate::default(),
            remember: false,
            seed: 0,
        }
    }

    /// After which time without use an entity is passivated. Default 5 minutes; zero is never. Short costs starts,
    /// long costs memory, up to `max_entities`.
    #[must_use]
    pub const fn with_passivate_after(mut self, idle: Duration) -> Self {
        self.passivate_after = idle;
        self
    }

    /// How many entities of the type live on the node at once. Default 1 000 000; at most
    /// [`EntityConfig::MAX_ENTITIES`]. For one more, another one is passivated, which `passivation` picks. Those that
    /// are still stopping, or wait for a restart or the store, come on top, up to as many again; beyond that messages
    /// to entities that do not live are refused. Remembered entities that wait for their turn are not counted, but
    /// there are at most `max_entities` of them; the same holds for parked ones. Each entity costs about 120 bytes here, most of its cost is its
    /// task; what is passivated costs nothing but the memory that was reserved for as many as there have ever been.
    #[must_use]
    pub const fn with_max_entities(mut self, entities: u32) -> Self {
        self.max_entities = entities;
        self
    }

    /// Who is passivated beyond `max_entities`. Default: [`Passivation::LeastRecentlyUsed`].
    #[must_use]
    pub fn with_passivation(mut self, passivation: Passivation) -> Self {
        self.passivation = passivation;
        self
    }

    /// How many bytes the ids of all entities have that are known here: that live, stop, are parked, or wait for
    /// something. Default 1 GiB, the default `max_entities` with 1 KiB each; ids may have 64 KiB. One that finds no room is
    /// [refused](super::Refusal::TooMany) until others have gone: nobody is passivated for it. Less than the longest id
    /// there is, and that one is never started.
    #[must_use]
    pub const fn with_max_key_bytes(mut self, bytes: u64) -> Self {
        self.max_key_bytes = bytes;
        self
    }

    /// How many messages are kept for entities that have no mailbox: they start, stop, wait for a restart or for the
    /// store. Default 100 000; at most [`EntityConfig::MAX_KEEP`]. What tasks hand back comes on top, and so does the
    /// message that an entity is started for.
    #[must_use]
    pub const fn with_keep(mut self, messages: u32) -> Self {
        self.keep = messages;
        self
    }

    /// The same for one shard. Default 10 000.
    #[must_use]
    pub const fn with_keep_per_shard(mut self, messages: u32) -> Self {
        self.keep_per_shard = messages;
        self
    }

    /// How often an entity is restarted within which time; beyond, it is parked: for that time its messages are
    /// refused, later one starts it again. Default 10 in 60 s. 0 parks at the first failure. If more than
    /// `max_entities` are parked, the one that was parked first is forgotten early: a message starts it again.
    #[must_use]
    pub const fn with_restarts(mut self, max: u32, window: Duration) -> Self {
        self.max_restarts = max;
        self.restart_window = window;
        self
    }

    /// The first and the longest pause before a failed entity is started again, and before the store is asked again.
    /// Default 10 ms and 10 s. It doubles with each failure; half of it is random. A short one makes what fails always
    /// cost more, a long one delays what failed once.
    #[must_use]
    pub const fn with_pause(mut self, first: Duration, longest: Duration) -> Self {
        self.pause = (first, longest);
        self
    }

    /// How long an entity that is to be passivated, since there are too many or somebody asked for it, may go on with
    /// its start. Then its mailbox is closed, which has to end the start, and that counts as a failure. Default 6.4 s,
    /// the time that entities of a shard that stops have before they are aborted. A short one fails slow starts when
    /// there are too many entities; a long one lets starts that hang take up room.
    #[must_use]
    pub const fn with_start_limit(mut self, limit: Duration) -> Self {
        self.start_limit = limit;
        self
    }

    /// How fast remembered entities are started. Default 1000 per 100 ms. Messages to one of them start it at once,
    /// whatever the rate.
    #[must_use]
    pub const fn with_start_rate(mut self, rate: StartRate) -> Self {
        self.start_rate = rate;
        self
    }

    /// Whether a store is told which entities live, so that they are started again wherever their shard is. Default:
    /// no. The start of an entity then waits until the store has it.
    #[must_use]
    pub const fn with_remember(mut self, remember: bool) -> Self {
        self.remember = remember;
        self
    }

    /// Seed of pauses and of the index of keys. Default 0; take something nobody can guess: who knows it can choose
    /// ids that are slow to look up.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// See [`EntityConfig::with_passivate_after`].
    #[must_use]
    pub const fn passivate_after(&self) -> Duration {
        self.passivate_after
    }

    /// See [`EntityConfig::with_max_entities`].
    #[must_use]
    pub const fn max_entities(&self) -> u32 {
        self.max_entities
    }

    /// See [`EntityConfig::with_remember`].
    #[must_use]
    pub const fn remembers(&self) -> bool {
        self.remember
    }

    /// Whether the settings go together.
    ///
    /// # Errors
    /// [`ConfigError`], which names the setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if micros(self.passivate_after) > micros(Self::MAX_INTERVAL) {
            return Err(ConfigError::PassivateAfter);
        }
        if self.max_entities == 0 || self.max_entities > Self::MAX_ENTITIES {
            return Err(ConfigError::MaxEntities);
        }
        if !self.passivation.is_valid() {
            return Err(ConfigError::Proportions);
        }
        if self.keep == 0 || self.keep > Self::MAX_KEEP {
            return Err(ConfigError::Keep);
        }
        if self.keep_per_shard == 0 {
            return Err(ConfigError::KeepPerShard);
        }
        let (first, longest) = self.pause;
        if !is_interval(first) || !is_interval(longest) || first > longest {
            return Err(ConfigError::Pause);
        }
        if !is_interval(self.start_limit) {
            return Err(ConfigError::StartLimit);
        }
        if !is_interval(self.restart_window) {
            return Err(ConfigError::RestartWindow);
        }
        if let StartRate::PerInterval { count, interval } = self.start_rate
            && (count == 0 || !is_interval(interval))
        {
            return Err(ConfigError::StartRate);
        }
        Ok(())
    }
}

impl Default for EntityConfig {
    fn default() -> Self {
        Self::new()
    }
}

const fn is_interval(interval: Duration) -> bool {
    interval.as_millis() >= 1 && interval.as_millis() <= EntityConfig::MAX_INTERVAL.as_millis()
}

/// Why [`Entities`](super::Entities) cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `passivate_after` is above [`EntityConfig::MAX_INTERVAL`].
    PassivateAfter,
    /// `max_entities` is zero or above [`EntityConfig::MAX_ENTITIES`].
    MaxEntities,
    /// The shares of segments are none, not positive, or their sum is not 1.
    Proportions,
    /// `keep` is zero or above [`EntityConfig::MAX_KEEP`].
    Keep,
    /// `keep_per_shard` is zero.
    KeepPerShard,
    /// A pause is below a millisecond or above [`EntityConfig::MAX_INTERVAL`], or the first is longer than the longest.
    Pause,
    /// `start_limit` is below a millisecond or above [`EntityConfig::MAX_INTERVAL`].
    StartLimit,
    /// `restart_window` is below a millisecond or above [`EntityConfig::MAX_INTERVAL`].
    RestartWindow,
    /// The rate is zero, or its interval out of the same range.
    StartRate,
}

impl ConfigError {
    /// The setting to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::PassivateAfter => "passivate_after",
            Self::MaxEntities => "max_entities",
            Self::Proportions => "passivation.proportions",
            Self::Keep => "keep",
            Self::KeepPerShard => "keep_per_shard",
            Self::Pause => "pause",
            Self::StartLimit => "start_limit",
            Self::RestartWindow => "restart_window",
            Self::StartRate => "start_rate",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field();
        let max = EntityConfig::MAX_INTERVAL;
        match self {
            Self::PassivateAfter => write!(f, "{field} must be at most {max:?}"),
            Self::MaxEntities => write!(
                f,
                "{field} must be between 1 and {}",
                EntityConfig::MAX_ENTITIES
            ),
            Self::Proportions => {
                write!(f, "{field} must be 1 to 16 positive numbers whose sum is 1")
            }
            Self::Keep => write!(
                f,
                "{field} must be between 1 and {}",
                EntityConfig::MAX_KEEP
            ),
            Self::KeepPerShard => write!(f, "{field} must be at least 1"),
            Self::Pause => write!(
                f,
                "{field} must go from at least 1 ms to at most {max:?}, and not shrink"
            ),
            Self::StartLimit | Self::RestartWindow => {
                write!(f, "{field} must be between 1 ms and {max:?}")
            }
            Self::StartRate => write!(
                f,
                "{field} must be at least 1 in an interval between 1 ms and {max:?}"
            ),
        }
    }
}

impl core::error::Error for ConfigError {}
