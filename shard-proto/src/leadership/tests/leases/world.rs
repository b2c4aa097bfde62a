//! Voters and hosts in virtual time, each with a clock of its own.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;
use std::{eprintln, format, string::String};

use super::model::{Coordinator, Note, Region, SHARDS};
use crate::leadership::{Leadership, LeadershipConfig, PeerSlot, Voters};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::wire::Control;
use crate::{Epoch, Incarnation, Instant, NodeId, Term};

const EPOCH: u64 = 28_000_000_000;

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn id(i: usize) -> NodeId {
    NodeId(100 + i as u64)
}

pub(super) fn index(node: NodeId) -> usize {
    (node.0 - 100) as usize
}

pub(super) struct Host {
    pub(super) machine: Leadership<[PeerSlot; 9]>,
    pub(super) incarnation: u64,
    /// Of its clock, in µs and ppm.
    offset: u64,
    rate: i64,
    /// The wall clock's error in ms.
    pub(super) skew: i64,
    pub(super) alive: bool,
    pub(super) paused: bool,
    pub(super) state: MemberState,
    pub(super) inbox: Vec<Event>,
    /// The incarnation of each other node that this one knows.
    pub(super) knows: BTreeMap<usize, u64>,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) region: Region,
    pub(super) begun: Vec<Term>,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Control(Control<'static>),
    Note(Note),
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Frame {
        from: usize,
        to: usize,
        lives: (u64, u64),
        term: Term,
        body: Body,
    },
    View {
        at: usize,
        life: u64,
        change: MemberChange,
    },
    /// The regions' and coordinators' timer.
    Tick { at: usize, life: u64 },
}

pub(super) struct World {
    /// In µs.
    pub(super) now: u64,
    pub(super) config: LeadershipConfig,
    pub(super) hosts: Vec<Host>,
    queue: BTreeMap<(u64, u64), Event>,
    seq: u64,
    seed: u64,
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of a thousand frames.
    pub(super) loss: u64,
    pub(super) doubled: u64,
    /// In ms.
    pub(super) delay: (u64, u64),
    /// Highest epoch served, by shard.
    pub(super) served: [Epoch; SHARDS],
    /// Who began to act, and when.
    pub(super) acted: Vec<(u64, usize, Term)>,
    pub(super) log: bool,
}

impl World {
    pub(super) fn new(seed: u64, preset: LeadershipConfig, voters: usize, hosts: usize) -> Self {
        let nodes: Vec<NodeId> = (0..voters).map(id).collect();
        let mut world = Self {
            now: 1_000_000,
            config: preset.with_voters(Voters::new(&nodes).unwrap()),
            hosts: Vec::new(),
            queue: BTreeMap::new(),
            seq: 0,
            seed,
            cut: BTreeSet::new(),
            loss: 0,
            doubled: 0,
            delay: (1, 5),
            served: [Epoch::NONE; SHARDS],
            acted: Vec::new(),
            log: false,
        };
        for i in 0..hosts {
            let host = world.host(i, 1_000_000 + i as u64, 0, 0);
            world.hosts.push(host);
        }
        for i in 0..hosts {
            world.meet(i, 0);
        }
        world
    }

    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    fn host(&mut self, i: usize, incarnation: u64, rate: i64, skew: i64) -> Host {
        let offset = self.random(1 << 40);
        let mut host = Host {
            machine: Leadership::new(
                Instant::ZERO,
                id(i),
                Incarnation(incarnation),
                self.config,
                [PeerSlot::EMPTY; 9],
            )
            .unwrap(),
            incarnation,
            offset,
            rate,
            skew,
            alive: true,
            paused: false,
            state: MemberState::Up,
            inbox: Vec::new(),
            knows: BTreeMap::new(),
            coordinator: None,
            region: Region {
                session: (incarnation, 0),
                ..Region::default()
            },
            begun: Vec::new(),
        };
        let now = host.local(self.now);
        host.machine = Leadership::new(
            now,
            id(i),
            Incarnation(incarnation),
            self.config,
            [PeerSlot::EMPTY; 9],
        )
        .unwrap();
        host.machine.handle_types(now, 1);
        host.machine.handle_term_floor(now, self.wall(skew));
        let tick = Event::Tick {
            at: i,
            life: incarnation,
        };
        let after = self.random(100_000);
        self.push(after, tick);
        host
    }

