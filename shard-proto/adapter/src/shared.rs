//! What handles, entities and the driver share: of a node, and of an entity type.

use core::any::{Any, TypeId};
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use core::mem;
use core::str;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use shard_proto::entity::{EntitySlot, EntityStats};
use shard_proto::hash::ShardHash;
use shard_proto::node::{EntityKey, NodeStats, ReplyTo, TypeIndex, Weight};
use shard_proto::{Epoch, Incarnation, Leader, NodeId, ShardId};

use tokio::sync::Semaphore;

use crate::arrivals::Arrivals;
use crate::ask::{Pending, Pool, Responder, Sweep, TICK};
use crate::body::{Body, Encoded};
use crate::carried::Carried;
use crate::clock::Clock;
use crate::driver::{Command, NetEvent};
use crate::durable::{Counters, DurableStats};
use crate::entity::Entity;
use crate::error::AskError;
use crate::gate::{Gate, Opening, Way};
use crate::lease::Lease;
use crate::lock::lock;
use crate::node::Member;
use crate::queue::Queue;
use crate::reliable::{Guard, ReliableConfig, Senders, Tracked};
use crate::remember::{Tally, Told};
use crate::report::{Reason, Reports, Undelivered};
use crate::runtime::Handle;
use crate::status::Status;
use crate::supervise::{Abort, Abortable};

/// How many application messages may wait for the driver's next turn.
pub(crate) const INBOX: usize = 4096;

/// What the driver is told.
pub(crate) enum Input {
    /// A message of this node's callers, on the long way.
    Send {
        ty: TypeIndex,
        shard: ShardId,
        id: EntityKey,
        body: Body,
        ask: Option<Pending>,
        /// See [`crate::reliable`].
        tracked: bool,
    },
    /// An answer to an ask of another node.
    Reply {
        to: ReplyTo,
        status: u8,
        payload: Encoded,
    },
    /// The entity's `started` came to its end.
    Started(TypeIndex, EntitySlot),
    /// The entity wants to be stopped.
    Passivate(TypeIndex, EntitySlot),
    /// An entity's task ended: a `task::Ended` of the type.
    Ended(TypeIndex, Box<dyn Any + Send>),
    /// What the store says of who lives in a shard.
    Remember(TypeIndex, ShardId, Epoch, Box<Told>),
    Net(NetEvent),
    Command(Box<Command>),
}

/// Of a node.
pub(crate) struct NodeShared {
    pub(crate) me: NodeId,
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) inbox: Queue<Input>,
    pub(crate) clock: Clock,
    pub(crate) lease: Lease,
    /// Where the node's tasks run, whoever starts them.
    pub(crate) runtime: Handle,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) reports: Reports,
    pub(crate) max_message: usize,
    pub(crate) stats: Mutex<NodeStats>,
    pub(crate) members: Mutex<Vec<Member>>,
    pub(crate) leader: Mutex<Option<Leader>>,
    sweeps: Mutex<Vec<Weak<dyn Sweep>>>,
    /// A `Weak<TypeShared>` of each type that was started.
    types: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
    /// Counters of the types of durable entities that were started.
    durable: Mutex<BTreeMap<&'static str, Arc<Counters>>>,
    /// Never has a permit; closed at the end.
    running: Semaphore,
}

impl NodeShared {
    pub(crate) fn new(
        runtime: Handle,
        me: NodeId,
        name: String,
        address: String,
        max_message: usize,
        lease: Lease,
        arrivals: Arrivals,
    ) -> Self {
        let clock = Clock::new();
        Self {
            runtime,
            me,
            name,
            address,
            inbox: Queue::new(),
            clock,
            lease,
            arrivals: Arc::new(arrivals),
            reports: Reports::default(),
            max_message,
            stats: Mutex::default(),
            members: Mutex::default(),
            leader: Mutex::default(),
            sweeps: Mutex::default(),
            types: Mutex::default(),
            durable: Mutex::default(),
            running: Semaphore::new(0),
        }
    }

    /// The driver has ended: nothing comes in any more.
    pub(crate) fn end(&self) {
        self.inbox.close();
        self.running.close();
    }

    /// Waits for that.
    pub(crate) async fn ended(&self) {
        let _ = self.running.acquire().await;
    }

