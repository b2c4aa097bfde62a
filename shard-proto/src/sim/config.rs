//! The shape of a world.

use core::fmt;
use core::time::Duration;

use super::store::{MAX_HOSTS, MAX_QUEUE, MAX_SHARDS};
use super::{FaultKind, FaultProfile};
use crate::hash::SplitMix64;
use crate::leadership::{self, LeadershipConfig, Ownership, Voters};
use crate::{NodeId, hash, micros};

/// Most entity types of a world.
const MAX_TYPES: u8 = 4;

/// The shape of a world: how many of what, how fast, and for how long things go wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldConfig {
    pub(super) nodes: u8,
    pub(super) voters: u8,
    pub(super) shards: u32,
    pub(super) types: u8,
    pub(super) entities: u32,
    pub(super) ownership: Ownership,
    pub(super) leadership: LeadershipConfig,
    pub(super) retry_interval: Duration,
    pub(super) rebalance_interval: Duration,
    pub(super) handoff_timeout: Duration,
    pub(super) drain: Duration,
    pub(super) buffer: u32,
    pub(super) window: u32,
    pub(super) delay: (Duration, Duration),
    pub(super) loss: u16,
    pub(super) duplicate: u16,
    pub(super) late: u16,
    pub(super) late_by: Duration,
    pub(super) start_delay: Duration,
    pub(super) stop_delay: Duration,
    pub(super) traffic: Duration,
    pub(super) moves: Duration,
    pub(super) detection: (Duration, Duration),
    pub(super) clock_rate: u32,
    pub(super) wall_skew: Duration,
    pub(super) faults: FaultProfile,
    pub(super) persisted_terms: bool,
    pub(super) faulty_for: Duration,
    pub(super) calm_for: Duration,
    pub(super) probe_for: Duration,
    pub(super) text: bool,
}

