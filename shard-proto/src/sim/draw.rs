//! Which faults a seed has.

use alloc::vec::Vec;
use core::time::Duration;

use super::fault::{Fault, FaultKind, Schedule};
use super::outage::Cause;
use super::{FaultProfile, WorldConfig};
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::micros;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000_000;

/// Draws the faults of a seed.
pub(super) fn draw(seed: u64, config: &WorldConfig) -> Schedule {
    let mut draw = Draw {
        rng: SplitMix64::new(mix(seed ^ 0xfa17)),
        config,
        faults: Vec::new(),
    };
    let end = micros(config.faulty_for());
    draw.storm(end);
    draw.calm(end);
    draw.probe(end);
    Schedule::new(draw.faults)
}

struct Draw<'a> {
    rng: SplitMix64,
    config: &'a WorldConfig,
    faults: Vec<(u64, Fault)>,
}

impl Draw<'_> {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.rng.below(most.saturating_sub(least) + 1)
    }

    /// Short ones are as frequent as long ones.
    fn stretched(&mut self, least: u64, most: u64) -> u64 {
        let mut most_of_octave = least.max(1);
        let octaves = (most / most_of_octave).max(1).ilog2();
        most_of_octave <<= self.rng.below(u64::from(octaves) + 1);
        self.between(most_of_octave, (2 * most_of_octave).min(most))
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.rng.below(1000) < of_1000
    }

    fn host(&mut self) -> u8 {
        self.rng.below(u64::from(self.config.nodes())) as u8
    }

    /// Another one, if there is one.
    fn other(&mut self, host: u8) -> u8 {
        let nodes = self.config.nodes();
        if nodes < 2 {
            return host;
        }
        let step = 1 + self.rng.below(u64::from(nodes) - 1) as u8;
        (host + step) % nodes
    }

    fn shard(&mut self) -> u32 {
        self.rng.below(u64::from(self.config.all_shards())) as u32
    }

    fn add(&mut self, at: u64, fault: Fault) {
        self.faults.push((at, fault));
    }

    /// Everything that goes wrong until `end`.
    fn storm(&mut self, end: u64) {
        let profile = *self.config.faults();
        let total = profile.total();
        if total == 0 || end == 0 {
            return;
        }
        // Some worlds hardly come to rest, others do between any two faults.
        let every = micros(profile.every());
        let every = [every / 2, every, every, 3 * every][self.rng.below(4) as usize].max(1);
        // In some, a few kinds are most of what happens.
        let favourite = self.kind(&profile, total);
        let favours = self.chance(500);
        let mut at = self.between(0, 6 * SECOND);
        while at < end {
            let kind = if favours && self.chance(500) {
                favourite
            } else {
                self.kind(&profile, total)
            };
            self.incident(kind, at, end);
            at += self.between(1, 2 * every);
        }
    }

    fn kind(&mut self, profile: &FaultProfile, total: u64) -> FaultKind {
        let mut left = self.rng.below(total);
        for kind in FaultKind::ALL {
            let weight = u64::from(profile.weight(kind));
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        FaultKind::Move
    }

    /// One thing, with what belongs to it.
    fn incident(&mut self, kind: FaultKind, at: u64, end: u64) {
        let host = self.host();
        let lease = micros(self.config.leadership().lease());
        match kind {
            FaultKind::Cut | FaultKind::Heal => self.cut(at, host),
            FaultKind::Noise => {
                let (loss, duplicate, late) = (
                    self.stretched(10, 500) as u16,
                    self.stretched(10, 300) as u16,
                    self.stretched(5, 300) as u16,
                );
                let delay = Duration::from_micros(self.stretched(20 * MS, 3 * SECOND));
                let noise = Fault::Noise {
                    loss,
                    duplicate,
                    late,
                    delay,
                };
                self.add(at, noise);
                let over = at + self.stretched(500 * MS, 20 * SECOND);
                self.add(over, self.usual_noise());
            }
            FaultKind::Break => {
                let (mut at, other) = (at, self.other(host));
                for _ in 0..=self.rng.below(4) {
                    self.add(at, Fault::Break { a: host, b: other });
                    at += self.stretched(MS, SECOND);
                }
            }
            FaultKind::Pause => {
                let mut host = host;
                for _ in 0..=self.rng.below(8) / 6 {
                    // Shorter and longer than the lease, and just about as long.
                    let for_ = if self.chance(300) {
                        self.between(lease * 9 / 10, lease * 12 / 10)
                    } else {
                        self.stretched(20 * MS, 16 * SECOND)
                    };
                    let at = at + self.rng.below(50 * MS);
                    let for_ = Duration::from_micros(for_.min(end.saturating_sub(at)));
                    self.add(at, Fault::Pause { host, for_ });
                    host = self.other(host);
                }
            }
            FaultKind::Crash => self.crash(at, host),
            FaultKind::Restart | FaultKind::Start => {
                if self.chance(150) {
                    self.crash_all(at);
                } else {
                    self.add(at, Fault::Restart { host });
                }
            }
            // A node that is removed shall be back by the end, and the time to leave be up: who stands still until then
            // ends when it wakes.
            FaultKind::Leave if at + self.leaving() < end => self.leave(at, host),
            FaultKind::Remove if at + 13 * SECOND < end => {
                self.add(at, Fault::Remove { host });
                let back = at + self.stretched(500 * MS, 12 * SECOND);
                self.add(back, Fault::Restart { host });
            }
            FaultKind::Leave | FaultKind::Remove => self.crash(at, host),
            FaultKind::StopRegion | FaultKind::StartRegion => {
                let ty = self.rng.below(u64::from(self.config.types())) as u8;
                self.add(at, Fault::StopRegion { host, ty });
                let back = at + self.stretched(10 * MS, 10 * SECOND);
                self.add(back, Fault::StartRegion { host, ty });
            }
            FaultKind::ClockRate => {
                let most = u64::from(self.config.clock_rate());
                let ppm = self.between(0, 2 * most) as i32 - most as i32;
                self.add(at, Fault::ClockRate { host, ppm });
            }
            FaultKind::ClockJump => {
                let by = Duration::from_micros(self.stretched(10 * MS, 10 * SECOND));
                let voters = self.config.voters();
                // A voter's promise would end early, and a leader would take leases to be over that are not.
                if self.config.ownership() == Ownership::Lease && voters < self.config.nodes() {
                    let host =
                        voters + self.rng.below(u64::from(self.config.nodes() - voters)) as u8;
                    self.add(at, Fault::ClockJump { host, by });
                }
            }
            FaultKind::WallJump => {
                let most = micros(self.config.wall_skew());
                let skew = self.between(0, 2 * most) as i64 - most as i64;
                self.add(at, Fault::WallJump { host, skew });
            }
            FaultKind::Suspect => {
                let for_ = self.stretched(100 * MS, 10 * SECOND).min(end - at);
                let for_ = Duration::from_micros(for_);
                let of = self.other(host);
                self.add(at, Fault::Suspect { by: host, of, for_ });
            }
            FaultKind::HangStops => {
                let for_ = Duration::from_micros(self.stretched(200 * MS, 20 * SECOND));
                self.add(at, Fault::HangStops { host, for_ });
                // What does not stop is asked to.
                for _ in 0..3 {
                    let shard = self.shard();
                    let at = at + self.rng.below(SECOND);
                    self.add(at, Fault::Move { shard });
                }
            }
            FaultKind::SlowStarts => {
                let by = Duration::from_micros(self.stretched(50 * MS, 3 * SECOND));
                let for_ = self.stretched(500 * MS, 10 * SECOND).min(end - at);
                let for_ = Duration::from_micros(for_);
                self.add(at, Fault::SlowStarts { host, by, for_ });
            }
            FaultKind::Burst => {
                let (shard, count) = (self.shard(), self.stretched(8, 1024) as u32);
                self.add(at, Fault::Burst { host, shard, count });
            }
            FaultKind::LockCut => {
                if self.config.ownership() == Ownership::External {
                    let for_ = self.stretched(50 * MS, 10 * SECOND).min(end - at);
                    let for_ = Duration::from_micros(for_);
                    self.add(at, Fault::LockCut { host, for_ });
                }
            }
            FaultKind::Move | FaultKind::Probe => {
                // Moves that overtake each other.
                let (mut at, shard) = (at, self.shard());
                for _ in 0..=self.rng.below(4) {
                    self.add(at, Fault::Move { shard });
                    at += self.stretched(MS, 500 * MS);
                }
            }
        }
        // Nothing begins after the end, but for what `calm` undoes.
        self.faults.retain(|(at, _)| *at <= end);
    }

    fn cut(&mut self, at: u64, host: u8) {
        let nodes = self.config.nodes();
        let over = at + self.stretched(50 * MS, 16 * SECOND);
        let other = self.other(host);
        let mut pairs = Vec::new();
        match self.rng.below(7) {
            0 | 1 => pairs.push((host, other)),
            2 => pairs.extend([(host, other), (other, host)]),
            // Mute, deaf, alone.
            3 => pairs.extend((0..nodes).map(|to| (host, to))),
            4 => pairs.extend((0..nodes).map(|from| (from, host))),
            5 => pairs.extend((0..nodes).flat_map(|to| [(host, to), (to, host)])),
            // Two sides.
            _ => {
                let side = self.rng.next_u64();
                for from in 0..nodes {
                    for to in 0..nodes {
                        if (side >> from) & 1 != (side >> to) & 1 {
                            pairs.push((from, to));
                        }
                    }
                }
            }
        }
        for (from, to) in pairs {
            if from != to {
                self.add(at, Fault::Cut { from, to });
                self.add(over, Fault::Heal { from, to });
            }
        }
    }

    fn crash(&mut self, at: u64, host: u8) {
        let mut host = host;
        for _ in 0..=self.rng.below(10) / 7 {
            let at = at + self.rng.below(50 * MS);
            self.add(at, Fault::Crash { host });
            let back = at + self.stretched(10 * MS, 10 * SECOND);
            self.add(back, Fault::Start { host });
            host = self.other(host);
        }
    }

    /// The whole cluster.
    fn crash_all(&mut self, at: u64) {
        let spread = self.stretched(MS, 2 * SECOND);
        let back = at + spread + self.stretched(10 * MS, 5 * SECOND);
        for host in 0..self.config.nodes() {
            let at = at + self.rng.below(spread);
            self.add(at, Fault::Crash { host });
            let back = back + self.rng.below(spread);
            self.add(back, Fault::Start { host });
        }
    }

    /// How long a node that leaves may take.
    fn leaving(&self) -> u64 {
        2 * micros(self.config.handoff_timeout) + SECOND
    }

    fn leave(&mut self, at: u64, host: u8) {
        let nodes = self.config.nodes();
        let count = match self.rng.below(20) {
            0 => nodes,
            1..=5 => 2.min(nodes),
            _ => 1,
        };
        let mut host = host;
        for _ in 0..count {
            let at = at + self.rng.below(100 * MS);
            self.add(at, Fault::Leave { host });
            let back = at + self.stretched(SECOND, self.leaving());
            self.add(back, Fault::Start { host });
            host = (host + 1) % nodes;
        }
    }

    fn usual_noise(&self) -> Fault {
        let (loss, duplicate, late, delay) = self.config.noise();
        Fault::Noise {
            loss,
            duplicate,
            late,
            delay,
        }
    }

    /// Everything is undone.
    fn calm(&mut self, end: u64) {
        let nothing = Fault::Noise {
            loss: 0,
            duplicate: 0,
            late: 0,
            delay: Duration::ZERO,
        };
        self.add(end, Fault::HealAll);
        self.add(end, nothing);
        for host in 0..self.config.nodes() {
            self.add(end, Fault::Start { host });
            for ty in 0..self.config.types() {
                self.add(end, Fault::StartRegion { host, ty });
            }
            let hang = Fault::HangStops {
                host,
                for_: Duration::ZERO,
            };
            self.add(end, hang);
        }
    }

    /// One thing that is measured, in the quiet after the recovery.
    fn probe(&mut self, end: u64) {
        let window = micros(self.config.probe_for());
        if window == 0 {
            return;
        }
        let cause = Cause::PROBED[self.rng.below(Cause::PROBED.len() as u64) as usize];
        let at = end + micros(self.config.calm_for()) + self.rng.below(SECOND);
        self.add(at, Fault::Probe(cause));
        self.add(at + window, Fault::ProbeOver);
    }
}
