//! The entities of one type on this node, as the driver sees them.

mod entities;
mod item;
mod tables;

use core::any::Any;
use std::sync::Arc;

use shard_proto::entity::EntitySlot;
use shard_proto::node::{EntityKey, Message, ReplyTo};
use shard_proto::region::Origin;
use shard_proto::wire::control::RegisterRefusal;
use shard_proto::{Epoch, Home, Incarnation, Instant, NodeId, ShardId};

use crate::ask::{Asks, Pending};
use crate::body::Body;
use crate::error::NotReady;
use crate::gate::Gate;
use crate::remember::Told;
use crate::report::Reason;
use crate::shared::Room;
pub(crate) use entities::TypeHost;
pub(crate) use tables::{Life, Shards, Tasks};

/// Where a message that is to be delivered came from.
pub(crate) enum From {
    Local(Option<Pending>),
    Remote(NodeId, Incarnation, Option<ReplyTo>),
}

/// A message that was not delivered.
pub(crate) struct Refused {
    pub(crate) reason: Reason,
    pub(crate) from: From,
    pub(crate) message: Message<Body>,
}

/// A mailbox that is so full that whoever fills it should wait.
pub(crate) struct Crowded {
    pub(crate) mailbox: Arc<dyn Room>,
    pub(crate) limit: usize,
}

/// What comes of it when a host is told something, for the driver to do in order.
pub(crate) enum Effect {
    /// The shard stops: back to the core's region.
    GiveBack(ShardId, Epoch, Origin, Box<Message<Body>>),
    Refused(ShardId, Epoch, Box<Refused>),
    /// The shard is served from now on.
    Served(ShardId, Epoch),
    /// Nothing of the shard runs any more.
    Stopped {
        shard: ShardId,
        epoch: Epoch,
        /// Not all of it stopped by itself.
        forced: bool,
        /// It ran here.
        ran: bool,
    },
}

/// What a host needs to do something.
pub(crate) struct Desk<'a> {
    pub(crate) now: Instant,
    pub(crate) asks: &'a mut Asks,
    pub(crate) effects: &'a mut Vec<Effect>,
}

/// A host whose entity type the driver does not know.
pub(crate) trait Host: Send {
    fn name(&self) -> &'static str;
    fn gate(&self, shard: ShardId) -> Option<&Gate>;
    /// Whether the shard is served from now on. Otherwise [`Effect::Served`] says so later.
    fn start(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool;
    /// What the store says of who lives in a shard.
    fn remember(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch, told: Told);
    fn open(&mut self, shard: ShardId, epoch: Epoch);
    fn deliver(
        &mut self,
        desk: &mut Desk<'_>,
        shard: ShardId,
        epoch: Epoch,
        from: From,
        message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>>;
    /// An entity's `started` came to its end.
    fn started(&mut self, desk: &mut Desk<'_>, slot: EntitySlot);
    /// An entity wants to be passivated.
    fn passivate(&mut self, desk: &mut Desk<'_>, slot: EntitySlot);
    /// Somebody wants it to be; `false`: it does not run here.
    fn passivate_key(&mut self, desk: &mut Desk<'_>, key: &EntityKey) -> bool;
    /// An entity's task ended.
    fn ended(&mut self, desk: &mut Desk<'_>, ended: Box<dyn Any + Send>);
    /// Stops everything of a shard. Returns whether something is still to stop.
    fn stop(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool;
    /// Aborts what has not stopped. Returns how many that concerns.
    fn abort(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> usize;
    /// Gives up on what has not even stopped by being aborted.
    fn abandon(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch);
    fn deadline(&self) -> Option<Instant>;
    /// The deadline has come: does a batch of what is due.
    fn expire(&mut self, desk: &mut Desk<'_>);
    fn home_changed(&mut self, shard: ShardId, home: Option<Home>);
    fn registered(&self);
    /// Says why.
    fn refused(&self, reason: RegisterRefusal) -> NotReady;
    /// Kind and place of the store that was opened for the type, or nothing.
    fn place(&self) -> &str {
        ""
    }
    fn report(&self, shard: ShardId, entity: &EntityKey, reason: Reason);
    /// At the end of a turn: wakes who waits for it, and says how much the core has buffered.
    fn turned(&self, buffered: u32);
    /// How many shards of the type are used, and whether this node asks for another number.
    fn sized(&self, _used: u32, _asking: bool) {}
    /// Whether a shard runs here, or has not stopped.
    fn is_hosting(&self) -> bool;
    /// The node or the type ended: nothing is delivered any more, whatever still runs.
    fn end(&mut self, now: Instant);
}
