//! One coordinator in two storages, with regions that answer rightly, wrongly or not at all.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use super::feed::Feed;
use crate::allocation::LeastShards;
use crate::coordinator::{
    ControlError, CoordPhase, Coordinator, CoordinatorCommand, CoordinatorConfig, KeepShards,
    validate,
};
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::table::{CoordinatorArray, CoordinatorHeap};
use crate::wire::control::{
    Deregister, GetShardHome, HandOffComplete, Register, RegisterRefusal, Resize, ShardEpoch, Size,
};
use crate::wire::{Claim, ClaimsBuilder, Control};
use crate::{Epoch, Incarnation, Instant, NodeId, Session, ShardId, Term};

const SHARDS: u32 = 6;
const NODES: usize = 4;

type Heap = Coordinator<LeastShards, CoordinatorHeap>;
type Array = Coordinator<LeastShards, CoordinatorArray<{ SHARDS as usize }, NODES>>;

/// A region as the coordinator sees it.
struct Region {
    session: Session,
    held: BTreeMap<u32, Epoch>,
    /// Grants and handoffs that were said and not answered.
    grants: Vec<(u32, Epoch, Session)>,
    handoffs: Vec<(u32, Epoch)>,
    /// The newest size it heard of.
    size: Size,
}

struct World {
    now: Instant,
    heap: Heap,
    array: Array,
    trust: bool,
    /// Of the newest reign.
    term: Term,
    regions: BTreeMap<u64, Region>,
    /// The highest epoch that ever was a shard's home, or claimed.
    newest: BTreeMap<u32, Epoch>,
}

/// A coordinator between members, regions and reigns that do anything in any order.
///
/// Both storages answer alike; tables agree with each other after every input; no epoch is given out twice; only
/// recorded owners are told to stop, and only members that registered are told anything; commands and deadlines come
/// to an end; a reign that is over says nothing.
pub fn coordinator_ops(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let mut world = World::new(&mut feed);
    while !feed.is_empty() {
        world.step(&mut feed);
        world.check();
    }
    world.drain();
    world.end();
    world.check();
}

impl World {
    fn new(feed: &mut Feed<'_>) -> Self {
        let now = Instant::from_micros(5_000_000);
        let trust = feed.flag();
        let keep = match feed.below(4) {
            0 => KeepShards::All,
            1 => KeepShards::First(SHARDS / 2),
            _ => KeepShards::Asked,
        };
        let config = CoordinatorConfig::new("cart")
            .with_shard_count(SHARDS)
            .with_keep(keep)
            .with_trust(trust);
        let strategy = || LeastShards::new().with_max_simultaneous(2);
        let heap = CoordinatorHeap::new(SHARDS, NODES as u16);
        let region = |node: u64| {
            let region = Region {
                session: Session {
                    incarnation: Incarnation(node * 100),
                    lapses: 0,
                    starts: 0,
                },
                held: BTreeMap::new(),
                grants: Vec::new(),
                handoffs: Vec::new(),
                size: Size::default(),
            };
            (node, region)
        };
        let mut world = Self {
            now,
            heap: Coordinator::new(now, config, strategy(), heap).expect("the settings are good"),
            array: Coordinator::new(now, config, strategy(), CoordinatorArray::new())
                .expect("the settings are good"),
            trust,
            term: Term(7),
            // One more than there is room for.
            regions: (1..=NODES as u64 + 1).map(region).collect(),
            newest: BTreeMap::new(),
        };
        let term = world.term;
        both!(world, coordinator => coordinator.begin(now, term));
        for node in 1..=3 {
            world.member(node, MemberState::Up);
            world.register(node, 0, 1);
            both!(world, coordinator => coordinator.handle_hearing(now, NodeId(node), true));
        }
        if feed.flag() {
            both!(world, coordinator => coordinator.open_barrier(now));
        }
        world
    }

    fn region(&mut self, node: u64) -> &mut Region {
        self.regions.get_mut(&node).expect("one of them")
    }

    fn member(&mut self, node: u64, state: MemberState) {
        let now = self.now;
        let change = MemberChange::Member(Member {
            node: NodeId(node),
            incarnation: self.regions[&node].session.incarnation,
            state,
            roles: Roles::NONE,
        });
        let _ = both!(self, coordinator => coordinator.handle_member(now, change));
    }

