//! Policies by name.

use core::{fmt, str::FromStr};

use super::{
    Election, FirstAvailable, FirstAvailableIdenticalAllProxies, LeastOutstanding, PeakEwma,
    RandomRobin, Rendezvous, RoundRobin, WeightStorage, WeightedRoundRobin,
};
use crate::balance::{LoadBalancePolicy, PickContext, SplitMix64};

/// The policies of this crate by their names in configuration files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// `round-robin`: [`RoundRobin`].
    #[default]
    RoundRobin,
    /// `random-robin`: [`RandomRobin`].
    RandomRobin,
    /// `first-available`: [`FirstAvailable`].
    FirstAvailable,
    /// `first-available-identical-all-proxies`: [`FirstAvailableIdenticalAllProxies`].
    FirstAvailableIdenticalAllProxies,
    /// `least-outstanding`: [`LeastOutstanding`].
    LeastOutstanding,
    /// `peak-ewma`: [`PeakEwma`].
    PeakEwma,
    /// `weighted-round-robin`: [`WeightedRoundRobin`].
    WeightedRoundRobin,
    /// `rendezvous`: [`Rendezvous`], without a load bound.
    Rendezvous,
}

impl Policy {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::RoundRobin,
        Self::RandomRobin,
        Self::FirstAvailable,
        Self::FirstAvailableIdenticalAllProxies,
        Self::LeastOutstanding,
        Self::PeakEwma,
        Self::WeightedRoundRobin,
        Self::Rendezvous,
    ];

    /// Its name in configuration files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::RandomRobin => "random-robin",
            Self::FirstAvailable => "first-available",
            Self::FirstAvailableIdenticalAllProxies => "first-available-identical-all-proxies",
            Self::LeastOutstanding => "least-outstanding",
            Self::PeakEwma => "peak-ewma",
            Self::WeightedRoundRobin => "weighted-round-robin",
            Self::Rendezvous => "rendezvous",
        }
    }

    /// The policy, with the election of its service and slots for weights, for the two policies that need them. The latter
    /// [starts at random](WeightedRoundRobin::with_random_start).
    #[must_use]
    pub const fn build<E: Election, S: WeightStorage>(
        self,
        election: E,
        slots: S,
    ) -> Configured<E, S> {
        Configured {
            policy: self,
            round_robin: RoundRobin::new(),
            first_available: FirstAvailable::new(),
            identical: FirstAvailableIdenticalAllProxies::new(election),
            weighted: WeightedRoundRobin::new(slots).with_random_start(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let mut all = Self::ALL.iter().copied();
        all.find(|policy| policy.name() == name)
            .ok_or(UnknownPolicy)
    }
}

/// No policy has this name. Displays the names there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such policy; there are ")?;
        for (at, policy) in Policy::ALL.iter().enumerate() {
            let before = if at == 0 { "" } else { ", " };
            write!(f, "{before}{policy}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

/// A policy whose kind is known when the program runs: [`Policy::build`].
///
/// No allocation, and no dispatch but a match. Its size is that of all its kinds together.
#[derive(Clone, Debug)]
pub struct Configured<E, S> {
    policy: Policy,
    round_robin: RoundRobin,
    first_available: FirstAvailable,
    identical: FirstAvailableIdenticalAllProxies<E>,
    weighted: WeightedRoundRobin<S>,
}

impl<E, S> Configured<E, S> {
    /// Which one it is.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }
}

impl<E: Election, S: WeightStorage> LoadBalancePolicy for Configured<E, S> {
    fn pick(&mut self, cx: &PickContext<'_>, rng: &mut SplitMix64) -> Option<usize> {
        match self.policy {
            Policy::RoundRobin => self.round_robin.pick(cx, rng),
            Policy::RandomRobin => RandomRobin::new().pick(cx, rng),
            Policy::FirstAvailable => self.first_available.pick(cx, rng),
            Policy::FirstAvailableIdenticalAllProxies => self.identical.pick(cx, rng),
            Policy::LeastOutstanding => LeastOutstanding::new().pick(cx, rng),
            Policy::PeakEwma => PeakEwma::new().pick(cx, rng),
            Policy::WeightedRoundRobin => self.weighted.pick(cx, rng),
            Policy::Rendezvous => Rendezvous::new().pick(cx, rng),
        }
    }
}
