//! Several nodes in virtual time: frames are delayed, lost, doubled; nodes stop, die, come back.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::leadership::{
    ControlError, Leadership, LeadershipCommand, LeadershipConfig, LeadershipStats, Ownership,
    PeerSlot,
};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::wire::Control;
use crate::{Incarnation, Instant, Leader, NodeId, Term};

/// What the wall clock says at the start, in 1/16 s.
pub(super) const EPOCH: u64 = 28_000_000_000;

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The settings of `Trust`.
pub(super) const fn trust() -> LeadershipConfig {
    LeadershipConfig::new().with_ownership(Ownership::Trust)
}

pub(super) struct Host {
    pub(super) machine: Leadership<[PeerSlot; 12]>,
    pub(super) config: LeadershipConfig,
    pub(super) incarnation: u64,
    /// The wall clock's error, in seconds.
    pub(super) skew: i64,
    pub(super) alive: bool,
    pub(super) stopped: bool,
    pub(super) leaving: bool,
    /// As the commands said.
    pub(super) leader: Option<Leader>,
    pub(super) reign: Option<Term>,
    pub(super) open: bool,
    pub(super) taken: Vec<Term>,
    pub(super) ends: usize,
    pub(super) errors: Vec<ControlError>,
}

enum Event {
    Frame {
        from: usize,
        to: usize,
        lives: (u64, u64),
        term: Term,
        control: Control<'static>,
    },
    Registered {
        from: usize,
        to: usize,
        term: Term,
    },
    View {
        at: usize,
        change: MemberChange,
    },
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) hosts: Vec<Host>,
    queue: BTreeMap<(u64, u64), Event>,
    seq: u64,
    seed: u64,
    /// From whom to whom nothing gets through.
    pub(super) cut: BTreeSet<(usize, usize)>,
    /// Of a thousand frames.
    pub(super) loss: u64,
    pub(super) doubled: u64,
    /// In ms.
    pub(super) delay: (u64, u64),
    /// Reigns that began, all nodes'.
    pub(super) reigns: Vec<(usize, Term)>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            now: 1_000_000,
            hosts: Vec::new(),
            queue: BTreeMap::new(),
            seq: 0,
            seed,
            cut: BTreeSet::new(),
            loss: 0,
            doubled: 0,
            delay: (1, 5),
            reigns: Vec::new(),
        }
    }

    /// `count` nodes that know each other from the start.
    pub(super) fn cluster(seed: u64, count: usize) -> Self {
        let mut world = Self::new(seed);
        for i in 0..count {
            world.start(trust(), 1_000 + i as u64, 0);
        }
        let all: Vec<usize> = (0..count).collect();
        world.introduce(&all);
        world
    }

    pub(super) fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below.max(1)
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    pub(super) fn id(i: usize) -> NodeId {
        NodeId(100 + i as u64)
    }

    fn index(node: NodeId) -> usize {
        (node.0 - 100) as usize
    }

    fn wall(&self, skew: i64) -> Term {
        Term((EPOCH + self.now / 62_500).saturating_add_signed(skew * 16))
    }

    /// A node that knows nobody.
    pub(super) fn start(&mut self, config: LeadershipConfig, incarnation: u64, skew: i64) -> usize {
        let i = self.hosts.len();
        let host = self.host(i, config, incarnation, skew);
        self.hosts.push(host);
        i
    }

    fn host(&self, i: usize, config: LeadershipConfig, incarnation: u64, skew: i64) -> Host {
        let mut machine = Leadership::new(
            self.instant(),
            Self::id(i),
            Incarnation(incarnation),
            config,
            [PeerSlot::EMPTY; 12],
        )
        .unwrap();
        machine.handle_term_floor(self.instant(), self.wall(skew));
        Host {
            machine,
            config,
            incarnation,
            skew,
            alive: true,
            stopped: false,
            leaving: false,
            leader: None,
            reign: None,
            open: false,
            taken: Vec::new(),
            ends: 0,
            errors: Vec::new(),
        }
    }

    /// Another life of a node; nobody is told.
    pub(super) fn restart(&mut self, i: usize) {
        let old = &self.hosts[i];
        let host = self.host(i, old.config, old.incarnation + 1_000, old.skew);
        self.hosts[i] = host;
    }

    pub(super) fn member(&self, i: usize) -> Member {
        Member {
            node: Self::id(i),
            incarnation: Incarnation(self.hosts[i].incarnation),
            state: if self.hosts[i].leaving {
                MemberState::Leaving
            } else {
                MemberState::Up
            },
            roles: Roles::NONE,
        }
    }

    pub(super) fn gone(&self, i: usize, cause: RemovalCause) -> MemberChange {
        MemberChange::Removed {
            node: Self::id(i),
            incarnation: Incarnation(self.hosts[i].incarnation),
            cause,
        }
    }

    /// Everybody of the list learns of everybody of the list.
    pub(super) fn introduce(&mut self, nodes: &[usize]) {
        for &at in nodes {
            for &other in nodes {
                let change = MemberChange::Member(self.member(other));
                self.tell(at, change);
            }
        }
    }

    /// Everybody but `about` learns a change about it, within `within` ms.
    pub(super) fn spread(&mut self, about: usize, change: MemberChange, within: u64) {
        for at in 0..self.hosts.len() {
            if at != about && self.hosts[at].alive {
                let after = self.random(within + 1) * 1_000;
                self.push(after, Event::View { at, change });
            }
        }
    }

    pub(super) fn tell(&mut self, at: usize, change: MemberChange) {
        let now = self.instant();
        self.hosts[at].machine.handle_member(now, change).unwrap();
        self.drain(at);
    }

    fn push(&mut self, after: u64, event: Event) {
        self.seq += 1;
        self.queue.insert((self.now + after, self.seq), event);
    }

    pub(super) fn kill(&mut self, i: usize) {
        let host = &mut self.hosts[i];
        host.alive = false;
        host.reign = None;
        host.leader = None;
    }

    pub(super) fn leave(&mut self, i: usize) {
        let now = self.instant();
        self.hosts[i].leaving = true;
        self.hosts[i].machine.leave(now);
        self.drain(i);
    }

    /// Puts a frame into a node, as if `from` had sent it.
    pub(super) fn inject(&mut self, from: usize, to: usize, term: Term, control: &Control<'_>) {
        let now = self.instant();
        let host = &mut self.hosts[to];
        let result = host
            .machine
            .handle_control(now, Self::id(from), term, control);
        host.errors.extend(result.err());
        self.drain(to);
    }

    fn drain(&mut self, i: usize) {
        while let Some(command) = self.hosts[i].machine.poll_command() {
            match command {
                LeadershipCommand::Send { to, term, control } => self.send(i, to, term, control),
                LeadershipCommand::Adopt(leader) => {
                    let host = &mut self.hosts[i];
                    if let Some(leader) = leader {
                        let lowest = host.leader.map_or(Term::NONE, |old| old.term);
                        assert!(leader.term >= lowest, "obeys a lower term");
                    }
                    host.leader = leader.or(host.leader);
                    if let Some(leader) = leader {
                        let after = 1_000 * (1 + self.random(20));
                        let (from, to) = (i, Self::index(leader.node));
                        let term = leader.term;
                        self.push(after, Event::Registered { from, to, term });
                    } else {
                        self.hosts[i].leader = None;
                    }
                }
                LeadershipCommand::Begin { term } => {
                    let host = &mut self.hosts[i];
                    assert_eq!(host.reign, None, "a reign begins within another");
                    assert!(host.taken.last().is_none_or(|last| *last < term));
                    host.reign = Some(term);
                    host.open = false;
                    host.taken.push(term);
                    self.reigns.push((i, term));
                }
                LeadershipCommand::Act { term } => assert_eq!(self.hosts[i].reign, Some(term)),
                LeadershipCommand::Hearing { hears, .. } => assert!(hears),
                LeadershipCommand::OpenBarrier { term } => {
                    let host = &mut self.hosts[i];
                    assert_eq!(host.reign, Some(term));
                    assert!(!host.open, "a barrier opens twice");
                    host.open = true;
                }
                LeadershipCommand::End => {
                    let host = &mut self.hosts[i];
                    assert!(host.reign.take().is_some());
                    host.ends += 1;
                }
                LeadershipCommand::Lease(until) => assert_eq!(until, Some(Instant::FAR_FUTURE)),
                other => panic!("no such command under trust: {other:?}"),
            }
        }
    }

    fn send(&mut self, from: usize, to: NodeId, term: Term, control: Control<'static>) {
        let to = Self::index(to);
        let lives = (self.hosts[from].incarnation, self.hosts[to].incarnation);
        let frame = |control| Event::Frame {
            from,
            to,
            lives,
            term,
            control,
        };
        if from == to {
            self.push(0, frame(control));
            return;
        }
        if self.cut.contains(&(from, to)) || self.random(1_000) < self.loss {
            return;
        }
        let copies = 1 + u64::from(self.random(1_000) < self.doubled);
        for _ in 0..copies {
            let (least, most) = self.delay;
            let after = least * 1_000 + self.random((most - least) * 1_000 + 1);
            self.push(after, frame(control));
        }
    }

    /// Runs until `after` from now.
    pub(super) fn run(&mut self, after: Duration) {
        let end = self.now + after.as_micros() as u64;
        loop {
            let due = (0..self.hosts.len())
                .filter(|i| self.hosts[*i].alive && !self.hosts[*i].stopped)
                .filter_map(|i| Some((self.hosts[i].machine.poll_timeout()?.as_micros(), i)))
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
        }
        self.now = end;
    }

    fn timeout(&mut self, i: usize) {
        let now = self.instant();
        let floor = self.wall(self.hosts[i].skew);
        let machine = &mut self.hosts[i].machine;
        machine.handle_timeout(now);
        if let Some(at) = machine.poll_timeout() {
            assert!(at > now, "a deadline that was handled is still due");
        }
        machine.handle_term_floor(now, floor);
        self.drain(i);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Frame {
                from,
                to,
                lives,
                term,
                control,
            } => {
                if lives.1 != self.hosts[to].incarnation || !self.hosts[to].alive {
                    return;
                }
                if self.hosts[to].stopped {
                    // It waits in a socket.
                    let event = Event::Frame {
                        from,
                        to,
                        lives,
                        term,
                        control,
                    };
                    self.push(1_000, event);
                    return;
                }
                if lives.0 == self.hosts[from].incarnation {
                    self.inject(from, to, term, &control);
                }
            }
            Event::Registered { from, to, term } => {
                let follows = self.hosts[from]
                    .leader
                    .is_some_and(|leader| leader.term == term && leader.node == Self::id(to));
                if !follows || !self.hosts[from].alive || !self.hosts[to].alive {
                    return;
                }
                if self.hosts[to].stopped || self.cut.contains(&(from, to)) {
                    self.push(100_000, Event::Registered { from, to, term });
                    return;
                }
                if self.hosts[to].reign == Some(term) {
                    let now = self.instant();
                    let host = &mut self.hosts[to];
                    host.machine.handle_registered(now, Self::id(from), 0, 0);
                    self.drain(to);
                }
            }
            Event::View { at, change } => {
                if !self.hosts[at].alive {
                    return;
                }
                if self.hosts[at].stopped {
                    self.push(1_000, Event::View { at, change });
                } else {
                    self.tell(at, change);
                }
            }
        }
    }

    /// The nodes that lead.
    pub(super) fn leaders(&self) -> Vec<usize> {
        (0..self.hosts.len())
            .filter(|i| self.hosts[*i].alive && self.hosts[*i].reign.is_some())
            .collect()
    }

    /// Exactly one node leads, everybody follows it, and its barrier is over. Which?
    pub(super) fn agreed(&self) -> usize {
        let leaders = self.leaders();
        assert_eq!(leaders.len(), 1, "leaders {leaders:?}");
        let leader = leaders[0];
        let term = self.hosts[leader].reign.unwrap();
        for (i, host) in self.hosts.iter().enumerate() {
            if host.alive {
                let follows = host.leader;
                let node = Self::id(leader);
                assert_eq!(follows, Some(Leader { node, term }), "node {i}");
                assert_eq!(host.machine.leader(), follows);
            }
        }
        assert!(self.hosts[leader].open, "the barrier never opened");
        leader
    }

    /// Runs until a node leads under a reign that began since, at most `within`; how long it took.
    pub(super) fn until_new_reign(&mut self, within: Duration) -> Duration {
        let (start, reigns) = (self.now, self.reigns.len());
        while self.reigns.len() == reigns {
            self.run(ms(1));
            let took = Duration::from_micros(self.now - start);
            assert!(took <= within, "no reign began within {within:?}");
        }
        Duration::from_micros(self.now - start)
    }

    pub(super) fn stats(&self, i: usize) -> &LeadershipStats {
        self.hosts[i].machine.stats()
    }
}
