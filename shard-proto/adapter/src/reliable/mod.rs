//! Messages that are sent until they are acknowledged, and handled once.
//!
//! [`EntityRef::tell`] is at most once: what a node had accepted dies with it. A [`ReliableSender`] keeps each message
//! until its entity has handled it to the end, and sends it again after whatever went wrong in between: a node that was
//! killed, an entity that failed, a buffer that was full, an answer that was lost. It numbers its messages per
//! entity, and the entity takes each number once and in order.
//!
//! ```no_run
//! # use shard_tokio::{Entity, EntityType};
//! # async fn example<E: Entity<Message = u64>>(carts: EntityType<E>) -> Result<(), Box<dyn std::error::Error>> {
//! let cart = carts.entity("user-42");
//! cart.tell_reliably(3_u64).await?; // it is kept, and on its way
//! cart.tell_reliably(4_u64).await?; // handled after the first one
//! carts.reliable_sender().flush().await?; // both were handled
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! | entity | each message is handled |
//! |---|---|
//! | [durable or event sourced](crate::durable) | once, as long as its sender lives: the number is written together with what the message changed |
//! | another | once in each life of the entity: what it did in a life that failed is gone with that life, and a message that was not acknowledged by then is handled in the next one |
//!
//! Messages of one sender to one entity are handled in the order in which they were accepted. Order between them and
//! plain messages is not promised.
//!
//! It is not promised that a message outlives its sender: it is kept in memory, by the process that sends. Dropping a
//! sender forgets what it keeps. An entity keeps the numbers of the 1024 senders that it heard of last; a message of one
//! beyond may be handled twice. A message on which its entity fails each time is tried again, with pauses of up to a
//! second, and holds up those behind it: set [`ReliableConfig::with_deadline`], or let the entity not fail.
//!
//! # Cost
//!
//! A message is encoded, also for an entity of the same node, and has 24 bytes in front of it; it goes the way of an
//! [ask](EntityRef::ask), and its acknowledgement the way of the answer. It is kept until then: some 60 bytes, and its
//! encoding if that is longer than 38. An entity with something unacknowledged has a task at the sender, and as
//! long as it lives some 40 bytes for each sender it heard of. A durable entity writes the number with the events or
//! the value, and also if there are none, or the value stays.
//!
//! In one run, with 64 messages on their way in either case, on two cores that others used as well: about a third of
//! the asks' rate to entities of the same node (1.5–2.7 µs a message, where an ask took 0.4–1.2 µs), and half of it and
//! more to those of another node (2.7–4.7 µs, an ask 2.1–3.8 µs). `tests/reliable/cost.rs` measures it.
//!
//! Entities and messages that have nothing to do with it pay nothing.

mod lane;
mod put;
mod senders;
mod state;
mod tag;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

pub(crate) use senders::{Senders, Verdict};
use state::Accept;
pub(crate) use state::Guard;
pub(crate) use tag::{Tag, Tracked};

use crate::body::Encoded;
use crate::entity::Entity;
use crate::entity_ref::EntityRef;
use crate::entity_type::EntityType;
use crate::error::{AskError, TellError};
use crate::shared::TypeShared;

/// Settings of a [`ReliableSender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReliableConfig {
    window: usize,
    max_messages: usize,
    max_bytes: usize,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
}

impl Default for ReliableConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl ReliableConfig {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            window: 64,
            max_messages: 65_536,
            max_bytes: 64 << 20,
            timeout: None,
            deadline: None,
        }
    }

    /// Messages of one entity that are kept unacknowledged; beyond, callers wait. Default: 64, at least 1. One sends
    /// the next message only when the one before was handled; thousands, and after a failure as many are sent twice.
    #[must_use]
    pub const fn with_window(mut self, messages: usize) -> Self {
        self.window = if messages == 0 { 1 } else { messages };
        self
    }

    /// Messages of all entities together. Default: 65 536, at least 1.
    #[must_use]
    pub const fn with_max_messages(mut self, messages: usize) -> Self {
        self.max_messages = if messages == 0 { 1 } else { messages };
        self
    }

    /// Encoded bytes of all entities together; one message is always taken. Default: 64 MiB.
    #[must_use]
    pub const fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long to wait for an acknowledgement before a message is sent again. Default: the type's
    /// [`ask_timeout`](crate::EntityTypeBuilder::ask_timeout). Shorter than what a full window takes to be handled, and
    /// messages are sent twice for nothing.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Gives a message up that is not acknowledged so long after it was accepted, or a timeout later. Default: never.
    /// What is given up is told by [`ReliableSender::flush`]; what comes behind it is sent.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

