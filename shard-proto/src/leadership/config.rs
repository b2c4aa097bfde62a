//! Settings of leadership.

use core::{fmt, time::Duration};

use super::Voters;
use crate::micros;

/// What entitles a node to serve its shards, and to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ownership {
    /// By lease: a leader acts only while a majority of the [`Voters`] supports it, and a node serves only while the
    /// leader grants it a lease. At most one leader acts and at most one node serves a shard at any moment, whatever
    /// network, clocks and processes do; a node that hears no leader for `lease` stops what it serves.
    #[default]
    Lease,
    /// Membership is believed: no leases. The oldest up member leads, and shards of a removed member get a new home
    /// at once. While membership is wrong about a node, a shard can run twice; its epochs differ, so a store that
    /// checks them refuses the former home.
    Trust,
    /// As [`Ownership::Lease`], but who leads is decided by a lease outside (etcd, Kubernetes, PostgreSQL): see
    /// [`Leadership::handle_external`](super::Leadership::handle_external). No voters.
    External,
}

/// Settings of a [`Leadership`](super::Leadership); the same on every node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipConfig {
    ownership: Ownership,
    voters: Voters,
    beat: Duration,
    support_lease: Duration,
    lease: Duration,
    drift: Duration,
    round_trip: Duration,
    may_lead: bool,
    bootstrap: bool,
}

impl LeadershipConfig {
    /// The default: for networks and machines with hiccups of a second.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ownership: Ownership::Lease,
            voters: Voters::NONE,
            beat: Duration::from_millis(200),
            support_lease: Duration::from_millis(800),
            lease: Duration::from_millis(2_000),
            drift: Duration::from_millis(100),
            round_trip: Duration::from_millis(50),
            may_lead: true,
            bootstrap: false,
        }
    }

    /// For a local network and machines without long stalls: everything four times as fast.
    #[must_use]
    pub const fn lan() -> Self {
        Self {
            beat: Duration::from_millis(50),
            support_lease: Duration::from_millis(200),
            lease: Duration::from_millis(500),
            drift: Duration::from_millis(25),
            round_trip: Duration::from_millis(10),
            ..Self::new()
        }
    }

    /// What entitles a node to serve. Default: [`Ownership::Lease`], which needs [`LeadershipConfig::with_voters`].
    #[must_use]
    pub const fn with_ownership(self, ownership: Ownership) -> Self {
        Self { ownership, ..self }
    }

    /// Whose majority carries a reign under [`Ownership::Lease`]; otherwise unused. Default: [`Voters::NONE`]. The same
    /// on every node: two clusters that differ in it may each find a majority.
    #[must_use]
    pub const fn with_voters(self, voters: Voters) -> Self {
        Self { voters, ..self }
    }

    /// How often leader and nodes exchange beats. Default 200 ms (LAN 50 ms). Longer delays failover, shorter costs
    /// a frame per node and beat at the leader.
    #[must_use]
    pub const fn with_beat(self, beat: Duration) -> Self {
        Self { beat, ..self }
    }

    /// How long a leader that is not heard keeps its followers. Default 800 ms (LAN 200 ms). Shorter than a usual
    /// stall of the leader moves the lead for nothing; longer delays failover.
    #[must_use]
    pub const fn with_support_lease(self, support_lease: Duration) -> Self {
        Self {
            support_lease,
            ..self
        }
    }

    /// How long a node that the leader does not hear may keep its shards. Default 2 s (LAN 500 ms). Under
    /// [`Ownership::Trust`] it only bounds how long a new leader waits for claims.
    #[must_use]
    pub const fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How much two clocks may diverge over one lease, both ways together. Default 100 ms (LAN 25 ms); at least
    /// 4.1 % of the lease, which clock rates within ±2 % need.
    #[must_use]
    pub const fn with_drift(self, drift: Duration) -> Self {
        Self { drift, ..self }
    }

    /// The longest round trip that failover shall cope with. Default 50 ms (LAN 10 ms).
    #[must_use]
    pub const fn with_round_trip(self, round_trip: Duration) -> Self {
        Self { round_trip, ..self }
    }

    /// Whether this node may lead. Default `true`. The others find out by not hearing from it, which delays every
    /// failover in which it is the oldest.
    #[must_use]
    pub const fn with_may_lead(self, may_lead: bool) -> Self {
        Self { may_lead, ..self }
    }

    /// Whether this node may lead before it has heard of any other member. Default `false`. Set it on single nodes
    /// and on the first node of a new cluster only: each such node starts a cluster of its own until they meet.
    #[must_use]
    pub const fn with_bootstrap(self, bootstrap: bool) -> Self {
        Self { bootstrap, ..self }
    }

    /// See [`LeadershipConfig::with_ownership`].
    #[must_use]
    pub const fn ownership(&self) -> Ownership {
        self.ownership
    }

    /// See [`LeadershipConfig::with_voters`].
    #[must_use]
    pub const fn voters(&self) -> Voters {
        self.voters
    }

    /// See [`LeadershipConfig::with_beat`].
    #[must_use]
    pub const fn beat(&self) -> Duration {
        self.beat
    }

    /// See [`LeadershipConfig::with_support_lease`].
    #[must_use]
    pub const fn support_lease(&self) -> Duration {
        self.support_lease
    }

    /// See [`LeadershipConfig::with_lease`].
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// See [`LeadershipConfig::with_drift`].
    #[must_use]
    pub const fn drift(&self) -> Duration {
        self.drift
    }

    /// See [`LeadershipConfig::with_round_trip`].
    #[must_use]
    pub const fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// See [`LeadershipConfig::with_may_lead`].
    #[must_use]
    pub const fn may_lead(&self) -> bool {
        self.may_lead
    }

    /// See [`LeadershipConfig::with_bootstrap`].
    #[must_use]
    pub const fn bootstrap(&self) -> bool {
        self.bootstrap
    }

    /// How long a named leader may keep quiet before the next one is named: `2 × support_lease + 2 × beat`.
    #[must_use]
    pub const fn patience(&self) -> Duration {
        self.support_lease
            .saturating_add(self.beat)
            .saturating_mul(2)
    }

    /// Checks that the settings fit together (protocol 2.13).
    ///
    /// # Errors
    /// [`ConfigError`] names the setting and its limit.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if matches!(self.ownership, Ownership::Lease) && self.voters.is_empty() {
            return Err(ConfigError::Voters);
        }
        if self.beat.is_zero() {
            return Err(ConfigError::Beat);
        }
        if self.support_lease.is_zero() || micros(self.support_lease) >= micros(self.lease) {
            return Err(ConfigError::SupportLease);
        }
        // Else a leader could lose its support between two beats.
        let least = self.drift.saturating_add(self.beat);
        if matches!(self.ownership, Ownership::Lease) && micros(self.support_lease) <= micros(least)
        {
            return Err(ConfigError::SupportLease);
        }
        // L >= 1.02 (S / 0.98 + 3 beat + 3 round_trip), in hundredths of hundredths.
        let waits = self
            .beat
            .saturating_add(self.round_trip)
            .saturating_mul(3 * 98);
        let least = self
            .support_lease
            .saturating_mul(100)
            .saturating_add(waits)
            .saturating_mul(102);
        if micros(self.lease.saturating_mul(9_800)) < micros(least) {
            return Err(ConfigError::Lease {
                at_least: Duration::from_micros(micros(least).div_ceil(9_800)),
            });
        }
        let least = self.lease.saturating_mul(41);
        if micros(self.drift.saturating_mul(1_000)) < micros(least) {
            return Err(ConfigError::Drift {
                at_least: Duration::from_micros(micros(least).div_ceil(1_000)),
            });
        }
        Ok(())
    }
}