impl WorldConfig {
    /// Five nodes of which three vote, 32 shards of one type, default timing, a minute and a half of faults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: 5,
            voters: 3,
            shards: 32,
            types: 1,
            entities: 2,
            ownership: Ownership::default(),
            leadership: LeadershipConfig::new(),
            retry_interval: Duration::from_millis(250),
            rebalance_interval: Duration::from_secs(2),
            handoff_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(8),
            buffer: 512,
            window: 512,
            delay: (Duration::from_millis(1), Duration::from_millis(10)),
            loss: 10,
            duplicate: 10,
            late: 5,
            late_by: Duration::from_secs(3),
            start_delay: Duration::from_millis(200),
            stop_delay: Duration::from_millis(300),
            traffic: Duration::from_millis(60),
            moves: Duration::from_secs(2),
            detection: (Duration::from_millis(500), Duration::from_secs(3)),
            clock_rate: 15_000,
            wall_skew: Duration::from_millis(300),
            faults: FaultProfile::default(),
            persisted_terms: false,
            faulty_for: Duration::from_secs(90),
            calm_for: Duration::from_secs(35),
            probe_for: Duration::from_secs(15),
            text: false,
        }
    }

    /// As [`WorldConfig::new`], with the timing for local networks.
    #[must_use]
    pub fn lan() -> Self {
        Self {
            leadership: LeadershipConfig::lan(),
            retry_interval: Duration::from_millis(100),
            delay: (Duration::from_micros(200), Duration::from_millis(3)),
            start_delay: Duration::from_millis(50),
            stop_delay: Duration::from_millis(100),
            detection: (Duration::from_millis(200), Duration::from_secs(1)),
            wall_skew: Duration::from_millis(80),
            ..Self::new()
        }
    }

    /// A shape that differs from seed to seed: 3 to 7 nodes, 16 to 64 shards, either timing.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = SplitMix64::new(hash::mix(seed ^ 0x5eed));
        let mut config = if rng.below(3) == 0 {
            Self::lan()
        } else {
            Self::new()
        };
        config.nodes = 3 + rng.below(5) as u8;
        config.voters = match rng.below(10) {
            0 => 1,
            1..=5 if config.nodes >= 5 => 5,
            _ => 3,
        };
        config.shards = 16 + rng.below(49) as u32;
        config.types = 1 + u8::from(rng.below(4) == 0);
        config.entities = 1 + rng.below(3) as u32;
        config.buffer = [8, 32, 128, 512][rng.below(4) as usize];
        config.window = [16, 64, 256][rng.below(3) as usize];
        let least = Duration::from_millis(200 + rng.below(1_800));
        let most = least * (1 + rng.below(4) as u32);
        config.detection = (least, most);
        config.persisted_terms = rng.below(2) == 0;
        // Terms taken after a restart of all are above the old ones only if clocks differ by less than it takes. A
        // persisted floor does not change that: who leads may not be who knew.
        config.wall_skew = config.leadership.support_lease() * 2 / 5;
        config.faulty_for = Duration::from_secs(60 + rng.below(61));
        config.calm_for = config.bound() + Duration::from_secs(1);
        config.moves = Duration::from_millis([500, 2_000, 10_000][rng.below(3) as usize]);
        config
    }

    /// How many hosts there are, 1 to 16. Default 5.
    #[must_use]
    pub fn with_nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// How many of them vote, the first ones: 1, 3 or 5. Default 3. Of no account without leases.
    #[must_use]
    pub fn with_voters(mut self, voters: u8) -> Self {
        self.voters = voters;
        self
    }

    /// How many shards each type has, 1 to 64. Default 32.
    #[must_use]
    pub fn with_shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// How many entity types there are, 1 to 4. Default 1.
    #[must_use]
    pub fn with_types(mut self, types: u8) -> Self {
        self.types = types;
        self
    }

    /// How many entities each shard has. Default 2.
    #[must_use]
    pub fn with_entities(mut self, entities: u32) -> Self {
        self.entities = entities;
        self
    }

    /// What entitles a node to serve. Default: the default of [`Ownership`].
    #[must_use]
    pub fn with_ownership(mut self, ownership: Ownership) -> Self {
        self.ownership = ownership;
        self
    }

    /// Leases and beats; its ownership and voters are set by this config. Default: [`LeadershipConfig::new`].
    #[must_use]
    pub fn with_leadership(mut self, leadership: LeadershipConfig) -> Self {
        self.leadership = leadership;
        self
    }

    /// After how long regions and coordinators say again what was not answered. Default 250 ms.
    #[must_use]
    pub fn with_retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = interval;
        self
    }

    /// How often the strategy is asked for moves. Default 2 s.
    #[must_use]
    pub fn with_rebalance_interval(mut self, interval: Duration) -> Self {
        self.rebalance_interval = interval;
        self
    }

    /// How long a handoff may take, and entities to stop in it. Default 10 s and 8 s.
    #[must_use]
    pub fn with_handoff(mut self, timeout: Duration, drain: Duration) -> Self {
        self.handoff_timeout = timeout;
        self.drain = drain;
        self
    }

    /// How many messages a region buffers, at most 1024 with what comes back. Default 512.
    #[must_use]
    pub fn with_buffer(mut self, messages: u32) -> Self {
        self.buffer = messages;
        self
    }

    /// How many data frames a link takes before it counts as congested, at most 1024. Default 512.
    #[must_use]
    pub fn with_window(mut self, frames: u32) -> Self {
        self.window = frames;
        self
    }

    /// How long a frame is under way, at least and at most. Default 1 to 10 ms.
    #[must_use]
    pub fn with_delay(mut self, least: Duration, most: Duration) -> Self {
        self.delay = (least, most);
        self
    }

    /// How many of 1000 control frames are lost, doubled, and late (by `late_by` at most), as long as things go wrong.
    /// Default 10, 10 and 5, 3 s.
    #[must_use]
    pub fn with_noise(mut self, loss: u16, duplicate: u16, late: u16, late_by: Duration) -> Self {
        self.loss = loss;
        self.duplicate = duplicate;
        self.late = late;
        self.late_by = late_by;
        self
    }

    /// How long a shard takes to start and to stop at most. Default 200 and 300 ms.
    #[must_use]
    pub fn with_hosting(mut self, start: Duration, stop: Duration) -> Self {
        self.start_delay = start;
        self.stop_delay = stop;
        self
    }

    /// How often a caller on each host sends, on average. Default every 60 ms; zero: never.
    #[must_use]
    pub fn with_traffic(mut self, every: Duration) -> Self {
        self.traffic = every;
        self
    }

    /// How often a shard is moved for no reason, on average. Default every 2 s; zero: never.
    #[must_use]
    pub fn with_moves(mut self, every: Duration) -> Self {
        self.moves = every;
        self
    }

    /// How long the built-in membership takes to notice something, at least and at most. Default 0.5 to 3 s.
    #[must_use]
    pub fn with_detection(mut self, least: Duration, most: Duration) -> Self {
        self.detection = (least, most);
        self
    }

    /// By how much clocks run too fast or too slow at most, in millionths. Default 15 000; leases hold up to 20 000.
    #[must_use]
    pub fn with_clock_rate(mut self, ppm: u32) -> Self {
        self.clock_rate = ppm;
        self
    }

    /// By how much wall clocks are off at most. Default 300 ms, with the timing for local networks 80 ms. Where
    /// processes can end, two of them must differ by less than a support lease: a quorum that restarts at once knows no
    /// term but by its clocks.
    #[must_use]
    pub fn with_wall_skew(mut self, skew: Duration) -> Self {
        self.wall_skew = skew;
        self
    }

    /// Which faults are drawn.
    #[must_use]
    pub fn with_faults(mut self, faults: FaultProfile) -> Self {
        self.faults = faults;
        self
    }

    /// How long things go wrong, and how long then all has to come to rest. Default 90 s and 30 s.
    #[must_use]
    pub fn with_phases(mut self, faulty: Duration, calm: Duration) -> Self {
        self.faulty_for = faulty;
        self.calm_for = calm;
        self
    }

    /// How long it is measured what a single incident does, after the calm. Default 15 s; zero: not at all.
    #[must_use]
    pub fn with_probe(mut self, probe: Duration) -> Self {
        self.probe_for = probe;
        self
    }

    /// Whether the floor of a host's next life is above the highest term of the one before, too. Default: no, it is its
    /// wall clock alone. Either way wall clocks must differ by less than a support lease, or a restart of all can take
    /// epochs back.
    #[must_use]
    pub fn with_persisted_terms(mut self, persisted: bool) -> Self {
        self.persisted_terms = persisted;
        self
    }

    /// Whether the trace keeps lines of text. Default: no.
    #[must_use]
    pub fn with_text(mut self, text: bool) -> Self {
        self.text = text;
        self
    }

    /// How many hosts there are.
    #[must_use]
    pub fn nodes(&self) -> u8 {
        self.nodes
    }

    /// How many of them vote.
    #[must_use]
    pub fn voters(&self) -> u8 {
        self.voters
    }

    /// How many shards each type has.
    #[must_use]
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// How many types there are.
    #[must_use]
    pub fn types(&self) -> u8 {
        self.types
    }

    /// Shards of all types.
    #[must_use]
    pub fn all_shards(&self) -> u32 {
        self.shards * u32::from(self.types)
    }

    /// What entitles a node to serve.
    #[must_use]
    pub fn ownership(&self) -> Ownership {
        self.ownership
    }

    /// Leases and beats.
    #[must_use]
    pub fn leadership(&self) -> &LeadershipConfig {
        &self.leadership
    }

    /// How long things go wrong.
    #[must_use]
    pub fn faulty_for(&self) -> Duration {
        self.faulty_for
    }

    /// How long then all has to come to rest.
    #[must_use]
    pub fn calm_for(&self) -> Duration {
        self.calm_for
    }

    /// How long it is measured what a single incident does.
    #[must_use]
    pub fn probe_for(&self) -> Duration {
        self.probe_for
    }

    /// Which faults are drawn.
    #[must_use]
    pub fn faults(&self) -> &FaultProfile {
        &self.faults
    }

    /// By how much clocks run too fast or too slow at most.
    #[must_use]
    pub fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    /// By how much wall clocks are off at most.
    #[must_use]
    pub fn wall_skew(&self) -> Duration {
        self.wall_skew
    }

    pub(super) fn noise(&self) -> (u16, u16, u16, Duration) {
        (self.loss, self.duplicate, self.late, self.late_by)
    }

    /// Within which time after the last fault every host reaches every shard: a handoff that hangs and its lease, a
    /// path that is given up, a node that has to be noticed, and some reigns.
    #[must_use]
    pub fn bound(&self) -> Duration {
        let lease = self.leadership.lease() + self.leadership.drift();
        2 * self.handoff_timeout
            + 3 * lease
            + self.detection.1
            + self.start_delay
            + self.stop_delay
            + 10 * self.retry_interval
    }

    /// The node of a host.
    #[must_use]
    pub fn node(host: u8) -> NodeId {
        // Not in the order of their numbers, so that nothing depends on it.
        NodeId(hash::mix(u64::from(host) + 1) | 1)
    }

    pub(super) fn leadership_config(&self) -> LeadershipConfig {
        let mut voters = [NodeId(0); 5];
        for (voter, host) in voters.iter_mut().zip(0..self.voters) {
            *voter = Self::node(host);
        }
        let voters =
            Voters::new(&voters[..usize::from(self.voters.min(5))]).unwrap_or(Voters::NONE);
        self.leadership
            .with_ownership(self.ownership)
            .with_voters(voters)
    }

    /// Whether more than one process may end for good while things go wrong, by a fault or because it was silent for so
    /// long that it is taken for gone.
    fn can_end(&self) -> bool {
        let ends = [
            FaultKind::Crash,
            FaultKind::Restart,
            FaultKind::Start,
            FaultKind::Leave,
            FaultKind::Remove,
        ];
        ends.iter().any(|kind| self.faults.weight(*kind) > 0)
            || (self.faults.total() > 0 && self.detection.0 <= self.faulty_for)
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`ConfigError`], which names the setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let wrong = |field, problem| Err(ConfigError { field, problem });
        if self.nodes == 0 || usize::from(self.nodes) > MAX_HOSTS {
            return wrong("nodes", "must be 1 to 16");
        }
        if !matches!(self.voters, 1 | 3 | 5) || self.voters > self.nodes {
            return wrong("voters", "must be 1, 3 or 5, and not more than nodes");
        }
        if self.shards == 0 || self.shards as usize > MAX_SHARDS {
            return wrong("shards", "must be 1 to 64");
        }
        if self.types == 0 || self.types > MAX_TYPES {
            return wrong("types", "must be 1 to 4");
        }
        if self.entities == 0 || self.entities > 1024 {
            return wrong("entities", "must be 1 to 1024");
        }
        let room = (MAX_QUEUE / 2) as u32;
        if self.buffer == 0 || self.buffer > room {
            return wrong("buffer", "must be 1 to 1024");
        }
        if self.window == 0 || self.window > room {
            return wrong("window", "must be 1 to 1024");
        }
        if micros(self.delay.0) == 0 || self.delay.0 > self.delay.1 {
            return wrong(
                "delay",
                "must be at least 1 µs, and not more than its maximum",
            );
        }
        if self.loss > 1000 || self.duplicate > 1000 || self.late > 1000 {
            return wrong("noise", "must be at most 1000 of 1000");
        }
        if self.detection.0 > self.detection.1 {
            return wrong("detection", "must not be more than its maximum");
        }
        if self.clock_rate > 500_000 {
            return wrong("clock_rate", "must be at most 500000 ppm");
        }
        let ms = Duration::from_millis(1);
        if self.retry_interval < ms {
            return wrong("retry_interval", "must be at least 1 ms");
        }
        if self.rebalance_interval < ms {
            return wrong("rebalance_interval", "must be at least 1 ms");
        }
        if self.drain < ms || self.drain >= self.handoff_timeout {
            return wrong(
                "handoff",
                "must have a drain of at least 1 ms that is shorter than its timeout",
            );
        }
        if self.ownership == Ownership::Lease
            && 2 * self.wall_skew >= self.leadership.support_lease()
            && self.can_end()
        {
            return wrong(
                "wall_skew",
                "must be less than half of a support lease where processes can end: a quorum that restarts takes terms \
                 by its clocks",
            );
        }
        let day = Duration::from_secs(24 * 60 * 60);
        let times = [
            ("handoff", self.handoff_timeout),
            ("rebalance_interval", self.rebalance_interval),
            ("retry_interval", self.retry_interval),
            ("delay", self.delay.1),
            ("noise", self.late_by),
            ("hosting", self.start_delay.max(self.stop_delay)),
            ("traffic", self.traffic),
            ("moves", self.moves),
            ("detection", self.detection.1),
            ("wall_skew", self.wall_skew),
            ("phases", self.faulty_for.max(self.calm_for)),
        ];
        if let Some((field, _)) = times.iter().find(|(_, time)| *time > day) {
            return wrong(field, "must be at most a day");
        }
        match self.leadership_config().validate() {
            Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The name of a type.
pub(super) const fn type_name(ty: u8) -> &'static str {
    match ty {
        0 => "cart",
        1 => "room",
        2 => "device",
        _ => "document",
    }
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// A setting of a world that cannot work. Nothing was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    field: &'static str,
    problem: &'static str,
}

impl ConfigError {
    pub(super) const fn new(field: &'static str, problem: &'static str) -> Self {
        Self { field, problem }
    }

    /// The setting to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }
}

impl From<leadership::ConfigError> for ConfigError {
    fn from(error: leadership::ConfigError) -> Self {
        Self {
            field: error.field(),
            problem: "does not fit the other settings of leadership",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.problem)
    }
}

impl core::error::Error for ConfigError {}