    fn control(&mut self, from: u64, control: &Control<'_>) -> Result<(), ControlError> {
        let (now, term) = (self.now, self.term);
        both!(self, coordinator => coordinator.handle_control(now, NodeId(from), term, control))
    }

    /// What it holds, mostly; a part of it, or all.
    fn register(&mut self, node: u64, part: u32, parts: u32) {
        let claims: Vec<Claim> = self.regions[&node]
            .held
            .iter()
            .filter(|(shard, _)| parts < 2 || (**shard < SHARDS / 2) == (part == 0))
            .map(|(shard, epoch)| Claim {
                shard: ShardId(*shard),
                epoch: *epoch,
                draining: false,
            })
            .collect();
        self.claim(node, &claims, part, parts);
    }

    fn claim(&mut self, node: u64, claims: &[Claim], part: u32, parts: u32) {
        let (session, size) = (self.regions[&node].session, self.regions[&node].size);
        let mut scratch = [0; 512];
        let mut list = ClaimsBuilder::new(&mut scratch);
        for claim in claims {
            let newest = self.newest.entry(claim.shard.0).or_default();
            *newest = claim.epoch.max(*newest);
            let _ = list.push(*claim);
        }
        let register = Control::Register(Register {
            part,
            parts,
            session,
            type_name: "cart",
            shard_count: SHARDS,
            shard_hash: 0,
            wants_map: true,
            proxy: false,
            last_beat_age: 0,
            storage_id: 0,
            remembers: false,
            size,
            claims: list.finish(),
        });
        let told = self.control(node, &register);
        if told == Err(ControlError::Refused(RegisterRefusal::SessionEnded)) {
            self.relapse(node);
        }
    }

    fn relapse(&mut self, node: u64) {
        let region = self.region(node);
        region.session.lapses += 1;
        region.held.clear();
        region.grants.clear();
    }

    /// Mostly what the region holds.
    fn epoch(&self, node: u64, shard: u32, feed: &mut Feed<'_>) -> Epoch {
        match self.regions[&node].held.get(&shard) {
            Some(held) if feed.byte() < 200 => *held,
            _ => {
                let term = Term(5 + u64::from(feed.below(5)));
                Epoch::new(term, feed.below(16)).expect("small numbers")
            }
        }
    }

    fn step(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        let node = 1 + u64::from(feed.below(NODES as u32 + 1));
        let shard = feed.below(SHARDS + 1);
        match feed.below(30) {
            0 => {
                let states = [
                    MemberState::Unreachable,
                    MemberState::Leaving,
                    MemberState::Joining,
                ];
                let state = feed.pick(&states);
                self.member(node, state);
            }
            1 | 2 => self.member(node, MemberState::Up),
            3 => self.gone(node, feed),
            4 | 5 => self.register(node, 0, 1),
            6 => {
                self.register(node, 0, 2);
                if feed.byte() < 200 {
                    self.register(node, 1, 2);
                }
            }
            7 => self.junk(node, feed),
            8 => self.relapse(node),
            9..=11 => {
                let ask = Control::GetShardHome(GetShardHome {
                    shard: ShardId(shard),
                });
                let _ = self.control(node, &ask);
            }
            12 | 13 => self.take_grant(node),
            14 => {
                if let Some((shard, epoch)) = self.region(node).handoffs.pop() {
                    self.complete(node, shard, epoch);
                }
            }
            15 => {
                let epoch = self.epoch(node, shard, feed);
                self.complete(node, shard, epoch);
            }
            16 => {
                let epoch = self.epoch(node, shard, feed);
                let started = ShardEpoch {
                    shard: ShardId(shard),
                    epoch,
                };
                let _ = self.control(node, &Control::ShardStarted(started));
            }
            17 => {
                let session = self.regions[&node].session;
                let _ = self.control(node, &Control::Deregister(Deregister { session }));
                let region = self.region(node);
                region.held.clear();
                region.grants.clear();
                region.session.starts += 1;
            }
            18 => {
                both!(self, coordinator => coordinator.handle_lapsed(now, NodeId(node)));
                self.relapse(node);
            }
            19 => {
                both!(self, coordinator => coordinator.open_barrier(now));
            }
            20 => self.reign(feed),
            21 => {
                both!(self, coordinator => coordinator.act(now));
            }
            22 => {
                let hears = feed.byte() < 200;
                both!(self, coordinator => coordinator.handle_hearing(now, NodeId(node), hears));
            }
            23 => {
                both!(self, coordinator => coordinator.rebalance(now));
            }
            24 | 25 => self.resize(node, feed),
            _ => {
                self.now = now.after(Duration::from_millis(feed.number() % 12_000));
                self.timeout();
            }
        }
        if feed.byte() < 160 {
            self.drain();
        }
    }

