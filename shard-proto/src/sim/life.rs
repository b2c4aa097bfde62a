//! Lives of hosts: how they begin and end, what they hear of each other, and what goes wrong with them.

use alloc::vec::Vec;
use core::time::Duration;

use super::clock::Clock;
use super::cluster::Running;
use super::event::What;
use super::machine::{Body, Machine, Phase, Sink};
use super::membership::{ClusterView, Happened, Life, News};
use super::net::NOBODY;
use super::{Cause, Fault, MembershipScript, Store, World};
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::membership::{MemberChange, RemovalCause};
use crate::region::{Origin, RejectReason};
use crate::{Incarnation, Term, micros};

/// A wall clock that is not off shows this when a world begins: some time after 1970.
const WALL: u64 = 1_700_000_000_000_000;
/// Microseconds in the unit of terms.
const TERM_UNIT: u64 = 62_500;

impl<St: Store> World<St> {
    fn wall(&self, host: usize) -> u64 {
        (WALL + self.core.now).saturating_add_signed(self.core.hosts[host].skew)
    }

    /// A process starts.
    pub(super) fn begin_life(&mut self, host: usize) {
        let wall = self.wall(host);
        let core = &mut self.core;
        let now = core.now;
        let life = core.lives.len() as u32;
        let state = &mut core.hosts[host];
        let incarnation = Incarnation(wall.max(state.incarnation.0 + 1));
        state.alive = true;
        state.life = life;
        state.incarnation = incarnation;
        // A process's clock starts anywhere.
        let local = 1_000_000 + state.rng.below(1 << 40);
        state.clock = Clock::new(now, local, state.ppm);
        state.asleep = false;
        state.paused_until = 0;
        state.pauses += 1;
        state.leaving = false;
        state.messages = 0;
        state.idle_calls = 0;
        state.lease_until = None;
        state.lease_real = 0;
        state.acting = None;
        state.acting_real = 0;
        state.lock_until = 0;
        for hosted in &mut state.hosted {
            hosted.running = Running::No;
            hosted.stamp += 1;
            hosted.busy = false;
            hosted.mailbox.clear();
        }
        state.knows.fill(NOBODY);
        state.ended.fill(0);
        let seed = state.rng.next_u64();
        let mut floor = Term(wall / TERM_UNIT);
        if core.config.persisted_terms {
            floor = floor.max(state.known_term.next());
        }
        state.traffic = SplitMix64::new(mix(seed));
        let first = now + state.traffic.below(100_000);
        let node = state.node;
        core.lives.push((host as u8, incarnation));
        core.checker.began(now, host as u8, life);
        core.trace
            .add([now, host as u64 | 4 << 40, incarnation.0], || {
                alloc::format!("{now} {host} begins life {life}, incarnation {incarnation}")
            });
        let local = core.local(host);
        let made = Machine::new(
            local,
            node,
            incarnation,
            &core.config,
            seed,
            &*self.strategy,
        );
        let Some(mut machine) = made else {
            return core.fail_timer(host, "the settings do not fit");
        };
        machine.handle_term_floor(local, floor, &mut core.sink(host));
        self.machines[host] = Some(machine);
        let (name, host_number) = (
            What::Traffic {
                host: host as u8,
                life,
            },
            host as u8,
        );
        if !core.config.traffic.is_zero() {
            core.events.push(first, name);
        }
        if core.config.ownership == Ownership::External {
            let what = What::Lock {
                host: host_number,
                life,
            };
            core.events.push(now, what);
        }
        self.after(host);
        self.happened(host, Happened::Started);
    }

