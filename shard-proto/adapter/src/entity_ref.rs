//! A reference to an entity: tell, ask, and the two ways a message can go.

use core::cell::Cell;
use core::fmt;
use core::future::poll_fn;
use core::hash::{Hash, Hasher};
use core::pin::{Pin, pin};
use core::str;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock};

use shard_proto::ShardId;
use shard_proto::node::EntityKey;
use tokio::sync::AcquireError;

use crate::ask::{Answer, Pool};
use crate::body::{Body, Encoded};
use crate::entity::Entity;
use crate::error::{AskError, TellError};
use crate::gate::Way;
use crate::queue::PushError;
use crate::reliable;
use crate::shared::{Caller, INBOX, Inbound, Input, Item, Listed, Mailbox, TypeShared};

/// A reference to an entity, wherever it lives. Cheap to make and to clone; equal to another one by type and id.
///
/// Messages that one caller sends to one entity, each after the one before was accepted, are handled in that order,
/// also while the entity moves from node to node.
pub struct EntityRef<E: Entity> {
    pub(crate) shared: Arc<TypeShared<E>>,
    pub(crate) key: EntityKey,
    pub(crate) shard: ShardId,
    /// The mailbox that was found first.
    mailbox: OnceLock<Arc<Mailbox<E>>>,
    /// The one that was found last, when that is closed: the entity moved, or was passivated.
    later: Mutex<Option<Arc<Mailbox<E>>>>,
}

/// A message on its way out.
struct Outgoing<E: Entity> {
    message: E::Message,
    caller: Caller<E::Reply>,
    /// It had to be encoded, and waits.
    encoded: Option<Box<Encoded>>,
}

/// Why a message is not on its way yet.
enum Held<E: Entity> {
    /// The mailbox is full.
    Mailbox(Outgoing<E>, Arc<Mailbox<E>>),
    /// The entity runs here, but messages of its shard are on the long way, which must get there first.
    Pending(Outgoing<E>, Arc<Mailbox<E>>),
    /// It has to take the long way.
    Long(Outgoing<E>),
    /// Too many messages are on the long way.
    Crowded(Outgoing<E>),
    /// Too long ones are on their way to other nodes.
    InLine(
        Outgoing<E>,
        Pin<Box<dyn Future<Output = Result<Encoded, AcquireError>> + Send>>,
    ),
}

impl<E: Entity> EntityRef<E> {
    pub(crate) fn new(shared: Arc<TypeShared<E>>, id: &str) -> Self {
        let shard = shared.shard(id.as_bytes());
        Self {
            shared,
            key: EntityKey::from(id),
            shard,
            mailbox: OnceLock::new(),
            later: Mutex::new(None),
        }
    }

    /// The entity's id.
    #[must_use]
    pub fn id(&self) -> &str {
        str::from_utf8(self.key.as_bytes()).unwrap_or_default()
    }

    /// Its shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Sends a message. Returns when it is in the entity's mailbox, or accepted for sending on; waits while the mailbox
    /// or the way is full. A message that is lost afterwards is reported by
    /// [`Node::undelivered`](crate::Node::undelivered).
    ///
    /// An entity that tells itself something waits for room that only it can make: once its mailbox is full, that never
    /// ends. The same goes for two entities that tell each other. There use [`EntityRef::try_tell`], or tell from
    /// another task.
    ///
    /// # Errors
    /// [`TellError`]; the message was not sent.
    pub async fn tell(&self, message: impl Into<E::Message>) -> Result<(), TellError<E::Message>> {
        let outgoing = Outgoing {
            message: message.into(),
            caller: Caller::Tell,
            encoded: None,
        };
        self.send(outgoing).await
    }

