//! The entities of one type on this node, as the driver sees them.

use core::str;
use core::sync::atomic::Ordering;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use shard_proto::node::{Ask, EntityKey, Message, ReplyTo, Weight};
use shard_proto::region::Origin;
use shard_proto::wire::control::RegisterRefusal;
use shard_proto::{Epoch, Home, Incarnation, NodeId, ShardId};
use tokio::task::AbortHandle;

use crate::ask::{Asks, Pending};
use crate::body::Body;
use crate::entity::Entity;
use crate::gate::{Gate, Opening, Way};
use crate::queue::{PushError, Queue};
use crate::report::Reason;
use crate::shared::{Caller, EntityStopped, Inbound, Item, Mailbox, Room, Seat, TypeShared};
use crate::task;

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

/// What entities had not handled, in order.
pub(crate) type Rest = Vec<(Origin, Message<Body>)>;

/// A host whose entity type the driver does not know.
pub(crate) trait Host: Send {
    fn name(&self) -> &'static str;
    fn gate(&self, shard: ShardId) -> Option<&Gate>;
    fn start(&mut self, shard: ShardId, epoch: Epoch);
    fn open(&mut self, shard: ShardId, epoch: Epoch);
    fn deliver(
        &mut self,
        shard: ShardId,
        epoch: Epoch,
        from: From,
        message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>>;
    /// Closes all mailboxes of a shard. Returns how many entities are still to stop.
    fn stop(&mut self, shard: ShardId, epoch: Epoch) -> usize;
    /// An entity stopped. Returns the shard's epoch and how many are still to stop, if the shard is stopping.
    fn stopped(
        &mut self,
        note: EntityStopped,
        asks: &mut Asks,
        rest: &mut Rest,
    ) -> Option<(Epoch, usize)>;
    /// Aborts what has not stopped. Returns how many that concerns.
    fn abort(&mut self, shard: ShardId, epoch: Epoch) -> usize;
    /// Gives up on what has not even stopped by being aborted.
    fn abandon(&mut self, shard: ShardId, epoch: Epoch, asks: &mut Asks, rest: &mut Rest);
    fn home_changed(&mut self, shard: ShardId, home: Option<Home>);
    fn registered(&self);
    fn refused(&self, reason: RegisterRefusal);
    fn report(&self, shard: ShardId, entity: &EntityKey, reason: Reason);
    /// At the end of a turn: wakes who waits for it, and says how much the core has buffered.
    fn turned(&self, buffered: u32);
    /// Whether a shard runs here, or has not stopped.
    fn is_hosting(&self) -> bool;
    /// The node or the type ended: nothing is delivered any more, whatever still runs.
    fn end(&mut self);
}

/// A shard that runs here.
struct Hosted<E: Entity> {
    epoch: Epoch,
    opening: Opening,
    entities: HashMap<EntityKey, Running<E>, foldhash::fast::RandomState>,
    stopping: bool,
}

struct Running<E: Entity> {
    mailbox: Arc<Mailbox<E>>,
    task: AbortHandle,
    /// A link was held up for it since it last kept up.
    slow: bool,
}

pub(crate) struct TypeHost<E: Entity> {
    shared: Arc<TypeShared<E>>,
    shards: Box<[Option<Hosted<E>>]>,
    /// Entities that run here, those that are stopping included.
    running: usize,
    /// Messages refused because there were too many of them.
    too_many: u64,
}

impl<E: Entity> TypeHost<E> {
    pub(crate) fn new(shared: Arc<TypeShared<E>>) -> Self {
        let shards = (0..shared.shards).map(|_| None).collect();
        Self {
            shared,
            shards,
            running: 0,
            too_many: 0,
        }
    }

    fn hosted(&mut self, shard: ShardId, epoch: Epoch) -> Option<&mut Hosted<E>> {
        let slot = self.shards.get_mut(shard.0 as usize)?;
        slot.as_mut().filter(|hosted| hosted.epoch == epoch)
    }