    /// A process ends: it has left, was told that it is over, or (otherwise) is gone without a word.
    pub(super) fn end_life(&mut self, host: usize) {
        let now = self.core.now;
        let Some(machine) = self.machines[host].take() else {
            return;
        };
        let left = machine.phase() == Phase::Left;
        let removed = machine.phase() == Phase::Removed;
        let core = &mut self.core;
        let known = machine.leadership().leader().map(|leader| leader.term);
        let own = machine.leadership().reign();
        let state = &mut core.hosts[host];
        state.known_term = state
            .known_term
            .max(known.unwrap_or(Term::NONE))
            .max(own.unwrap_or(Term::NONE));
        state.alive = false;
        state.leaving = false;
        state.wake = u64::MAX;
        state.asleep = false;
        state.paused_until = 0;
        let life = state.life;
        for hosted in &mut state.hosted {
            hosted.stamp += 1;
            hosted.running = Running::No;
        }
        core.trace
            .add([now, host as u64 | 5 << 40, u64::from(left)], || {
                alloc::format!("{now} {host} ends life {life}")
            });
        if left {
            self.report_unacknowledged(host);
        }
        let core = &mut self.core;
        let ended = core.checker.ended(now, host as u8, left);
        core.check(ended);
        // What left the process may still arrive, or some of it.
        for to in 0..core.hosts.len() {
            let lost = core.rng.below(4);
            let link = core.net.link(host, to);
            let whole = link.queue.iter().take_while(|flight| flight.gone).count();
            let keep = match lost {
                _ if link.cut || link.down_until > now => 0,
                0 => whole / 2,
                1 => 0,
                _ => whole,
            };
            link.queue.truncate(keep);
        }
        if removed {
            let at = now + core.rng.below(1_000_000);
            let what = What::Restart {
                host: host as u8,
                life,
            };
            core.events.push(at, what);
        }
        let what = if left {
            Happened::Left
        } else {
            Happened::Crashed
        };
        self.happened(host, what);
    }

    /// The time to leave is up: what may not have arrived is reported.
    fn report_unacknowledged(&mut self, host: usize) {
        for to in 0..self.core.hosts.len() {
            let life = self.core.hosts[host].life;
            let link = self.core.net.link(host, to);
            if link.from_life != life {
                continue;
            }
            let arrived = link.arrived.iter().map(|(_, frame)| *frame);
            let queue = link.queue.iter().map(|flight| flight.frame);
            let frames: Vec<_> = arrived.chain(queue).collect();
            for frame in frames {
                if let Body::Envelope(message) = frame.body {
                    let reason = RejectReason::PerhapsDelivered;
                    let mut sink = self.core.sink(host);
                    sink.reject(frame.ty, frame.shard, Origin::Local, reason, message);
                }
            }
        }
    }

