//! Does what the core's [`Entities`] decide.

use core::any::Any;
mod refuse;
mod told;
mod used;

use core::str;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use shard_proto::entity::{Delivered, End, Entities, EntityCommand, EntitySlot, Refusal};
use shard_proto::node::{EntityKey, Message, Weight};
use shard_proto::wire::control::RegisterRefusal;
use shard_proto::{Epoch, Home, Instant, ShardId, earliest};

use super::item::{from_item, to_item, to_message};
use super::{Crowded, Desk, Effect, From, Host, Life, Refused, Shards, Tasks};
use crate::ask::Asks;
use crate::body::{Body, Encoded};
use crate::entity::Entity;
use crate::error::NotReady;
use crate::gate::{Gate, Opening, Way};
use crate::lock::lock;
use crate::queue::{PushError, Queue};
use crate::remember::{Memory, Told};
use crate::report::Reason;
use crate::shared::{Caller, Item, Listed, Mailbox, Seat, TypeShared};
use crate::supervise::{Abort, AbortHandle};
use crate::task::{self, Ended, Work};

/// What is known of a shard that runs here.
struct Serving {
    opening: Opening,
    /// Reads who lived in it. Until that has ended it is not served, nor has it stopped.
    reading: Option<AbortHandle>,
    /// Another node writes who lives in it.
    fenced: bool,
}

/// An entity that has a task.
struct Running<E: Entity> {
    mailbox: Arc<Mailbox<E>>,
    /// A link was held up for it since it last kept up.
    slow: bool,
}

impl<E: Entity> Life for Running<E> {
    fn slot(&self) -> EntitySlot {
        self.mailbox.slot
    }
}

pub(crate) struct TypeHost<E: Entity> {
    shared: Arc<TypeShared<E>>,
    core: Entities<Item<E>>,
    memory: Option<Memory>,
    shards: Shards<Serving>,
    running: Tasks<Running<E>>,
    /// Tasks that ended since the list of used entities was looked at.
    ended: u32,
    /// When that was.
    looked: Instant,
    /// Messages refused because there were too many entities.
    too_many: u64,
    over: bool,
}

impl<E: Entity> TypeHost<E> {
    pub(crate) fn new(
        shared: Arc<TypeShared<E>>,
        core: Entities<Item<E>>,
        memory: Option<Memory>,
    ) -> Self {
        let shards = Shards::new(shared.shards);
        Self {
            shared,
            core,
            memory,
            shards,
            running: Tasks::new(),
            ended: 0,
            looked: Instant::ZERO,
            too_many: 0,
            over: false,
        }
    }

    /// Does what the core wants done. After everything it is told, before anything else happens: messages that it keeps
    /// count as delivered, so a mailbox that it wants closed must not take any more ([`Mailbox`]).
    #[inline]
    fn commands(&mut self, desk: &mut Desk<'_>) {
        while let Some(command) = self.core.poll_command() {
            self.obey(desk, command);
        }
    }

