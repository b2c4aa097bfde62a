//! Several nodes in virtual time, whose packets are delayed, lost, cut off.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::hash::SplitMix64;
use crate::membership::{MemberChange, MemberState, RemovalCause, Roles};
use crate::node::swim::{Swim, SwimConfig, SwimEvent, SwimIdentity};
use crate::{Incarnation, Instant, NodeId, hash};

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn identity(i: usize, incarnation: u64) -> SwimIdentity {
    let (name, address) = (format!("node-{i}"), format!("127.0.0.1:{}", 9_000 + i));
    let roles = Roles::NONE.with(hash::role_id("host")).unwrap();
    SwimIdentity::new(&name, Incarnation(incarnation), &address, roles).unwrap()
}

pub(super) fn node(i: usize) -> NodeId {
    hash::node_id(&format!("node-{i}"))
}

pub(super) struct Host {
    pub(super) swim: Swim,
    pub(super) incarnation: u64,
    pub(super) alive: bool,
    pub(super) stopped: bool,
    pub(super) defunct: bool,
    pub(super) changes: Vec<(Instant, MemberChange)>,
    /// Who is in the cluster, after all changes.
    pub(super) view: BTreeMap<NodeId, (Incarnation, MemberState)>,
    pub(super) packets: usize,
}

struct Packet {
    from: usize,
    to: usize,
    lives: (u64, u64),
    bytes: Bytes,
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) config: SwimConfig,
    pub(super) hosts: Vec<Host>,
    queue: BTreeMap<(u64, u64), Packet>,
    seq: u64,
    random: SplitMix64,
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of a thousand.
    pub(super) loss: u64,
}

impl World {
    /// `count` nodes that joined through node 0.
    pub(super) fn cluster(seed: u64, count: usize, config: SwimConfig) -> Self {
        let mut world = Self {
            now: 1_000_000,
            config,
            hosts: Vec::new(),
            queue: BTreeMap::new(),
            seq: 0,
            random: SplitMix64::new(seed),
            cut: BTreeSet::new(),
            loss: 0,
        };
        for i in 0..count {
            let host = world.host(i, 1_000 + i as u64);
            world.hosts.push(host);
            if i > 0 {
                world.join(i, 0);
            }
        }
        world
    }

