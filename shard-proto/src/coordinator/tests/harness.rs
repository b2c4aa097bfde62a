//! A coordinator under test: typed frames in, typed commands out, virtual time.

use alloc::vec::Vec;
use core::time::Duration;

use crate::{
    Epoch, Incarnation, Instant, NodeId, Session, ShardId, Term,
    allocation::LeastShards,
    coordinator::{
        ControlError, CoordShardState, Coordinator, CoordinatorCommand, CoordinatorConfig, validate,
    },
    membership::{Member, MemberChange, MemberState, RemovalCause, Roles},
    table::CoordinatorHeap,
    wire::{
        Claim, Claims, ClaimsBuilder, Control, HomeEntry,
        control::{
            Deregister, GetShardHome, HandOffComplete, Previous, Register, RegisterRefusal,
            ShardEpoch, Size,
        },
    },
};

pub(super) const TYPE: &str = "cart";
pub(super) const TERM: Term = Term(7);

/// A command, owned.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Out {
    Home {
        to: u64,
        shard: u32,
        node: u64,
        epoch: Epoch,
        session: Session,
        previous: Previous,
    },
    HandOff {
        to: u64,
        shard: u32,
        epoch: Epoch,
    },
    Map {
        to: u64,
        last: bool,
        homes: Vec<HomeEntry>,
    },
    Ack(u64),
    Resized(u64, u32),
    Refused(u64, RegisterRefusal),
    Registered(u64, u64),
    EndSessions(u64),
    Overdue(u64, u32),
    OtherStorage(u64, u64),
    Exhausted,
}

pub(super) struct Bed {
    pub(super) now: Instant,
    pub(super) term: Term,
    pub(super) coordinator: Coordinator<LeastShards, CoordinatorHeap>,
}

pub(super) fn session(node: u64) -> Session {
    Session {
        incarnation: Incarnation(node * 100),
        lapses: 0,
        starts: 0,
    }
}

pub(super) fn next(session: Session) -> Session {
    Session {
        lapses: session.lapses + 1,
        ..session
    }
}

pub(super) fn epoch(term: u64, round: u32) -> Epoch {
    Epoch::new(Term(term), round).unwrap()
}

pub(super) fn claim(shard: u32, epoch: Epoch) -> Claim {
    Claim {
        shard: ShardId(shard),
        epoch,
        draining: false,
    }
}

pub(super) fn draining(shard: u32, epoch: Epoch) -> Claim {
    Claim {
        draining: true,
        ..claim(shard, epoch)
    }
}

/// A strategy that moves nothing.
pub(super) fn at_rest() -> LeastShards {
    LeastShards::new().with_threshold(1_000_000)
}

pub(super) fn part_of<'a>(session: Session, claims: Claims<'a>, shards: u32) -> Register<'a> {
    Register {
        part: 0,
        parts: 1,
        session,
        type_name: TYPE,
        shard_count: shards,
        shard_hash: 0,
        wants_map: false,
        proxy: false,
        last_beat_age: 0,
        storage_id: 0,
        remembers: false,
        size: Size::default(),
        claims,
    }
}

pub(super) fn config(shards: u32) -> CoordinatorConfig {
    CoordinatorConfig::new(TYPE).with_shard_count(shards)
}

impl Bed {
    pub(super) fn with(config: CoordinatorConfig, strategy: LeastShards) -> Self {
        let now = Instant::from_micros(1_000_000);
        let storage = CoordinatorHeap::new(config.shard_count(), 8);
        let mut coordinator = Coordinator::new(now, config, strategy, storage).unwrap();
        coordinator.begin(now, TERM);
        coordinator.act(now);
        Self {
            now,
            term: TERM,
            coordinator,
        }
    }

    /// Leads under [`TERM`], barrier closed, nobody there.
    pub(super) fn recovering(shards: u32) -> Self {
        Self::with(config(shards), LeastShards::new())
    }

    /// Nodes `1..=hosts` are up and registered, the barrier is open, nothing is waiting to be said.
    pub(super) fn open(shards: u32, hosts: u64) -> Self {
        Self::recovering(shards).opened(hosts)
    }

    pub(super) fn opened(mut self, hosts: u64) -> Self {
        for node in 1..=hosts {
            self.up(node);
            self.register(node).unwrap();
        }
        self.coordinator.open_barrier(self.now);
        self.settle();
        self
    }