    fn wall(&self, skew: i64) -> Term {
        let ms = (self.now / 1_000).saturating_add_signed(skew + 100_000);
        Term(EPOCH + ms * 16 / 1_000)
    }

    /// Another life of a node that others get to know within `within` ms.
    pub(super) fn restart(&mut self, i: usize, within: u64) {
        let (rate, skew) = (self.hosts[i].rate, self.hosts[i].skew);
        let incarnation = (self.hosts[i].incarnation + 1).max(self.now);
        let host = self.host(i, incarnation, rate, skew);
        self.hosts[i] = host;
        self.note(|| format!("{i} restarts"));
        self.meet(i, within);
    }

    pub(super) fn set_rate(&mut self, i: usize, rate: i64) {
        let host = &mut self.hosts[i];
        let local = host.local(self.now).as_micros();
        host.rate = rate;
        let again = host.local(self.now).as_micros();
        host.offset = host.offset + local - again;
    }

    /// All that live learn of `i`, and it of them.
    fn meet(&mut self, i: usize, within: u64) {
        for other in 0..self.hosts.len() {
            if self.hosts[other].alive {
                self.tell(other, i, within);
                self.tell(i, other, within);
            }
        }
    }

    fn tell(&mut self, at: usize, about: usize, within: u64) {
        let change = MemberChange::Member(Member {
            node: id(about),
            incarnation: Incarnation(self.hosts[about].incarnation),
            state: self.hosts[about].state,
            roles: Roles::NONE,
        });
        self.view(at, change, within);
    }

    fn view(&mut self, at: usize, change: MemberChange, within: u64) {
        let life = self.hosts[at].incarnation;
        let after = self.random(within * 1_000 + 1);
        self.push(after, Event::View { at, life, change });
    }

    pub(super) fn suspect(&mut self, by: usize, of: usize, suspected: bool) {
        let state = if suspected {
            MemberState::Unreachable
        } else {
            self.hosts[of].state
        };
        let change = MemberChange::Member(Member {
            node: id(of),
            incarnation: Incarnation(self.hosts[of].incarnation),
            state,
            roles: Roles::NONE,
        });
        self.view(by, change, 0);
    }

    /// It dies; the others learn that within `within` ms (at least half of it).
    pub(super) fn kill(&mut self, i: usize, within: u64, cause: RemovalCause) {
        self.note(|| format!("{i} dies"));
        self.hosts[i].alive = false;
        self.hosts[i].coordinator = None;
        let change = MemberChange::Removed {
            node: id(i),
            incarnation: Incarnation(self.hosts[i].incarnation),
            cause,
        };
        for at in 0..self.hosts.len() {
            if at != i && self.hosts[at].alive {
                let life = self.hosts[at].incarnation;
                let after = within * 500 + self.random(within * 500 + 1);
                self.push(after, Event::View { at, life, change });
            }
        }
    }

    pub(super) fn leave(&mut self, i: usize) {
        let now = self.local(i);
        self.note(|| format!("{i} leaves"));
        self.hosts[i].state = MemberState::Leaving;
        self.hosts[i].machine.leave(now);
        self.drain(i);
        for at in 0..self.hosts.len() {
            if self.hosts[at].alive {
                self.tell(at, i, 200);
            }
        }
    }

    pub(super) fn pause(&mut self, i: usize) {
        self.note(|| format!("{i} stops"));
        self.hosts[i].paused = true;
    }

    /// It wakes up: what is due comes first, then what arrived.
    pub(super) fn wake(&mut self, i: usize) {
        if !core::mem::take(&mut self.hosts[i].paused) || !self.hosts[i].alive {
            return;
        }
        self.note(|| format!("{i} wakes"));
        self.timeout(i);
        for event in core::mem::take(&mut self.hosts[i].inbox) {
            self.happen(event);
        }
    }

    pub(super) fn push(&mut self, after: u64, event: Event) {
        self.seq += 1;
        self.queue.insert((self.now + after, self.seq), event);
    }

