//! Nodes of one process in virtual time: byte pipes with delays between them, entities that record what they handle.

mod app;
mod check;
mod fault;
mod meddler;
mod net;
mod run;

use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;
use std::println;

use bytes::{BufMut, Bytes, BytesMut};
pub(super) use meddler::{Meddler, Meddling, Noise};

use crate::allocation::LeastShards;
use crate::hash::{SplitMix64, entity_shard};
use crate::leadership::Ownership;
use crate::membership::{Member, MemberChange, RemovalCause};
use crate::node::*;
use crate::region::{Origin, RejectReason};
use crate::wire::control::RegisterRefusal;
use crate::wire::{Decoded, Frame, Kind};
use crate::{Epoch, Incarnation, Instant, Leader, NodeId, ShardId, Term};

pub(super) const MS: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000;

/// A message as tests send it: who, and the how-manieth to that entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tell {
    pub(super) sender: u32,
    pub(super) number: u64,
}

impl Tell {
    pub(super) fn encode(self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u32(self.sender);
        out.put_u64(self.number);
        out.freeze()
    }

    /// Every third one is.
    fn is_tracked(self) -> bool {
        self.number.is_multiple_of(3)
    }

    fn decode(mut bytes: &[u8]) -> Self {
        use bytes::Buf;
        Self {
            sender: bytes.get_u32(),
            number: bytes.get_u64(),
        }
    }
}

/// What an entity handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Handled {
    pub(super) at: u64,
    pub(super) host: usize,
    pub(super) epoch: Epoch,
    pub(super) id: String,
    pub(super) tell: Tell,
}

#[derive(Debug)]
pub(super) struct Waiting {
    epoch: Epoch,
    pub(super) origin: Origin,
    message: Message<Bytes>,
    reply: Option<ReplyTo>,
}

/// A shard that runs, starts or stops on a host.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) epoch: Epoch,
    pub(super) started: bool,
    pub(super) stopping: bool,
    pub(super) open: bool,
    /// The lease under which it ran was lost: it handles nothing any more, whatever comes.
    pub(super) lapsed: bool,
    pub(super) mailbox: VecDeque<Waiting>,
}

/// What a host's application knows.
#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) serving: BTreeMap<(TypeIndex, ShardId), Serving>,
    pending: BTreeMap<(TypeIndex, ShardId), u64>,
    pub(super) answers: BTreeMap<u64, u8>,
    pub(super) failures: BTreeMap<u64, AskFailure>,
    pub(super) rejects: Vec<(String, Tell, RejectReason, Origin)>,
    pub(super) warnings: Vec<Warning>,
    pub(super) refused: Vec<RegisterRefusal>,
    pub(super) members: BTreeMap<NodeId, Member>,
    pub(super) gone: Vec<(NodeId, RemovalCause)>,
    pub(super) leader: Option<Leader>,
    pub(super) lease: Option<Instant>,
    pub(super) left: Option<u64>,
    pub(super) removed: bool,
    pub(super) moves: u64,
}

pub(super) struct Host {
    pub(super) node: Node<Bytes>,
    pub(super) name: &'static str,
    pub(super) alive: bool,
    pub(super) app: App,
    pub(super) clock: fault::Clock,
    /// It handles nothing until then.
    pub(super) paused: Option<u64>,
    /// What arrived meanwhile.
    waiting: Vec<Event>,
    links: BTreeMap<LinkId, (usize, usize)>,
    bufs: BTreeMap<(LinkId, StreamIndex), BytesMut>,
}

#[derive(Debug)]
struct Pipe {
    ends: [(usize, Option<LinkId>); 2],
    /// When the last byte towards an end arrives, by stream.
    arrives: [BTreeMap<StreamIndex, u64>; 2],
    open: bool,
}