    /// All shards asked for by node 1, started by their owners.
    pub(super) fn all_started(mut self) -> Self {
        for shard in 0..self.shards() {
            self.ask(1, shard).unwrap();
        }
        self.start_all();
        self.settle();
        self
    }

    pub(super) fn shards(&self) -> u32 {
        self.coordinator.config().shard_count()
    }

    pub(super) fn member(&mut self, node: u64, state: MemberState) {
        self.change(MemberChange::Member(Member {
            node: NodeId(node),
            incarnation: Incarnation(node * 100),
            state,
            roles: Roles::NONE,
        }));
    }

    pub(super) fn change(&mut self, change: MemberChange) {
        self.coordinator.handle_member(self.now, change).unwrap();
        if let MemberChange::Member(member) = change {
            self.hears(member.node.0, true);
        }
        self.check();
    }

    pub(super) fn hears(&mut self, node: u64, hears: bool) {
        self.coordinator
            .handle_hearing(self.now, NodeId(node), hears);
    }

    pub(super) fn up(&mut self, node: u64) {
        self.member(node, MemberState::Up);
    }

    pub(super) fn removed(&mut self, node: u64) {
        self.change(MemberChange::Removed {
            node: NodeId(node),
            incarnation: Incarnation(node * 100),
            cause: RemovalCause::Down,
        });
    }

    pub(super) fn control(&mut self, from: u64, control: &Control<'_>) -> Result<(), ControlError> {
        let result = self
            .coordinator
            .handle_control(self.now, NodeId(from), self.term, control);
        self.check();
        result
    }

    pub(super) fn register(&mut self, node: u64) -> Result<(), ControlError> {
        self.register_with(node, session(node), &[])
    }

    pub(super) fn register_with(
        &mut self,
        node: u64,
        session: Session,
        claims: &[Claim],
    ) -> Result<(), ControlError> {
        self.register_part(node, session, claims, 0, 1)
    }

    pub(super) fn register_part(
        &mut self,
        node: u64,
        session: Session,
        claims: &[Claim],
        part: u32,
        parts: u32,
    ) -> Result<(), ControlError> {
        let mut scratch = [0; 4096];
        let mut list = ClaimsBuilder::new(&mut scratch);
        for claim in claims {
            list.push(*claim).unwrap();
        }
        let register = Register {
            part,
            parts,
            ..part_of(session, list.finish(), self.shards())
        };
        self.control(node, &Control::Register(register))
    }

    pub(super) fn deregister(&mut self, node: u64, session: Session) -> Result<(), ControlError> {
        self.control(node, &Control::Deregister(Deregister { session }))
    }

    pub(super) fn ask(&mut self, from: u64, shard: u32) -> Result<(), ControlError> {
        let shard = ShardId(shard);
        self.control(from, &Control::GetShardHome(GetShardHome { shard }))
    }

    pub(super) fn started(
        &mut self,
        from: u64,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), ControlError> {
        let shard = ShardId(shard);
        self.control(from, &Control::ShardStarted(ShardEpoch { shard, epoch }))
    }

    pub(super) fn complete(
        &mut self,
        from: u64,
        shard: u32,
        epoch: Epoch,
    ) -> Result<(), ControlError> {
        let complete = HandOffComplete {
            shard: ShardId(shard),
            epoch,
            forced: false,
        };
        self.control(from, &Control::HandOffComplete(complete))
    }

    /// Every granted shard starts.
    pub(super) fn start_all(&mut self) {
        for shard in 0..self.shards() {
            if let Some((node, epoch)) = self.home(shard) {
                self.started(node, shard, epoch).unwrap();
            }
        }
    }

    /// Every shard that has a home: `(shard, node, epoch)`.
    pub(super) fn map(&self) -> Vec<(u32, u64, Epoch)> {
        (0..self.shards())
            .filter_map(|shard| self.home(shard).map(|(node, epoch)| (shard, node, epoch)))
            .collect()
    }

    /// Answers every `HandOff` until there are none; how many there were.
    pub(super) fn finish_moves(&mut self) -> usize {
        let mut moves = 0;
        loop {
            let handoffs: Vec<_> = self
                .settle()
                .into_iter()
                .filter_map(|out| match out {
                    Out::HandOff { to, shard, epoch } => Some((to, shard, epoch)),
                    _ => None,
                })
                .collect();
            if handoffs.is_empty() {
                self.start_all();
                return moves;
            }
            for (to, shard, epoch) in handoffs {
                if self.complete(to, shard, epoch).is_ok() {
                    moves += 1;
                }
            }
        }
    }