    pub(crate) fn sweep_too(&self, sweep: Weak<dyn Sweep>) {
        lock(&self.sweeps).push(sweep);
    }

    pub(crate) fn add_type<E: Entity>(&self, shared: &Arc<TypeShared<E>>) {
        let shared = Arc::downgrade(shared);
        lock(&self.types).insert(TypeId::of::<E>(), Box::new(shared));
    }

    pub(crate) fn type_of<E: Entity>(&self) -> Option<Arc<TypeShared<E>>> {
        let types = lock(&self.types);
        let shared = types.get(&TypeId::of::<E>())?;
        shared.downcast_ref::<Weak<TypeShared<E>>>()?.upgrade()
    }

    /// The counters of a type of durable entities.
    pub(crate) fn durable(&self, name: &'static str) -> Arc<Counters> {
        Arc::clone(lock(&self.durable).entry(name).or_default())
    }

    pub(crate) fn durable_stats(&self) -> Vec<(&'static str, DurableStats)> {
        let durable = lock(&self.durable);
        let stats = durable.iter();
        stats
            .map(|(name, counters)| (*name, counters.read()))
            .collect()
    }

    /// Ends the asks whose time is over, until the node has ended.
    pub(crate) async fn tick(self: Arc<Self>) {
        let mut tick = self.runtime.sleep(TICK);
        let me = Arc::downgrade(&self);
        drop(self);
        loop {
            tick.as_mut().await;
            tick.as_mut().reset(TICK);
            let Some(node) = me.upgrade() else {
                return;
            };
            let clock = || node.clock.now();
            let now = clock();
            let mut sweeps = mem::take(&mut *lock(&node.sweeps));
            sweeps.retain(|sweep| match sweep.upgrade() {
                Some(sweep) => {
                    sweep.sweep(now, &clock);
                    true
                }
                None => false,
            });
            lock(&node.sweeps).append(&mut sweeps);
        }
    }
}

/// Callers that wait until fewer messages are on the long way.
#[derive(Default)]
pub(crate) struct Waiters {
    any: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Look at the gate again after this, before you return `Pending`.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        lock(&self.wakers).push(cx.waker().clone());
        self.any.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// For the driver, at the end of a turn.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.any.load(Ordering::SeqCst) && self.any.swap(false, Ordering::SeqCst) {
            let wakers = mem::take(&mut *lock(&self.wakers));
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// Entities without a mailbox for which as much is kept as may be, so that callers on this node learn it when they
/// send, and have their message back. Written by the driver.
#[derive(Default)]
pub(crate) struct Choked {
    any: AtomicBool,
    keys: Mutex<HashSet<EntityKey>>,
    refused: AtomicU64,
}

impl Choked {
    /// As many are known at once. What is sent to others is refused by the driver, which reports it.
    const MAX: usize = 1024;