    /// Sends a message without waiting for room.
    ///
    /// # Errors
    /// [`TellError`]; the message was not sent.
    pub fn try_tell(&self, message: impl Into<E::Message>) -> Result<(), TellError<E::Message>> {
        let outgoing = Outgoing {
            message: message.into(),
            caller: Caller::Tell,
            encoded: None,
        };
        match self.short(outgoing) {
            Ok(()) => Ok(()),
            Err(Held::Mailbox(back, _)) => Err(TellError::Busy(back.message)),
            Err(
                Held::Pending(back, _)
                | Held::Long(back)
                | Held::Crowded(back)
                | Held::InLine(back, _),
            ) => match self.long(None, back)? {
                None => Ok(()),
                Some(back) => Err(TellError::Busy(back.message)),
            },
        }
    }

    /// Sends a message until the entity has handled it, and has it handled once: see [`reliable`](crate::reliable). Returns
    /// when it is kept, and waits while too many are. Goes through
    /// [`EntityType::reliable_sender`](crate::EntityType::reliable_sender), which says when all is done.
    ///
    /// # Errors
    /// As [`ReliableSender::tell`](crate::reliable::ReliableSender::tell); the message was not taken.
    pub async fn tell_reliably(
        &self,
        message: impl Into<E::Message>,
    ) -> Result<(), TellError<E::Message>> {
        reliable::tell(self.shared.reliable(), self, message.into()).await
    }

    /// Sends a message and waits for the answer, for at most the type's
    /// [`ask_timeout`](crate::EntityTypeBuilder::ask_timeout). Dropping the future abandons the answer, not the message.
    ///
    /// # Errors
    /// [`AskError`] says whether the message may have been handled.
    pub async fn ask(&self, message: impl Into<E::Message>) -> Result<E::Reply, AskError> {
        self.ask_for(message, self.shared.limits.ask_timeout).await
    }

    /// As [`EntityRef::ask`], with a time of its own. It ends no earlier, and about 50 ms later at most: deadlines are
    /// looked at every 25 ms.
    ///
    /// # Errors
    /// [`AskError`] says whether the message may have been handled.
    pub async fn ask_for(
        &self,
        message: impl Into<E::Message>,
        timeout: Duration,
    ) -> Result<E::Reply, AskError> {
        let (mut answer, responder) = Pool::wait(&*self.shared.pool, timeout);
        let mut send = pin!(self.send(Outgoing {
            message: message.into(),
            caller: Caller::Ask(responder),
            encoded: None,
        }));
        let mut sent = false;
        poll_fn(|cx| {
            if !sent {
                match send.as_mut().poll(cx) {
                    Poll::Ready(Ok(())) => sent = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    Poll::Pending => {}
                }
            }
            // Also while it waits for room: the deadline counts from the call.
            Pin::new(&mut answer).poll(cx)
        })
        .await
    }

    /// As [`EntityRef::ask`], in two steps: returns when the message is accepted, with a future of the answer. So one
    /// caller can have many asks on their way to an entity, and they are handled in the order in which it made them.
    ///
    /// ```
    /// # use shard_tokio::{AskError, Entity, EntityRef};
    /// # async fn example<E: Entity<Message = u64, Reply = u64>>(entity: EntityRef<E>) -> Result<(), AskError> {
    /// let first = entity.begin_ask(1_u64).await?;
    /// let second = entity.begin_ask(2_u64).await?;
    /// println!("{} {}", first.await?, second.await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AskError`]; the message was not sent. What else may go wrong, the future says.
    pub async fn begin_ask(
        &self,
        message: impl Into<E::Message>,
    ) -> Result<Answer<E::Reply>, AskError> {
        let (pool, timeout) = (
            Arc::clone(&self.shared.pool),
            self.shared.limits.ask_timeout,
        );
        let (mut answer, responder) = Pool::wait(pool, timeout);
        let mut send = pin!(self.send(Outgoing {
            message: message.into(),
            caller: Caller::Ask(responder),
            encoded: None,
        }));
        poll_fn(|cx| match send.as_mut().poll(cx) {
            Poll::Ready(sent) => Poll::Ready(sent.map_err(AskError::from)),
            // Nothing was sent yet, so this is the deadline.
            Poll::Pending => Pin::new(&mut answer).poll(cx).map(|over| over.map(drop)),
        })
        .await?;
        Ok(Answer::new(answer))
    }

