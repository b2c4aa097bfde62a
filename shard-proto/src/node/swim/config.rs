//! Settings of the membership protocol.

use core::num::{NonZeroU8, NonZeroUsize};
use core::time::Duration;

use crate::node::ConfigError;

/// How long a removed life is remembered by the library. Its end is remembered for longer, see
/// [`Swim`](super::Swim).
const REMEMBER: Duration = Duration::from_secs(24 * 3_600);
const PACKET: NonZeroUsize = NonZeroUsize::new(1_400).unwrap();
const FANOUT: NonZeroUsize = NonZeroUsize::new(3).unwrap();
const ONE: NonZeroUsize = NonZeroUsize::new(1).unwrap();
const TRANSMISSIONS: NonZeroU8 = NonZeroU8::new(10).unwrap();

/// Settings of [`Swim`](super::Swim); the same on every node of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwimConfig {
    pub(super) probe_period: Duration,
    pub(super) probe_rtt: Duration,
    pub(super) suspicion: Duration,
    pub(super) gossip: Duration,
    pub(super) announce: Duration,
    pub(super) heal: Option<Duration>,
    pub(super) max_members: u16,
}

impl SwimConfig {
    /// The default: a member that is gone is suspected after about a second and removed after four.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            probe_period: Duration::from_secs(1),
            probe_rtt: Duration::from_millis(300),
            suspicion: Duration::from_secs(3),
            gossip: Duration::from_millis(200),
            announce: Duration::from_secs(5),
            heal: Some(Duration::from_secs(10)),
            max_members: 1_024,
        }
    }

    /// For a local network and machines without long stalls: suspected after 0.2 s, removed after about two and a half.
    /// Shorter still would trade false removals, each of which costs a node its shards, for a faster takeover.
    #[must_use]
    pub const fn lan() -> Self {
        Self {
            probe_period: Duration::from_millis(200),
            probe_rtt: Duration::from_millis(60),
            suspicion: Duration::from_secs(2),
            gossip: Duration::from_millis(50),
            announce: Duration::from_secs(1),
            heal: Some(Duration::from_secs(2)),
            ..Self::new()
        }
    }

    /// How often each node probes another. Default 1 s (LAN 200 ms). A member that does not answer for a period is
    /// suspected.
    #[must_use]
    pub const fn with_probe_period(self, probe_period: Duration) -> Self {
        Self {
            probe_period,
            ..self
        }
    }

    /// How long a probe waits before others are asked to probe too; less than half the period. Default 300 ms
    /// (LAN 60 ms).
    #[must_use]
    pub const fn with_probe_rtt(self, probe_rtt: Duration) -> Self {
        Self { probe_rtt, ..self }
    }

    /// How long a suspected member has to say that it lives. Default 3 s (LAN 2 s). A stop that is longer than
    /// this costs a node its membership, and it has to start again.
    #[must_use]
    pub const fn with_suspicion(self, suspicion: Duration) -> Self {
        Self { suspicion, ..self }
    }

    /// How often news is passed on, while there is any, to three members. Default 200 ms (LAN 50 ms).
    #[must_use]
    pub const fn with_gossip(self, gossip: Duration) -> Self {
        Self { gossip, ..self }
    }

    /// How often a member is asked for all it knows. Default 5 s (LAN 1 s).
    #[must_use]
    pub const fn with_announce(self, announce: Duration) -> Self {
        Self { announce, ..self }
    }

    /// How often a removed member is tried again, so that the halves of a cluster that lost each other notice when
    /// they meet. Default 10 s (LAN 2 s). `None`: never.
    #[must_use]
    pub const fn with_heal(self, heal: Option<Duration>) -> Self {
        Self { heal, ..self }
    }

    /// How many nodes are kept, those that were removed within a day included. Default 1 024.
    #[must_use]
    pub const fn with_max_members(self, max_members: u16) -> Self {
        Self {
            max_members,
            ..self
        }
    }

    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// Names the setting.
    pub const fn validate(&self) -> Result<(), ConfigError> {
        let zero = "must not be zero";
        if self.probe_rtt.is_zero() {
            return Err(ConfigError::new("probe_rtt", zero));
        }
        if self.probe_rtt.saturating_mul(2).as_micros() >= self.probe_period.as_micros() {
            let problem = "must be more than twice probe_rtt";
            return Err(ConfigError::new("probe_period", problem));
        }
        if self.suspicion.is_zero() {
            return Err(ConfigError::new("suspicion", zero));
        }
        if self.gossip.is_zero() {
            return Err(ConfigError::new("gossip", zero));
        }
        if self.announce.is_zero() {
            return Err(ConfigError::new("announce", zero));
        }
        if let Some(heal) = self.heal
            && heal.is_zero()
        {
            return Err(ConfigError::new("heal", zero));
        }
        if self.max_members == 0 {
            return Err(ConfigError::new("max_members", zero));
        }
        Ok(())
    }

    pub(super) fn foca(&self) -> foca::Config {
        let every = |frequency, num_members| {
            Some(foca::PeriodicParams {
                frequency,
                num_members,
            })
        };
        foca::Config {
            probe_period: self.probe_period,
            probe_rtt: self.probe_rtt,
            num_indirect_probes: FANOUT,
            max_transmissions: TRANSMISSIONS,
            suspect_to_down_after: self.suspicion,
            remove_down_after: Some(REMEMBER),
            max_packet_size: PACKET,
            // `Swim` does it: in foca 2.0 a member whose suspicion timer ends is told that it is down, also if it refuted
            // the suspicion before.
            notify_down_members: false,
            periodic_announce: every(self.announce, ONE),
            periodic_announce_to_down_members: self.heal.and_then(|heal| every(heal, ONE)),
            periodic_gossip: every(self.gossip, FANOUT),
        }
    }
}

impl Default for SwimConfig {
    fn default() -> Self {
        Self::new()
    }
}