    fn obey(&mut self, desk: &mut Desk<'_>, command: EntityCommand<Item<E>>) {
        match command {
            EntityCommand::Start {
                slot,
                shard,
                epoch,
                key,
            } => self.launch(slot, shard, epoch, key),
            EntityCommand::Deliver { slot, payload } => {
                let Some(running) = self.running.get(slot) else {
                    return;
                };
                if let Err(PushError::Full(item) | PushError::Closed(item)) =
                    running.mailbox.queue.push(payload, usize::MAX)
                {
                    let mailbox = Arc::clone(&running.mailbox);
                    self.give_back(desk, &mailbox, Err([item]));
                }
            }
            EntityCommand::Publish { slot } => {
                if let Some(running) = self.running.get(slot) {
                    let listed = Listed(Arc::clone(&running.mailbox));
                    self.shared.directory.pin().insert(listed, ());
                }
            }
            EntityCommand::Close { slot } => self.close(slot),
            EntityCommand::Abort { slot } => {
                if let Some(running) = self.running.get(slot) {
                    running.mailbox.abort.abort();
                }
            }
            EntityCommand::GiveBack {
                shard,
                epoch,
                key,
                payload,
            } => {
                let (origin, message) = to_message(&key, payload, desk.asks, self.now());
                desk.effects
                    .push(Effect::GiveBack(shard, epoch, origin, Box::new(message)));
            }
            EntityCommand::Reject {
                shard,
                key,
                reason,
                payload,
            } => {
                let epoch = self.shards.epoch(shard);
                let reason = self.reason(reason);
                let tracked = matches!(payload.caller, Caller::Tracked(_));
                let (body, weight, from) = from_item(payload);
                let mut message = Message::new(key, body, None);
                message.weight = weight;
                message.tracked = tracked;
                let refused = Refused {
                    reason,
                    from,
                    message,
                };
                desk.effects
                    .push(Effect::Refused(shard, epoch, Box::new(refused)));
            }
            EntityCommand::ShardStopped {
                shard,
                epoch,
                forced,
            } => {
                let status = &self.shared.status;
                self.shards.stopped(status, desk, shard, epoch, forced);
            }
            EntityCommand::Record {
                shard,
                epoch,
                key,
                alive,
            } => {
                // What a fenced shard has to say is nobody's business any more; it will stop.
                let fenced = self.shards.get(shard, epoch);
                let fenced = fenced.is_none_or(|hosted| hosted.more.fenced);
                if let Some(memory) = &self.memory
                    && !fenced
                {
                    memory.record(shard, epoch, key, alive);
                }
            }
        }
    }

    fn launch(&mut self, slot: EntitySlot, shard: ShardId, epoch: Epoch, key: EntityKey) {
        let Some(hosted) = self.shards.get(shard, epoch) else {
            return;
        };
        let mailbox = Arc::new(Mailbox {
            opening: hosted.more.opening,
            queue: Queue::new(),
            used: AtomicBool::new(false),
            slot,
            shard,
            epoch,
            key,
            abort: Abort::default(),
        });
        let work = Work::new(Seat {
            shared: Arc::clone(&self.shared),
            mailbox: Arc::clone(&mailbox),
        });
        let runtime = &self.shared.node.runtime;
        runtime.spawn_with(Arc::clone(&mailbox), task::run(work));
        self.running.insert(Running {
            mailbox,
            slow: false,
        });
    }

    /// No caller puts anything into its mailbox any more.
    fn close(&mut self, slot: EntitySlot) {
        let Some(running) = self.running.get(slot) else {
            return;
        };
        let mailbox = Arc::clone(&running.mailbox);
        mailbox.queue.close();
        self.shared.directory.pin().remove(&mailbox.key);
    }

    /// Later than what callers put into mailboxes during the driver's turn.
    fn now(&self) -> Instant {
        self.shared.node.clock.now()
    }

    /// What an entity had not handled whose life the core does not know any more goes back to the region, which says
    /// what becomes of it.
    fn give_back(
        &self,
        desk: &mut Desk<'_>,
        mailbox: &Mailbox<E>,
        told: Result<(), impl IntoIterator<Item = Item<E>>>,
    ) {
        let Err(rest) = told else {
            return;
        };
        for item in rest {
            let (origin, message) = to_message(&mailbox.key, item, desk.asks, self.now());
            let (shard, epoch) = (mailbox.shard, mailbox.epoch);
            desk.effects
                .push(Effect::GiveBack(shard, epoch, origin, Box::new(message)));
        }
    }
}

