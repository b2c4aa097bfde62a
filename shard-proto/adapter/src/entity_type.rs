//! An entity type on a node.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};

use shard_proto::ShardId;
use shard_proto::allocation::{AllocationStrategy, LeastShards};
use shard_proto::coordinator::{KeepShards, StorageMismatch};
use shard_proto::entity::{Entities, EntityConfig, EntityStats, Passivation, StartRate};
use shard_proto::hash::ShardHash;
use shard_proto::node::{EntityKey, TypeConfig};
use tokio::sync::oneshot;

use crate::ask::{Pool, Sweep};
use crate::builder::Preset;
use crate::carried::Carried;
use crate::clock::random_seed;
use crate::driver::Command;
use crate::entity::Entity;
use crate::entity_ref::EntityRef;
use crate::error::{NotReady, TypeError};
use crate::gate::Gate;
use crate::host::{Host, TypeHost};
use crate::lock::lock;
use crate::node::{Node, Running};
use crate::reliable::{ReliableSender, Senders};
use crate::remember::{Memory, RememberStats, Tally};
use crate::shared::{Choked, Factory, Limits, TypeShared, Waiters};
use crate::status::{ShardMap, ShardMapChanges, Status};
use crate::store::Remember;

/// A started entity type: makes references to its entities. Cheap to clone.
pub struct EntityType<E: Entity> {
    shared: Arc<TypeShared<E>>,
    /// Keeps the node running.
    running: Arc<Running>,
}

impl<E: Entity> EntityType<E> {
    /// A reference to the entity of that id, wherever it lives. It need not exist: the first message makes it.
    #[must_use]
    pub fn entity(&self, id: impl AsRef<str>) -> EntityRef<E> {
        EntityRef::new(Arc::clone(&self.shared), id.as_ref())
    }

    /// Waits until this node takes part: the type is registered with the leading node, and the map of its shards is
    /// known here. Messages may be sent before;
    /// they are buffered.
    ///
    /// # Errors
    /// [`NotReady`] if waiting does not help: another shard count than the leading node's, say.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.shared.status.ready().await
    }

    /// Stops the type on this node, which goes on: its entities stop, what is buffered is reported, and its shards get
    /// homes on other nodes at once. Nothing is handed over; for that, [leave](Node::leave). It does not start
    /// again before the node does.
    pub async fn stop(&self) {
        let (sender, stopped) = oneshot::channel();
        let node = &self.running.shared;
        node.command(Command::StopType(self.shared.index, sender));
        // An error means that the node has stopped.
        let _ = stopped.await;
    }

    /// The shards that run here, in order.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardId> {
        self.shared.status.hosted()
    }

    /// The shard of an entity.
    #[must_use]
    pub fn shard_of(&self, id: &str) -> ShardId {
        self.shared.shard(id.as_bytes())
    }

    /// Where the shards live, as far as this node knows.
    #[must_use]
    pub fn shard_map(&self) -> ShardMap {
        self.shared.status.homes()
    }

    /// A stream of changes of the shard map, beginning with what is known now.
    #[must_use]
    pub fn shard_map_changes(&self) -> ShardMapChanges {
        ShardMapChanges::new(Arc::clone(&self.shared.status))
    }

    /// Stops an entity that runs here, as if it were idle: it finishes what it does, [`Entity::stopped`] runs, and the
    /// next message makes it again. Returns, before that is over, whether it runs here.
    pub async fn passivate(&self, id: impl AsRef<str>) -> bool {
        let (sender, told) = oneshot::channel();
        let key = EntityKey::from(id.as_ref());
        let command = Command::Passivate(self.shared.index, key, sender);
        self.running.shared.command(command);
        // An error means that the node has stopped.
        told.await.unwrap_or(false)
    }

    /// The sender of [`EntityRef::tell_reliably`] on this node, with the default settings; it lives as long as the type is
    /// used here. [`ReliableSender::new`] makes others.
    #[must_use]
    pub fn reliable_sender(&self) -> ReliableSender<E> {
        ReliableSender::of(Arc::clone(self.shared.reliable()), Arc::clone(&self.shared))
    }

    pub(crate) const fn shared(&self) -> &Arc<TypeShared<E>> {
        &self.shared
    }

    /// What the entities of the type on this node counted since it started, as of the driver's last turn.
    #[must_use]
    pub fn stats(&self) -> EntityStats {
        *lock(&self.shared.entities)
    }

    /// What this node did to remember who lives ([`EntityTypeBuilder::remember`]); all zero if nothing is remembered.
    #[must_use]
    pub fn remember_stats(&self) -> RememberStats {
        self.shared.remembered.stats()
    }

    /// How many entities run here.
    #[must_use]
    pub fn running(&self) -> usize {
        self.shared.directory.len()
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::of(Arc::clone(&self.running))
    }
}