    /// Mostly after what the region knows.
    fn resize(&mut self, node: u64, feed: &mut Feed<'_>) {
        let count = feed.below(SHARDS + 2);
        let after = if feed.byte() < 200 {
            self.regions[&node].size.version
        } else {
            self.epoch(node, SHARDS, feed)
        };
        let before = self.heap.used_shards();
        let told = self.control(node, &Control::Resize(Resize { after, count }));
        let used = self.heap.used_shards();
        assert_eq!(used, self.array.used_shards());
        assert!(used == before || (told.is_ok() && used == count));
    }

    /// A region hears of a size. One that it knows better is old.
    fn sized(&mut self, node: NodeId, size: Size) {
        assert!(size.count <= SHARDS && size.version.term() <= self.term);
        let region = self.regions.get_mut(&node.0).expect("a member");
        if size.version == region.size.version && region.size.version != Epoch::NONE {
            assert_eq!(size.count, region.size.count, "two sizes of one version");
        }
        if size.version > region.size.version {
            region.size = size;
        }
    }

    fn gone(&mut self, node: u64, feed: &mut Feed<'_>) {
        let now = self.now;
        let incarnation = self.regions[&node].session.incarnation;
        let region = self.region(node);
        region.held.clear();
        region.grants.clear();
        region.size = Size::default();
        region.session = Session {
            incarnation: Incarnation(incarnation.0 + 1),
            lapses: 0,
            starts: 0,
        };
        if feed.flag() {
            self.member(node, MemberState::Up);
            return;
        }
        let change = MemberChange::Removed {
            node: NodeId(node),
            incarnation,
            cause: feed.pick(&[RemovalCause::Down, RemovalCause::Left]),
        };
        let _ = both!(self, coordinator => coordinator.handle_member(now, change));
    }

    /// Claims of what was never granted, or to somebody else.
    fn junk(&mut self, node: u64, feed: &mut Feed<'_>) {
        let mut claims = Vec::new();
        let mut shard = 0;
        for _ in 0..feed.below(4) {
            let epoch = self.epoch(node, shard, feed);
            claims.push(Claim {
                shard: ShardId(shard),
                epoch,
                draining: feed.flag(),
            });
            shard += 1 + feed.below(4);
        }
        self.claim(node, &claims, feed.below(2), 1 + feed.below(2));
    }

    /// A region begins to serve what it was granted.
    fn take_grant(&mut self, node: u64) {
        let region = self.region(node);
        let Some((shard, epoch, session)) = region.grants.pop() else {
            return;
        };
        if session != region.session || region.held.get(&shard).is_some_and(|held| *held > epoch) {
            return;
        }
        region.held.insert(shard, epoch);
        let started = ShardEpoch {
            shard: ShardId(shard),
            epoch,
        };
        let _ = self.control(node, &Control::ShardStarted(started));
    }

    fn complete(&mut self, node: u64, shard: u32, epoch: Epoch) {
        let region = self.region(node);
        if region.held.get(&shard).is_some_and(|held| *held <= epoch) {
            region.held.remove(&shard);
        }
        region
            .grants
            .retain(|grant| grant.0 != shard || grant.1 > epoch);
        let complete = HandOffComplete {
            shard: ShardId(shard),
            epoch,
            forced: false,
        };
        let _ = self.control(node, &Control::HandOffComplete(complete));
    }

    fn reign(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        if feed.flag() {
            self.end();
        }
        if feed.byte() < 230 {
            let next = self.newest.values().map(|epoch| epoch.term()).max();
            self.term = self.term.max(next.unwrap_or_default()).next();
            let term = self.term;
            both!(self, coordinator => coordinator.begin(now, term));
        }
    }