    /// Whether a message would be refused now. Counts it, then.
    pub(crate) fn refuses(&self, key: &EntityKey) -> bool {
        let refuses = self.any.load(Ordering::Relaxed) && lock(&self.keys).contains(key);
        if refuses {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        refuses
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// One was refused.
    pub(crate) fn add(&self, key: &EntityKey) {
        let mut keys = lock(&self.keys);
        if keys.len() < Self::MAX && keys.insert(EntityKey::new(key.as_bytes())) {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets those for which that is over.
    pub(crate) fn retain(&self, is_choked: impl Fn(&EntityKey) -> bool) {
        if self.any.load(Ordering::Relaxed) {
            let mut keys = lock(&self.keys);
            keys.retain(is_choked);
            self.any.store(!keys.is_empty(), Ordering::Relaxed);
        }
    }

    pub(crate) fn clear(&self) {
        self.retain(|_| false);
    }
}

/// Limits of an entity type on this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Messages in a mailbox beyond which local callers wait.
    pub(crate) mailbox: usize,
    /// Messages of one shard that has no home.
    pub(crate) buffer_per_shard: u32,
    pub(crate) ask_timeout: Duration,
}

impl Limits {
    /// Messages of one shard on the long way. Far enough for the driver to have something to do while those who wait
    /// wake up; not so many that they leave the caches. `congested`: a link does not keep up, and more would only
    /// queue.
    pub(crate) fn pending(&self, way: Way, congested: bool) -> u32 {
        match way {
            Way::Closed => self.buffer_per_shard,
            Way::Remote if congested => 64,
            Way::Remote => 2048,
            Way::Open => u32::try_from(self.mailbox.max(1024)).unwrap_or(u32::MAX),
        }
    }

    /// Messages in a mailbox beyond which a link is held up. More than local callers may put there: a link brings
    /// thousands at once, and holding it up costs wake-ups.
    pub(crate) const fn crowd(&self) -> usize {
        self.mailbox.saturating_mul(2)
    }

    /// Messages in a mailbox beyond which those of other nodes are refused. Callers on this node are held back
    /// before; what they had buffered is taken in any case.
    pub(crate) fn overflow(&self) -> usize {
        let buffered = self.buffer_per_shard as usize;
        self.mailbox.saturating_mul(64).max(buffered)
    }
}

pub(crate) type Factory<E> = Box<dyn Fn(&str) -> E + Send + Sync>;

/// Of an entity type.
pub(crate) struct TypeShared<E: Entity> {
    pub(crate) index: TypeIndex,
    pub(crate) shards: u32,
    pub(crate) hash: ShardHash,
    pub(crate) limits: Limits,
    pub(crate) factory: Factory<E>,
    pub(crate) gates: Box<[Gate]>,
    /// The entities that run here. Written by the driver only.
    pub(crate) directory: papaya::HashMap<Listed<E>, (), foldhash::fast::RandomState>,
    /// Entities that handled something since the driver looked here; each at most once.
    pub(crate) used: Mutex<Vec<EntitySlot>>,
    pub(crate) entities: Mutex<EntityStats>,
    pub(crate) pool: Arc<Pool<E::Reply>>,
    pub(crate) waiters: Waiters,
    /// Entities without a mailbox for which no more is kept.
    pub(crate) choked: Choked,
    /// Many messages of the type are buffered.
    pub(crate) congested: AtomicBool,
    /// Long messages on their way to other nodes.
    pub(crate) carried: Carried,
    pub(crate) remembered: Tally,
    pub(crate) status: Arc<Status>,
    /// What the entities that run here know of those who send to them reliably.
    pub(crate) senders: Senders,
    /// The sender of [`EntityRef::tell_reliably`](crate::EntityRef::tell_reliably).
    pub(crate) reliable: OnceLock<Arc<Guard>>,
    pub(crate) node: Arc<NodeShared>,
}

impl<E: Entity> TypeShared<E> {
    pub(crate) fn shard(&self, id: &[u8]) -> ShardId {
        self.hash.shard(id, self.shards)
    }

    pub(crate) fn gate(&self, shard: ShardId) -> &Gate {
        // `shard` computes nothing outside; the driver checks what comes from the core.
        &self.gates[shard.0 as usize]
    }

    /// The type or the node.
    pub(crate) fn has_stopped(&self) -> bool {
        self.node.inbox.is_closed() || self.status.has_stopped()
    }

    /// The sender of whoever has none of its own.
    pub(crate) fn reliable(&self) -> &Arc<Guard> {
        let make = || Guard::new(self, ReliableConfig::new());
        self.reliable.get_or_init(make)
    }

    pub(crate) fn pending_limit(&self, way: Way) -> u32 {
        self.limits
            .pending(way, self.congested.load(Ordering::Relaxed))
    }

    pub(crate) fn report(&self, shard: ShardId, entity: &EntityKey, reason: Reason) {
        self.node.reports.report(Undelivered {
            entity_type: E::TYPE,
            shard,
            entity: entity.clone(),
            reason,
        });
    }
}

/// Of a running entity. Opened and closed by the driver only: a task that fails leaves it open, so that what callers
/// put in until the driver hears of it stays in order with what was in it.
///
/// Why nothing overtakes across the lives of an entity under one opening: while a mailbox takes messages, the core
/// keeps none for the entity and none of an earlier life is on its way, because the driver closes it before it settles
/// ([`Gate::settle`]) whatever the core keeps instead, takes what is in it only then, and lists the next one only when
/// all of that is in the new one. So a caller that finds a mailbox open, and nothing of its own on the long way, has
/// its earlier messages in it, or handled; one that finds it closed goes the long way, behind them.
pub(crate) struct Mailbox<E: Entity> {
    pub(crate) opening: Opening,
    pub(crate) queue: Queue<Item<E>>,
    /// It is among [`TypeShared::used`].
    pub(crate) used: AtomicBool,
    pub(crate) slot: EntitySlot,
    pub(crate) shard: ShardId,
    pub(crate) epoch: Epoch,
    pub(crate) key: EntityKey,
    /// Of the entity's task.
    pub(crate) abort: Abort,
}

impl<E: Entity> Abortable for Mailbox<E> {
    fn abort(&self) -> &Abort {
        &self.abort
    }
}

/// A mailbox in the directory, found by the entity's key.
pub(crate) struct Listed<E: Entity>(pub(crate) Arc<Mailbox<E>>);

impl<E: Entity> Borrow<EntityKey> for Listed<E> {
    fn borrow(&self) -> &EntityKey {
        &self.0.key
    }
}

impl<E: Entity> Hash for Listed<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl<E: Entity> PartialEq for Listed<E> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl<E: Entity> Eq for Listed<E> {}

/// A mailbox whose entity type the driver does not know.
pub(crate) trait Room: Send + Sync {
    /// Ready when local callers would find room in it.
    fn poll_room(&self, cx: &mut Context<'_>, limit: usize) -> Poll<()>;
}

impl<E: Entity> Room for Mailbox<E> {
    fn poll_room(&self, cx: &mut Context<'_>, limit: usize) -> Poll<()> {
        self.queue.poll_room(cx, limit)
    }
}

/// A message in a mailbox.
pub(crate) struct Item<E: Entity> {
    pub(crate) message: Inbound<E::Message>,
    pub(crate) caller: Caller<E::Reply>,
}

pub(crate) enum Inbound<M> {
    Value(M),
    Encoded(Encoded),
    /// One that is long, with what it adds to what the type holds here.
    Long(Box<(Encoded, Weight)>),
}

/// Who sent a message, and where the answer goes.
pub(crate) enum Caller<R> {
    /// A caller on this node that awaits nothing.
    Tell,
    /// A caller on this node.
    Ask(Responder<R>),
    /// Another node, which awaits nothing.
    Node(NodeId, Incarnation),
    /// Another node.
    NodeAsk(ReplyTo),
    /// Whoever sends until it is acknowledged; the encoded message begins with the tag.
    Tracked(Box<Tracked>),
}

impl<R> Caller<R> {
    /// Whether it is of this node.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tell | Self::Ask(_) => true,
            Self::Node(..) | Self::NodeAsk(_) => false,
            Self::Tracked(tracked) => tracked.caller.is_local(),
        }
    }

    /// Whoever waits on this node learns that nothing comes.
    pub(crate) fn fail(self, error: AskError) {
        match self {
            Self::Ask(responder) => responder.fail(error),
            Self::Tracked(tracked) => tracked.caller.fail(error),
            Self::Tell | Self::Node(..) | Self::NodeAsk(_) => {}
        }
    }
}

/// Where an entity sits.
pub(crate) struct Seat<E: Entity> {
    pub(crate) shared: Arc<TypeShared<E>>,
    pub(crate) mailbox: Arc<Mailbox<E>>,
}

impl<E: Entity> Seat<E> {
    /// The entity's id. The driver starts none whose id is not UTF-8.
    pub(crate) fn id(&self) -> &str {
        str::from_utf8(self.mailbox.key.as_bytes()).unwrap_or_default()
    }

    /// The entity handled a message.
    #[inline]
    pub(crate) fn used(&self) {
        let used = &self.mailbox.used;
        // A touch that meets the driver's look may be missed: it is as old as the look.
        if !used.load(Ordering::Relaxed) {
            used.store(true, Ordering::Relaxed);
            lock(&self.shared.used).push(self.mailbox.slot);
        }
    }

    /// Tells the driver something. One that has ended hears nothing.
    pub(crate) fn tell(&self, input: Input) {
        let _ = self.shared.node.inbox.push(input, usize::MAX);
    }
}