impl<E: Entity> Host for TypeHost<E> {
    fn name(&self) -> &'static str {
        E::TYPE
    }

    fn gate(&self, shard: ShardId) -> Option<&Gate> {
        self.shared.gates.get(shard.0 as usize)
    }

    fn start(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool {
        let Some(gate) = self.gate(shard) else {
            return true;
        };
        let opening = gate.start();
        let reading = self.memory.as_ref().map(|memory| memory.read(shard, epoch));
        let served = reading.is_none();
        let serving = Serving {
            opening,
            reading,
            fenced: false,
        };
        self.shards
            .start(&self.shared.status, shard, epoch, serving);
        if served {
            self.core.start_shard(desk.now, shard, epoch);
            self.commands(desk);
        }
        served
    }

    fn remember(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch, told: Told) {
        self.told(desk, shard, epoch, told);
    }

    fn open(&mut self, shard: ShardId, epoch: Epoch) {
        let open = self.shards.get(shard, epoch);
        if open.is_some_and(|hosted| !hosted.stopping) {
            self.shared.gate(shard).set(Way::Open);
        }
    }

    fn deliver(
        &mut self,
        desk: &mut Desk<'_>,
        shard: ShardId,
        epoch: Epoch,
        from: From,
        mut message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        let weight = message.weight.take();
        if matches!(from, From::Remote(..)) {
            if weight.as_ref().is_some_and(Weight::is_over) {
                message.weight = weight;
                return Self::refuse(Reason::MailboxFull, from, message);
            }
            // Those of this node began as one.
            if str::from_utf8(message.id.as_bytes()).is_err() {
                return Self::refuse(Reason::BadId, from, message);
            }
        }
        let item = match to_item(message.body, weight, from, message.tracked) {
            Ok(item) => item,
            Err((body, from)) => {
                message.body = body;
                return Self::refuse(Reason::Codec, from, message);
            }
        };
        message.body = Body::Encoded(Encoded::EMPTY);
        if self.core.is_full() && self.core.find(&message.id).is_none() {
            self.touch(desk.now);
        }
        let delivered = self.core.deliver(desk.now, shard, epoch, &message.id, item);
        self.commands(desk);
        let (slot, item) = match delivered {
            Delivered::Mailbox { slot, payload } => (slot, payload),
            Delivered::Kept => return Ok(None),
            Delivered::Refused { reason, payload } => {
                if reason == Refusal::KeepFull && payload.caller.is_local() {
                    self.shared.choked.add(&message.id);
                }
                let reason = self.reason(reason);
                return Self::refuse_item(reason, payload, message);
            }
        };
        let limits = self.shared.limits;
        let Some(running) = self.running.get(slot) else {
            return Self::refuse_item(Reason::Stopped, item, message);
        };
        let local = item.caller.is_local();
        let limit = if local { usize::MAX } else { limits.overflow() };
        match running.mailbox.queue.push(item, limit) {
            Ok(count) if count < limits.crowd() => {
                running.slow = false;
                Ok(None)
            }
            Ok(_) if local || running.slow => Ok(None),
            Ok(_) => {
                running.slow = true;
                Ok(Some(Crowded {
                    mailbox: running.mailbox.clone(),
                    limit: limits.crowd(),
                }))
            }
            Err(PushError::Full(item)) => Self::refuse_item(Reason::MailboxFull, item, message),
            Err(PushError::Closed(item)) => Self::refuse_item(Reason::Stopped, item, message),
        }
    }

    fn started(&mut self, desk: &mut Desk<'_>, slot: EntitySlot) {
        if self.running.get(slot).is_some() {
            self.core.started(desk.now, slot);
            self.commands(desk);
        }
    }

    fn passivate(&mut self, desk: &mut Desk<'_>, slot: EntitySlot) {
        if self.running.get(slot).is_some() {
            self.core.passivate(desk.now, slot);
            self.commands(desk);
        }
    }

    fn passivate_key(&mut self, desk: &mut Desk<'_>, key: &EntityKey) -> bool {
        let found = self.core.find(key);
        let Some(slot) = found.filter(|slot| self.running.get(*slot).is_some()) else {
            return false;
        };
        self.core.passivate(desk.now, slot);
        self.commands(desk);
        true
    }

    fn ended(&mut self, desk: &mut Desk<'_>, ended: Box<dyn Any + Send>) {
        let Ok(ended) = ended.downcast::<Ended<E>>() else {
            return;
        };
        if self.over {
            self.shared.forsake(*ended);
            return;
        }
        let mailbox = Arc::clone(&ended.mailbox);
        let (slot, end) = (mailbox.slot, ended.end);
        if self.running.get(slot).is_none() {
            self.give_back(desk, &mailbox, Err(ended.rest()));
            return;
        }
        self.close(slot);
        self.running.remove(slot);
        if mailbox.used.load(Ordering::Relaxed) {
            // It did something before it failed: that one is not parked.
            self.core.touched(desk.now, slot);
        }
        let told = self.core.ended(desk.now, slot, end, ended.rest());
        self.give_back(desk, &mailbox, told);
        self.commands(desk);
        // Entities that come and go all leave a mark in the list.
        const LOOK: u32 = 1024;
        self.ended += 1;
        if self.ended >= LOOK {
            self.touch(desk.now);
            self.commands(desk);
        }
    }

    fn stop(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool {
        self.shared.gate(shard).set(Way::Closed);
        if let Some(hosted) = self.shards.get(shard, epoch) {
            hosted.stopping = true;
            if let Some(reading) = &hosted.more.reading {
                // It says when it has ended.
                reading.abort();
                return true;
            }
        }
        self.core.stop_shard(desk.now, shard, epoch);
        self.commands(desk);
        self.shards.get(shard, epoch).is_some()
    }

    fn abort(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> usize {
        let Some(hosted) = self.shards.stopping(shard, epoch) else {
            return 0;
        };
        if hosted.more.reading.is_some() {
            return 1;
        }
        let count = self.core.abort_shard(desk.now, shard, epoch);
        self.commands(desk);
        count
    }

    fn abandon(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) {
        let Some(hosted) = self.shards.stopping(shard, epoch) else {
            return;
        };
        if hosted.more.reading.take().is_some() {
            self.core.stop_shard(desk.now, shard, epoch);
        }
        // What such a task has in hand it gives back itself, if it ever ends.
        let of_it = |it: &Running<E>| it.mailbox.shard == shard && it.mailbox.epoch == epoch;
        for running in self.running.take_all(of_it) {
            let rest = running.mailbox.queue.take_rest();
            let slot = running.mailbox.slot;
            let told = self.core.ended(desk.now, slot, End::Aborted, rest);
            self.give_back(desk, &running.mailbox, told);
        }
        self.commands(desk);
        if self.shards.get(shard, epoch).is_some() {
            self.core.abandon_shard(desk.now, shard, epoch);
            self.commands(desk);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        earliest(self.core.poll_timeout(), self.look_at())
    }

    fn expire(&mut self, desk: &mut Desk<'_>) {
        self.touch(desk.now);
        self.commands(desk);
        self.core.handle_timeout(desk.now);
        self.commands(desk);
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

    fn refused(&self, reason: RegisterRefusal) -> NotReady {
        self.shared.status.refused(reason)
    }

    fn place(&self) -> &str {
        self.shared.status.place()
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
        let choked = &self.shared.choked;
        choked.retain(|key| self.core.is_choked(self.shared.shard(key.as_bytes()), key));
        self.shared.waiters.wake();
        let mut stats = *self.core.stats();
        stats.refused_keep_full += choked.refused();
        let mut told = lock(&self.shared.entities);
        if *told != stats {
            *told = stats;
        }
    }

    fn is_hosting(&self) -> bool {
        !self.shards.is_empty()
    }

    fn end(&mut self, now: Instant) {
        for gate in &self.shared.gates {
            gate.set(Way::Closed);
        }
        // Brings out what the core keeps.
        let (mut asks, mut effects) = (Asks::default(), Vec::new());
        let mut shards = Vec::new();
        for (shard, hosted) in self.shards.all() {
            if let Some(reading) = &hosted.more.reading {
                reading.abort();
            }
            shards.push((shard, hosted.epoch));
        }
        for (shard, epoch) in shards {
            self.core.stop_shard(now, shard, epoch);
            // Also what waits for the end of a task.
            self.core.abandon_shard(now, shard, epoch);
            self.commands(&mut Desk {
                now,
                asks: &mut asks,
                effects: &mut effects,
            });
            for effect in effects.drain(..) {
                if let Effect::GiveBack(shard, _, _, message) = effect {
                    self.shared.report(shard, &message.id, Reason::Stopped);
                }
            }
        }
        asks.fail_all();
        self.core.end();
        self.over = true;
        for running in self.running.all() {
            running.mailbox.queue.close();
            running.mailbox.abort.abort();
        }
        self.shared.directory.pin().clear();
        self.shared.choked.clear();
        self.shared.status.stopped();
        self.shared.carried.close();
        self.shared.waiters.wake();
    }
}
