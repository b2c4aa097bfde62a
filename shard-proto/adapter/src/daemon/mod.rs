//! Workers that are always there: so many of them in the whole cluster, whatever happens to its nodes.
//!
//! For work that nobody sends messages for: following a stream, projecting events into tables, sweeping up. Each
//! worker has an index, from 0, and says by it which part of the work is its own. Started with [`Node::daemons`].
//!
//! ```
//! use shard_tokio::{BoxError, Node, daemon::{Daemon, DaemonContext}};
//!
//! /// Projects the events of one of so many partitions.
//! struct Projection {
//!     partition: u32,
//! }
//!
//! impl Daemon for Projection {
//!     async fn run(&mut self, cx: &mut DaemonContext) -> Result<(), BoxError> {
//!         // Load how far it is, with `cx.epoch()` as the fencing token.
//!         loop {
//!             tokio::select! {
//!                 () = cx.stopping() => return Ok(()), // what must not be lost is to be saved now
//!                 () = next_events(self.partition) => { /* write them down */ }
//!             }
//!         }
//!     }
//! }
//! # async fn next_events(_partition: u32) { core::future::pending().await }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::standalone().await?;
//! let projections = node
//!     .daemons("projection", 8, |index| Projection { partition: index })
//!     .max(64)
//!     .start()
//!     .await?;
//! projections.resize(12).await?;
//! assert_eq!(projections.count(), 12);
//! # node.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Each worker is a shard of its own, so everything that holds for shards holds for workers: at most one of an index runs at
//! any moment, leases and fencing tokens included; they are spread evenly, move when nodes come and go, and get another
//! home within seconds when their node dies. One that returns or fails is made again, after a pause that doubles from
//! 10 ms up to 10 s.

mod host;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use shard_proto::allocation::{AllocationStrategy, LeastShards};
use shard_proto::coordinator::KeepShards;
use shard_proto::entity::{Entities, EntityConfig};
use shard_proto::node::{TypeConfig, TypeIndex};
use shard_proto::{Epoch, ShardId};
use tokio::sync::{oneshot, watch};

use crate::builder::Preset;
use crate::clock::random_seed;
use crate::driver::Command;
use crate::entity::BoxError;
use crate::error::{NotReady, TypeError};
use crate::lease::Look;
use crate::node::{Node, Running};
use crate::shared::NodeShared;
use crate::status::{ShardMap, Status};
use host::DaemonHost;

pub use shard_proto::region::ResizeError;

/// A worker that is always there. See the [module](self).
pub trait Daemon: Send + 'static {
    /// Works until [`DaemonContext::stopping`] says that it is enough, which is when the worker moves or there are to be
    /// fewer of them. It then has the [drain time](DaemonsBuilder::handoff) less a fifth to return; then, or when its
    /// node's lease is over, it is aborted at its next `await`. If it returns earlier, fails or panics, that is a
    /// WARN, and it is made again after a pause.
    fn run(&mut self, cx: &mut DaemonContext) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Where a worker is, and whether it shall stop.
pub struct DaemonContext {
    index: u32,
    epoch: Epoch,
    stop: watch::Receiver<bool>,
    node: Arc<NodeShared>,
}

impl DaemonContext {
    /// Which of the workers it is, from 0.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The fencing token: higher with every home that the worker has. See [`Context::epoch`](crate::Context::epoch).
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether this node may run the worker at this moment: look before what others see. Only the token makes sure.
    #[must_use]
    pub fn holds_lease(&self) -> bool {
        let node = &self.node;
        !*self.stop.borrow() && node.lease.is_held(&node.clock, &mut Look::default())
    }

    /// Waits until the worker shall stop. May be dropped and called again.
    pub async fn stopping(&self) {
        // An error means that the node has ended.
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

impl fmt::Debug for DaemonContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonContext")
            .field("index", &self.index)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// Makes the worker of an index.
type Make<D> = Box<dyn Fn(u32) -> D + Send + Sync>;

/// What a host and its handles share.
struct Group {
    name: &'static str,
    index: TypeIndex,
    node: Arc<NodeShared>,
    status: Arc<Status>,
    size: watch::Sender<Size>,
}

/// How many workers there are, as far as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    count: u32,
    /// This node asks for another number.
    asking: bool,
}

/// Started workers. Cheap to clone.
#[derive(Clone)]
pub struct Daemons {
    group: Arc<Group>,
    running: Arc<Running>,
}

impl Daemons {
    /// How many there are in the cluster, as far as this node has heard.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.group.size.borrow().count
    }

    /// Has so many in the whole cluster from now on, up to the [maximum](DaemonsBuilder::max), and waits until the leading
    /// node has taken that. New ones start then; those that are too many are told to stop, the highest indices. Of two
    /// calls at once, the later one wins.
    ///
    /// The number outlives the leading node, as long as one node that has heard of it lives. When the whole cluster starts
    /// anew, it is the one given to [`Node::daemons`].
    ///
    /// # Errors
    /// [`ResizeError::TooMany`], or [`ResizeError::Stopped`]: the node stopped.
    pub async fn resize(&self, count: u32) -> Result<(), ResizeError> {
        let (sender, told) = oneshot::channel();
        let node = &self.running.shared;
        node.command(Command::Resize(self.group.index, count, sender));
        told.await.unwrap_or(Err(ResizeError::Stopped))?;
        let mut size = self.group.size.subscribe();
        tokio::select! {
            _ = size.wait_for(|size| !size.asking) => Ok(()),
            () = self.group.node.ended() => Err(ResizeError::Stopped),
        }
    }