    #[inline]
    async fn send(&self, outgoing: Outgoing<E>) -> Result<(), TellError<E::Message>> {
        if is_eighth() {
            poll_fn(|cx| self.shared.node.runtime.poll_proceed(cx)).await;
        }
        let held = match self.short(outgoing) {
            Ok(()) => return Ok(()),
            Err(Held::Long(outgoing)) => match self.long(None, outgoing)? {
                None => return Ok(()),
                Some(outgoing) => Held::Crowded(outgoing),
            },
            Err(held) => held,
        };
        self.send_held(held).await
    }

    /// The short way, straight into the mailbox.
    #[inline]
    fn short(&self, mut outgoing: Outgoing<E>) -> Result<(), Held<E>> {
        let gate = self.shared.gate(self.shard);
        if let Some(mailbox) = self.mailbox.get()
            && gate.is_free(mailbox.opening)
            && !mailbox.queue.is_closed()
        {
            match self.push(mailbox, outgoing) {
                Ok(()) => return Ok(()),
                Err(PushError::Full(back)) => return Err(Held::Mailbox(back, mailbox.clone())),
                Err(PushError::Closed(back)) => outgoing = back,
            }
        }
        self.look_up(outgoing)
    }

    fn look_up(&self, outgoing: Outgoing<E>) -> Result<(), Held<E>> {
        let gate = self.shared.gate(self.shard);
        if gate.way() != Way::Open {
            return Err(Held::Long(outgoing));
        }
        let Some(mailbox) = self.later().or_else(|| self.found()) else {
            return Err(Held::Long(outgoing));
        };
        if !gate.is_free(mailbox.opening) {
            return Err(Held::Pending(outgoing, mailbox));
        }
        match self.push(&mailbox, outgoing) {
            Ok(()) => {
                if let Err(mailbox) = self.mailbox.set(mailbox) {
                    self.set_later(mailbox);
                }
                Ok(())
            }
            Err(PushError::Full(back)) => Err(Held::Mailbox(back, mailbox)),
            Err(PushError::Closed(back)) => Err(Held::Long(back)),
        }
    }

    fn found(&self) -> Option<Arc<Mailbox<E>>> {
        let directory = self.shared.directory.pin();
        let (Listed(mailbox), ()) = directory.get_key_value(&self.key)?;
        Some(Arc::clone(mailbox))
    }

    /// Half as expensive as the directory.
    fn later(&self) -> Option<Arc<Mailbox<E>>> {
        self.mailbox.get()?;
        let later = self.later.try_lock().ok()?;
        later
            .as_ref()
            .filter(|mailbox| !mailbox.queue.is_closed())
            .cloned()
    }

    fn set_later(&self, mailbox: Arc<Mailbox<E>>) {
        if let Ok(mut later) = self.later.try_lock()
            && !later
                .as_ref()
                .is_some_and(|later| Arc::ptr_eq(later, &mailbox))
        {
            *later = Some(mailbox);
        }
    }

    #[inline]
    fn push(&self, mailbox: &Mailbox<E>, out: Outgoing<E>) -> Result<(), PushError<Outgoing<E>>> {
        let item = Item {
            message: Inbound::Value(out.message),
            caller: out.caller,
        };
        mailbox
            .queue
            .push(item, self.shared.limits.mailbox)
            .map(|_| ())
            .map_err(|error| match error {
                PushError::Full(item) => PushError::Full(Outgoing::from(item)),
                PushError::Closed(item) => PushError::Closed(Outgoing::from(item)),
            })
    }