/// Messages that were given up, see [`ReliableSender::flush`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenUp {
    /// How many, since somebody was told last.
    pub messages: u64,
    /// What went wrong with the last one.
    pub error: AskError,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, error } = self;
        write!(
            f,
            "{messages} messages were given up, the last one because {error}"
        )
    }
}

impl core::error::Error for GivenUp {}

/// What a [`ReliableSender`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReliableStats {
    /// Messages that are kept.
    pub unacknowledged: usize,
    /// Their encoded bytes.
    pub bytes: usize,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were sent again, each time.
    pub sent_again: u64,
    /// Messages that were given up.
    pub given_up: u64,
}

/// Sends messages until they are acknowledged: see the [module](self). Clones are the same sender; when the last one is
/// dropped, what is not acknowledged is forgotten.
pub struct ReliableSender<E: Entity> {
    guard: Arc<Guard>,
    shared: Arc<TypeShared<E>>,
}

impl<E: Entity> ReliableSender<E> {
    /// A sender of its own. Entities take it for another one than any that was before.
    #[must_use]
    pub fn new(entities: &EntityType<E>, config: ReliableConfig) -> Self {
        let shared = Arc::clone(entities.shared());
        let guard = Guard::new(&shared, config);
        Self { guard, shared }
    }

    pub(crate) const fn of(guard: Arc<Guard>, shared: Arc<TypeShared<E>>) -> Self {
        Self { guard, shared }
    }

    /// The entity of that id, to send to.
    #[must_use]
    pub fn entity(&self, id: impl AsRef<str>) -> EntityRef<E> {
        EntityRef::new(Arc::clone(&self.shared), id.as_ref())
    }

    /// Sends a message: returns when it is kept, and its number is given; waits while as many are kept as may be. It
    /// may be called on any runtime: the node's sends. Dropping the future before it returns takes the message back.
    ///
    /// # Errors
    /// [`TellError::Codec`], [`TellError::TooLarge`], [`TellError::Stopped`]; the message was not taken.
    pub async fn tell(
        &self,
        entity: &EntityRef<E>,
        message: impl Into<E::Message>,
    ) -> Result<(), TellError<E::Message>> {
        tell(&self.guard, entity, message.into()).await
    }

    /// Waits until every message that was accepted is acknowledged or given up.
    ///
    /// # Errors
    /// Some were given up since a flush told so last.
    pub async fn flush(&self) -> Result<(), GivenUp> {
        loop {
            match self.guard.0.flushed() {
                Ok(result) => return result,
                Err(turn) => turn.await,
            }
        }
    }

    /// What it counted until now.
    #[must_use]
    pub fn stats(&self) -> ReliableStats {
        self.guard.0.stats()
    }
}

/// See [`ReliableSender::tell`].
pub(crate) async fn tell<E: Entity>(
    guard: &Guard,
    entity: &EntityRef<E>,
    message: E::Message,
) -> Result<(), TellError<E::Message>> {
    let body = Encoded::new(&message).map_err(TellError::Codec)?;
    let size = Tag::LEN + body.as_slice().len() + entity.id().len();
    let limit = entity.shared.node.max_message;
    if size > limit {
        return Err(TellError::TooLarge { size, limit });
    }
    let sending = &guard.0;
    let mut body = Some(body);
    let mut waited = false;
    let accepted = loop {
        if entity.shared.has_stopped() {
            break false;
        }
        match sending.accept(&entity.key, &mut body) {
            Accept::Taken => break true,
            Accept::First => {
                lane::start(sending, entity);
                break true;
            }
            Accept::Wait(turn) => turn.await,
            Accept::Closed => break false,
        }
        waited = true;
    };
    if waited {
        sending.pass_on();
    }
    if accepted {
        Ok(())
    } else {
        Err(TellError::Stopped(message))
    }
}

impl<E: Entity> Clone for ReliableSender<E> {
    fn clone(&self) -> Self {
        Self {
            guard: Arc::clone(&self.guard),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E: Entity> fmt::Debug for ReliableSender<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReliableSender")
            .field("type", &E::TYPE)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