    #[cold]
    fn refuse(
        reason: Reason,
        from: From,
        message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        Err(Box::new(Refused {
            reason,
            from,
            message,
        }))
    }
}

/// Starts the task of an entity; `None` if it cannot have one.
fn launch<E: Entity>(
    shared: &Arc<TypeShared<E>>,
    shard: ShardId,
    epoch: Epoch,
    opening: Opening,
    key: &EntityKey,
) -> Option<(EntityKey, Running<E>)> {
    let id = str::from_utf8(key.as_bytes()).ok()?;
    // A key that lies in what was read from a connection would keep all of that for as long as the entity runs.
    let key = EntityKey::new(key.as_bytes());
    let mailbox = Arc::new(Mailbox {
        opening,
        queue: Queue::new(),
    });
    let seat = Seat {
        shared: Arc::clone(shared),
        mailbox: Arc::clone(&mailbox),
        id: id.into(),
        key: key.clone(),
        shard,
        epoch,
    };
    let task = tokio::spawn(task::run(seat)).abort_handle();
    shared
        .directory
        .pin()
        .insert(key.clone(), Arc::clone(&mailbox));
    let running = Running {
        mailbox,
        task,
        slow: false,
    };
    Some((key, running))
}

fn to_item<E: Entity>(
    body: Body,
    weight: Option<Weight>,
    from: From,
) -> Result<Item<E>, (Body, From)> {
    let message = match body {
        Body::Encoded(encoded) => match weight {
            None => Inbound::Encoded(encoded),
            Some(weight) => Inbound::Long(Box::new((encoded, weight))),
        },
        Body::Value(value) => match value.into_any().downcast::<E::Message>() {
            Ok(message) => Inbound::Value(*message),
            // A value of another type than the entity's: nothing in this crate makes one.
            Err(_) => return Err((Body::Encoded(crate::body::Encoded::EMPTY), from)),
        },
    };
    let caller = match from {
        From::Local(None) => Caller::Tell,
        From::Local(Some(pending)) => pending.typed().map_or(Caller::Tell, Caller::Ask),
        From::Remote(node, life, None) => Caller::Node(node, life),
        From::Remote(_, _, Some(reply)) => Caller::NodeAsk(reply),
    };
    Ok(Item { message, caller })
}

fn from_item<E: Entity>(item: Item<E>) -> (Body, Option<Weight>, From) {
    let (body, weight) = match item.message {
        Inbound::Value(message) => (Body::value(message), None),
        Inbound::Encoded(encoded) => (Body::Encoded(encoded), None),
        Inbound::Long(long) => (Body::Encoded(long.0), Some(long.1)),
    };
    let from = match item.caller {
        Caller::Tell => From::Local(None),
        Caller::Ask(responder) => From::Local(responder.erase()),
        Caller::Node(node, life) => From::Remote(node, life, None),
        Caller::NodeAsk(reply) => From::Remote(reply.node, reply.incarnation, Some(reply)),
    };
    (body, weight, from)
}

/// As the core wants it back.
fn give_back<E: Entity>(
    key: &EntityKey,
    items: VecDeque<Item<E>>,
    asks: &mut Asks,
    rest: &mut Rest,
) {
    for item in items {
        let (body, weight, from) = from_item(item);
        let mut message = Message::new(key.clone(), body, None);
        message.weight = weight;
        let origin = match from {
            From::Local(pending) => {
                message.ask = pending.map(|pending| Ask {
                    deadline: pending.deadline(),
                    key: asks.insert(pending),
                });
                Origin::Local
            }
            From::Remote(node, life, reply) => {
                message.sender = life;
                message.correlation = reply.map_or(0, |reply| reply.correlation);
                Origin::Remote(node)
            }
        };
        rest.push((origin, message));
    }
}

impl<E: Entity> Host for TypeHost<E> {
    fn name(&self) -> &'static str {
        E::TYPE
    }

    fn gate(&self, shard: ShardId) -> Option<&Gate> {
        self.shared.gates.get(shard.0 as usize)
    }

    fn start(&mut self, shard: ShardId, epoch: Epoch) {
        let Some(slot) = self.shards.get_mut(shard.0 as usize) else {
            return;
        };
        *slot = Some(Hosted {
            epoch,
            opening: self.shared.gate(shard).start(),
            entities: HashMap::default(),
            stopping: false,
        });
        self.shared.status.set_hosted(shard, Some(epoch));
    }

    fn open(&mut self, shard: ShardId, epoch: Epoch) {
        if self
            .hosted(shard, epoch)
            .is_some_and(|hosted| !hosted.stopping)
        {
            self.shared.gate(shard).set(Way::Open);
        }
    }

    fn deliver(
        &mut self,
        shard: ShardId,
        epoch: Epoch,
        from: From,
        mut message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        let slot = self.shards.get_mut(shard.0 as usize);
        let Some(hosted) = slot
            .and_then(Option::as_mut)
            .filter(|hosted| hosted.epoch == epoch && !hosted.stopping)
        else {
            return Self::refuse(Reason::Stopped, from, message);
        };
        let running = match hosted.entities.get_mut(&message.id) {
            Some(running) => running,
            None if self.running >= self.shared.limits.max_entities => {
                self.too_many += 1;
                if self.too_many.is_power_of_two() {
                    tracing::warn!(
                        entity_type = E::TYPE,
                        running = self.running,
                        refused = self.too_many,
                        "no room for another entity: raise the setting `max_entities`"
                    );
                }
                return Self::refuse(Reason::TooManyEntities, from, message);
            }
            None => {
                let opening = hosted.opening;
                let launched = launch(&self.shared, shard, epoch, opening, &message.id);
                let Some((key, running)) = launched else {
                    return Self::refuse(Reason::BadId, from, message);
                };
                self.running += 1;
                hosted.entities.entry(key).or_insert(running)
            }
        };
        let weight = message.weight.take();
        if weight.as_ref().is_some_and(Weight::is_over) && matches!(from, From::Remote(..)) {
            message.weight = weight;
            return Self::refuse(Reason::MailboxFull, from, message);
        }
        let item = match to_item(message.body, weight, from) {
            Ok(item) => item,
            Err((body, from)) => {
                message.body = body;
                return Self::refuse(Reason::Codec, from, message);
            }
        };
        let limits = &self.shared.limits;
        let local = matches!(item.caller, Caller::Tell | Caller::Ask(_));
        let limit = if local { usize::MAX } else { limits.overflow() };
        let (reason, item) = match running.mailbox.queue.push(item, limit) {
            Ok(count) if count < limits.crowd() => {
                running.slow = false;
                return Ok(None);
            }
            Ok(_) if local || running.slow => return Ok(None),
            Ok(_) => {
                running.slow = true;
                return Ok(Some(Crowded {
                    mailbox: running.mailbox.clone(),
                    limit: limits.crowd(),
                }));
            }
            Err(PushError::Full(item)) => (Reason::MailboxFull, item),
            Err(PushError::Closed(item)) => (Reason::Stopped, item),
        };
        let (body, weight, from) = from_item(item);
        message.body = body;
        message.weight = weight;
        Self::refuse(reason, from, message)
    }

