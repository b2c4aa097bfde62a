//! Scripts: a cluster at rest, in which one thing after the other happens.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use crate::allocation::{AllocationStrategy, Candidates, LeastShards, NodeSlot, RebalancePlan};
use crate::hash::mix;
use crate::sim::{Fault, HeapStore, Report, Schedule, World, WorldConfig};
use crate::{Home, ShardId, Term};

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Nothing goes wrong unless the script says so; callers send all the time.
pub(super) fn quiet() -> WorldConfig {
    WorldConfig::new()
        .with_nodes(4)
        .with_shards(16)
        .with_noise(0, 0, 0, Duration::ZERO)
        .with_moves(Duration::ZERO)
        .with_wall_skew(Duration::ZERO)
        .with_phases(ms(200_000), ms(40_000))
        .with_probe(Duration::ZERO)
}

/// Moves nothing that it is not told to.
#[derive(Clone, Debug)]
struct Stay(LeastShards);

impl AllocationStrategy for Stay {
    fn allocate(&mut self, shard: ShardId, candidates: &Candidates<'_>) -> Option<NodeSlot> {
        self.0.allocate(shard, candidates)
    }

    fn rebalance(&mut self, _: &mut RebalancePlan<'_>) {}
}

/// A shard whose entities handle messages at once: the mailboxes of others fill up.
pub(super) fn quick_shard(seed: u64) -> u32 {
    (0..16)
        .find(|shard| mix(seed ^ u64::from(*shard)) & 3 != 0)
        .unwrap()
}

/// A world whose promises hold at every step of the script.
pub(super) struct Script {
    world: World<HeapStore>,
}

impl Deref for Script {
    type Target = World<HeapStore>;
    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

impl DerefMut for Script {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.world
    }
}

impl Script {
    /// Nothing has started yet.
    pub(super) fn fresh(config: WorldConfig, seed: u64) -> Self {
        let world = World::with_schedule(config, seed, Schedule::default()).unwrap();
        Self { world }
    }

    /// Every shard is served.
    pub(super) fn formed(config: WorldConfig, seed: u64) -> Self {
        Self::formed_in(config, seed, 10_000)
    }

    /// Every shard is served, and moves only if it is told to.
    pub(super) fn steady(config: WorldConfig, seed: u64) -> Self {
        let Self { world } = Self::fresh(config, seed);
        let world = world.strategy(|| Box::new(Stay(LeastShards::new())));
        let mut script = Self { world };
        script.until_served(10_000);
        script.pass(1_000);
        script
    }

    /// Every shard is served after so many ms at most.
    pub(super) fn formed_in(config: WorldConfig, seed: u64, within: u64) -> Self {
        let mut script = Self::fresh(config, seed);
        script.until_served(within);
        script.pass(1_000);
        script
    }

    pub(super) fn shards(&self) -> u32 {
        self.config().all_shards()
    }

    pub(super) fn hosts(&self) -> core::ops::Range<u8> {
        0..self.config().nodes()
    }

    pub(super) fn is_served(&self) -> bool {
        (0..self.shards()).all(|shard| self.serving(shard).is_some())
    }

    /// How many ms it took.
    pub(super) fn until(
        &mut self,
        within: u64,
        reached: impl FnMut(&World<HeapStore>) -> bool,
    ) -> u64 {
        let start = self.now();
        let reached = self.world.run_until(ms(within), reached);
        assert!(reached.unwrap(), "not within {within} ms");
        (self.now() - start) / 1000
    }

    pub(super) fn until_served(&mut self, within: u64) -> u64 {
        let shards = self.shards();
        self.until(within, |world| {
            (0..shards).all(|shard| world.serving(shard).is_some())
        })
    }

    pub(super) fn pass(&mut self, time: u64) {
        self.world.run_for(ms(time)).unwrap();
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.world.inject(fault).unwrap();
    }

    pub(super) fn crash(&mut self, host: u8) {
        self.fault(Fault::Crash { host });
    }

    pub(super) fn pause(&mut self, host: u8, time: u64) {
        self.fault(Fault::Pause {
            host,
            for_: ms(time),
        });
    }

    /// Nothing gets from or to a host.
    pub(super) fn isolate(&mut self, host: u8) {
        for other in self.hosts() {
            if other != host {
                self.fault(Fault::Cut {
                    from: host,
                    to: other,
                });
                self.fault(Fault::Cut {
                    from: other,
                    to: host,
                });
            }
        }
    }

    pub(super) fn leader(&self) -> (u8, Term) {
        self.acting().expect("nobody leads")
    }

    /// A host that does not lead and serves something.
    pub(super) fn follower(&self) -> u8 {
        let (leader, _) = self.leader();
        self.hosts()
            .find(|host| *host != leader && !self.served_by(*host).is_empty())
            .unwrap()
    }

    /// What a host serves.
    pub(super) fn served_by(&self, host: u8) -> Vec<u32> {
        (0..self.shards())
            .filter(|shard| self.serving(*shard) == Some(host))
            .collect()
    }

    /// What the leader has recorded.
    pub(super) fn homes(&self) -> BTreeMap<u32, Home> {
        (0..self.shards())
            .filter_map(|shard| Some((shard, self.home(shard)?)))
            .collect()
    }

    /// A host that is up, and neither of these.
    pub(super) fn another(&self, not: &[u8]) -> u8 {
        self.hosts()
            .find(|host| !not.contains(host) && self.machine(*host).is_some())
            .unwrap()
    }

    /// Goes on to the end: everything works, and nothing was lost.
    pub(super) fn finish(self) -> Report {
        self.world
            .run()
            .unwrap_or_else(|failure| panic!("{failure}"))
    }
}