    fn end(&mut self) {
        let now = self.now;
        both!(self, coordinator => coordinator.end(now));
        assert_eq!(
            self.heap.poll_command(),
            None,
            "a reign that is over speaks"
        );
        assert_eq!(self.array.poll_command(), None);
        assert_eq!(self.heap.poll_timeout(), None);
        let home = |shard| self.heap.home(ShardId(shard));
        assert!((0..SHARDS).all(|shard| home(shard).is_none()));
    }

    fn timeout(&mut self) {
        let now = self.now;
        for _ in 0..1_000 {
            both!(self, coordinator => coordinator.handle_timeout(now));
            self.check();
            self.drain();
            if self.heap.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
        }
        panic!("a deadline stays due");
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            if !self.poll() {
                return;
            }
        }
        panic!("commands never end");
    }

    fn poll(&mut self) -> bool {
        let (heap, array) = (self.heap.poll_command(), self.array.poll_command());
        assert_eq!(heap, array, "the storages differ");
        let Some(command) = heap else {
            return false;
        };
        match command {
            CoordinatorCommand::Send { to, control } => match control {
                Control::ShardHome(home) => {
                    let newest = self.newest.entry(home.shard.0).or_default();
                    let granted = home.epoch.term() == self.term;
                    assert!(granted || home.epoch <= *newest, "a home out of nowhere");
                    *newest = home.epoch.max(*newest);
                    if to == home.node {
                        let region = self.regions.get_mut(&to.0).expect("a member");
                        let grant = (home.shard.0, home.epoch, home.session);
                        region.grants.retain(|grant| grant.0 != home.shard.0);
                        region.grants.push(grant);
                    }
                }
                Control::HandOff(hand_off) => {
                    let region = self.regions.get_mut(&to.0).expect("a member");
                    let shard = hand_off.shard.0;
                    region.handoffs.retain(|handoff| handoff.0 != shard);
                    region.handoffs.push((shard, hand_off.epoch));
                }
                Control::ShardMapUpdate(update) => {
                    let count = update.homes.validate(SHARDS);
                    count.expect("a map that decodes");
                }
                Control::RegisterAck(ack) => self.sized(to, ack.size),
                Control::Resized(size) => self.sized(to, size),
                Control::RegisterRefused(_) => {}
                other => panic!("not a coordinator's: {other:?}"),
            },
            CoordinatorCommand::EndSessions { node } if !self.trust => {
                // Leadership tells it no more, and is sure of its lapse some time later.
                self.regions
                    .get_mut(&node.0)
                    .expect("a member")
                    .grants
                    .clear();
            }
            CoordinatorCommand::EndSessions { .. }
            | CoordinatorCommand::Registered { .. }
            | CoordinatorCommand::HandOffTimedOut { .. }
            | CoordinatorCommand::OtherStorage { .. }
            | CoordinatorCommand::Exhausted => {}
        }
        true
    }

    fn check(&mut self) {
        validate(&self.heap);
        validate(&self.array);
        assert_eq!(self.heap.phase(), self.array.phase());
        assert_eq!(self.heap.poll_timeout(), self.array.poll_timeout());
        assert_eq!(self.heap.stats(), self.array.stats());
        let mut owned = BTreeMap::<NodeId, u32>::new();
        for shard in 0..SHARDS {
            let home = self.heap.home(ShardId(shard));
            assert_eq!(home, self.array.home(ShardId(shard)));
            let state = self.heap.shard_state(ShardId(shard));
            assert_eq!(state, self.array.shard_state(ShardId(shard)));
            let Some(home) = home else { continue };
            *owned.entry(home.node).or_default() += 1;
            let newest = self.newest.entry(shard).or_default();
            assert!(home.epoch.term() <= self.term, "an epoch of a later reign");
            *newest = home.epoch.max(*newest);
        }
        for (node, count) in owned {
            assert!(self.heap.owned_by(node) >= count);
        }
        if self.heap.phase() == CoordPhase::Idle {
            assert_eq!(self.heap.moves_in_flight(), 0);
        }
    }
}
