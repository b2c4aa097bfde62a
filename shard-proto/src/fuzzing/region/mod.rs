//! One region in two storages, with everything around it made up.

mod host;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use super::feed::Feed;
use crate::membership::{Member, MemberChange, MemberState, RemovalCause, Roles};
use crate::region::{Arrival, Origin, Region, RegionConfig, Route};
use crate::table::{ArrayStorage, HeapStorage};
use crate::wire::control::{
    HandOff, Previous, RegisterAck, RegisterRefusal, RegisterRefused, ShardHome, ShardMapUpdate,
    Size,
};
use crate::wire::{Control, HomeEntry, HomesBuilder, ReturnReason};
use crate::{Epoch, Incarnation, Instant, Leader, NodeId, Session, ShardId, Term, Token};

const SHARDS: u32 = 4;
const NODES: usize = 5;
const QUEUE: usize = 12;
const ME: NodeId = NodeId(1);
const OTHERS: [NodeId; 3] = [NodeId(2), NodeId(3), NodeId(4)];

type Heap = Region<u32, HeapStorage<u32>>;
type Array = Region<u32, ArrayStorage<u32, { SHARDS as usize }, NODES, QUEUE>>;

/// Where a message is that was given to the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Inside,
    /// Sent to a node under an epoch; it may come back.
    Sent(NodeId, ShardId, Epoch),
    Gone,
}

struct World {
    now: Instant,
    heap: Heap,
    array: Array,
    term: Term,
    leader: NodeId,
    round: u32,
    places: Vec<Place>,
    lives: BTreeMap<NodeId, u64>,
    /// What the host was told and has not done.
    starts: Vec<(ShardId, Epoch)>,
    stops: Vec<(ShardId, Epoch)>,
    running: BTreeMap<u32, Epoch>,
    mailbox: BTreeMap<u32, VecDeque<(Origin, u32)>>,
    /// Markers that this region sent, and did not get back.
    flushes: Vec<(NodeId, ShardId, Token)>,
    /// Epochs under which the host was ever told to start a shard.
    served: BTreeMap<u32, Epoch>,
    tokens: BTreeMap<u64, (NodeId, ShardId)>,
    lapses: u32,
}

/// A region between callers, a host, peers and a coordinator that do anything in any order.
///
/// Both storages answer alike; tables agree with each other after every input; no message is given out that was not
/// taken, or twice, and none stays behind; a shard starts only if it does not run, under growing epochs; commands and
/// deadlines come to an end.
pub fn region_ops(bytes: &[u8]) {
    let mut feed = Feed::new(bytes);
    let mut world = World::new(&mut feed);
    while !feed.is_empty() {
        world.step(&mut feed);
        world.check();
    }
    world.finish();
}

impl World {
    fn new(feed: &mut Feed<'_>) -> Self {
        let now = Instant::from_micros(5_000_000);
        let queue = feed.pick(&[QUEUE as u32, 4, 2, 8]);
        let config = RegionConfig::new("cart")
            .with_shard_count(SHARDS)
            .with_proxy(feed.byte() > 250)
            .with_buffer(queue)
            .with_buffer_per_shard(queue.min(6))
            .with_return_window(4)
            .with_seed(3);
        let session = Session {
            incarnation: Incarnation(100),
            lapses: 0,
            starts: 0,
        };
        let heap = HeapStorage::new(SHARDS, NODES as u16, QUEUE as u32);
        let mut world = Self {
            now,
            heap: Region::new(now, ME, session, config, heap).expect("the settings are good"),
            array: Region::new(now, ME, session, config, ArrayStorage::new())
                .expect("the settings are good"),
            term: Term(5),
            leader: NodeId(2),
            round: 0,
            places: Vec::new(),
            lives: BTreeMap::new(),
            starts: Vec::new(),
            stops: Vec::new(),
            running: BTreeMap::new(),
            mailbox: BTreeMap::new(),
            flushes: Vec::new(),
            served: BTreeMap::new(),
            tokens: BTreeMap::new(),
            lapses: 0,
        };
        for node in OTHERS {
            world.lives.insert(node, 100);
            world.member(node, MemberState::Up);
        }
        let leader = Leader {
            node: world.leader,
            term: world.term,
        };
        both!(world, region => region.handle_leader(now, Some(leader)));
        both!(world, region => region.handle_lease(now, Some(Instant::FAR_FUTURE)));
        world.acknowledge();
        world
    }

    fn member(&mut self, node: NodeId, state: MemberState) {
        let now = self.now;
        let change = MemberChange::Member(Member {
            node,
            incarnation: Incarnation(self.lives[&node]),
            state,
            roles: Roles::NONE,
        });
        let _ = both!(self, region => region.handle_member(now, change));
    }

    fn control(&mut self, control: &Control<'_>) {
        self.control_from(self.leader, self.term, control);
    }