    async fn send_held(&self, held: Held<E>) -> Result<(), TellError<E::Message>> {
        let mut held = Some(held);
        let mut patience = 2;
        poll_fn(|cx| {
            loop {
                held = match held.take() {
                    None => return Poll::Ready(Ok(())),
                    Some(Held::Mailbox(outgoing, mailbox)) => {
                        let room = mailbox.queue.poll_room(cx, self.shared.limits.mailbox);
                        if room.is_pending() {
                            held = Some(Held::Mailbox(outgoing, mailbox));
                            return Poll::Pending;
                        }
                        self.short(outgoing).err()
                    }
                    Some(Held::Pending(outgoing, _)) if patience > 0 => {
                        patience -= 1;
                        self.shared.waiters.register(cx);
                        let free = self.short(outgoing);
                        if matches!(free, Err(Held::Pending(..))) {
                            held = free.err();
                            return Poll::Pending;
                        }
                        free.err()
                    }
                    Some(Held::Pending(outgoing, mailbox)) => {
                        // There is always something on the long way: join it, but not past a full mailbox.
                        let room = mailbox.queue.poll_room(cx, self.shared.limits.mailbox);
                        if room.is_pending() {
                            held = Some(Held::Pending(outgoing, mailbox));
                            return Poll::Pending;
                        }
                        Some(Held::Long(outgoing))
                    }
                    Some(Held::Long(outgoing)) => match self.long(Some(cx), outgoing) {
                        Ok(None) => None,
                        Ok(Some(outgoing)) => match self.line(outgoing) {
                            Held::Crowded(outgoing) => {
                                held = Some(Held::Crowded(outgoing));
                                return Poll::Pending;
                            }
                            waits => Some(waits),
                        },
                        Err(error) => return Poll::Ready(Err(error)),
                    },
                    Some(Held::InLine(mut outgoing, mut turn)) => match turn.as_mut().poll(cx) {
                        Poll::Pending => {
                            held = Some(Held::InLine(outgoing, turn));
                            return Poll::Pending;
                        }
                        Poll::Ready(Err(_)) => {
                            return Poll::Ready(Err(TellError::Stopped(outgoing.message)));
                        }
                        Poll::Ready(Ok(encoded)) => {
                            outgoing.encoded = Some(Box::new(encoded));
                            self.short(outgoing).err()
                        }
                    },
                    Some(Held::Crowded(outgoing)) => self.short(outgoing).err(),
                };
            }
        })
        .await
    }

    /// What has no room on the long way is in line, if that is why.
    fn line(&self, outgoing: Outgoing<E>) -> Held<E> {
        match outgoing.encoded.as_deref() {
            Some(Encoded::Shared(bytes))
                if bytes.len() > Encoded::LONG
                    && self.shared.gate(self.shard).way() == Way::Remote =>
            {
                let turn = Box::pin(self.shared.carried.wait(bytes.clone()));
                Held::InLine(outgoing, turn)
            }
            _ => Held::Crowded(outgoing),
        }
    }

