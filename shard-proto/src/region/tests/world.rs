//! A few regions, links between them, and a coordinator that says what a test tells it to say.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::region::{
    Arrival, Command, ControlError, Origin, Region, RegionConfig, RejectReason, Route, RouteError,
};
use crate::table::HeapStorage;
use crate::wire::control::{
    HandOff, Previous, RegisterAck, RegisterRefusal, RegisterRefused, ShardHome, ShardMapUpdate,
    Size,
};
use crate::wire::{Control, HomeEntry, Homes, HomesBuilder, ReturnReason};
use crate::{Epoch, Home, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, Token};

/// What a coordinator without allocations sends to a region that registered.
pub(super) const EMPTY_MAP: Control<'static> = Control::ShardMapUpdate(ShardMapUpdate {
    version: 0,
    last: true,
    homes: Homes::EMPTY,
});

/// A message: who sent it, and its number among those of its sender to its shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) from: NodeId,
    pub(super) number: u32,
}

pub(super) type TestRegion = Region<Note, HeapStorage<Note>>;

pub(super) use super::said::Said;

/// The coordinator's node, which hosts nothing.
pub(super) const LEADER: NodeId = NodeId(99);
/// A member that is hostile.
pub(super) const HOSTILE: NodeId = NodeId(66);
pub(super) const A: NodeId = NodeId(1);
pub(super) const B: NodeId = NodeId(2);
pub(super) const D: NodeId = NodeId(3);

pub(super) const S: ShardId = ShardId(7);

pub(super) fn term(term: u64) -> Term {
    Term(term)
}

/// An epoch of term 5, the term of the tests' leader.
pub(super) fn epoch(round: u32) -> Epoch {
    Epoch::new(Term(5), round).unwrap()
}

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

pub(super) fn session(node: NodeId) -> Session {
    Session {
        incarnation: Incarnation(node.0 * 1000),
        lapses: 0,
        starts: 0,
    }
}

/// A data frame on a link.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Envelope(ShardId, Epoch, Note),
    Return(ShardId, Epoch, ReturnReason, Note),
    Flush(ShardId, Epoch, Token),
    Flushed(ShardId, Token),
}

/// A node: its region, and what hosts its shards.
pub(super) struct Host {
    pub(super) region: TestRegion,
    pub(super) alive: bool,
    /// Start and stop shards at once.
    pub(super) prompt: bool,
    /// Entities handle messages at once.
    pub(super) quick: bool,
    pub(super) running: BTreeMap<u32, Epoch>,
    pub(super) starts: Vec<(ShardId, Epoch)>,
    pub(super) stops: Vec<(ShardId, Epoch, Instant)>,
    pub(super) mailbox: BTreeMap<u32, VecDeque<(Origin, Note)>>,
    pub(super) said: Vec<Said>,
    /// The same, encoded.
    pub(super) frames: Vec<Vec<u8>>,
    pub(super) rejected: Vec<(ShardId, Origin, RejectReason, Note)>,
    pub(super) opened: Vec<(ShardId, Epoch)>,
    pub(super) homes: Vec<(ShardId, Option<Home>)>,
    pub(super) registered: Vec<Term>,
    pub(super) refusals: Vec<RegisterRefusal>,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) hosts: BTreeMap<NodeId, Host>,
    pub(super) wires: BTreeMap<(NodeId, NodeId), VecDeque<Data>>,
    /// Links that carry nothing for now.
    pub(super) cut: Vec<(NodeId, NodeId)>,
    /// Every message that an entity handled, in order, with the node it ran on.
    pub(super) handled: Vec<(NodeId, ShardId, Note)>,
    pub(super) numbers: BTreeMap<(NodeId, u32), u32>,
    /// Handed back by `route`.
    pub(super) handed_back: u32,
    /// How many of `handled` were looked at.
    pub(super) checked: usize,
    /// The last number of an origin and shard among them.
    pub(super) last: BTreeMap<(NodeId, u32), u32>,
}

pub(super) fn config() -> RegionConfig {
    RegionConfig::new("cart").with_shard_count(16).with_seed(11)
}

pub(super) fn member(node: NodeId) -> Member {
    Member {
        node,
        incarnation: session(node).incarnation,
        state: MemberState::Up,
        roles: Roles::NONE,
    }
}