    fn control_from(&mut self, from: NodeId, term: Term, control: &Control<'_>) {
        let now = self.now;
        let _ = both!(self, region => region.handle_control(now, from, term, control));
    }

    fn acknowledge(&mut self) {
        let session = self.heap.session();
        self.control(&Control::RegisterAck(RegisterAck {
            session,
            size: Size::default(),
        }));
        self.map(None);
    }

    fn map(&mut self, home: Option<HomeEntry>) {
        let mut bytes = [0; 64];
        let mut homes = HomesBuilder::new(&mut bytes);
        if let Some(home) = home {
            homes.push(home).expect("there is room for one");
        }
        let homes = homes.finish();
        self.control(&Control::ShardMapUpdate(ShardMapUpdate {
            version: u64::from(self.round),
            last: true,
            homes,
        }));
    }

    fn shard(feed: &mut Feed<'_>) -> ShardId {
        ShardId(feed.pick(&[0, 1, 2, 3, 0, 1, 0, 9]))
    }

    fn node(feed: &mut Feed<'_>) -> NodeId {
        feed.pick(&[OTHERS[0], OTHERS[1], OTHERS[2], OTHERS[0], NodeId(77)])
    }

    /// Mostly the next allocation, or one that was.
    fn epoch(&mut self, feed: &mut Feed<'_>) -> Epoch {
        let choice = feed.byte();
        if choice < 120 {
            self.round += 1;
        }
        let back = if choice < 200 {
            0
        } else {
            u32::from(choice - 200) % 6
        };
        let term = if choice < 250 {
            self.term
        } else {
            Term(self.term.0.saturating_sub(1))
        };
        Epoch::new(term, self.round.saturating_sub(back)).expect("small numbers")
    }

    /// Mostly what the region holds or uses.
    fn used(&mut self, shard: ShardId, feed: &mut Feed<'_>) -> Epoch {
        match self.heap.home(shard) {
            Some(home) if feed.byte() < 220 => home.epoch,
            _ => self.epoch(feed),
        }
    }

    fn message(&mut self) -> u32 {
        self.places.push(Place::Gone);
        self.places.len() as u32 - 1
    }

    /// A message leaves the region.
    fn out(&mut self, message: u32, place: Place) {
        let was = core::mem::replace(&mut self.places[message as usize], place);
        assert_eq!(was, Place::Inside, "message {message} came out twice");
    }

    fn step(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        let shard = Self::shard(feed);
        match feed.below(24) {
            0..=3 => self.route(shard),
            4 | 5 => self.envelope(shard, feed),
            6 => self.come_back(feed),
            7 => {
                let (from, epoch) = (Self::node(feed), self.used(shard, feed));
                let token = Token(feed.number());
                both!(self, region => region.handle_flush(now, from, shard, epoch, token));
            }
            8 => {
                let (from, of, token) = match self.flushes.pop() {
                    Some(flush) if feed.byte() < 220 => flush,
                    _ => (Self::node(feed), shard, Token(feed.number())),
                };
                both!(self, region => region.handle_flushed(now, from, of, token));
            }
            9..=11 => self.home(shard, feed),
            12 => {
                let hand_off = HandOff {
                    shard,
                    epoch: self.used(shard, feed),
                    drain: feed.pick(&[8_000_000, 0, 100_000, u64::MAX]),
                };
                self.control(&Control::HandOff(hand_off));
            }
            13 => {
                let node = if feed.flag() { ME } else { Self::node(feed) };
                let epoch = self.epoch(feed);
                self.map((shard.0 < SHARDS).then_some(HomeEntry { shard, epoch, node }));
            }
            14 => match self.starts.pop() {
                Some((shard, epoch)) if feed.byte() < 230 => self.started(shard, epoch),
                _ => {
                    // Not what it may yet be told.
                    let epoch = self.epoch(feed);
                    if self.heap.home(shard).is_none_or(|home| home.epoch != epoch) {
                        both!(self, region => region.handle_shard_started(now, shard, epoch));
                    }
                }
            },
            15 | 16 => self.stop_one(feed),
            17 => self.lead(feed),
            18 => self.membership(feed),
            19 => {
                let (node, full) = (Self::node(feed), feed.flag());
                both!(self, region => region.handle_congestion(now, node, full));
                if feed.byte() > 200 {
                    let keep = feed.flag();
                    both!(self, region => region.keep_new(keep));
                }
            }
            20 => {
                self.now = self
                    .now
                    .after(Duration::from_millis(feed.number() % 12_000));
                self.timeout();
            }
            21 => self.lapse(feed),
            22 => {
                let waiting = self.mailbox.entry(shard.0).or_default();
                for _ in 0..=feed.below(4) {
                    waiting.pop_front();
                }
            }
            _ => {
                for _ in 0..feed.byte() {
                    if !self.poll() {
                        break;
                    }
                }
            }
        }
        // Some inputs come before what was to be done.
        if feed.byte() < 160 {
            self.drain();
        }
    }

