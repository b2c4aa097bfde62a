//! Asks every shard again and again whether it serves.

use core::{num::NonZeroU32, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shard_tokio::{Entity, EntityRef, EntityType, ShardId};
use tokio::{task::JoinHandle, time::Instant};

use super::{Probed, Served, Servings};
use crate::{clock, failure::Failure, process::within};

/// Asks an entity of every shard again and again whether it serves, without waiting for answers, until dropped.
#[derive(Debug)]
pub struct Prober {
    seen: Arc<Mutex<Seen>>,
    every: Duration,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Seen {
    /// When each shard handled a probe, in order.
    served_us: Vec<Vec<u64>>,
    servings: Servings,
    /// Probes that were sent late, when and by how much.
    late_us: Vec<(u64, u64)>,
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Prober {
    /// Begins to ask.
    #[must_use]
    pub fn start<E: Probed>(entities: &EntityType<E>, shards: NonZeroU32) -> Self {
        // At most 16 000 probes per second: the rest of the machine is for the nodes.
        let apart = Duration::from_micros(if cfg!(debug_assertions) { 500 } else { 62 });
        let every = (apart * shards.get()).max(Duration::from_millis(5));
        let seen = Arc::new(Mutex::new(Seen {
            served_us: vec![Vec::new(); shards.get() as usize],
            servings: Servings::default(),
            late_us: Vec::new(),
        }));
        let probes = probes(entities, shards.get());
        let task = tokio::spawn(ask(probes, Arc::clone(&seen), every / shards.get()));
        Self { seen, every, task }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// How often each shard is asked.
    #[must_use]
    pub const fn every(&self) -> Duration {
        self.every
    }

    /// Under which epochs shards were served.
    #[must_use]
    pub fn servings(&self) -> Servings {
        self.lock().servings.clone()
    }

    /// Waits until these shards, or all, have been served after a moment.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn served_since(
        &self,
        since_us: u64,
        shards: Option<&BTreeSet<ShardId>>,
    ) -> Result<(), Failure> {
        let counts = |shard: usize| {
            let shard = ShardId(u32::try_from(shard).unwrap_or(u32::MAX));
            shards.is_none_or(|shards| shards.contains(&shard))
        };
        let served = async {
            loop {
                let all = self.lock().served_us.iter().enumerate().all(|(shard, at)| {
                    !counts(shard) || at.last().is_some_and(|at| *at > since_us)
                });
                if all {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        within("all shards are served", served).await
    }

    /// The longest time of each shard between two servings, of those that reach into a span of time.
    #[must_use]
    pub fn gaps(&self, from_us: u64, to_us: u64) -> BTreeMap<ShardId, Duration> {
        let seen = self.lock();
        let gaps = seen
            .served_us
            .iter()
            .map(|served| longest_gap(served, from_us, to_us));
        (0..).map(ShardId).zip(gaps).collect()
    }

    /// What cannot be told from service without a gap, in a span of time: the longest gap in half a second before it,
    /// one pause between probes, and how late a probe was sent.
    #[must_use]
    pub fn resolution(&self, from_us: u64, to_us: u64) -> Duration {
        let seen = self.lock();
        let before = seen.served_us.iter().map(|served| {
            let before = &served[..served.partition_point(|at| *at <= from_us)];
            longest_gap(before, from_us.saturating_sub(500_000), from_us)
        });
        let before = before.max().unwrap_or_default();
        let late = seen
            .late_us
            .iter()
            .filter(|(at, _)| (from_us..to_us).contains(at));
        let late = late.map(|(_, late)| *late).max().unwrap_or(0);
        before.max(self.every) + self.every + Duration::from_micros(late)
    }

    /// Forgets when shards were served before a moment, but not under which epochs.
    pub fn forget(&self, before_us: u64) {
        let mut seen = self.lock();
        for served in &mut seen.served_us {
            let keep = served.partition_point(|at| *at < before_us);
            served.drain(..keep.saturating_sub(1));
        }
        seen.late_us.retain(|(at, _)| *at >= before_us);
    }
}

pub(super) fn longest_gap(served: &[u64], from_us: u64, to_us: u64) -> Duration {
    // From the last serving before the span, if there is one, to the first one after it.
    let first = served.partition_point(|at| *at <= from_us);
    let begin = first.checked_sub(1).map_or(from_us, |last| served[last]);
    let mut gap = 0;
    let mut last = begin;
    for at in &served[first..] {
        gap = gap.max(at - last);
        last = *at;
        if last >= to_us {
            break;
        }
    }
    Duration::from_micros(gap.max(to_us.saturating_sub(last)))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entity in each shard.
fn probes<E: Entity>(entities: &EntityType<E>, shards: u32) -> Vec<EntityRef<E>> {
    let mut probes = vec![None; shards as usize];
    let mut missing = probes.len();
    for number in 0_u64.. {
        if missing == 0 {
            break;
        }
        let key = format!("probe-{number}");
        let slot = &mut probes[entities.shard_of(&key).0 as usize];
        if slot.is_none() {
            *slot = Some(entities.entity(&key));
            missing -= 1;
        }
    }
    probes.into_iter().flatten().collect()
}

async fn ask<E: Probed>(probes: Vec<EntityRef<E>>, seen: Arc<Mutex<Seen>>, pause: Duration) {
    let mut due = Instant::now();
    for probe in probes.iter().cycle() {
        let now = Instant::now();
        if due > now {
            tokio::time::sleep_until(due).await;
        }
        let late = due.elapsed();
        // A timer of the runtime may be late by a millisecond or two.
        if late > Duration::from_millis(3) {
            let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
            lock(&seen).late_us.push((clock::micros(), late));
            // What was missed is not made up for.
            due = Instant::now();
            tokio::task::yield_now().await;
        }
        due += pause;
        let (probe, seen) = (probe.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            // Without an answer it was not served, which the next ones tell.
            let answer = probe.ask(E::probe()).await;
            if let Some(served) = answer.ok().and_then(|answer| E::served(&answer)) {
                lock(&seen).serve(probe.shard(), served);
            }
        });
    }
}

impl Seen {
    fn serve(&mut self, shard: ShardId, Served { epoch, at_us }: Served) {
        self.servings.add(shard, epoch, at_us, at_us);
        if let Some(served) = self.served_us.get_mut(shard.0 as usize) {
            // Answers may overtake each other.
            let at = served.partition_point(|other| *other <= at_us);
            served.insert(at, at_us);
        }
    }
}