    /// Time passes, timers are handled when they are due; what was said.
    pub(super) fn pass(&mut self, ms: u64) -> Vec<Out> {
        let end = self.now.after(Duration::from_millis(ms));
        let mut said = self.settle();
        while let Some(at) = self.coordinator.poll_timeout()
            && at <= end
        {
            self.now = self.now.max(at);
            said.extend(self.settle());
        }
        self.now = end;
        said
    }

    /// Handles what is due now; everything that is said until there is no more.
    pub(super) fn settle(&mut self) -> Vec<Out> {
        let mut said = self.poll();
        for _ in 0..10_000 {
            match self.coordinator.poll_timeout() {
                Some(at) if at <= self.now => {
                    self.coordinator.handle_timeout(self.now);
                    self.check();
                    said.extend(self.poll());
                }
                _ => return said,
            }
        }
        panic!("a deadline stays due for ever");
    }

    /// Everything that is said without time passing.
    pub(super) fn poll(&mut self) -> Vec<Out> {
        let mut said = Vec::new();
        while let Some(command) = self.coordinator.poll_command() {
            said.push(own(command));
            assert!(said.len() < 1_000_000, "commands never end");
        }
        self.check();
        said
    }

    pub(super) fn home(&self, shard: u32) -> Option<(u64, Epoch)> {
        let home = self.coordinator.home(ShardId(shard))?;
        Some((home.node.0, home.epoch))
    }

    pub(super) fn state(&self, shard: u32) -> CoordShardState {
        self.coordinator.shard_state(ShardId(shard)).unwrap()
    }

    pub(super) fn owned(&self, nodes: u64) -> Vec<u32> {
        (1..=nodes)
            .map(|node| self.coordinator.owned_by(NodeId(node)))
            .collect()
    }

    pub(super) fn check(&self) {
        if self.shards() <= 256 {
            validate(&self.coordinator);
        }
    }
}

pub(super) fn own(command: CoordinatorCommand<'_>) -> Out {
    match command {
        CoordinatorCommand::Send { to, control } => own_control(to.0, control),
        CoordinatorCommand::Registered {
            node,
            last_beat_age,
        } => Out::Registered(node.0, last_beat_age),
        CoordinatorCommand::EndSessions { node } => Out::EndSessions(node.0),
        CoordinatorCommand::HandOffTimedOut { node, shard, .. } => Out::Overdue(node.0, shard.0),
        CoordinatorCommand::OtherStorage { node, found, .. } => Out::OtherStorage(node.0, found),
        CoordinatorCommand::Exhausted => Out::Exhausted,
    }
}

fn own_control(to: u64, control: Control<'_>) -> Out {
    match control {
        Control::ShardHome(home) => Out::Home {
            to,
            shard: home.shard.0,
            node: home.node.0,
            epoch: home.epoch,
            session: home.session,
            previous: home.previous,
        },
        Control::HandOff(what) => Out::HandOff {
            to,
            shard: what.shard.0,
            epoch: what.epoch,
        },
        Control::ShardMapUpdate(map) => Out::Map {
            to,
            last: map.last,
            homes: map.homes.iter().collect(),
        },
        Control::RegisterAck(_) => Out::Ack(to),
        Control::Resized(size) => Out::Resized(to, size.count),
        Control::RegisterRefused(refused) => Out::Refused(to, refused.reason),
        other => panic!("not a coordinator's: {other:?}"),
    }
}

/// `(to, shard, node)` of every `ShardHome`.
pub(super) fn homes(said: &[Out]) -> Vec<(u64, u32, u64)> {
    said.iter()
        .filter_map(|out| match out {
            Out::Home {
                to, shard, node, ..
            } => Some((*to, *shard, *node)),
            _ => None,
        })
        .collect()
}

/// `(to, shard)` of every `HandOff`.
pub(super) fn handoffs(said: &[Out]) -> Vec<(u64, u32)> {
    said.iter()
        .filter_map(|out| match out {
            Out::HandOff { to, shard, .. } => Some((*to, *shard)),
            _ => None,
        })
        .collect()
}

/// `(to, shard, node)` of every home in a map.
pub(super) fn maps(said: &[Out]) -> Vec<(u64, u32, u64)> {
    let mut found = Vec::new();
    for out in said {
        if let Out::Map { to, homes, .. } = out {
            found.extend(homes.iter().map(|home| (*to, home.shard.0, home.node.0)));
        }
    }
    found
}
