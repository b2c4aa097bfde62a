//! A state: processes, what is on its way between them, and what was promised so far.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt::Write;

use super::print::Print;
use super::promises::{Fate, Serving};
use super::store::SmallStore;
use super::surroundings::Surroundings;
use super::{Budget, Plant};
use crate::allocation::LeastShards;
use crate::hash::mix;
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::region::RejectReason;
use crate::sim::clock::Clock;
pub(super) use crate::sim::cluster::Running;
use crate::sim::life::TERM_UNIT;
use crate::sim::machine::{Body, DataFrame, Machine, Phase};
use crate::sim::net::NOBODY;
use crate::sim::{Message, Violation, WorldConfig};
use crate::wire::Kind;
use crate::{Epoch, Incarnation, Instant, NodeId, Term};

/// What a wall clock shows when the search begins.
const WALL: u64 = 1_700_000_000_000_000;
/// Control frames of a kind that are kept on their way between two hosts, and of all kinds.
const OF_A_KIND: usize = 2;
const CONTROL: usize = 6;

/// A shard on a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosted {
    pub(super) running: Running,
    pub(super) epoch: Epoch,
    pub(super) abort_at: Instant,
}

pub(super) const IDLE: Hosted = Hosted {
    running: Running::No,
    epoch: Epoch::NONE,
    abort_at: Instant::ZERO,
};

/// One host.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) node: NodeId,
    pub(super) life: u32,
    pub(super) incarnation: Incarnation,
    pub(super) clock: Clock,
    /// `None`: it is down.
    pub(super) machine: Option<Rc<Machine<SmallStore>>>,
    /// Of its machine; `None`: not known.
    pub(super) print: Option<u64>,
    pub(super) paused: bool,
    pub(super) leaving: bool,
    /// When its machine is to be called, in real time.
    pub(super) wake: u64,
    /// Until when it may serve, in real time; counts the leases, one after a lapse is another.
    pub(super) lease: u64,
    pub(super) stay: u32,
    pub(super) acting: Option<(Term, u64)>,
    pub(super) hosted: Vec<Hosted>,
    /// Of other hosts: the life it has a link to, and the newest that it knows to be over, plus one.
    pub(super) knows: Vec<u32>,
    pub(super) ended: Vec<u32>,
    /// About each host, in order.
    pub(super) news: Vec<VecDeque<MemberChange>>,
    pub(super) sent: u64,
}

impl Host {
    pub(super) fn is_up(&self) -> bool {
        self.machine.is_some()
    }

    /// It takes what comes.
    pub(super) fn is_awake(&self) -> bool {
        self.is_up() && !self.paused
    }
}

/// A control frame on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) from_life: u32,
    pub(super) to_life: u32,
    kind: Kind,
    pub(super) bytes: Rc<[u8]>,
}

/// From one host to another.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) control: Vec<Flight>,
    pub(super) from_life: u32,
    pub(super) to_life: u32,
    pub(super) data: VecDeque<DataFrame>,
}

/// A state.
#[derive(Clone)]
pub(super) struct State {
    pub(super) config: Rc<WorldConfig>,
    pub(super) plant: Option<Plant>,
    pub(super) now: u64,
    pub(super) hosts: Vec<Host>,
    pub(super) links: Vec<Link>,
    pub(super) lives: Vec<(u8, Incarnation)>,
    pub(super) servings: Vec<Vec<Serving>>,
    pub(super) highest: Vec<Epoch>,
    pub(super) acted: Option<(u8, u32, Term)>,
    pub(super) messages: Vec<(u32, Message, Fate)>,
    pub(super) left: Budget,
    pub(super) violation: Option<Violation>,
}

impl State {
    /// Nothing runs yet.
    pub(super) fn new(config: &WorldConfig, plant: Option<Plant>) -> Self {
        let count = usize::from(config.nodes);
        let shards = config.shards as usize;
        let link = Link {
            control: Vec::new(),
            from_life: NOBODY,
            to_life: NOBODY,
            data: VecDeque::new(),
        };
        let hosts = (0..config.nodes).map(|host| Host {
            node: WorldConfig::node(host),
            life: NOBODY,
            incarnation: Incarnation(0),
            clock: Clock::new(0, 0, 0),
            machine: None,
            print: None,
            paused: false,
            leaving: false,
            wake: u64::MAX,
            lease: 0,
            stay: 0,
            acting: None,
            hosted: alloc::vec![IDLE; shards],
            knows: alloc::vec![NOBODY; count],
            ended: alloc::vec![0; count],
            news: alloc::vec![VecDeque::new(); count],
            sent: 0,
        });
        Self {
            plant,
            now: 1_000_000,
            hosts: hosts.collect(),
            links: alloc::vec![link; count * count],
            lives: Vec::new(),
            servings: alloc::vec![Vec::new(); shards],
            highest: alloc::vec![Epoch::NONE; shards],
            acted: None,
            messages: Vec::new(),
            left: Budget::NONE,
            violation: None,
            config: Rc::new(config.clone()),
        }
    }

