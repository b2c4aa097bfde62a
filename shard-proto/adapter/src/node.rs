//! The handle of a node.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

use shard_proto::membership::MemberChange;
use shard_proto::membership::MemberState;
use shard_proto::node::NodeStats;
use shard_proto::{Incarnation, Leader, NodeId, Term};
use tokio::sync::oneshot;

use crate::arrivals::ConnectionStats;
use crate::builder::{NodeBuilder, Preset};
use crate::driver::Command;
use crate::durable::DurableStats;
use crate::entity::Entity;
use crate::entity_type::EntityTypeBuilder;
use crate::error::{LeaveError, StartError};
use crate::lock::lock;
use crate::report::{Reason, UndeliveredReports};
use crate::runtime::Runtime;
use crate::shared::{Input, NodeShared};

/// A node of a cluster. Cheap to clone; all clones are the same node.
///
/// The node runs until [`Node::leave`] or [`Node::shutdown`], or until the last handle of it and of its entity types is
/// dropped, which is a shutdown nobody waits for.
///
/// `R` is the [`Runtime`] that it runs on: the crate of an adapter has `Node` as a name for its own.
pub struct Node<R = Erased> {
    running: Arc<Running>,
    runtime: PhantomData<fn() -> R>,
}

/// The runtime of a node that is reached through one of its [entity types](crate::EntityType::node): the one that it
/// was started on. No node can be made with it.
#[derive(Clone, Copy, Debug)]
pub enum Erased {}

impl<R> Node<R> {
    pub(crate) fn of(running: Arc<Running>) -> Self {
        Self {
            running,
            runtime: PhantomData,
        }
    }

    pub(crate) const fn running(&self) -> &Arc<Running> {
        &self.running
    }
}

impl<R> Clone for Node<R> {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.running))
    }
}

/// Shuts the node down when the last handle is dropped.
pub(crate) struct Running {
    pub(crate) shared: Arc<NodeShared>,
    pub(crate) preset: Preset,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.command(Command::Shutdown(None));
    }
}

impl NodeShared {
    pub(crate) fn command(&self, command: Command) {
        let input = Input::Command(Box::new(command));
        // A stopped driver drops it, and with it the sender of whoever waits.
        let _ = self.inbox.push(input, usize::MAX);
    }
}

/// A member of the cluster, as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// What is believed of it.
    pub state: MemberState,
    /// Where it is reached, if that is known.
    pub address: Option<String>,
}

/// What a node counted since it started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The core's counters. Messages that took the short way to an entity on this node are not among them.
    pub core: NodeStats,
    /// Messages that were not delivered, by reason.
    pub undelivered: Vec<(Reason, u64)>,
    /// What durable entities counted, by type.
    pub durable: Vec<(&'static str, DurableStats)>,
    /// Connections before they are links.
    pub connections: ConnectionStats,
}

impl<R: Runtime> Node<R> {
    /// Begins to set up a node of that name, which must be unique in the cluster.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> NodeBuilder<R> {
        NodeBuilder::new(name.into())
    }

    /// One node that is a whole cluster, with the same API and without a network: for tests and single machines.
    ///
    /// # Errors
    /// None in practice; the signature is that of [`NodeBuilder::start`].
    pub async fn standalone() -> Result<Self, StartError> {
        NodeBuilder::standalone().start().await
    }
}

impl<R> Node<R> {
    /// Begins to start an entity type here: as a host, or as a [proxy](EntityTypeBuilder::proxy) that only sends.
    #[must_use]
    pub fn entity_type<E: Entity>(&self) -> EntityTypeBuilder<E> {
        EntityTypeBuilder::new(Arc::clone(&self.running))
    }

    /// Its id, made of its name.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.running.shared.me
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.running.shared.name
    }

    /// Where the others dial it; empty for a standalone node.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.running.shared.address
    }

    /// The members this node knows, itself included.
    #[must_use]
    pub fn members(&self) -> Vec<Member> {
        lock(&self.running.shared.members).clone()
    }

    /// The reign this node follows; `None` while it knows of none.
    #[must_use]
    pub fn leader(&self) -> Option<Leader> {
        *lock(&self.running.shared.leader)
    }

    /// What it counted, as of its driver's last turn.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = &self.running.shared;
        Stats {
            core: *lock(&shared.stats),
            undelivered: Reason::ALL
                .iter()
                .map(|reason| (*reason, shared.reports.count(*reason)))
                .collect(),
            durable: shared.durable_stats(),
            connections: shared.arrivals.stats(),
        }
    }

    /// A stream of the messages of this node that are not delivered, from now on.
    #[must_use]
    pub fn undelivered(&self) -> UndeliveredReports {
        self.running.shared.reports.subscribe()
    }

    /// Tells a node with [`Membership::External`](crate::Membership::External) what the membership service says;
    /// `address` is where to dial the member.
    pub fn member_changed(&self, change: MemberChange, address: Option<String>) {
        let shared = &self.running.shared;
        shared.command(Command::Member(change, address));
    }

    /// Leaves the cluster in order: hands every shard over to another node, and returns when that is done and all that
    /// was sent has arrived, or when the deadline of leaving (20 s) has passed. The node has stopped then.
    ///
    /// # Errors
    /// [`LeaveError::EndsQuorum`]: it is a voter that the others cannot do without; it goes on, and nothing has changed.
    /// [`LeaveError::Stopped`]: it had stopped before.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        self.leaves(false).await
    }

    /// As [`Node::leave`], also if it ends the quorum: then nobody leads any more, and every entity of the cluster stops
    /// until another voter starts. To stop a whole cluster in order, let its last nodes leave by this.
    ///
    /// # Errors
    /// [`LeaveError::Stopped`]: it had stopped before.
    pub async fn leave_forced(&self) -> Result<(), LeaveError> {
        self.leaves(true).await
    }

    async fn leaves(&self, force: bool) -> Result<(), LeaveError> {
        let (sender, left) = oneshot::channel();
        let command = Command::Leave(sender, force);
        self.running.shared.command(command);
        left.await.unwrap_or(Err(LeaveError::Stopped))
    }

    /// Tells a node with [`Ownership::External`](crate::Ownership::External) that it leads, or no longer does, by a
    /// lease that is held elsewhere: in etcd, Kubernetes, PostgreSQL.
    ///
    /// `Some` with the lease's fencing token as soon as this node has acquired it: a number that grows with every
    /// acquisition by any node (a revision, a transaction's number). `None` before the lease is over, with the time
    /// by which clocks may differ to spare. While nobody leads, nodes serve for one more lease of their own at most.
    pub fn lead_externally(&self, term: Option<Term>) {
        self.running.shared.command(Command::Lead(term));
    }

    /// Returns when the node has stopped, for whatever reason: it was told to, its runtime went down, or the others
    /// declared it down, in which case it must be started again.
    pub async fn stopped(&self) {
        self.running.shared.ended().await;
    }

    /// Stops without handing anything over: entities stop, what is buffered is reported, the links close. The other
    /// nodes give the shards new homes at once.
    pub async fn shutdown(&self) {
        let (sender, stopped) = oneshot::channel();
        let command = Command::Shutdown(Some(sender));
        self.running.shared.command(command);
        // An error means that it had stopped before.
        let _ = stopped.await;
    }
}

impl<R> fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name())
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