    fn route(&mut self, shard: ShardId) {
        let (now, message) = (self.now, self.message());
        let routed = both!(self, region => region.route(now, shard, message));
        self.places[message as usize] = Place::Inside;
        match routed {
            Ok(Route::Local { epoch, payload }) => {
                self.deliver(shard, epoch, Origin::Local, payload);
            }
            Ok(Route::Remote { to, epoch, payload }) => {
                self.out(payload, Place::Sent(to, shard, epoch));
            }
            Ok(Route::Queued) => {}
            Err(error) => self.out(error.into_payload(), Place::Gone),
        }
    }

    fn envelope(&mut self, shard: ShardId, feed: &mut Feed<'_>) {
        let (now, from, epoch) = (self.now, Self::node(feed), self.used(shard, feed));
        let message = self.message();
        let arrival =
            both!(self, region => region.handle_envelope(now, from, shard, epoch, message));
        self.places[message as usize] = Place::Inside;
        match arrival {
            Arrival::Deliver(payload) => self.deliver(shard, epoch, Origin::Remote(from), payload),
            Arrival::Queued => {}
            Arrival::Return { payload, .. } | Arrival::Refused(payload) => {
                self.out(payload, Place::Gone);
            }
        }
    }

    /// One that was sent comes back, mostly the oldest of its path.
    fn come_back(&mut self, feed: &mut Feed<'_>) {
        let sent = |place: &Place| matches!(place, Place::Sent(..));
        let Some(at) = self.places.iter().position(sent) else {
            return;
        };
        let Place::Sent(to, shard, epoch) = self.places[at] else {
            return;
        };
        let from = if feed.byte() < 230 {
            to
        } else {
            Self::node(feed)
        };
        let reason = if feed.byte() < 200 {
            ReturnReason::Moved
        } else {
            ReturnReason::Full
        };
        let (now, message) = (self.now, at as u32);
        let taken =
            both!(self, region => region.handle_return(now, from, shard, epoch, reason, message));
        self.places[at] = Place::Inside;
        if let Err(error) = taken {
            self.out(error.into_payload(), Place::Gone);
        }
    }

    fn home(&mut self, shard: ShardId, feed: &mut Feed<'_>) {
        let node = if feed.flag() { ME } else { Self::node(feed) };
        let epoch = self.epoch(feed);
        let mut session = self.heap.session();
        if feed.byte() > 240 {
            session.lapses = session.lapses.wrapping_add(1);
        }
        let home = Control::ShardHome(ShardHome {
            shard,
            epoch,
            node,
            session,
            previous: feed.pick(&[Previous::Completed, Previous::Lapsed]),
        });
        if feed.byte() < 240 {
            self.control(&home);
        } else {
            let (from, term) = (Self::node(feed), Term(feed.number()));
            self.control_from(from, term, &home);
        }
    }

    fn lead(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        match feed.below(8) {
            0 => {
                both!(self, region => region.handle_leader(now, None));
            }
            1 => {
                let session = self.heap.session();
                let reason = feed.pick(&[
                    RegisterRefusal::SessionEnded,
                    RegisterRefusal::UnknownType,
                    RegisterRefusal::Full,
                ]);
                self.control(&Control::RegisterRefused(RegisterRefused {
                    session,
                    reason,
                }));
            }
            2..=4 => self.acknowledge(),
            _ => {
                if feed.flag() {
                    self.term = Term(self.term.0 + 1);
                    self.round = 0;
                    self.leader = feed.pick(&OTHERS);
                }
                let leader = Leader {
                    node: self.leader,
                    term: self.term,
                };
                both!(self, region => region.handle_leader(now, Some(leader)));
            }
        }
    }

    fn membership(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        let node = feed.pick(&OTHERS);
        match feed.below(6) {
            0 | 1 => {
                let cause = feed.pick(&[RemovalCause::Down, RemovalCause::Left]);
                let change = MemberChange::Removed {
                    node,
                    incarnation: Incarnation(self.lives[&node]),
                    cause,
                };
                let _ = both!(self, region => region.handle_member(now, change));
            }
            2 => {
                *self.lives.entry(node).or_default() += 1;
                self.member(node, MemberState::Up);
            }
            3 => self.member(node, MemberState::Leaving),
            4 => self.member(node, MemberState::Unreachable),
            _ => self.member(node, MemberState::Up),
        }
    }

    fn lapse(&mut self, feed: &mut Feed<'_>) {
        let now = self.now;
        match feed.below(4) {
            0 => {
                self.lapses += 1;
                let lapses = self.lapses;
                both!(self, region => region.handle_lapse(now, lapses));
            }
            1 => {
                both!(self, region => region.handle_lease(now, None));
            }
            2 => {
                let until = now.after(Duration::from_millis(feed.number() % 3_000));
                both!(self, region => region.handle_lease(now, Some(until)));
            }
            _ => {
                both!(self, region => region.handle_lease(now, Some(Instant::FAR_FUTURE)));
            }
        }
    }
}
