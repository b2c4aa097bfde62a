//! When each shard was served, under which epoch, and how long it was not.

mod prober;
#[cfg(test)]
mod tests;

use core::{fmt, time::Duration};
use std::collections::{BTreeMap, BTreeSet};

pub use prober::Prober;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shard_tokio::{Entity, ShardId};

/// An entity that can be asked whether it serves.
pub trait Probed: Entity {
    /// The question.
    fn probe() -> Self::Message;
    /// What the answer says.
    fn served(answer: &Self::Reply) -> Option<Served>;
}

/// That an entity handled a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The allocation of its shard under which it lives.
    pub epoch: u64,
    /// When, by [`clock::micros`](crate::clock::micros).
    pub at_us: u64,
}

/// The epochs under which shards were served, and from when to when.
#[derive(Clone, Debug, Default)]
pub struct Servings(BTreeMap<ShardId, BTreeMap<u64, (u64, u64)>>);

impl Servings {
    /// A shard was served under an epoch at both of these times.
    pub fn add(&mut self, shard: ShardId, epoch: u64, from_us: u64, to_us: u64) {
        let epochs = self.0.entry(shard).or_default();
        let span = epochs.entry(epoch).or_insert((from_us, to_us));
        *span = (span.0.min(from_us), span.1.max(to_us));
    }

    /// All of these too.
    pub fn merge(&mut self, other: &Self) {
        for (shard, epochs) in &other.0 {
            for (epoch, (from, to)) in epochs {
                self.add(*shard, *epoch, *from, *to);
            }
        }
    }

    /// How many times a shard was served under an epoch after it had been served under a newer one: by two homes at
    /// once.
    #[must_use]
    pub fn beside_a_newer_home(&self) -> u64 {
        let beside = self.0.values().map(|epochs| {
            let mut newer_from = u64::MAX;
            let mut beside = 0;
            for (from, to) in epochs.values().rev() {
                beside += u64::from(*to > newer_from);
                newer_from = newer_from.min(*from);
            }
            beside
        });
        beside.sum()
    }
}

/// How long shards were without service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many shards.
    pub shards: usize,
    /// The longest time.
    pub max: Duration,
    /// The median over the shards.
    pub p50: Duration,
}

impl Gaps {
    fn new(mut gaps: Vec<Duration>, resolution: Duration) -> Self {
        gaps.sort_unstable();
        let beyond = |gap: Option<&Duration>| match gap {
            Some(gap) if *gap > resolution => *gap,
            _ => Duration::ZERO,
        };
        Self {
            shards: gaps.len(),
            max: beyond(gaps.last()),
            p50: beyond(gaps.get(gaps.len() / 2)),
        }
    }
}

/// For how long a process may wait for a core.
pub const BUSY: Duration = Duration::from_millis(100);

/// What a change of the cluster did to its shards.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The change.
    pub change: String,
    /// Shards whose node it hit, or that moved.
    pub hit: Gaps,
    /// The others.
    pub others: Gaps,
    /// What none of the hit ones may exceed.
    pub bound: Duration,
    /// What none of the others may exceed beyond the resolution: that of a planned move, which they may have made.
    pub others_bound: Duration,
    /// Shorter times cannot be told from none.
    pub resolution: Duration,
}

impl Outage {
    /// From the longest gap of each shard.
    #[must_use]
    pub fn new(
        change: String,
        gaps: &BTreeMap<ShardId, Duration>,
        hit: &BTreeSet<ShardId>,
        (bound, others_bound): (Duration, Duration),
        resolution: Duration,
    ) -> Self {
        let of = |was_hit| {
            let of = gaps
                .iter()
                .filter(|(shard, _)| hit.contains(shard) == was_hit);
            Gaps::new(of.map(|(_, gap)| *gap).collect(), resolution)
        };
        Self {
            change,
            hit: of(true),
            others: of(false),
            bound,
            others_bound,
            resolution,
        }
    }

    /// Whether no bound was exceeded. One that is near the resolution is judged with it, and with the time for which a
    /// process may have to wait for a core on a busy machine.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.hit.max <= self.judged_at() && self.others.max <= self.others_judged_at()
    }

    fn judged_at(&self) -> Duration {
        self.bound.max(self.others_judged_at())
    }

    fn others_judged_at(&self) -> Duration {
        self.others_bound + self.resolution + BUSY
    }

    /// One object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let gaps = |gaps: &Gaps| {
            json!({
                "shards": gaps.shards,
                "max_ms": millis(gaps.max),
                "p50_ms": millis(gaps.p50),
            })
        };
        json!({
            "change": self.change,
            "hit": gaps(&self.hit),
            "others": gaps(&self.others),
            "bound_ms": millis(self.bound),
            "judged_ms": millis(self.judged_at()),
            "others_judged_ms": millis(self.others_judged_at()),
            "resolution_ms": millis(self.resolution),
            "ok": self.is_ok(),
        })
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:24}{:>4} shards: max {:>4} ms, p50 {:>4} ms (bound {} ms, judged at {} ms on this machine); {:>3} \
             others: max {} ms (judged at {} ms); shorter than {} ms counts as 0{}",
            self.change,
            self.hit.shards,
            millis(self.hit.max),
            millis(self.hit.p50),
            millis(self.bound),
            millis(self.judged_at()),
            self.others.shards,
            millis(self.others.max),
            millis(self.others_judged_at()),
            millis(self.resolution),
            if self.is_ok() { "" } else { "  EXCEEDED" }
        )
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