impl<E: Entity> Clone for EntityType<E> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            running: Arc::clone(&self.running),
        }
    }
}

impl<E: Entity> fmt::Debug for EntityType<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityType")
            .field("name", &E::TYPE)
            .field("shards", &self.shared.shards)
            .finish_non_exhaustive()
    }
}

/// Sets up an entity type; made by [`Node::entity_type`].
pub struct EntityTypeBuilder<E: Entity> {
    running: Arc<Running>,
    config: TypeConfig,
    shards: u32,
    hash: ShardHash,
    strategy: Box<dyn AllocationStrategy + Send>,
    factory: Factory<E>,
    limits: Limits,
    entities: EntityConfig,
    /// The store that the application opened for state, and the one that knows who lives.
    storage: u64,
    /// Kind and place of the store, if it is known.
    place: String,
    remember: Option<Arc<dyn Remember>>,
    entity: PhantomData<fn() -> E>,
}

impl<E: Entity> EntityTypeBuilder<E> {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        let mut config = TypeConfig::new(E::TYPE);
        if running.preset == Preset::Lan {
            config = config.lan();
        }
        Self {
            running,
            config,
            shards: 256,
            hash: ShardHash::Default,
            strategy: Box::new(LeastShards::default()),
            factory: Box::new(E::create),
            limits: Limits {
                mailbox: 1024,
                buffer_per_shard: 10_000,
                ask_timeout: Duration::from_secs(5),
            },
            entities: EntityConfig::new().with_seed(random_seed()),
            storage: 0,
            place: String::new(),
            remember: None,
            entity: PhantomData,
        }
    }

    fn with(mut self, change: impl FnOnce(TypeConfig) -> TypeConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// Number of shards, a constant of the cluster; about ten per node. Default: 256.
    #[must_use]
    pub fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self.with(|config| config.with_shards(shards))
    }

    /// Hosts nothing here; only sends.
    #[must_use]
    pub fn proxy(self) -> Self {
        self.with(|config| config.with_proxy(true))
    }

    /// Only nodes with this role host the type. Default: all.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        self.with(|config| config.with_role(role))
    }

    /// How the leading node chooses homes. Default: [`LeastShards`].
    #[must_use]
    pub fn strategy(mut self, strategy: impl AllocationStrategy + Send + 'static) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// How entity ids become shards; the same on all nodes. Default: [`ShardHash::Default`].
    #[must_use]
    pub fn hash(mut self, hash: ShardHash) -> Self {
        self.hash = hash;
        self.with(|config| config.with_shard_hash(hash))
    }

    /// Makes entities, in place of [`Entity::create`].
    #[must_use]
    pub fn factory(mut self, factory: impl Fn(&str) -> E + Send + Sync + 'static) -> Self {
        self.factory = Box::new(factory);
        self
    }

    /// Goes on with what the factory makes.
    pub(crate) fn wrap_factory(
        mut self,
        and: impl Fn(&str, E) -> E + Send + Sync + 'static,
    ) -> Self {
        let factory = self.factory;
        self.factory = Box::new(move |id| and(id, factory(id)));
        self
    }

    /// Messages that wait for one entity before callers on this node wait, too. 64 times as many (or what is
    /// buffered per shard, if that is more) are taken from other nodes; then their callers are told that it is full.
    /// Default: 1024.
    #[must_use]
    pub const fn mailbox(mut self, messages: usize) -> Self {
        self.limits.mailbox = if messages == 0 { 1 } else { messages };
        self
    }

    /// Messages that are kept while their shard has no home: for the type, and for one shard; and as many again for
    /// entities that run here and have no mailbox, because they are stopping or failed. Default: 100 000 and 10 000.
    #[must_use]
    pub fn buffer(mut self, messages: u32, per_shard: u32) -> Self {
        self.limits.buffer_per_shard = per_shard;
        self.entities = self
            .entities
            .with_keep(messages.clamp(1, EntityConfig::MAX_KEEP))
            .with_keep_per_shard(per_shard.max(1));
        self.with(|config| {
            config
                .with_buffer(messages)
                .with_buffer_per_shard(per_shard)
        })
    }

    /// Bytes of messages, with their ids, that are here for the type: buffered, or longer than 1 KiB, sent by other nodes
    /// and in mailboxes. Beyond it, new ones of other nodes are refused and their callers told that it is full; callers
    /// on this node are while the shard has no home. At least the longest message.
    ///
    /// Small messages, of up to an eighth of it, have an eighth of their own: large ones, which may take all of it, keep
    /// none of them out. So there are 9/8 of this at most, and the small message that is taken last. Default: 64 MiB.
    #[must_use]
    pub fn buffer_bytes(self, bytes: usize) -> Self {
        self.with(|config| config.with_buffer_bytes(bytes))
    }

    /// How long an entity may be idle: the time since it handled a message last. Then it is passivated: stopped, to
    /// be made again by the next message. Zero: for ever. Default: 5 min.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.entities = self.entities.with_passivate_after(idle);
        self
    }

    /// Entities of the type that live on this node at once, an entity being there from its first message on. For one
    /// more, another one is passivated, which the [policy](Self::passivation) picks. With those that have not stopped
    /// yet there are never more than twice as many: a message to one more is refused. A caller on this node is told so
    /// by [`Reason::TooManyEntities`](crate::Reason) or [`AskError::BufferFull`](crate::AskError::BufferFull), one on
    /// another node as if the mailbox were full. Default: 1 000 000.
    #[must_use]
    pub fn max_entities(mut self, entities: usize) -> Self {
        let entities = u32::try_from(entities).unwrap_or(u32::MAX);
        self.entities = self
            .entities
            .with_max_entities(entities.min(EntityConfig::MAX_ENTITIES));
        self
    }

    /// How many bytes the ids of all entities have that live on this node, or stop, or wait for something. One that finds
    /// no room is refused, as if there were [too many](Self::max_entities), until others have gone. Default: 1 GiB.
    #[must_use]
    pub fn max_key_bytes(mut self, bytes: u64) -> Self {
        self.entities = self.entities.with_max_key_bytes(bytes);
        self
    }

    /// Who is passivated when there are too many. Default: [`Passivation::LeastRecentlyUsed`].
    #[must_use]
    pub fn passivation(mut self, passivation: Passivation) -> Self {
        self.entities = self.entities.with_passivation(passivation);
        self
    }

    /// How often an entity that fails is made again within a time. Once more, and it is parked: messages to it are
    /// refused with [`Reason::Parked`](crate::Reason) or
    /// [`AskError::EntityFailed`](crate::AskError::EntityFailed) until that time has passed; then the next one makes
    /// it again. Default: 10 times in 60 s.
    #[must_use]
    pub fn restarts(mut self, max: u32, window: Duration) -> Self {
        self.entities = self.entities.with_restarts(max, window);
        self
    }

    /// How long [`EntityRef::ask`] waits. Default: 5 s.
    #[must_use]
    pub const fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.limits.ask_timeout = timeout;
        self
    }

    /// How long a handoff may take, and how much of it entities have to stop. Default: 10 s and 8 s. An entity that shall
    /// go while it starts, since there are [too many](Self::max_entities), has 80 % of the latter to do so; then its start
    /// is cancelled, which counts as a failure.
    #[must_use]
    pub fn handoff(mut self, timeout: Duration, drain: Duration) -> Self {
        let limit = drain.saturating_mul(4) / 5;
        let range = Duration::from_millis(1)..=EntityConfig::MAX_INTERVAL;
        self.entities = self
            .entities
            .with_start_limit(limit.clamp(*range.start(), *range.end()));
        self.with(|config| config.with_handoff_timeout(timeout).with_drain(drain))
    }

    /// How often the strategy is asked for moves. Default: 2 s.
    #[must_use]
    pub fn rebalance_interval(self, interval: Duration) -> Self {
        self.with(|config| config.with_rebalance_interval(interval))
    }

    /// Pause before something unanswered is said again. Default: 250 ms, in the LAN preset 100 ms.
    #[must_use]
    pub fn retry_interval(self, interval: Duration) -> Self {
        self.with(|config| config.with_retry_interval(interval))
    }

    /// Identity of the store this node opened for the type: nodes with another one are
    /// [refused](EntityTypeBuilder::storage_mismatch). 0: none, which is the default;
    /// [`Node::event_sourced`] and [`Node::durable`] set it.
    #[must_use]
    pub fn storage_id(self, id: u64) -> Self {
        self.storage(id, String::new())
    }

    pub(crate) fn storage(mut self, id: u64, place: String) -> Self {
        self.storage = id;
        self.place = place;
        self.with(|config| config.with_storage_id(id))
    }

    /// Remembers which entities live, in a store that all nodes share, and starts them again wherever their shard is
    /// served next, also after a restart of the whole cluster. An entity that is passivated is forgotten. All nodes that
    /// host the type must say so, else they are refused ([`NotReady::Remember`]); one that only [sends](Self::proxy) says [`keep`](Self::keep). See [`remember`](crate::remember) for what it promises.
    ///
    /// Costs a write, in groups, for each entity that starts or is passivated, and a read of the ids when a shard starts;
    /// and every shard is served all the time. Of more ids than [`max_entities`](Self::max_entities) the rest is not
    /// started, until it is sent a message ([`EntityStats::remembered_refused`]). Default: nothing is remembered.
    #[must_use]
    pub fn remember(mut self, store: impl Remember) -> Self {
        self.remember = Some(Arc::new(store));
        self.entities = self.entities.with_remember(true);
        self.with(|config| config.with_keep(KeepShards::All).with_remembers(true))
    }

    /// Which shards have homes without a message for them; the same on all nodes. Default: [`KeepShards::Asked`], none; all
    /// of a type that is [remembered](Self::remember). To be said by a [proxy](Self::proxy) that may lead and opens no
    /// store.
    #[must_use]
    pub fn keep(self, keep: KeepShards) -> Self {
        self.with(|config| config.with_keep(keep))
    }

    /// How fast remembered entities start again on this node, all shards together. Faster than the machine can start them
    /// takes time from those that run. Default: 1000 per 100 ms.
    #[must_use]
    pub fn start_rate(mut self, rate: StartRate) -> Self {
        self.entities = self.entities.with_start_rate(rate);
        self
    }

    /// What happens to a node that opened another store for the type than the others did; the same on every node that
    /// may lead. Default: [`StorageMismatch::Refuse`], since entities find another history there, or none.
    /// [`StorageMismatch::Warn`] is for moving from one store to another that has the same contents.
    #[must_use]
    pub fn storage_mismatch(self, mismatch: StorageMismatch) -> Self {
        self.with(|config| config.with_storage_mismatch(mismatch))
    }

    /// Starts the type on the node.
    ///
    /// # Errors
    /// [`TypeError`]: it is started already, its name collides with another's, a setting is wrong, or the node stopped.
    pub async fn start(self) -> Result<EntityType<E>, TypeError> {
        let node = Arc::clone(&self.running.shared);
        let (sender, started) = oneshot::channel();
        let (mut config, mut place) = (self.config, self.place);
        if let Some(store) = &self.remember {
            let id = store.id();
            if self.storage != 0 && self.storage != id {
                return Err(TypeError::Stores {
                    name: E::TYPE,
                    state: self.storage,
                    remember: id,
                });
            }
            config = config.with_storage_id(id);
            place = store.describe();
        }
        let remember = self.remember;
        let max_entities = self.entities.max_entities() as usize;
        let entities = Entities::new(node.clock.now(), self.entities).map_err(|error| {
            TypeError::Entities {
                name: E::TYPE,
                error,
            }
        })?;
        let (shards, hash, limits, factory) = (self.shards, self.hash, self.limits, self.factory);
        let make = move |index: Result<_, _>| {
            let index = match index {
                Ok(index) => index,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return None;
                }
            };
            let pool = Arc::new(Pool::new());
            let sweep: Arc<dyn Sweep> = pool.clone();
            node.sweep_too(Arc::downgrade(&sweep));
            let shared = Arc::new(TypeShared {
                index,
                shards,
                hash,
                limits,
                factory,
                gates: (0..shards).map(|_| Gate::default()).collect(),
                directory: papaya::HashMap::default(),
                used: Mutex::default(),
                entities: Mutex::default(),
                pool,
                waiters: Waiters::default(),
                choked: Choked::default(),
                congested: AtomicBool::new(false),
                carried: Carried::new(node.max_message),
                remembered: Tally::default(),
                status: Arc::new(Status::new(E::TYPE, shards, place)),
                senders: Senders::default(),
                reliable: OnceLock::new(),
                node,
            });
            shared.node.add_type(&shared);
            let _ = sender.send(Ok(Arc::clone(&shared)));
            let memory = remember.map(|store| {
                // Those that stop may be as many again.
                let limit = max_entities.saturating_mul(2);
                let node = Arc::clone(&shared.node);
                Memory::new(store, E::TYPE, node, index, &shared.remembered, limit)
            });
            let host: Box<dyn Host> = Box::new(TypeHost::new(shared, entities, memory));
            Some(host)
        };
        self.running.shared.command(Command::AddType {
            name: E::TYPE,
            config,
            strategy: self.strategy,
            make: Box::new(make),
        });
        let shared = started.await.unwrap_or(Err(TypeError::Stopped))?;
        Ok(EntityType {
            shared,
            running: self.running,
        })
    }
}

impl<E: Entity> fmt::Debug for EntityTypeBuilder<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityTypeBuilder")
            .field("name", &E::TYPE)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