    /// The long way, through the driver. `Some`: there is no room; the caller is registered to be woken, or has to
    /// stand in [line](Self::line).
    fn long(
        &self,
        mut cx: Option<&mut Context<'_>>,
        outgoing: Outgoing<E>,
    ) -> Result<Option<Outgoing<E>>, TellError<E::Message>> {
        let shared = &*self.shared;
        if shared.choked.refuses(&self.key) {
            return Err(TellError::BufferFull(outgoing.message));
        }
        let gate = shared.gate(self.shard);
        let way = match gate.enter(|way| shared.pending_limit(way)) {
            Ok(way) => way,
            Err(Way::Closed) => return Err(TellError::BufferFull(outgoing.message)),
            Err(_) => {
                if let Some(cx) = cx {
                    shared.waiters.register(cx);
                    if gate.pending() < shared.pending_limit(gate.way()) {
                        cx.waker().wake_by_ref();
                    }
                }
                return Ok(Some(outgoing));
            }
        };
        let Outgoing {
            message,
            caller,
            encoded,
        } = outgoing;
        let (body, message) = match way {
            Way::Open => (Body::value(message), None),
            // The driver would encode it once there is a home elsewhere, and do nothing else for as long as that takes.
            Way::Closed => {
                let encoded = match encoded {
                    Some(encoded) => Some(encoded.uncounted()),
                    None => self.encode(&message).ok(),
                };
                (Body::ready(message, encoded), None)
            }
            Way::Remote => {
                let encoded = match encoded {
                    Some(encoded) => Ok(*encoded),
                    None => self.encode(&message),
                };
                let encoded = match encoded {
                    Ok(encoded) => encoded,
                    Err(error) => {
                        gate.settle(1);
                        return Err(error);
                    }
                };
                match shared.carried.enter(encoded) {
                    Ok(encoded) => (Body::Encoded(encoded), Some(message)),
                    Err(encoded) => {
                        gate.settle(1);
                        return Ok(Some(Outgoing {
                            message,
                            caller,
                            encoded: Some(Box::new(encoded)),
                        }));
                    }
                }
            }
        };
        let ask = match caller {
            Caller::Ask(responder) => responder.erase(),
            _ => None,
        };
        let input = Input::Send {
            ty: shared.index,
            shard: self.shard,
            id: self.key.clone(),
            body,
            ask,
            tracked: false,
        };
        let pushed = match &mut cx {
            Some(cx) => shared.node.inbox.poll_push(cx, input, INBOX),
            None => shared.node.inbox.push(input, INBOX),
        };
        let (input, closed) = match pushed {
            Ok(_) => return Ok(None),
            Err(PushError::Full(input)) => (input, false),
            Err(PushError::Closed(input)) => (input, true),
        };
        gate.settle(1);
        let Input::Send { body, ask, .. } = input else {
            return Ok(None);
        };
        let (message, encoded) = match (message, body) {
            (Some(message), Body::Encoded(encoded)) => (Some(message), Some(Box::new(encoded))),
            (message, body) => (message.or_else(|| body.into_value()), None),
        };
        let Some(message) = message else {
            return Ok(None);
        };
        if closed {
            return Err(TellError::Stopped(message));
        }
        let caller = ask
            .and_then(|pending| pending.typed())
            .map_or(Caller::Tell, Caller::Ask);
        Ok(Some(Outgoing {
            message,
            caller,
            encoded,
        }))
    }

    fn encode(&self, message: &E::Message) -> Result<Encoded, TellError<E::Message>> {
        let encoded = Encoded::new(message).map_err(TellError::Codec)?;
        let size = encoded.as_slice().len() + self.key.as_bytes().len();
        let limit = self.shared.node.max_message;
        if size > limit {
            return Err(TellError::TooLarge { size, limit });
        }
        Ok(encoded)
    }
}

/// Whether this is an eighth call of this thread. A message costs tokio's cooperative budget an eighth of what other
/// things cost: a thousand may go out before the caller has to let others run, so that those find a batch.
fn is_eighth() -> bool {
    thread_local! {
        static CALLS: Cell<u8> = const { Cell::new(0) };
    }
    CALLS.with(|calls| {
        calls.set(calls.get().wrapping_add(1));
        calls.get().is_multiple_of(8)
    })
}

impl<E: Entity> From<Item<E>> for Outgoing<E> {
    fn from(item: Item<E>) -> Self {
        let Inbound::Value(message) = item.message else {
            unreachable!("callers of this node push values");
        };
        Self {
            message,
            caller: item.caller,
            encoded: None,
        }
    }
}

impl<E: Entity> Clone for EntityRef<E> {
    fn clone(&self) -> Self {
        let clone = Self {
            shared: Arc::clone(&self.shared),
            key: self.key.clone(),
            shard: self.shard,
            mailbox: OnceLock::new(),
            later: Mutex::new(None),
        };
        let open = self.mailbox.get().filter(|it| !it.queue.is_closed());
        if let Some(mailbox) = open.cloned().or_else(|| self.later()) {
            let _ = clone.mailbox.set(mailbox);
        }
        clone
    }
}

/// By entity type, which is `E`, and id; whatever handle of the type or node it was made with.
impl<E: Entity> PartialEq for EntityRef<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E: Entity> Eq for EntityRef<E> {}

impl<E: Entity> Hash for EntityRef<E> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        E::TYPE.hash(state);
        self.key.hash(state);
    }
}

impl<E: Entity> fmt::Debug for EntityRef<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntityRef")
            .field("type", &E::TYPE)
            .field("id", &self.key)
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}
