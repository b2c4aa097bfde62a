//! What a fault does: to links, to a host and its clocks, and to whom a probe finds in the part that it is about.

use alloc::vec::Vec;
use core::time::Duration;

use super::cluster::ACK_DELAY;
use super::event::What;
use super::life::TERM_UNIT;
use super::membership::Happened;
use super::{Cause, Fault, Store, World};
use crate::leadership::Ownership;
use crate::{Term, micros};

impl<St: Store> World<St> {
    fn set_cut(&mut self, from: usize, to: usize, cut: bool) {
        let now = self.core.now;
        let again = now + self.core.rng.below(200_000);
        let index = self.core.net.index(from, to);
        let link = &mut self.core.net.links[index];
        if link.cut == cut {
            return;
        }
        link.cut = cut;
        if cut {
            link.armed = false;
            link.stamp += 1;
        } else {
            link.down_until = link.down_until.max(again);
            let acknowledged = link.down_until + ACK_DELAY;
            self.core.arm(index);
            // What arrived the other way meanwhile is acknowledged now.
            let link = self.core.net.index(to, from) as u16;
            self.core.events.push(acknowledged, What::Room { link });
        }
    }

    fn break_link(&mut self, from: usize, to: usize, until: u64) {
        let index = self.core.net.index(from, to);
        let link = &mut self.core.net.links[index];
        link.connection += 1;
        link.down_until = link.down_until.max(until);
        link.armed = false;
        link.stamp += 1;
        self.core.arm(index);
    }

    /// Something goes wrong.
    pub(super) fn apply(&mut self, fault: Fault) {
        let now = self.core.now;
        self.core.report.count(&fault);
        self.core.checker.disturbed(now);
        self.core.trace.add([now, 7 << 40, 0], || {
            alloc::format!("{now} fault: {fault:?}")
        });
        if let Fault::Probe(cause) = fault {
            return self.probe(cause);
        }
        let count = self.core.hosts.len();
        let known = |host: u8| usize::from(host) < count;
        match fault {
            Fault::Cut { from, to } if known(from) && known(to) && from != to => {
                self.set_cut(usize::from(from), usize::from(to), true);
                self.happened(usize::from(from), Happened::Links);
            }
            Fault::Heal { from, to } if known(from) && known(to) => {
                self.set_cut(usize::from(from), usize::from(to), false);
                self.happened(usize::from(from), Happened::Links);
            }
            Fault::HealAll => {
                for from in 0..count {
                    for to in 0..count {
                        self.set_cut(from, to, false);
                    }
                }
                self.happened(0, Happened::Links);
            }
            Fault::Noise {
                loss,
                duplicate,
                late,
                delay,
            } => {
                self.core.noise = (
                    loss.min(1000),
                    duplicate.min(1000),
                    late.min(1000),
                    micros(delay),
                );
            }
            Fault::Break { a, b } if known(a) && known(b) && a != b => {
                let (a, b) = (usize::from(a), usize::from(b));
                let until = now + self.core.rng.below(300_000);
                self.break_link(a, b, until);
                self.break_link(b, a, until);
            }
            Fault::Burst { host, shard, count }
                if known(host) && shard < self.core.config.all_shards() =>
            {
                for number in 0..count {
                    let entity = number % self.core.config.entities;
                    self.send_one(usize::from(host), shard, entity);
                }
            }
            Fault::Move { shard } if shard < self.core.config.all_shards() => {
                self.move_shard(shard);
            }
            Fault::ProbeOver => {
                self.core.checker.probe_over(now);
                self.apply(Fault::HealAll);
                for host in 0..self.core.config.nodes {
                    self.apply_to(usize::from(host), Fault::Start { host });
                }
            }
            Fault::Pause { host, .. }
            | Fault::Crash { host }
            | Fault::Restart { host }
            | Fault::Start { host }
            | Fault::Leave { host }
            | Fault::StopRegion { host, .. }
            | Fault::StartRegion { host, .. }
            | Fault::ClockRate { host, .. }
            | Fault::ClockJump { host, .. }
            | Fault::WallJump { host, .. }
            | Fault::Remove { host }
            | Fault::HangStops { host, .. }
            | Fault::SlowStarts { host, .. }
            | Fault::LockCut { host, .. }
                if known(host) =>
            {
                self.apply_to(usize::from(host), fault);
            }
            Fault::Suspect { by, of, for_ } if known(by) && known(of) => {
                let until = now + micros(for_);
                self.happened(usize::from(of), Happened::Suspected { by, until });
            }
            _ => {}
        }
    }

