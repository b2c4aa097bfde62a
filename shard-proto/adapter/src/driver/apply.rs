//! What comes in from this node: messages of callers, news of entities, wishes of handles.

use core::mem;

use shard_proto::node::{AddTypeError, BodyError};
use shard_proto::node::{
    Ask, EntityKey, Message, REPLY_FAILED, REPLY_REFUSED, SendError, Sent, TypeIndex,
};
use shard_proto::region::Origin;
use shard_proto::{Epoch, ShardId};

use crate::ask::Pending;
use crate::body::{Body, Encoded};
use crate::error::{AskError, LeaveError, TypeError};
use crate::host::{Crowded, Desk, Effect, From, Host, Refused};
use crate::report::Reason;
use crate::shared::Input;
use crate::supervise::caught;

use super::{Command, Driver, Phase, STOP};

impl Driver {
    pub(super) fn input(&mut self, input: Input) {
        match input {
            Input::Send {
                ty,
                shard,
                id,
                body,
                ask,
                tracked,
            } => {
                self.send(ty, shard, id, body, ask, tracked);
                if !self.core.has_shard_commands() {
                    return;
                }
            }
            Input::Reply {
                to,
                status,
                payload,
            } => {
                if let Encoded::Shared(payload) = payload {
                    self.core.reply_shared(self.now, to, status, payload);
                    return;
                }
                let write = |out: &mut bytes::BytesMut| -> Result<(), BodyError> {
                    out.extend_from_slice(payload.as_slice());
                    Ok(())
                };
                self.core.reply(self.now, to, status, write);
                return;
            }
            Input::Started(ty, slot) => {
                self.with_host(ty, |host, desk| host.started(desk, slot));
            }
            Input::Passivate(ty, slot) => {
                self.with_host(ty, |host, desk| host.passivate(desk, slot));
            }
            Input::Ended(ty, ended) => {
                self.with_host(ty, |host, desk| host.ended(desk, ended));
            }
            Input::Remember(ty, shard, epoch, told) => {
                self.with_host(ty, |host, desk| host.remember(desk, shard, epoch, *told));
            }
            Input::Net(event) => self.net(event),
            Input::Command(command) => self.command(*command),
        }
        self.commands();
    }

    fn send(
        &mut self,
        ty: TypeIndex,
        shard: ShardId,
        id: EntityKey,
        body: Body,
        ask: Option<Pending>,
        tracked: bool,
    ) {
        let ask = ask.map(|pending| Ask {
            // The batch was taken before the clock was read: no ask in it is younger.
            deadline: pending.deadline(self.now),
            key: self.asks.insert(pending),
        });
        let name = id.clone();
        let now = self.now;
        let sent = if tracked {
            self.core.send_tracked(now, ty, shard, id, body, ask)
        } else {
            self.core.send(now, ty, shard, id, body, ask)
        };
        match sent {
            Ok(Sent::Remote) => self.settle(ty, shard),
            Ok(Sent::Queued) => {}
            Ok(Sent::Local { epoch, message }) => {
                let pending = message.ask.and_then(|ask| self.asks.remove(ask.key));
                self.deliver(ty, shard, epoch, From::Local(pending), message);
                self.settle(ty, shard);
            }
            Err(error) => {
                let (reason, told) = told(&error);
                if let Some(pending) = ask.and_then(|ask| self.asks.remove(ask.key)) {
                    pending.resolve(Err(told));
                }
                if !tracked {
                    self.report(ty, shard, &name, reason);
                }
                self.settle(ty, shard);
            }
        }
    }

    pub(super) fn deliver(
        &mut self,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        from: From,
        message: Message<Body>,
    ) -> Option<Crowded> {
        let delivered = self.with_host(ty, |host, desk| {
            host.deliver(desk, shard, epoch, from, message)
        });
        match delivered? {
            Ok(crowded) => crowded,
            Err(refused) => {
                self.refused(ty, shard, epoch, *refused);
                None
            }
        }
    }