    pub(super) fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.hosts.len() + to]
    }

    pub(super) fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        let count = self.hosts.len();
        &mut self.links[from * count + to]
    }

    pub(super) fn host_of(&self, node: NodeId) -> Option<usize> {
        self.hosts.iter().position(|host| host.node == node)
    }

    fn life_of(&self, host: usize, incarnation: Incarnation) -> Option<u32> {
        let life = (host as u8, incarnation);
        let at = self.lives.iter().rposition(|other| *other == life)?;
        Some(at as u32)
    }

    pub(super) fn check(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result
            && self.violation.is_none()
        {
            self.violation = Some(violation);
        }
    }

    fn ppm(&self, host: usize) -> i32 {
        if self.plant == Some(Plant::SlowClock) && host == 1 {
            return -300_000;
        }
        [0, 19_000, -19_000][host % 3]
    }

    /// A process is told something, and does what it wants.
    pub(super) fn input(
        &mut self,
        host: usize,
        tell: impl FnOnce(&mut Machine<SmallStore>, Instant, &mut Surroundings<'_>),
    ) {
        let Some(mut machine) = self.hosts[host].machine.take() else {
            return;
        };
        let local = self.hosts[host].clock.at(self.now);
        let inside = Rc::make_mut(&mut machine);
        let mut sink = Surroundings { state: self, host };
        tell(inside, local, &mut sink);
        inside.pump(local, &mut sink);
        self.set_lease(host, machine.lease_until());
        self.set_acting(host, machine.acting_until());
        let over = machine.phase().is_over();
        let state = &mut self.hosts[host];
        state.print = None;
        let wake = machine.poll_timeout();
        state.wake = wake.map_or(u64::MAX, |at| state.clock.when(at));
        state.machine = Some(machine);
        if over {
            self.end_life(host);
        }
    }

    /// A process starts.
    pub(super) fn begin_life(&mut self, host: usize) {
        let ppm = self.ppm(host);
        let life = self.lives.len() as u32;
        let wall = WALL + self.now;
        let now = self.now;
        let state = &mut self.hosts[host];
        state.incarnation = Incarnation(wall.max(state.incarnation.0 + 1));
        state.life = life;
        state.clock = Clock::new(now, 1_000_000, ppm);
        state.paused = false;
        state.leaving = false;
        state.sent = 0;
        (state.lease, state.acting) = (0, None);
        state.stay += 1;
        state.hosted.fill(IDLE);
        state.knows.fill(NOBODY);
        state.ended.fill(0);
        let (node, incarnation) = (state.node, state.incarnation);
        let local = state.clock.at(now);
        self.lives.push((host as u8, incarnation));
        let seed = mix(u64::from(life) + 77);
        let made = Machine::new(local, node, incarnation, &self.config, seed, &|| {
            alloc::boxed::Box::new(LeastShards::new())
        });
        self.hosts[host].machine = made.map(Rc::new);
        let member = self.member(host, MemberState::Up);
        self.input(host, |machine, local, sink| {
            machine.handle_term_floor(local, Term(wall / TERM_UNIT), sink);
            machine.handle_member(local, MemberChange::Member(member), sink);
        });
        for other in 0..self.hosts.len() {
            if other != host && self.hosts[other].is_up() {
                self.say(other, host, MemberChange::Member(member));
                let leaving = self.hosts[other].leaving;
                let state = if leaving {
                    MemberState::Leaving
                } else {
                    MemberState::Up
                };
                let change = MemberChange::Member(self.member(other, state));
                self.say(host, other, change);
            }
        }
    }

    pub(super) fn member(&self, host: usize, state: MemberState) -> Member {
        Member {
            node: self.hosts[host].node,
            incarnation: self.hosts[host].incarnation,
            state,
            roles: Roles::NONE,
        }
    }

    pub(super) fn removed(&self, host: usize, cause: RemovalCause) -> MemberChange {
        MemberChange::Removed {
            node: self.hosts[host].node,
            incarnation: self.hosts[host].incarnation,
            cause,
        }
    }

    /// News for a host that is up.
    pub(super) fn say(&mut self, host: usize, of: usize, change: MemberChange) {
        if self.hosts[host].is_up() {
            self.hosts[host].news[of].push_back(change);
        }
    }

    /// A process ends: it has left, was told that it is over, or is gone without a word.
    pub(super) fn end_life(&mut self, host: usize) {
        let Some(machine) = self.hosts[host].machine.take() else {
            return;
        };
        let left = machine.phase() == Phase::Left;
        let (unreachable, removed) = (
            MemberChange::Member(self.member(host, MemberState::Unreachable)),
            self.removed(
                host,
                if left {
                    RemovalCause::Left
                } else {
                    RemovalCause::Down
                },
            ),
        );
        let state = &mut self.hosts[host];
        state.wake = u64::MAX;
        state.paused = false;
        state.print = None;
        let life = state.life;
        for news in &mut state.news {
            news.clear();
        }
        state.hosted.fill(IDLE);
        for servings in &mut self.servings {
            servings.retain(|serving| usize::from(serving.host) != host);
        }
        for (_, message, fate) in &mut self.messages {
            fate.excused |= !left || message.origin == life;
        }
        for other in 0..self.hosts.len() {
            if other != host {
                if !left {
                    self.say(other, host, unreachable);
                }
                self.say(other, host, removed);
            }
        }
    }

    /// Two lives have nothing to do with each other any more, as far as `host` knows.
    fn close_pair(&mut self, host: usize, other: usize, life: u32) {
        let state = &mut self.hosts[host];
        state.ended[other] = state.ended[other].max(life + 1);
        if state.knows[other] == life {
            state.knows[other] = NOBODY;
        }
        let own = state.life;
        let link = self.link_mut(host, other);
        if link.from_life != own || link.to_life != life {
            return;
        }
        (link.from_life, link.to_life) = (NOBODY, NOBODY);
        for frame in core::mem::take(&mut link.data) {
            match frame.body {
                Body::Envelope(message) => {
                    let reason = RejectReason::PerhapsDelivered;
                    self.reported(frame.shard.0, message, reason, true);
                }
                // It was on its way back to a life that is over.
                Body::Return(_, message) => {
                    let reason = RejectReason::OriginEnded;
                    self.reported(frame.shard.0, message, reason, false);
                }
                _ => {}
            }
        }
    }

    /// Something of a life arrives: a former one is over.
    pub(super) fn meet(&mut self, host: usize, other: usize, life: u32) {
        let known = self.hosts[host].knows[other];
        if known == life {
            return;
        }
        if known != NOBODY {
            self.close_pair(host, other, known);
            let change = MemberChange::Removed {
                node: self.hosts[other].node,
                incarnation: self.lives[known as usize].1,
                cause: RemovalCause::Replaced,
            };
            self.input(host, |machine, local, sink| {
                machine.handle_member(local, change, sink);
            });
        }
        self.hosts[host].knows[other] = life;
    }

    /// A host hears of another, or of itself.
    pub(super) fn hear(&mut self, host: usize, of: usize) {
        let Some(change) = self.hosts[host].news[of].pop_front() else {
            return;
        };
        let (incarnation, removed) = match change {
            MemberChange::Member(member) => (member.incarnation, false),
            MemberChange::Removed { incarnation, .. } => (incarnation, true),
        };
        if host != of
            && let Some(life) = self.life_of(of, incarnation)
        {
            let known = self.hosts[host].knows[of];
            let later = known != NOBODY && known > life;
            if !removed && (self.hosts[host].ended[of] > life || later) {
                return;
            }
            if known != NOBODY && (known < life || removed && known == life) {
                self.close_pair(host, of, known);
            }
            let state = &mut self.hosts[host];
            if removed {
                state.ended[of] = state.ended[of].max(life + 1);
            } else {
                state.knows[of] = life;
            }
        }
        self.input(host, |machine, local, sink| {
            machine.handle_member(local, change, sink);
        });
    }

    /// A control frame sets out.
    pub(super) fn put_control(&mut self, from: usize, to: usize, kind: Kind, bytes: &[u8]) {
        let (from_life, to_life) = (self.hosts[from].life, self.hosts[from].knows[to]);
        if to_life == NOBODY {
            return;
        }
        let control = &mut self.link_mut(from, to).control;
        // As good as the one before.
        control.retain(|flight| *flight.bytes != *bytes || flight.to_life != to_life);
        let mut of_a_kind = control.iter().filter(|flight| flight.kind == kind).count();
        control.retain(|flight| {
            let keep = flight.kind != kind || of_a_kind < OF_A_KIND;
            of_a_kind -= usize::from(!keep);
            keep
        });
        if control.len() >= CONTROL {
            control.remove(0);
        }
        control.push(Flight {
            from_life,
            to_life,
            kind,
            bytes: bytes.into(),
        });
    }

    /// What tells states apart. Times are real ones: situations that are equal but for the time count as different.
    pub(super) fn print(&mut self) -> u64 {
        for host in &mut self.hosts {
            if let (None, Some(machine)) = (host.print, &host.machine) {
                let mut print = Print::default();
                let _ = machine.write_state(&mut print);
                host.print = Some(print.value());
            }
        }
        let mut print = Print::default();
        print.add(self.now);
        for host in &self.hosts {
            print.add(host.print.unwrap_or(0));
            print.add(u64::from(host.life) << 1 | u64::from(host.paused));
            print.add(host.lease);
            print.add(u64::from(host.stay));
            let _ = write!(print, "{:?}{:?}", host.acting, host.hosted);
            let _ = write!(print, "{:?}{:?}{:?}", host.knows, host.ended, host.news);
        }
        for link in &self.links {
            let mut all = 0_u64;
            for flight in &link.control {
                let mut one = Print::default();
                one.add(u64::from(flight.from_life) << 32 | u64::from(flight.to_life));
                one.add_bytes(&flight.bytes);
                all = all.wrapping_add(one.value());
            }
            print.add(all);
            if !link.data.is_empty() {
                let _ = write!(print, "{}-{}{:?}", link.from_life, link.to_life, link.data);
            }
        }
        let _ = write!(print, "{:?}{:?}", self.servings, self.messages);
        let _ = write!(print, "{:?}{:?}{:?}", self.highest, self.acted, self.left);
        print.value()
    }
}