pub(super) fn removed(node: NodeId) -> MemberChange {
    MemberChange::Removed {
        node,
        incarnation: session(node).incarnation,
        cause: RemovalCause::Down,
    }
}

/// A control frame; the term of its header does not matter here.
pub(super) fn encode(control: &Control<'_>) -> Vec<u8> {
    let mut bytes = [0; 4096];
    let len = control
        .encode(crate::EntityTypeId(1), Term(1), 1, &mut bytes)
        .unwrap();
    bytes[..len].to_vec()
}

impl Host {
    fn new(node: NodeId, config: RegionConfig, queue: u32, now: Instant) -> Self {
        let storage = HeapStorage::new(config.shard_count(), 8, queue);
        let mut region = Region::new(now, node, session(node), config, storage).unwrap();
        region.handle_lease(now, Some(Instant::FAR_FUTURE));
        Self {
            region,
            alive: true,
            prompt: true,
            quick: true,
            running: BTreeMap::new(),
            starts: Vec::new(),
            stops: Vec::new(),
            mailbox: BTreeMap::new(),
            said: Vec::new(),
            frames: Vec::new(),
            rejected: Vec::new(),
            opened: Vec::new(),
            homes: Vec::new(),
            registered: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// What was said since the last look.
    pub(super) fn take_said(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.said)
    }

    pub(super) fn numbers_rejected(&self) -> Vec<u32> {
        self.rejected.iter().map(|(.., note)| note.number).collect()
    }
}

impl World {
    /// Nodes that know each other and are registered with [`LEADER`] in term 5, at 1 s.
    pub(super) fn new(nodes: &[NodeId]) -> Self {
        Self::with(nodes, config(), 1000)
    }

    pub(super) fn with(nodes: &[NodeId], config: RegionConfig, queue: u32) -> Self {
        let mut world = Self::strangers(nodes, config, queue);
        for &node in nodes {
            world.lead(node, 5);
            world.acknowledge(node);
        }
        // What is outdated by the adoption is none yet.
        world.pass(0);
        for &node in nodes {
            world.host(node).take_said();
        }
        world
    }

    /// Nodes that know each other, without a leader.
    pub(super) fn strangers(nodes: &[NodeId], config: RegionConfig, queue: u32) -> Self {
        let now = at(1000);
        let mut world = Self {
            now,
            hosts: BTreeMap::new(),
            wires: BTreeMap::new(),
            cut: Vec::new(),
            handled: Vec::new(),
            numbers: BTreeMap::new(),
            handed_back: 0,
            checked: 0,
            last: BTreeMap::new(),
        };
        for &node in nodes {
            let mut host = Host::new(node, config, queue, now);
            for &other in nodes.iter().chain(&[HOSTILE]) {
                let change = MemberChange::Member(member(other));
                host.region.handle_member(now, change).unwrap();
            }
            world.hosts.insert(node, host);
        }
        world
    }

    pub(super) fn host(&mut self, node: NodeId) -> &mut Host {
        self.hosts.get_mut(&node).unwrap()
    }

    pub(super) fn region(&mut self, node: NodeId) -> &mut TestRegion {
        &mut self.host(node).region
    }

    pub(super) fn lead(&mut self, node: NodeId, term: u64) {
        let now = self.now;
        let leader = Leader {
            node: LEADER,
            term: Term(term),
        };
        self.region(node).handle_leader(now, Some(leader));
        self.run();
    }

    /// A directive of the leader of term 5.
    pub(super) fn tell(&mut self, node: NodeId, control: &Control<'_>) -> Result<(), ControlError> {
        let now = self.now;
        let told = self
            .region(node)
            .handle_control(now, LEADER, Term(5), control);
        self.run();
        told
    }

    pub(super) fn acknowledge(&mut self, node: NodeId) {
        let session = self.region(node).session();
        let ack = Control::RegisterAck(RegisterAck {
            session,
            size: Size::default(),
        });
        self.tell(node, &ack).unwrap();
        self.tell(node, &EMPTY_MAP).unwrap();
    }

    pub(super) fn refuse(&mut self, node: NodeId, reason: RegisterRefusal) {
        let session = self.region(node).session();
        let refused = Control::RegisterRefused(RegisterRefused { session, reason });
        self.tell(node, &refused).unwrap();
    }