impl Default for LeadershipConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a [`Leadership`](super::Leadership) cannot be made. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// [`Ownership::Lease`] without voters.
    Voters,
    /// `beat` is zero.
    Beat,
    /// `support_lease` is not longer than `drift` and `beat` together, or not shorter than `lease`.
    SupportLease,
    /// `lease` is too short for nodes to follow a new leader in time.
    Lease {
        /// The shortest that fits the other settings.
        at_least: Duration,
    },
    /// `drift` is below 4.1 % of `lease`.
    Drift {
        /// The smallest that fits the lease.
        at_least: Duration,
    },
    /// The storage has no slot, not even for this node.
    Storage,
}

impl ConfigError {
    /// The setting to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Voters => "voters",
            Self::Beat => "beat",
            Self::SupportLease => "support_lease",
            Self::Lease { .. } => "lease",
            Self::Drift { .. } => "drift",
            Self::Storage => "storage",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voters => f.write_str(
                "voters must be set (1, 3 or 5 node names) unless ownership is Trust or External",
            ),
            Self::Beat => f.write_str("beat must not be zero"),
            Self::SupportLease => f.write_str(
                "support_lease must be longer than drift and beat together, and shorter than lease",
            ),
            Self::Lease { at_least } => write!(
                f,
                "lease must be at least {at_least:?} with these settings of support_lease, beat and round_trip"
            ),
            Self::Drift { at_least } => {
                write!(f, "drift must be at least {at_least:?}, 4.1 % of lease")
            }
            Self::Storage => f.write_str("storage has no slot for this node"),
        }
    }
}

impl core::error::Error for ConfigError {}