    /// Tells a host something, and does what comes of it.
    #[inline]
    pub(super) fn with_host<T>(
        &mut self,
        ty: TypeIndex,
        tell: impl FnOnce(&mut dyn Host, &mut Desk<'_>) -> T,
    ) -> Option<T> {
        let host = self.hosts.get_mut(usize::from(ty.0))?.as_mut()?;
        let mut desk = Desk {
            now: self.now,
            asks: &mut self.asks,
            effects: &mut self.effects,
        };
        let told = tell(&mut **host, &mut desk);
        if !self.effects.is_empty() {
            self.effects(ty);
        }
        Some(told)
    }

    #[cold]
    fn effects(&mut self, ty: TypeIndex) {
        // None of them tells a host anything that has effects.
        let mut effects = mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::GiveBack(shard, epoch, origin, message) => {
                    self.give_back(ty, shard, epoch, origin, *message);
                }
                Effect::Served(shard, epoch) => {
                    self.core.shard_started(self.now, ty, shard, epoch);
                }
                Effect::Refused(shard, epoch, refused) => self.refused(ty, shard, epoch, *refused),
                Effect::Stopped {
                    shard,
                    epoch,
                    forced,
                    ran,
                } => {
                    self.unschedule(ty, shard, epoch);
                    self.hosted = self.hosted.saturating_sub(usize::from(ran));
                    self.core.shard_stopped(self.now, ty, shard, epoch, forced);
                }
            }
        }
        self.effects = effects;
    }

    #[cold]
    fn refused(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch, refused: Refused) {
        let Refused {
            reason,
            from,
            mut message,
        } = refused;
        // One that is sent until it is acknowledged comes again, unless it cannot be understood.
        let again = message.tracked && !matches!(reason, Reason::Codec | Reason::BadId);
        match from {
            From::Local(pending) if again => {
                if let Some(pending) = pending {
                    pending.resolve(Err(AskError::BufferFull));
                }
            }
            From::Local(pending) => {
                if let Some(pending) = pending {
                    pending.resolve(Err(match reason {
                        Reason::BufferFull | Reason::MailboxFull | Reason::TooManyEntities => {
                            AskError::BufferFull
                        }
                        Reason::Stopped => AskError::Stopped,
                        Reason::Parked => AskError::EntityFailed,
                        _ => AskError::Refused,
                    }));
                }
                self.report(ty, shard, &message.id, reason);
            }
            From::Remote(origin, life, reply)
                if again
                    || matches!(
                        (reason, &reply),
                        (
                            Reason::BufferFull | Reason::MailboxFull | Reason::TooManyEntities,
                            _
                        ) | (Reason::Parked, None)
                    ) =>
            {
                message.sender = life;
                message.correlation = reply.map_or(0, |reply| reply.correlation);
                let now = self.now;
                self.core
                    .return_full(now, ty, shard, epoch, origin, message);
            }
            From::Remote(.., reply) => {
                if let Some(reply) = reply {
                    let status = if reason == Reason::Parked {
                        REPLY_FAILED
                    } else {
                        REPLY_REFUSED
                    };
                    self.core.reply(self.now, reply, status, |_| Ok(()));
                }
                self.report(ty, shard, &message.id, reason);
            }
        }
    }

    pub(super) fn report(&mut self, ty: TypeIndex, shard: ShardId, id: &EntityKey, why: Reason) {
        if let Some(host) = self.host(ty) {
            host.report(shard, id, why);
        }
    }

    fn give_back(
        &mut self,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message<Body>,
    ) {
        let given = self
            .core
            .give_back(self.now, ty, shard, epoch, origin, message);
        let Err(message) = given else {
            return;
        };
        // Its caller is told where it is.
        if let Origin::Remote(node) = origin {
            self.core
                .return_full(self.now, ty, shard, epoch, node, message);
            return;
        }
        let ask = message.ask.and_then(|ask| self.asks.remove(ask.key));
        if let Some(pending) = ask {
            pending.resolve(Err(AskError::Stopped));
        }
        if !message.tracked {
            self.report(ty, shard, &message.id, Reason::Stopped);
        }
    }

    fn unschedule(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        self.aborts
            .retain(|(_, t, s), (e, _)| (*t, *s, *e) != (ty, shard, epoch));
    }

    /// Aborts what has not stopped. Returns how many entities that concerns.
    pub(super) fn abort_now(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch) -> usize {
        let told = self.with_host(ty, |host, desk| host.abort(desk, shard, epoch));
        let count = told.unwrap_or(0);
        if count > 0 {
            let at = self.now.after(super::ABORTED);
            self.aborts.insert((at, ty, shard), (epoch, true));
        }
        count
    }

    pub(super) fn abort(&mut self, ty: TypeIndex, shard: ShardId, epoch: Epoch, aborted: bool) {
        if aborted {
            self.with_host(ty, |host, desk| host.abandon(desk, shard, epoch));
            return;
        }
        let count = self.abort_now(ty, shard, epoch);
        if count > 0 {
            tracing::warn!(
                entity_type = self.type_name(Some(ty)),
                shard = shard.0,
                count,
                "entities did not stop in time and are aborted"
            );
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::AddType {
                name,
                config,
                strategy,
                make,
            } => {
                // It drops what is the application's if the type is refused.
                let make = |added| caught(|| make(added)).flatten();
                if self.phase != Phase::Running {
                    let error = AddTypeError::Leaving;
                    make(Err(TypeError::Refused { name, error }));
                    return;
                }
                // What callers pushed for the type that stopped must not reach another one.
                if self.stopped_types.contains(&name) {
                    make(Err(TypeError::Ended { name }));
                    return;
                }
                let added = self.core.add_type(self.now, config, strategy);
                let added = added.map_err(|error| TypeError::Refused { name, error });
                let index = added.as_ref().ok().copied();
                if let (Some(host), Some(TypeIndex(index))) = (make(added), index) {
                    let index = usize::from(index);
                    if self.hosts.len() <= index {
                        self.hosts.resize_with(index + 1, || None);
                    }
                    self.hosts[index] = Some(host);
                }
            }
            Command::Member(change, address) => {
                self.core
                    .handle_member(self.now, change, address.as_deref());
            }
            Command::Passivate(ty, key, teller) => {
                let told = self.with_host(ty, |host, desk| host.passivate_key(desk, &key));
                let _ = teller.send(told.unwrap_or(false));
            }
            Command::Resize(ty, count, teller) => {
                let asked = self.core.resize_type(self.now, ty, count);
                if let Some((used, asking)) = self.core.used_shards(ty)
                    && let Some(host) = self.host(ty)
                {
                    // First: who is told looks at it.
                    host.sized(used, asking);
                }
                let _ = teller.send(asked.map(|_| ()));
            }
            Command::StopType(ty, stopper) => {
                self.core.stop_type(self.now, ty);
                let name = self.host(ty).map(|host| host.name());
                self.stopped_types.extend(name);
                self.stopping_types.push((ty, stopper));
            }
            Command::Leave(leaver, force) => {
                if self.phase == Phase::Running {
                    if let Err(error) = self.core.leave(self.now, force) {
                        let error = LeaveError::from(error);
                        tracing::warn!(node = self.shared.name, "does not leave: {error}");
                        let _ = leaver.send(Err(error));
                        return;
                    }
                    tracing::info!(node = self.shared.name, "leaving");
                    self.phase = Phase::Leaving;
                }
                self.leavers.push(leaver);
            }
            Command::Lead(term) => self.core.handle_external(self.now, term),
            Command::Shutdown(stopper) => {
                self.stoppers.extend(stopper);
                if matches!(self.phase, Phase::Running | Phase::Leaving) {
                    tracing::info!(node = self.shared.name, "shutting down");
                    self.phase = Phase::Stopping {
                        give_up: self.now.after(STOP),
                    };
                    for index in (0..).map(TypeIndex).take(self.hosts.len()) {
                        self.core.stop_type(self.now, index);
                    }
                }
            }
        }
    }

    /// What comes in when the node has ended.
    pub(super) fn discard(&mut self, input: Input) {
        match input {
            Input::Send {
                ty, shard, id, ask, ..
            } => {
                if let Some(pending) = ask {
                    pending.resolve(Err(AskError::Stopped));
                }
                self.report(ty, shard, &id, Reason::Stopped);
                self.settle(ty, shard);
            }
            Input::Ended(ty, ended) => {
                self.with_host(ty, |host, desk| host.ended(desk, ended));
            }
            Input::Command(command) => match *command {
                Command::AddType { make, .. } => {
                    caught(|| make(Err(TypeError::Stopped)));
                }
                Command::Leave(leaver, _) => self.leavers.push(leaver),
                Command::Shutdown(stopper) => self.stoppers.extend(stopper),
                // Whoever waits for the type learns by the sender's drop that it has stopped.
                Command::Member(..)
                | Command::StopType(..)
                | Command::Passivate(..)
                | Command::Resize(..)
                | Command::Lead(_) => {}
            },
            Input::Reply { .. }
            | Input::Started(..)
            | Input::Passivate(..)
            | Input::Remember(..)
            | Input::Net(_) => {}
        }
    }
}

/// What the caller and the report are told about a message that the core did not take.
const fn told(error: &SendError<Body>) -> (Reason, AskError) {
    match error {
        SendError::BufferFull(_) => (Reason::BufferFull, AskError::BufferFull),
        SendError::Stopped(_) => (Reason::Stopped, AskError::Stopped),
        SendError::TooLarge { size, limit, .. } => (
            Reason::TooLarge,
            AskError::TooLarge {
                size: *size,
                limit: *limit,
            },
        ),
        SendError::TooManyAsks(_) => (Reason::BufferFull, AskError::TooManyAsks),
        SendError::Body { .. } => (Reason::Codec, AskError::Refused),
        _ => (Reason::Other, AskError::Refused),
    }
}