    /// Tells `node` that `S` lives on `home`.
    pub(super) fn home_is(&mut self, node: NodeId, home: NodeId, round: u32, previous: Previous) {
        let session = self
            .hosts
            .get(&home)
            .map_or(session(home), |host| host.region.session());
        let home = Control::ShardHome(ShardHome {
            shard: S,
            epoch: epoch(round),
            node: home,
            session,
            previous,
        });
        self.tell(node, &home).unwrap();
    }

    /// Tells `node`, and the home itself, that `S` lives on `home`.
    pub(super) fn settle_on(&mut self, nodes: &[NodeId], home: NodeId, round: u32) {
        self.home_is(home, home, round, Previous::Completed);
        for &node in nodes {
            if node != home {
                self.home_is(node, home, round, Previous::Completed);
            }
        }
    }

    pub(super) fn map(&mut self, node: NodeId, home: NodeId, round: u32) {
        let mut bytes = [0; 256];
        let mut homes = HomesBuilder::new(&mut bytes);
        homes
            .push(HomeEntry {
                shard: S,
                epoch: epoch(round),
                node: home,
            })
            .unwrap();
        let update = ShardMapUpdate {
            version: 1,
            last: true,
            homes: homes.finish(),
        };
        self.tell(node, &Control::ShardMapUpdate(update)).unwrap();
    }

    pub(super) fn hand_off(&mut self, node: NodeId, round: u32) {
        let hand_off = Control::HandOff(HandOff {
            shard: S,
            epoch: epoch(round),
            drain: 8_000_000,
        });
        self.tell(node, &hand_off).unwrap();
    }

    /// A caller of `node` sends the next message to `S`.
    pub(super) fn send(&mut self, node: NodeId) -> bool {
        self.send_to(node, S)
    }

    pub(super) fn send_to(&mut self, node: NodeId, shard: ShardId) -> bool {
        let now = self.now;
        let next = self.numbers.entry((node, shard.0)).or_default();
        let note = Note {
            from: node,
            number: *next,
        };
        *next += 1;
        match self.region(node).route(now, shard, note) {
            Ok(Route::Local { epoch, payload }) => {
                self.deliver(node, shard, epoch, Origin::Local, payload);
            }
            Ok(Route::Remote { to, epoch, payload }) => {
                self.put(node, to, Data::Envelope(shard, epoch, payload));
            }
            Ok(Route::Queued) => {}
            Err(RouteError::BufferFull(_) | RouteError::Stopped(_)) => {
                self.handed_back += 1;
                return false;
            }
            Err(other) => panic!("{other}"),
        }
        true
    }

    fn put(&mut self, from: NodeId, to: NodeId, data: Data) {
        self.wires.entry((from, to)).or_default().push_back(data);
    }

    fn deliver(&mut self, node: NodeId, shard: ShardId, epoch: Epoch, origin: Origin, note: Note) {
        let host = self.hosts.get_mut(&node).unwrap();
        assert_eq!(
            host.running.get(&shard.0),
            Some(&epoch),
            "{note:?} reached {node:?}, where {shard:?} does not run"
        );
        if host.quick {
            self.handled.push((node, shard, note));
        } else {
            host.mailbox
                .entry(shard.0)
                .or_default()
                .push_back((origin, note));
        }
    }

    /// Entities on `node` handle so many messages of `shard`.
    pub(super) fn handle(&mut self, node: NodeId, shard: ShardId, count: usize) {
        for _ in 0..count {
            let host = self.hosts.get_mut(&node).unwrap();
            let next = host.mailbox.entry(shard.0).or_default().pop_front();
            if let Some((_, note)) = next {
                self.handled.push((node, shard, note));
            }
        }
    }

    pub(super) fn started(&mut self, node: NodeId, shard: ShardId, epoch: Epoch) {
        let now = self.now;
        let host = self.host(node);
        host.running.insert(shard.0, epoch);
        host.region.handle_shard_started(now, shard, epoch);
    }

