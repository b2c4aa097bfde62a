//! Settings of a stub.

use core::{fmt, time::Duration};

use super::{Latency, Provider};
use crate::NodeId;

/// Which nodes are candidates at all, and which are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preference {
    local: Option<NodeId>,
    zone: u32,
    role: u32,
    required_zone: u32,
    required_role: u32,
    pub(super) min_preferred: u32,
    pub(super) panic_percent: u32,
}

impl Preference {
    /// Everybody, and nobody before others.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            local: None,
            zone: 0,
            role: 0,
            required_zone: 0,
            required_role: 0,
            min_preferred: 1,
            panic_percent: 30,
        }
    }

    /// Prefers a node, that of this process, over all others as long as it is good. Default: none.
    #[must_use]
    pub const fn with_local(self, node: NodeId) -> Self {
        Self {
            local: Some(node),
            ..self
        }
    }

    /// Prefers nodes of a zone, after the local one. Default 0: no zone. If a zone has many clients and few nodes, those
    /// get more than their share; see [`Preference::with_min_preferred`].
    #[must_use]
    pub const fn with_zone(self, zone: u32) -> Self {
        Self { zone, ..self }
    }

    /// Prefers nodes of a role ([`role_id`](crate::hash::role_id)), after those of the zone. Default 0: no role.
    #[must_use]
    pub const fn with_role(self, role: u32) -> Self {
        Self { role, ..self }
    }

    /// Only nodes of this zone are ever called. Default 0: all.
    #[must_use]
    pub const fn with_required_zone(self, zone: u32) -> Self {
        Self {
            required_zone: zone,
            ..self
        }
    }

    /// Only nodes of this role are ever called. Default 0: all.
    #[must_use]
    pub const fn with_required_role(self, role: u32) -> Self {
        Self {
            required_role: role,
            ..self
        }
    }

    /// How many nodes there must be to pick from before less preferred ones are left out. Default 1; 0 counts as 1.
    #[must_use]
    pub const fn with_min_preferred(self, nodes: u32) -> Self {
        Self {
            min_preferred: nodes,
            ..self
        }
    }

    /// Below how many percent of good nodes doubt and preference are ignored. Default 30; Envoy's default is 50. 0: never;
    /// then the last good node gets all calls.
    #[must_use]
    pub const fn with_panic_percent(self, percent: u32) -> Self {
        Self {
            panic_percent: percent,
            ..self
        }
    }

    pub(super) fn allows(&self, member: &Provider) -> bool {
        (self.required_zone == 0 || self.required_zone == member.zone)
            && member.roles.has(self.required_role)
    }

    /// From 0, the most preferred, to 7. Without any preference everybody is 0.
    pub(super) fn tier(&self, member: &Provider) -> usize {
        let far = self.local.is_some_and(|local| local != member.node.node);
        let elsewhere = self.zone != 0 && self.zone != member.zone;
        let other = !member.roles.has(self.role);
        usize::from(far) << 2 | usize::from(elsewhere) << 1 | usize::from(other)
    }
}