    /// Waits until this node takes part. Workers start without it.
    ///
    /// # Errors
    /// [`NotReady`] if waiting does not help: another maximum than the leading node's, say.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.group.status.ready().await
    }

    /// The indices of those that run on this node, in order.
    #[must_use]
    pub fn here(&self) -> Vec<u32> {
        let shards = self.group.status.hosted();
        shards.into_iter().map(|shard| shard.0).collect()
    }

    /// Where they run, as far as this node knows: the index of each is its [`ShardId`].
    #[must_use]
    pub fn homes(&self) -> ShardMap {
        self.group.status.homes()
    }
}

impl fmt::Debug for Daemons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemons")
            .field("name", &self.group.name)
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// Sets up workers; made by [`Node::daemons`].
pub struct DaemonsBuilder<D: Daemon> {
    running: Arc<Running>,
    config: TypeConfig,
    name: &'static str,
    count: u32,
    max: u32,
    strategy: Box<dyn AllocationStrategy + Send>,
    make: Make<D>,
}

impl<D: Daemon> DaemonsBuilder<D> {
    fn with(mut self, change: impl FnOnce(TypeConfig) -> TypeConfig) -> Self {
        self.config = change(self.config);
        self
    }

    /// How many there may ever be, a constant of the cluster. Costs some hundred bytes each, on every node. Default: 1024.
    #[must_use]
    pub const fn max(mut self, max: u32) -> Self {
        self.max = max;
        self
    }

    /// How the leading node chooses where they run. Default: [`LeastShards`], which spreads them evenly.
    #[must_use]
    pub fn strategy(mut self, strategy: impl AllocationStrategy + Send + 'static) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Only nodes with this role run them. Default: all.
    #[must_use]
    pub fn role(self, role: impl Into<String>) -> Self {
        self.with(|config| config.with_role(role))
    }

    /// Runs none here; a node that may lead has to know of them all the same.
    #[must_use]
    pub fn proxy(self) -> Self {
        self.with(|config| config.with_proxy(true))
    }

    /// How long a move may take, and how much of it a worker has to stop. Default: 10 s and 8 s.
    #[must_use]
    pub fn handoff(self, timeout: Duration, drain: Duration) -> Self {
        self.with(|config| config.with_handoff_timeout(timeout).with_drain(drain))
    }

    /// How often the strategy is asked for moves. Default: 2 s.
    #[must_use]
    pub fn rebalance_interval(self, interval: Duration) -> Self {
        self.with(|config| config.with_rebalance_interval(interval))
    }

    /// Starts them, here and on the other nodes that do.
    ///
    /// # Errors
    /// [`TypeError`]: the name is taken by an entity type or other workers, a setting is wrong, or the node stopped.
    pub async fn start(self) -> Result<Daemons, TypeError> {
        let node = Arc::clone(&self.running.shared);
        let (sender, started) = oneshot::channel();
        let (name, count, max, make) = (self.name, self.count, self.max, self.make);
        let entities = EntityConfig::new()
            .with_passivate_after(Duration::ZERO)
            .with_max_entities(max.clamp(1, EntityConfig::MAX_ENTITIES))
            .with_restarts(u32::MAX, Duration::from_secs(60))
            .with_seed(random_seed());
        let core = Entities::new(node.clock.now(), entities)
            .map_err(|error| TypeError::Entities { name, error })?;
        let host = move |index: Result<_, _>| {
            let index = match index {
                Ok(index) => index,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return None;
                }
            };
            let size = Size {
                count: count.min(max),
                asking: false,
            };
            let group = Arc::new(Group {
                name,
                index,
                node,
                status: Arc::new(Status::new(name, max, String::new())),
                size: watch::Sender::new(size),
            });
            let _ = sender.send(Ok(Arc::clone(&group)));
            let host: Box<dyn crate::host::Host> =
                Box::new(DaemonHost::new(group, core, max, make));
            Some(host)
        };
        self.running.shared.command(Command::AddType {
            name,
            config: self
                .config
                .with_shards(max)
                .with_keep(KeepShards::First(count)),
            strategy: self.strategy,
            make: Box::new(host),
        });
        let group = started.await.unwrap_or(Err(TypeError::Stopped))?;
        Ok(Daemons {
            group,
            running: self.running,
        })
    }
}

impl<D: Daemon> fmt::Debug for DaemonsBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaemonsBuilder")
            .field("name", &self.name)
            .field("count", &self.count)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<R> Node<R> {
    /// Begins to start workers that are always there: `count` of them in the whole cluster, whichever nodes it has, made by
    /// `make` from their index. Every node that runs some, or may lead, says the same. See [`daemon`](crate::daemon).
    #[must_use]
    pub fn daemons<D: Daemon>(
        &self,
        name: &'static str,
        count: u32,
        make: impl Fn(u32) -> D + Send + Sync + 'static,
    ) -> DaemonsBuilder<D> {
        let mut config = TypeConfig::new(name).with_buffer(64);
        if self.running().preset == Preset::Lan {
            config = config.lan();
        }
        DaemonsBuilder {
            running: Arc::clone(self.running()),
            config: config.with_buffer_per_shard(64),
            name,
            count,
            max: 1024,
            strategy: Box::new(LeastShards::default()),
            make: Box::new(make),
        }
    }
}

/// The worker of a shard.
const fn index_of(shard: ShardId) -> u32 {
    shard.0
}
