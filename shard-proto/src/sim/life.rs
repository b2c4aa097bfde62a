//! Lives of hosts: how they begin and end, and what they hear of each other.

use alloc::vec::Vec;

use super::clock::Clock;
use super::cluster::Running;
use super::event::What;
use super::machine::{Body, Machine, Phase, Sink};
use super::membership::{ClusterView, Happened, Life, News};
use super::net::NOBODY;
use super::{MembershipScript, Store, World};
use crate::hash::{SplitMix64, mix};
use crate::leadership::Ownership;
use crate::membership::{MemberChange, RemovalCause};
use crate::region::{Origin, RejectReason};
use crate::{Incarnation, Term};

/// A wall clock that is not off shows this when a world begins: some time after 1970.
pub(super) const WALL: u64 = 1_700_000_000_000_000;
/// Microseconds in the unit of terms.
pub(super) const TERM_UNIT: u64 = 62_500;

impl<St: Store> World<St> {
    pub(super) fn wall(&self, host: usize) -> u64 {
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
        let returns = core::mem::take(&mut state.returns) && left;
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
        if removed || returns {
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
        machine.drop_stuck(local, node, &mut sink);
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
}