#[derive(Debug)]
enum Event {
    Wake {
        host: usize,
    },
    Member {
        host: usize,
        change: MemberChange,
        address: Option<&'static str>,
    },
    Bytes {
        pipe: usize,
        end: usize,
        stream: StreamIndex,
        bytes: Bytes,
    },
    Closed {
        pipe: usize,
        end: usize,
    },
    Dial {
        host: usize,
        dial: DialId,
        address: String,
    },
    Started {
        host: usize,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
    },
    Stopped {
        host: usize,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
    },
    Handle {
        host: usize,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
    },
}

/// Settings of a run.
pub(super) struct World {
    pub(super) delay: (u64, u64),
    pub(super) start: (u64, u64),
    pub(super) stop: (u64, u64),
    pub(super) service: (u64, u64),
    pub(super) fast_path: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            delay: (100, 3 * MS),
            start: (0, 20 * MS),
            stop: (0, 20 * MS),
            service: (0, 500),
            fast_path: true,
        }
    }
}

pub(super) struct Cluster {
    pub(super) meddler: Option<Meddler>,
    pub(super) noise: Option<Noise>,
    pub(super) now: u64,
    pub(super) hosts: Vec<Host>,
    pub(super) handled: Vec<Handled>,
    pub(super) world: World,
    pub(super) rng: SplitMix64,
    /// Of the transport, and whether each has a stream.
    pub(super) lanes: u8,
    pub(super) streams: bool,
    pub(super) ownership: Ownership,
    pub(super) voters: Vec<String>,
    /// The next host's clock: what it says when it starts, if it differs, and its rate.
    pub(super) next_clock: (Option<u64>, i64),
    pub(super) skew: i64,
    /// Hosts hear of each other as an outside service would tell them.
    pub(super) introduces: bool,
    /// Highest epoch a shard was started under.
    epochs: BTreeMap<(TypeIndex, ShardId), Epoch>,
    pub(super) blocked: BTreeSet<(usize, usize)>,
    numbers: BTreeMap<(u32, String), u64>,
    next_key: u64,
    pipes: Vec<Pipe>,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    bodies: BTreeMap<usize, Event>,
    sequence: u64,
    trace: bool,
}

/// Seeds to try: `CLUSTER_SEEDS`, or one, from `CLUSTER_FROM`, or 0.
pub(super) fn seeds() -> core::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|seeds| seeds.parse().ok())
    };
    let from: u64 = number("CLUSTER_FROM").unwrap_or(0);
    from..from + number("CLUSTER_SEEDS").unwrap_or(1)
}

/// In a seed: membership is trusted.
pub(super) const TRUST: u64 = 1 << 63;

/// What to try: each way of membership with each seed, with leases and without.
pub(super) fn runs() -> Vec<(MembershipMode, u64)> {
    let modes = [
        links(),
        #[cfg(feature = "swim")]
        MembershipMode::Swim,
    ];
    let with_seeds = |mode| seeds().flat_map(move |seed| [(mode, seed), (mode, seed | TRUST)]);
    modes.into_iter().flat_map(with_seeds).collect()
}

pub(super) fn config(mode: MembershipMode, seeds: &[&str]) -> NodeConfig {
    let seeds = seeds.iter().map(ToString::to_string).collect();
    NodeConfig::new(mode).lan().with_seeds(seeds)
}

pub(super) const fn links() -> MembershipMode {
    MembershipMode::Links {
        down_after: Duration::from_millis(1_500),
    }
}

pub(super) const CART: TypeConfig = TypeConfig::new("cart")
    .lan()
    .with_shards(32)
    .with_buffer(4_096);

impl Cluster {
    pub(super) fn new(seed: u64) -> Self {
        let draw = SplitMix64::new(seed ^ 0x1A4E5).next_u64();
        Self {
            lanes: 1 + (draw % 4) as u8,
            streams: draw & 16 == 0,
            meddler: None,
            noise: None,
            now: 1_000 * SECOND,
            hosts: Vec::new(),
            handled: Vec::new(),
            world: World::default(),
            rng: SplitMix64::new(seed),
            ownership: if seed & TRUST == 0 {
                Ownership::Lease
            } else {
                Ownership::Trust
            },
            voters: Vec::new(),
            next_clock: (None, 0),
            skew: 0,
            introduces: false,
            epochs: BTreeMap::new(),
            blocked: BTreeSet::new(),
            numbers: BTreeMap::new(),
            next_key: 1,
            pipes: Vec::new(),
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            sequence: 0,
            trace: std::env::var("CLUSTER_TRACE").is_ok(),
        }
    }