    fn host(&mut self, i: usize, incarnation: u64) -> Host {
        let seed = self.random.next_u64();
        let swim = Swim::new(self.instant(), identity(i, incarnation), self.config, seed);
        Host {
            swim: swim.unwrap(),
            incarnation,
            alive: true,
            stopped: false,
            defunct: false,
            changes: Vec::new(),
            view: BTreeMap::new(),
            packets: 0,
        }
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    pub(super) fn join(&mut self, i: usize, seed: usize) {
        let peer = identity(seed, self.hosts[seed].incarnation);
        let now = self.instant();
        self.hosts[i].swim.announce(now, peer);
        self.drain(i);
    }

    pub(super) fn restart(&mut self, i: usize) {
        let incarnation = self.hosts[i].incarnation + 1_000;
        self.hosts[i] = self.host(i, incarnation);
    }

    pub(super) fn call(&mut self, i: usize, call: impl FnOnce(&mut Swim, Instant)) {
        let now = self.instant();
        call(&mut self.hosts[i].swim, now);
        self.drain(i);
    }

    fn drain(&mut self, i: usize) {
        while let Some(event) = self.hosts[i].swim.poll_event() {
            match event {
                SwimEvent::Send {
                    to,
                    incarnation,
                    address,
                    packet,
                } => {
                    assert!(packet.len() <= 1_400);
                    let to = (0..self.hosts.len()).find(|i| node(*i) == to).unwrap();
                    assert_eq!(address, identity(to, 0).address());
                    self.hosts[i].packets += 1;
                    let lost = self.random.below(1_000) < self.loss;
                    if !lost && !self.cut.contains(&(i, to)) {
                        self.seq += 1;
                        let at = self.now + 1_000 + self.random.below(4_000);
                        let lives = (self.hosts[i].incarnation, incarnation.0);
                        let packet = Packet {
                            from: i,
                            to,
                            lives,
                            bytes: packet,
                        };
                        self.queue.insert((at, self.seq), packet);
                    }
                }
                SwimEvent::Change { change, identity } => self.note(i, change, identity),
                SwimEvent::Defunct(_) => {
                    assert!(!self.hosts[i].defunct);
                    self.hosts[i].defunct = true;
                }
            }
        }
        assert_eq!(self.hosts[i].swim.poll_event(), None);
    }

    fn note(&mut self, i: usize, change: MemberChange, told: Option<SwimIdentity>) {
        let now = self.instant();
        let host = &mut self.hosts[i];
        host.changes.push((now, change));
        match change {
            MemberChange::Member(member) => {
                assert_ne!(member.node, node(i));
                let told = told.unwrap();
                assert_eq!(
                    (told.node(), told.incarnation()),
                    (member.node, member.incarnation)
                );
                assert_eq!(told.roles(), member.roles);
                let old = host
                    .view
                    .insert(member.node, (member.incarnation, member.state));
                assert!(
                    old.is_none_or(|(incarnation, _)| incarnation == member.incarnation),
                    "a life follows another without its removal"
                );
                let ended = host.changes.iter().any(|(_, change)| {
                    matches!(change, MemberChange::Removed { node, incarnation, .. }
                        if *node == member.node && *incarnation >= member.incarnation)
                });
                assert!(!ended, "a removed life comes back");
            }
            MemberChange::Removed {
                node, incarnation, ..
            } => {
                let old = host.view.remove(&node);
                assert_eq!(old.map(|(incarnation, _)| incarnation), Some(incarnation));
            }
        }
    }

    pub(super) fn run(&mut self, after: Duration) {
        let end = self.now + after.as_micros() as u64;
        loop {
            let due = (0..self.hosts.len())
                .filter(|i| self.hosts[*i].alive && !self.hosts[*i].stopped)
                .filter_map(|i| Some((self.hosts[i].swim.poll_timeout()?.as_micros(), i)))
                .min();
            let next = self.queue.keys().next().copied();
            let due = due.filter(|(at, _)| next.is_none_or(|(first, _)| *at <= first));
            match (due, next) {
                (Some((at, i)), _) if at <= end => {
                    self.now = self.now.max(at);
                    self.call(i, Swim::handle_timeout);
                }
                (None, Some(key)) if key.0 <= end => {
                    self.now = self.now.max(key.0);
                    let packet = self.queue.remove(&key).unwrap();
                    self.arrive(packet);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn arrive(&mut self, packet: Packet) {
        let Packet {
            from,
            to,
            lives,
            bytes,
        } = packet;
        let host = &self.hosts[to];
        if !host.alive || lives.1 != host.incarnation || lives.0 != self.hosts[from].incarnation {
            return;
        }
        if host.stopped {
            self.seq += 1;
            let packet = Packet {
                from,
                to,
                lives,
                bytes,
            };
            self.queue.insert((self.now + 1_000, self.seq), packet);
            return;
        }
        let now = self.instant();
        let sender = (node(from), Incarnation(lives.0));
        let swim = &mut self.hosts[to].swim;
        swim.handle_packet(now, sender.0, sender.1, &bytes).unwrap();
        self.drain(to);
    }

    /// Everybody that lives sees everybody that lives, up, and nobody else.
    pub(super) fn assert_complete(&self) {
        let alive = |i: &usize| self.hosts[*i].alive;
        for i in (0..self.hosts.len()).filter(alive) {
            let expected: BTreeMap<_, _> = (0..self.hosts.len())
                .filter(alive)
                .filter(|other| *other != i)
                .map(|other| {
                    let incarnation = Incarnation(self.hosts[other].incarnation);
                    (node(other), (incarnation, MemberState::Up))
                })
                .collect();
            assert_eq!(self.hosts[i].view, expected, "node {i}");
            assert_eq!(self.hosts[i].swim.members().count(), expected.len());
        }
    }

    /// When and why a life of `about` was removed at `at`.
    pub(super) fn removal(&self, at: usize, about: usize) -> Option<(Instant, RemovalCause)> {
        let changes = self.hosts[at].changes.iter().rev();
        changes
            .filter_map(|(when, change)| match change {
                MemberChange::Removed { node, cause, .. } => Some((*node, (*when, *cause))),
                MemberChange::Member(_) => None,
            })
            .find(|(removed, _)| *removed == node(about))
            .map(|(_, removal)| removal)
    }

    /// What `at` believes of `about`.
    pub(super) fn state(&self, at: usize, about: usize) -> Option<MemberState> {
        self.hosts[at]
            .view
            .get(&node(about))
            .map(|(_, state)| *state)
    }
}