    /// Two lives have nothing to do with each other any more, as far as `host` knows.
    pub(super) fn end_pair(&mut self, host: usize, other: usize, life: u32) {
        let node = self.core.hosts[other].node;
        let incarnation = self.core.lives[life as usize].1;
        self.close_pair(host, other, life);
        let change = MemberChange::Removed {
            node,
            incarnation,
            cause: RemovalCause::Replaced,
        };
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_member(local, change, &mut self.core.sink(host));
        }
    }

    /// Takes back what never left, and reports what did and may not have arrived.
    fn close_pair(&mut self, host: usize, other: usize, life: u32) {
        let state = &mut self.core.hosts[host];
        state.ended[other] = state.ended[other].max(life + 1);
        if state.knows[other] == life {
            state.knows[other] = NOBODY;
        }
        let node = self.core.hosts[other].node;
        let local = self.core.local(host);
        let now = self.core.now;
        let from_life = self.core.hosts[host].life;
        let back = self.core.net.index(other, host);
        let acknowledges = !self.core.net.links[back].cut;
        let link = self.core.net.link(host, other);
        if link.from_life != from_life || link.to_life != life {
            return;
        }
        if acknowledges {
            link.acknowledge(now.saturating_sub(20_000));
        }
        let arrived = core::mem::take(&mut link.arrived);
        let queue = core::mem::take(&mut link.queue);
        link.reset();
        let Some(machine) = &mut self.machines[host] else {
            return;
        };
        let mut sink = self.core.sink(host);
        let gone = arrived.iter().map(|(_, frame)| (*frame, true));
        let frames: Vec<_> = gone
            .chain(queue.iter().map(|flight| (flight.frame, flight.gone)))
            .collect();
        for (frame, gone) in frames {
            let Body::Envelope(message) = frame.body else {
                continue;
            };
            if gone || !machine.take_back(local, node, frame, &mut sink) {
                let reason = RejectReason::PerhapsDelivered;
                sink.reject(frame.ty, frame.shard, Origin::Local, reason, message);
            }
        }
    }

    /// Asks the membership script what hosts are told.
    pub(super) fn ask_script(
        &mut self,
        ask: impl FnOnce(&mut dyn MembershipScript, &mut ClusterView<'_>, &mut Vec<News>),
    ) {
        let now = self.core.now;
        let hosts: Vec<Life> = self
            .core
            .hosts
            .iter()
            .map(|host| Life {
                node: host.node,
                incarnation: host.incarnation,
                alive: host.alive,
                paused: host.is_paused(),
                leaving: host.leaving,
            })
            .collect();
        let cuts: Vec<bool> = self.core.net.links.iter().map(|link| link.cut).collect();
        let mut view = ClusterView {
            now,
            hosts: &hosts,
            cuts: &cuts,
            rng: &mut self.script_rng,
        };
        let mut news = Vec::new();
        ask(&mut *self.script, &mut view, &mut news);
        for news in news {
            self.announce(news);
        }
        self.arm_script();
    }

    pub(super) fn happened(&mut self, host: usize, what: Happened) {
        self.ask_script(|script, view, news| script.happened(view, host as u8, what, news));
    }

    fn announce(&mut self, news: News) {
        let Some(host) = self.core.hosts.get(usize::from(news.host)) else {
            return;
        };
        let at = news.at.max(self.core.now);
        let item = (news, host.life);
        let slot = match self.free_news.pop() {
            Some(slot) => {
                self.news[slot as usize] = item;
                slot
            }
            None => {
                self.news.push(item);
                self.news.len() as u32 - 1
            }
        };
        self.core.events.push(at, What::News { news: slot });
    }

    /// A host hears of another, or of itself.
    pub(super) fn tell(&mut self, slot: u32) {
        let (news, life) = self.news[slot as usize];
        let host = usize::from(news.host);
        let state = &self.core.hosts[host];
        if state.alive && state.life == life && state.is_paused() {
            let until = state.paused_until.max(self.core.now);
            return self.core.events.push(until, What::News { news: slot });
        }
        self.free_news.push(slot);
        if !state.alive || state.life != life {
            return;
        }
        let (node, incarnation) = match news.change {
            MemberChange::Member(member) => (member.node, member.incarnation),
            MemberChange::Removed {
                node, incarnation, ..
            } => (node, incarnation),
        };
        if node != state.node
            && let Some(other) = self.core.host_of(node)
            && let Some(life) = self.core.life_of(other, incarnation)
        {
            let known = state.knows[other];
            match news.change {
                MemberChange::Member(_) if state.ended[other] > life => return,
                MemberChange::Member(_) if known != NOBODY && known > life => return,
                MemberChange::Member(_) => {
                    if known != NOBODY && known < life {
                        self.close_pair(host, other, known);
                    }
                    self.core.hosts[host].knows[other] = life;
                }
                MemberChange::Removed { .. } => {
                    if known != NOBODY && known <= life {
                        self.close_pair(host, other, known);
                    }
                    let ended = &mut self.core.hosts[host].ended[other];
                    *ended = (*ended).max(life + 1);
                }
            }
        }
        let now = self.core.now;
        self.core
            .trace
            .add([now, host as u64 | 6 << 40, node.0 ^ incarnation.0], || {
                alloc::format!("{now} {host} hears {:?}", news.change)
            });
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_member(local, news.change, &mut self.core.sink(host));
        }
        self.after(host);
    }

    /// A host goes on after a pause.
    pub(super) fn wake(&mut self, host: usize, stamp: u32) {
        let state = &mut self.core.hosts[host];
        if !state.alive || state.pauses != stamp || !state.asleep {
            return;
        }
        state.asleep = false;
        self.core.checker.resumed(self.core.now, host as u8);
        self.check_lock(host);
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_timeout(local, &mut self.core.sink(host));
        }
        self.after(host);
        self.happened(host, Happened::Woken);
    }

    pub(super) fn start_type(&mut self, host: usize, ty: u8, life: u32) {
        let state = &mut self.core.hosts[host];
        if !state.alive || state.life != life {
            return;
        }
        let seed = state.rng.next_u64();
        let what = What::StartType {
            host: host as u8,
            ty,
            life,
        };
        if state.is_paused() {
            let until = state.paused_until.max(self.core.now);
            return self.core.events.push(until, what);
        }
        let local = self.core.local(host);
        let Some(machine) = &mut self.machines[host] else {
            return;
        };
        let started = machine.start_type(local, ty, seed, &mut self.core.sink(host));
        if started {
            let first = self.core.flat(ty, crate::ShardId(0));
            let shards = first..first + self.core.config.shards as usize;
            self.core.checker.type_started(host as u8, shards);
        }
        if !started && machine.is_stopped(ty) && machine.phase() == Phase::Running {
            let again = self.core.now + 50_000;
            self.core.events.push(again, what);
        }
        self.after(host);
    }

    /// Makes a coordinator hand a shard off.
    pub(super) fn move_shard(&mut self, shard: u32) {
        let Some((host, _)) = self.acting() else {
            return;
        };
        let host = usize::from(host);
        if self.core.hosts[host].is_paused() {
            return;
        }
        let (ty, place) = self.core.place(shard);
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.want_move(local, ty, place, &mut self.core.sink(host));
        }
        self.after(host);
    }

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
            self.core.arm(index);
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
                    // One that leaves still would be missing later.
                    let back = if self.core.hosts[usize::from(host)].leaving {
                        Fault::Restart { host }
                    } else {
                        Fault::Start { host }
                    };
                    self.apply_to(usize::from(host), back);
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

    /// A host looks for the lock that decides who leads, and takes or keeps it if it can.
    pub(super) fn look_for_lock(&mut self, host: usize, life: u32) {
        let now = self.core.now;
        let ttl = micros(self.core.config.leadership.lease());
        let state = &self.core.hosts[host];
        if !state.alive || state.life != life {
            return;
        }
        let what = What::Lock {
            host: host as u8,
            life,
        };
        if state.is_paused() {
            let until = state.paused_until.max(now);
            return self.core.events.push(until, what);
        }
        let reaches = state.lock_cut_until <= now && !state.leaving;
        let own = self.lock.holder == Some((host as u8, life)) && self.lock.until > now;
        // A holder that was not sure any more for a moment does not go on under the same token.
        let holds = own && state.lock_until > now;
        if reaches && (own || self.lock.until <= now) {
            if !holds {
                let term = (WALL + now) / TERM_UNIT;
                self.lock.term = term.max(self.lock.term + 1);
                self.lock.holder = Some((host as u8, life));
            }
            // The service counts from when it answers, the holder from when it asked.
            self.lock.until = now + ttl;
            self.core.hosts[host].lock_until = now + ttl * 9 / 10;
            let term = Term(self.lock.term);
            self.say_lock(host, Some(term));
        } else {
            self.check_lock(host);
        }
        let again = now + ttl / 5 + self.core.rng.below(ttl / 20 + 1);
        let mine = self.core.hosts[host].lock_until;
        let again = if mine > now { again.min(mine) } else { again };
        self.core.events.push(again, what);
    }

    /// A host whose lock may be over does not lead any more.
    fn check_lock(&mut self, host: usize) {
        if self.core.config.ownership == Ownership::External
            && self.core.hosts[host].lock_until <= self.core.now
        {
            self.say_lock(host, None);
        }
    }

    fn say_lock(&mut self, host: usize, term: Option<Term>) {
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_external(local, term, &mut self.core.sink(host));
        }
        self.after(host);
    }
}

/// What outside the cluster decides who leads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lock {
    holder: Option<(u8, u32)>,
    until: u64,
    term: u64,
}