    /// The host stops a shard: gives back what was not handled, and says so.
    pub(super) fn stopped(&mut self, node: NodeId, shard: ShardId, epoch: Epoch, forced: bool) {
        let now = self.now;
        let host = self.host(node);
        host.running.remove(&shard.0);
        for (origin, note) in host.mailbox.remove(&shard.0).unwrap_or_default() {
            // Without a slot for it, it is reported.
            if let Err(note) = host.region.give_back(now, shard, epoch, origin, note) {
                let reason = RejectReason::BufferFull;
                host.rejected.push((shard, origin, reason, note));
            }
        }
        host.region.handle_shard_stopped(now, shard, epoch, forced);
    }

    /// Carries one command out. `false`: there was none.
    pub(super) fn poll(&mut self, node: NodeId) -> bool {
        let host = self.hosts.get_mut(&node).unwrap();
        let Some(command) = host.region.poll_command() else {
            return false;
        };
        match command {
            Command::Send { to, control } => {
                assert_eq!(to, LEADER);
                let said = Said::new(&control);
                host.said.push(said);
                host.frames.push(encode(&control));
            }
            Command::Forward {
                to,
                shard,
                epoch,
                payload,
            } => self.put(node, to, Data::Envelope(shard, epoch, payload)),
            Command::Return {
                to,
                shard,
                epoch,
                reason,
                payload,
            } => self.put(node, to, Data::Return(shard, epoch, reason, payload)),
            Command::Flush {
                to,
                shard,
                epoch,
                token,
            } => self.put(node, to, Data::Flush(shard, epoch, token)),
            Command::Flushed { to, shard, token } => {
                self.put(node, to, Data::Flushed(shard, token));
            }
            Command::Deliver {
                shard,
                epoch,
                origin,
                payload,
            } => self.deliver(node, shard, epoch, origin, payload),
            Command::StartShard { shard, epoch } => {
                let was = host.running.get(&shard.0);
                assert_eq!(was, None, "{shard:?} starts beside itself");
                host.starts.push((shard, epoch));
                if host.prompt {
                    self.started(node, shard, epoch);
                }
            }
            Command::Open { shard, epoch } => host.opened.push((shard, epoch)),
            Command::StopShard {
                shard,
                epoch,
                abort_at,
            } => {
                host.stops.push((shard, epoch, abort_at));
                if host.prompt {
                    self.stopped(node, shard, epoch, false);
                }
            }
            Command::Reject {
                shard,
                origin,
                reason,
                payload,
            } => host.rejected.push((shard, origin, reason, payload)),
            Command::HomeChanged { shard, home } => host.homes.push((shard, home)),
            Command::Registered { term } => host.registered.push(term),
            Command::Refused { reason } => host.refusals.push(reason),
        }
        true
    }

    /// Carries one frame over a link. `false`: there was none.
    pub(super) fn carry(&mut self, from: NodeId, to: NodeId) -> bool {
        let Some(data) = self
            .wires
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
        else {
            return false;
        };
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&to).filter(|host| host.alive) else {
            return true;
        };
        match data {
            Data::Envelope(shard, epoch, note) => {
                match host.region.handle_envelope(now, from, shard, epoch, note) {
                    Arrival::Deliver(note) => {
                        self.deliver(to, shard, epoch, Origin::Remote(from), note);
                    }
                    Arrival::Queued => {}
                    Arrival::Return { reason, payload } => {
                        self.put(to, from, Data::Return(shard, epoch, reason, payload));
                    }
                    Arrival::Refused(note) => panic!("{note:?} refused"),
                }
            }
            Data::Return(shard, epoch, reason, note) => {
                if let Err(error) = host
                    .region
                    .handle_return(now, from, shard, epoch, reason, note)
                {
                    let reason = match error {
                        crate::region::ReturnError::Full(_) => RejectReason::BufferFull,
                        crate::region::ReturnError::Stopped(_) => RejectReason::Stopped,
                        crate::region::ReturnError::PathGivenUp(_) => RejectReason::PathGivenUp,
                        other => panic!("{to:?} from {from:?}, {shard:?} {epoch:?}: {other:?}"),
                    };
                    let note = error.into_payload();
                    host.rejected.push((shard, Origin::Local, reason, note));
                }
            }
            Data::Flush(shard, epoch, token) => {
                host.region.handle_flush(now, from, shard, epoch, token);
            }
            Data::Flushed(shard, token) => {
                host.region.handle_flushed(now, from, shard, token);
            }
        }
        true
    }
}