    pub(super) fn local(&self, i: usize) -> Instant {
        self.hosts[i].local(self.now)
    }

    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        if self.log {
            eprintln!("{:>9.3} {}", self.now as f64 / 1_000.0, text());
        }
    }

    pub(super) fn run(&mut self, after: Duration) {
        let end = self.now + after.as_micros() as u64;
        loop {
            let due = (0..self.hosts.len())
                .filter(|i| self.hosts[*i].alive && !self.hosts[*i].paused)
                .filter_map(|i| Some((self.hosts[i].due()?, i)))
                .min();
            let event = self.queue.keys().next().copied();
            let due = due.filter(|(at, _)| event.is_none_or(|(first, _)| *at <= first));
            match (due, event) {
                (Some((at, i)), _) if at <= end => {
                    self.now = self.now.max(at);
                    self.timeout(i);
                }
                (None, Some(key)) if key.0 <= end => {
                    self.now = self.now.max(key.0);
                    let event = self.queue.remove(&key).unwrap();
                    self.happen(event);
                }
                _ => break,
            }
            self.check();
        }
        self.now = end;
        self.check();
    }

    pub(super) fn timeout(&mut self, i: usize) {
        let now = self.local(i);
        let floor = self.wall(self.hosts[i].skew);
        let machine = &mut self.hosts[i].machine;
        machine.handle_timeout(now);
        if let Some(at) = machine.poll_timeout() {
            assert!(at > now, "a deadline that was handled is still due");
        }
        machine.handle_term_floor(now, floor);
        self.drain(i);
    }

    pub(super) fn send(&mut self, from: usize, to: NodeId, term: Term, body: Body) {
        let to = index(to);
        let lives = (self.hosts[from].incarnation, self.hosts[to].incarnation);
        let frame = Event::Frame {
            from,
            to,
            lives,
            term,
            body,
        };
        if from == to {
            self.push(0, frame);
            return;
        }
        if self.cut.contains(&(from, to)) || self.random(1_000) < self.loss {
            return;
        }
        let copies = 1 + u64::from(self.random(1_000) < self.doubled);
        for _ in 0..copies {
            let (least, most) = self.delay;
            // Most are fast, some are late.
            let most = if self.random(3) == 0 {
                most
            } else {
                least + (most - least) / 20
            };
            let after = least * 1_000 + self.random((most - least) * 1_000 + 1);
            self.push(after, frame.clone());
        }
    }

    /// The promises: one acting leader, one server per shard.
    fn check(&self) {
        let mut acting = None;
        let mut servers = [None; SHARDS];
        for (i, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.alive) {
            let now = host.local(self.now);
            if host.machine.acting_until().is_some_and(|until| now < until) {
                assert_eq!(acting.replace(i), None, "two act, {i} too");
            }
            if host.machine.lease_until().is_none_or(|until| now >= until) {
                continue;
            }
            for (shard, hosted) in host.region.hosted.iter().enumerate() {
                if hosted.is_some() {
                    let other = servers[shard].replace(i);
                    assert_eq!(other, None, "{shard} is served twice, by {i} too");
                }
            }
        }
    }

    /// Who acts.
    pub(super) fn acting(&self) -> Option<usize> {
        (0..self.hosts.len()).find(|i| {
            let host = &self.hosts[*i];
            let until = host.machine.acting_until();
            host.alive && until.is_some_and(|until| self.local(*i) < until)
        })
    }

    /// Who serves a shard.
    pub(super) fn server(&self, shard: usize) -> Option<usize> {
        (0..self.hosts.len()).find(|i| {
            let host = &self.hosts[*i];
            let until = host.machine.lease_until();
            let valid = until.is_some_and(|until| self.local(*i) < until);
            host.alive && valid && host.region.hosted[shard].is_some()
        })
    }
}

impl Host {
    pub(super) fn local(&self, global: u64) -> Instant {
        let drift = (i128::from(global) * i128::from(self.rate) / 1_000_000) as i64;
        Instant::from_micros((self.offset + global).saturating_add_signed(drift))
    }

    /// When the next timeout is due, in global time.
    fn due(&self) -> Option<u64> {
        let at = self.machine.poll_timeout()?.as_micros();
        let passed = at.saturating_sub(self.offset);
        let global = i128::from(passed) * 1_000_000 / i128::from(1_000_000 + self.rate);
        Some((global as u64) + 2)
    }
}