    /// Starts nodes that know each other's addresses, without types.
    pub(super) fn with_nodes(seed: u64, mode: MembershipMode, names: &[&'static str]) -> Self {
        let mut cluster = Self::new(seed);
        cluster.set_voters(names);
        for (index, name) in names.iter().enumerate() {
            let config = config(mode, names).with_bootstrap(index == 0);
            cluster.start(name, config);
            cluster.run(MS);
        }
        cluster
    }

    /// The first 5, 3 or 1 of the names.
    pub(super) fn set_voters(&mut self, names: &[&str]) {
        let count = match names.len() {
            0..=2 => 1,
            3..=4 => 3,
            _ => 5,
        };
        self.voters = names.iter().take(count).map(ToString::to_string).collect();
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_micros(self.now)
    }

    /// Starts a node; its address is its name. Its clock of incarnations is the cluster's time.
    pub(super) fn start(&mut self, name: &'static str, config: NodeConfig) -> usize {
        let identity = Identity::new(name, Incarnation(self.now), name);
        let mut config = config.with_seed(self.rng.next_u64()).with_lanes(self.lanes);
        if self.voters.is_empty() {
            config = config.with_ownership(Ownership::Trust);
        } else if config.membership != MembershipMode::Alone {
            config = config
                .with_ownership(self.ownership)
                .with_voters(self.voters.clone());
        }
        let (offset, ppm) = core::mem::take(&mut self.next_clock);
        let clock = fault::Clock {
            since: self.now,
            offset: offset.unwrap_or(self.now),
            ppm,
        };
        let now = clock.local(self.now);
        let mut node = Node::new(now, identity, config).unwrap();
        let floor = self
            .now
            .saturating_add_signed(core::mem::take(&mut self.skew))
            / (SECOND / 16);
        node.handle_term_floor(now, Term(floor));
        self.hosts.push(Host {
            node,
            name,
            alive: true,
            app: App::default(),
            clock,
            paused: None,
            waiting: Vec::new(),
            links: BTreeMap::new(),
            bufs: BTreeMap::new(),
        });
        let host = self.hosts.len() - 1;
        if self.introduces {
            self.introduce(host);
        }
        self.pump(host);
        host
    }

    pub(super) fn add_type(&mut self, host: usize, config: TypeConfig) -> TypeIndex {
        let now = self.local(host);
        let strategy = Box::new(LeastShards::new());
        let ty = self.hosts[host]
            .node
            .add_type(now, config, strategy)
            .unwrap();
        self.pump(host);
        ty
    }

    /// Starts a type again, unless something of it still stops.
    pub(super) fn try_add_type(&mut self, host: usize, config: TypeConfig) {
        let now = self.local(host);
        let strategy = Box::new(LeastShards::new());
        let _ = self.hosts[host].node.add_type(now, config, strategy);
        self.pump(host);
    }

    pub(super) fn add_type_everywhere(&mut self, config: &TypeConfig) -> TypeIndex {
        let mut ty = TypeIndex(0);
        for host in 0..self.hosts.len() {
            if self.hosts[host].alive {
                ty = self.add_type(host, config.clone());
            }
        }
        ty
    }

    fn range(&mut self, range: (u64, u64)) -> u64 {
        range.0 + self.rng.below(range.1 - range.0 + 1)
    }

    fn delay(&mut self) -> u64 {
        self.range(self.world.delay)
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        let key = self.sequence as usize;
        self.bodies.insert(key, event);
        self.events
            .push(Reverse((at.max(self.now), self.sequence, key)));
    }
}