    fn stop(&mut self, shard: ShardId, epoch: Epoch) -> usize {
        self.shared.gate(shard).set(Way::Closed);
        let shared = Arc::clone(&self.shared);
        let Some(hosted) = self.hosted(shard, epoch) else {
            return 0;
        };
        hosted.stopping = true;
        let directory = shared.directory.pin();
        for (key, running) in &hosted.entities {
            running.mailbox.queue.close();
            directory.remove(key);
        }
        let left = hosted.entities.len();
        if left == 0 {
            self.shards[shard.0 as usize] = None;
            self.shared.status.set_hosted(shard, None);
        }
        left
    }

    fn stopped(
        &mut self,
        note: EntityStopped,
        asks: &mut Asks,
        rest: &mut Rest,
    ) -> Option<(Epoch, usize)> {
        let Ok(items) = note.rest.downcast::<VecDeque<Item<E>>>() else {
            return None;
        };
        give_back(&note.key, *items, asks, rest);
        let slot = self.shards.get_mut(note.shard.0 as usize)?;
        let hosted = slot
            .as_mut()
            .filter(|hosted| hosted.opening == note.opening)?;
        if hosted.entities.remove(&note.key).is_some() {
            self.running -= 1;
        }
        if !hosted.stopping {
            self.shared.directory.pin().remove(&note.key);
            return None;
        }
        let (epoch, left) = (hosted.epoch, hosted.entities.len());
        if left == 0 {
            *slot = None;
            self.shared.status.set_hosted(note.shard, None);
        }
        Some((epoch, left))
    }

    fn abort(&mut self, shard: ShardId, epoch: Epoch) -> usize {
        let Some(hosted) = self.hosted(shard, epoch).filter(|hosted| hosted.stopping) else {
            return 0;
        };
        for running in hosted.entities.values() {
            running.task.abort();
        }
        hosted.entities.len()
    }

    fn abandon(&mut self, shard: ShardId, epoch: Epoch, asks: &mut Asks, rest: &mut Rest) {
        let Some(hosted) = self.hosted(shard, epoch).filter(|hosted| hosted.stopping) else {
            return;
        };
        let given_up = hosted.entities.len();
        for (key, running) in hosted.entities.drain() {
            give_back(&key, running.mailbox.queue.take_rest(), asks, rest);
        }
        self.running -= given_up;
        self.shards[shard.0 as usize] = None;
        self.shared.status.set_hosted(shard, None);
    }

    fn home_changed(&mut self, shard: ShardId, home: Option<Home>) {
        let Some(gate) = self.gate(shard) else {
            return;
        };
        match home {
            Some(home) if home.node != self.shared.node.me => gate.set(Way::Remote),
            _ if gate.way() == Way::Remote => gate.set(Way::Closed),
            _ => {}
        }
        self.shared.status.set_home(shard, home);
    }

    fn registered(&self) {
        self.shared.status.registered();
    }

    fn refused(&self, reason: RegisterRefusal) {
        self.shared.status.refused(reason);
    }

    fn report(&self, shard: ShardId, entity: &EntityKey, reason: Reason) {
        self.shared.report(shard, entity, reason);
    }

    fn turned(&self, buffered: u32) {
        let congested = &self.shared.congested;
        let before = congested.load(Ordering::Relaxed);
        // With some distance, so that it does not change all the time.
        let now = buffered > if before { 2048 } else { 4096 };
        if before != now {
            congested.store(now, Ordering::Relaxed);
        }
        self.shared.waiters.wake();
    }

    fn is_hosting(&self) -> bool {
        self.shards.iter().any(Option::is_some)
    }

    fn end(&mut self) {
        for gate in &self.shared.gates {
            gate.set(Way::Closed);
        }
        for hosted in self.shards.iter().flatten() {
            for running in hosted.entities.values() {
                running.mailbox.queue.close();
                running.task.abort();
            }
        }
        self.shared.directory.pin().clear();
        self.shared.status.stopped();
        self.shared.waiters.wake();
    }
}