impl Default for Preference {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings of a [`Stub`](super::Stub).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StubConfig {
    pub(super) cluster: Option<u64>,
    pub(super) seeds: u16,
    pub(super) preference: Preference,
    pub(super) suspicion: Duration,
    pub(super) eject_after: u32,
    pub(super) ejection: Duration,
    pub(super) ejection_max: Duration,
    pub(super) eject_percent: u32,
    pub(super) failure_penalty: Duration,
    pub(super) half_life: Duration,
    pub(super) max_attempts: u8,
    pub(super) park: Duration,
    pub(super) refresh: Duration,
    pub(super) refresh_retry: Duration,
}

impl StubConfig {
    /// How many attempts a call can have.
    pub const MAX_ATTEMPTS: u8 = 16;

    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cluster: None,
            seeds: 0,
            preference: Preference::new(),
            suspicion: Duration::from_secs(5),
            eject_after: 5,
            ejection: Duration::from_secs(30),
            ejection_max: Duration::from_secs(300),
            eject_percent: 30,
            failure_penalty: Duration::from_secs(1),
            half_life: Latency::DEFAULT_HALF_LIFE,
            max_attempts: 3,
            park: Duration::from_secs(1),
            refresh: Duration::from_secs(30),
            refresh_retry: Duration::from_secs(1),
        }
    }

    /// The cluster ([`cluster_id`](crate::hash::cluster_id)) whose views are taken. Default: that of the first view.
    #[must_use]
    pub const fn with_cluster(self, cluster: u64) -> Self {
        Self {
            cluster: Some(cluster),
            ..self
        }
    }

    /// How many addresses there are to ask for a first view, and for any when the nodes of the last one do not answer:
    /// [`Source::Seed`](super::Source::Seed). Default 0: views come from elsewhere.
    #[must_use]
    pub const fn with_seeds(self, seeds: u16) -> Self {
        Self { seeds, ..self }
    }

    /// Who is a candidate. Default: [`Preference::new`].
    #[must_use]
    pub const fn with_preference(self, preference: Preference) -> Self {
        Self { preference, ..self }
    }

    /// For how long a node is suspected after the way to it was found broken. Default 5 s. Shorter tries a dead node more
    /// often; longer leaves a node idle that is back. 0: never.
    #[must_use]
    pub const fn with_suspicion(self, suspicion: Duration) -> Self {
        Self { suspicion, ..self }
    }

    /// After how many failures in a row a node is ejected. Default 5, as Envoy; 0 counts as 1. A node that hangs is found
    /// out by nothing else: of `n` nodes a client that makes one call per second waits for it 5 times in `5 n` seconds.
    #[must_use]
    pub const fn with_eject_after(self, failures: u32) -> Self {
        Self {
            eject_after: failures,
            ..self
        }
    }

    /// For how long a node is ejected, times how often it was in a row, and at most for how long. Default 30 s and 300 s,
    /// as Envoy.
    #[must_use]
    pub const fn with_ejection(self, time: Duration, most: Duration) -> Self {
        Self {
            ejection: time,
            ejection_max: most,
            ..self
        }
    }

    /// How many percent of the nodes may be ejected at once, rounded down, but at least one, and never all. Default 30;
    /// Envoy's default is 10.
    #[must_use]
    pub const fn with_eject_percent(self, percent: u32) -> Self {
        Self {
            eject_percent: percent,
            ..self
        }
    }

    /// As how slow an answer a failure counts at least in a node's latency. Default 1 s. For
    /// [`PeakEwma`](super::PeakEwma): what is close to usual latencies attracts calls to a node that fails fast; what is high keeps calls
    /// away for long after it is well: 1 s is 7 [half-lives](StubConfig::with_half_life) away from 10 ms.
    #[must_use]
    pub const fn with_failure_penalty(self, penalty: Duration) -> Self {
        Self {
            failure_penalty: penalty,
            ..self
        }
    }

    /// The half-life of latencies, rounded down to a power of two microseconds. Default 4.19 s. Shorter forgets a slow
    /// node sooner, longer is slower to notice one that recovered.
    #[must_use]
    pub const fn with_half_life(self, half_life: Duration) -> Self {
        Self { half_life, ..self }
    }

    /// How many attempts a call has unless it says otherwise, the first one counted. Default 3; from 1 to
    /// [`StubConfig::MAX_ATTEMPTS`].
    #[must_use]
    pub const fn with_max_attempts(self, attempts: u8) -> Self {
        Self {
            max_attempts: attempts,
            ..self
        }
    }

    /// For how long a call parks at most before it looks again whether there is a node. Default 1 s. A view that arrives
    /// is a reason to look earlier.
    #[must_use]
    pub const fn with_park(self, park: Duration) -> Self {
        Self { park, ..self }
    }

    /// How long a view is good before a newer one is asked for, and how long an answer may take before somebody else is
    /// asked. Default 30 s and 1 s; at least 1 ms each.
    #[must_use]
    pub const fn with_refresh(self, refresh: Duration, retry: Duration) -> Self {
        Self {
            refresh,
            refresh_retry: retry,
            ..self
        }
    }
}

impl Default for StubConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Why there is no stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StubConfigError {
    /// The storage has room for no node, or for more than 65 535.
    Capacity(usize),
    /// The view has room for more nodes than the overlay.
    Overlay {
        /// Nodes that the view has room for.
        view: usize,
        /// Nodes that the overlay has room for.
        overlay: usize,
    },
    /// Not from 1 to [`StubConfig::MAX_ATTEMPTS`] attempts.
    Attempts(u8),
}

impl fmt::Display for StubConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capacity(nodes) => write!(f, "room for {nodes} nodes, not for 1 to 65535"),
            Self::Overlay { view, overlay } => write!(
                f,
                "the view has room for {view} nodes, the overlay for {overlay}"
            ),
            Self::Attempts(attempts) => write!(
                f,
                "{attempts} attempts, not 1 to {}",
                StubConfig::MAX_ATTEMPTS
            ),
        }
    }
}

impl core::error::Error for StubConfigError {}