    /// Something goes wrong with one host.
    fn apply_to(&mut self, host: usize, fault: Fault) {
        let now = self.core.now;
        let local = self.core.local(host);
        let state = &mut self.core.hosts[host];
        let alive = state.alive;
        let life = state.life;
        match fault {
            Fault::Pause { for_, .. } if alive => {
                state.asleep = true;
                state.paused_until = state.paused_until.max(now + micros(for_));
                state.pauses += 1;
                state.wake = u64::MAX;
                let (until, stamp) = (state.paused_until, state.pauses);
                let what = What::Wake {
                    host: host as u8,
                    stamp,
                };
                self.core.events.push(until, what);
                self.core.checker.paused(now, host as u8);
                self.happened(host, Happened::Paused);
            }
            Fault::Crash { .. } => self.end_life(host),
            Fault::Restart { .. } => {
                self.end_life(host);
                self.begin_life(host);
            }
            Fault::Start { .. } if !alive => self.begin_life(host),
            Fault::Start { .. } => state.returns = state.leaving,
            Fault::Leave { .. } if alive && !state.is_paused() => {
                let left = self.machines[host]
                    .as_mut()
                    .is_some_and(|machine| machine.leave(local, true, &mut self.core.sink(host)));
                if left {
                    self.core.hosts[host].leaving = true;
                    self.happened(host, Happened::Leaving);
                }
                self.after(host);
            }
            Fault::StopRegion { ty, .. } if alive && !state.is_paused() => {
                if let Some(machine) = &mut self.machines[host] {
                    machine.stop_type(local, ty, &mut self.core.sink(host));
                }
                self.after(host);
            }
            Fault::StartRegion { ty, .. } if alive => self.start_type(host, ty, life),
            Fault::ClockRate { ppm, .. } => {
                state.ppm = ppm;
                state.clock.set_rate(now, ppm);
                self.clock_changed(host);
            }
            Fault::ClockJump { by, .. } => {
                state.clock.jump(by);
                self.clock_changed(host);
            }
            Fault::WallJump { skew, .. } => {
                state.skew = skew;
                let floor = Term(self.wall(host) / TERM_UNIT);
                if alive
                    && !self.core.hosts[host].is_paused()
                    && let Some(machine) = &mut self.machines[host]
                {
                    machine.handle_term_floor(local, floor, &mut self.core.sink(host));
                    self.after(host);
                }
            }
            Fault::Remove { .. } if alive => self.happened(host, Happened::Removed),
            Fault::HangStops { for_, .. } => state.hang_until = now + micros(for_),
            Fault::SlowStarts { by, for_, .. } => {
                state.slow_until = now + micros(for_);
                state.slow_by = micros(by);
            }
            Fault::LockCut { for_, .. } => state.lock_cut_until = now + micros(for_),
            _ => {}
        }
    }

    /// What was said in local time is another real time now.
    fn clock_changed(&mut self, host: usize) {
        let state = &mut self.core.hosts[host];
        if !state.alive {
            return;
        }
        let (lease, acting) = (state.lease_until, state.acting);
        // What is over stays over.
        if state.acting_real > self.core.now {
            self.core.set_acting(host, acting);
        }
        if self.core.hosts[host].lease_real > self.core.now {
            self.core.set_lease(host, lease);
        }
        if !self.core.hosts[host].is_paused() {
            let local = self.core.local(host);
            if let Some(machine) = &mut self.machines[host] {
                machine.handle_timeout(local, &mut self.core.sink(host));
            }
            self.after(host);
        }
    }

    /// One thing happens, to whom it fits.
    fn probe(&mut self, cause: Cause) {
        let now = self.core.now;
        let leader = self.acting().map(|(host, _)| host);
        let others: Vec<u8> = (0..self.core.config.nodes)
            .filter(|host| Some(*host) != leader && self.core.hosts[usize::from(*host)].alive)
            .collect();
        let leads = matches!(
            cause,
            Cause::LeaderCrash
                | Cause::LeaderPause
                | Cause::LeaderLeave
                | Cause::LeaderCut
                | Cause::LeaderMute
                | Cause::LeaderDeaf
        );
        // Nobody leads without the only voter.
        if leads && self.core.config.ownership == Ownership::Lease && self.core.config.voters < 3 {
            return;
        }
        let other = if others.is_empty() {
            None
        } else {
            Some(others[self.core.rng.below(others.len() as u64) as usize])
        };
        let shard = self
            .core
            .rng
            .below(u64::from(self.core.config.all_shards())) as u32;
        let victim = match cause {
            Cause::Move => self.serving(shard),
            _ if leads => leader,
            _ => other,
        };
        let Some(host) = victim else {
            return;
        };
        self.core.checker.probe(now, cause, &[host]);
        let all = 0..self.core.config.nodes;
        let long: Duration = 3 * self.core.config.leadership.lease() + Duration::from_secs(1);
        match cause {
            Cause::Crash | Cause::LeaderCrash => self.apply(Fault::Crash { host }),
            Cause::Pause | Cause::LeaderPause => self.apply(Fault::Pause { host, for_: long }),
            Cause::Restart => self.apply(Fault::Restart { host }),
            Cause::Leave | Cause::LeaderLeave => self.apply(Fault::Leave { host }),
            Cause::Move => self.apply(Fault::Move { shard }),
            Cause::Cut | Cause::LeaderCut => {
                for other in all {
                    self.apply(Fault::Cut {
                        from: host,
                        to: other,
                    });
                    self.apply(Fault::Cut {
                        from: other,
                        to: host,
                    });
                }
            }
            Cause::LeaderMute => {
                for to in all {
                    self.apply(Fault::Cut { from: host, to });
                }
            }
            Cause::LeaderDeaf => {
                for from in all {
                    self.apply(Fault::Cut { from, to: host });
                }
            }
            _ => {}
        }
    }
}
