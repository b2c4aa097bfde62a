//! Entities: what an application implements, and what it is given.

use core::fmt;
use core::mem;
use std::sync::Arc;

use shard_proto::node::{REPLY_ANSWER, REPLY_FAILED, REPLY_NONE, REPLY_REFUSED};
use shard_proto::{Epoch, ShardId};

use crate::body::Encoded;
use crate::entity_ref::EntityRef;
use crate::error::AskError;
use crate::lease::Look;
use crate::message::Message;
use crate::report::Reason;
use crate::shared::{Caller, Input, NodeShared, Seat};
use crate::store::Sequence;

/// An error of the application's.
pub type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// A thing with an id and state, of which exactly one instance runs in the cluster.
///
/// It is made when the first message for its id arrives, on the node that is the home of its shard, and runs in a task
/// of its own, which handles one message at a time. It is stopped when its shard moves, and made again at the new home
/// by the next message. It is also stopped (*passivated*) when it is idle for
/// [long](crate::EntityTypeBuilder::passivate_after), when there are
/// [too many](crate::EntityTypeBuilder::max_entities), or when it [wants to](Context::passivate); then it costs nothing,
/// and the next message makes it again. Whatever stops it, messages that it has not handled are kept in order.
///
/// ```
/// use shard_tokio::{Context, Entity};
///
/// struct Counter(u64);
///
/// impl Entity for Counter {
///     const TYPE: &'static str = "counter";
///     type Message = u64;
///     type Reply = u64;
///
///     fn create(_id: &str) -> Self {
///         Self(0)
///     }
///
///     async fn handle(&mut self, add: u64, cx: &mut Context<'_, Self>) {
///         self.0 += add;
///         cx.reply(self.0);
///     }
/// }
/// ```
pub trait Entity: Sized + Send + 'static {
    /// Name of the type, the same on all nodes; at most 64 bytes.
    const TYPE: &'static str;
    /// What it is sent.
    type Message: Message;
    /// What it answers.
    type Reply: Message;

    /// Makes the entity. To give it what it needs from its surroundings (a pool of connections, say), hand a closure
    /// to [`EntityTypeBuilder::factory`](crate::EntityTypeBuilder::factory) instead.
    fn create(id: &str) -> Self;

    /// Runs before the first message: load the state. If it fails or panics, the entity is made again after a pause
    /// that doubles from 10 ms up to ten seconds; its messages wait. If that happens too often, it is
    /// [parked](crate::EntityTypeBuilder::restarts).
    fn started(
        &mut self,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = cx;
        async { Ok(()) }
    }

    /// Handles a message. If it panics, the message is reported as undelivered, its asker is told, and the entity is
    /// made again after a pause; the messages behind it wait.
    fn handle(
        &mut self,
        message: Self::Message,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send;

    /// Runs before the entity goes because it is passivated, its shard moves or its node stops: save the state. When the
    /// shard moves it has until 80 % of the drain time, also if it was passivated before; then it is aborted. Messages
    /// that come meanwhile wait for the next life.
    ///
    /// It does not run when the node has lost its lease: another node may serve the entity by then, so it is aborted
    /// at its next `await`, also in the middle of a message, which is reported. Save what must not be lost as it happens.
    fn stopped(&mut self, cx: &mut Context<'_, Self>) -> impl Future<Output = ()> + Send {
        let _ = cx;
        async {}
    }
}

/// Where an entity is, and who asked it.
pub struct Context<'a, E: Entity> {
    seat: &'a Seat<E>,
    caller: Caller<E::Reply>,
    wish: Wish,
}

/// What an entity wants to come next.
#[derive(Debug)]
pub(crate) enum Wish {
    Go,
    Passivate,
    Fail(BoxError),
}

impl<'a, E: Entity> Context<'a, E> {
    pub(crate) const fn new(seat: &'a Seat<E>, caller: Caller<E::Reply>) -> Self {
        Self {
            seat,
            caller,
            wish: Wish::Go,
        }
    }

    /// The code of the entity came to its end. Whoever has no answer by now gets none.
    pub(crate) fn handled(mut self) -> Wish {
        let wish = mem::replace(&mut self.wish, Wish::Go);
        let status = if matches!(wish, Wish::Fail(_)) {
            REPLY_FAILED
        } else {
            self.acknowledge();
            REPLY_NONE
        };
        self.refuse(status);
        wish
    }

    /// The message could not be handed over.
    pub(crate) fn undecoded(mut self) {
        self.refuse_for_good();
    }

    /// It would be refused each time: who sent a tracked one gives it up, and says so in front of the next one.
    fn refuse_for_good(&mut self) {
        let caller = match mem::replace(&mut self.caller, Caller::Tell) {
            Caller::Tracked(tracked) => {
                refuse(tracked.caller, REPLY_REFUSED, &self.seat.shared.node);
                return;
            }
            caller => caller,
        };
        refuse(caller, REPLY_REFUSED, &self.seat.shared.node);
    }

    /// Of a tracked message, while it is not answered: write it together with what the message changes.
    pub(crate) fn sequence(&self) -> Option<Sequence> {
        match &self.caller {
            Caller::Tracked(tracked) => Some(tracked.tag.sequence()),
            _ => None,
        }
    }

    /// What was written with [`Context::sequence`] in earlier lives, heard of longest ago first.
    pub(crate) fn seed_senders(&self, sequences: impl IntoIterator<Item = Sequence>) {
        for sequence in sequences {
            self.done(sequence);
        }
    }

    fn done(&self, sequence: Sequence) -> u64 {
        let slot = self.seat.mailbox.slot;
        self.seat.shared.senders.done(slot, sequence)
    }

    /// A tracked message was handled to the end.
    fn acknowledge(&mut self) {
        if let Some(sequence) = self.sequence() {
            let caller = mem::replace(&mut self.caller, Caller::Tell);
            let next = self.done(sequence);
            caller.acknowledge(next, &self.seat.shared.node);
        }
    }

    fn refuse(&mut self, status: u8) {
        if self.is_ask() || self.sequence().is_some() {
            let caller = mem::replace(&mut self.caller, Caller::Tell);
            refuse(caller, status, &self.seat.shared.node);
        }
    }

    /// Stops the entity after this message, as if it were idle: [`Entity::stopped`] runs, and the next message makes it
    /// again. If messages wait for it already, that is at once. Called in [`Entity::started`], it stops after
    /// the first message, if one waits. Has no effect after [`Context::fail`].
    pub fn passivate(&mut self) {
        if matches!(self.wish, Wish::Go) {
            self.wish = Wish::Passivate;
        }
    }

    /// Gives the entity up after this message, as if it had panicked: the message counts as not handled (it is reported
    /// as [`Reason::Failed`](crate::Reason), its asker told [`AskError::EntityFailed`] unless it was answered), and
    /// the entity is made again after a pause; the messages behind it wait. [`Entity::stopped`] does not run.
    pub fn fail(&mut self, error: impl Into<BoxError>) {
        self.wish = Wish::Fail(error.into());
    }

    /// The message being handled is refused, and surely nothing came of it: the asker is told
    /// [`AskError::Refused`](crate::AskError::Refused), and it is reported.
    pub(crate) fn refuse_as(&mut self, reason: Reason) {
        match reason {
            Reason::Codec | Reason::TooLarge => self.refuse_for_good(),
            _ => self.refuse(REPLY_REFUSED),
        }
        let Seat { shared, mailbox } = self.seat;
        shared.report(mailbox.shard, &mailbox.key, reason);
    }

    /// The entity's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.seat.id()
    }

    /// Its shard.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.seat.mailbox.shard
    }

    /// The fencing token: the number of the shard's allocation to this node. It is higher with every allocation, also
    /// over failovers. Over a restart of the whole cluster it is, if the wall clocks then show a later time than any of them
    /// did before: the terms in it are numbered by them.
    ///
    /// A lease cannot stop what is on its way already: an entity that was paused between a look at the clock and a
    /// write to a store writes when it wakes. So give the token to the store with each write
    /// ([`Epoch::to_bits`]), which keeps the highest it has seen of the entity, or of the shard, and refuses a
    /// write with a lower one, in the same transaction. In SQL:
    ///
    /// ```sql
    /// UPDATE cart SET items = $1, epoch = $2 WHERE id = $3 AND epoch <= $2
    /// ```
    ///
    /// No row changed: another home took over. When an entity loads its state in [`Entity::started`], it should
    /// write its token, too: from then on no former home changes what it has loaded.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.seat.mailbox.epoch
    }

    /// Whether this node may serve the shard at this moment. Before each message that is looked at anyway; ask in the
    /// middle of a long one, before what others see. Only the [token](Context::epoch) makes sure. Takes some 25 ns.
    #[must_use]
    pub fn holds_lease(&self) -> bool {
        self.seat.holds_lease(&mut Look::default()) && !self.seat.mailbox.queue.is_closed()
    }

    /// Another entity of the same type.
    #[must_use]
    pub fn entity(&self, id: &str) -> EntityRef<E> {
        EntityRef::new(Arc::clone(&self.seat.shared), id)
    }

    /// An entity of another type. `None`: the type is not started on this node; to send to it, it must be, as a
    /// [proxy](crate::EntityTypeBuilder::proxy) at least. Looks the type up: keep the reference if it is used often.
    #[must_use]
    pub fn entity_of<O: Entity>(&self, id: &str) -> Option<EntityRef<O>> {
        let shared = self.seat.shared.node.type_of::<O>()?;
        Some(EntityRef::new(shared, id))
    }

    /// Whether somebody waits for an answer to the message being handled.
    #[must_use]
    pub const fn is_ask(&self) -> bool {
        matches!(self.caller, Caller::Ask(_) | Caller::NodeAsk(_))
    }

    /// Answers the message being handled. A second answer, or one to a tell, goes nowhere.
    pub fn reply(&mut self, reply: E::Reply) {
        if !self.is_ask() {
            return;
        }
        let caller = mem::replace(&mut self.caller, Caller::Tell);
        answer(caller, reply, &self.seat.shared.node);
    }

    /// Takes the right to answer out of here, to use it later or elsewhere. `None` if nobody waits.
    pub fn take_reply(&mut self) -> Option<ReplySlot<E::Reply>> {
        if !self.is_ask() {
            return None;
        }
        Some(ReplySlot {
            caller: mem::replace(&mut self.caller, Caller::Tell),
            node: Arc::clone(&self.seat.shared.node),
        })
    }
}

impl<E: Entity> Drop for Context<'_, E> {
    /// It panicked, or was aborted.
    fn drop(&mut self) {
        self.refuse(REPLY_FAILED);
    }
}

impl<E: Entity> fmt::Debug for Context<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("type", &E::TYPE)
            .field("id", &self.id())
            .field("shard", &self.shard())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

/// The right to answer an ask. Dropped without an answer, it tells the asker that there is none.
pub struct ReplySlot<R: Message> {
    caller: Caller<R>,
    node: Arc<NodeShared>,
}

impl<R: Message> ReplySlot<R> {
    /// Answers.
    pub fn reply(mut self, reply: R) {
        let caller = mem::replace(&mut self.caller, Caller::Tell);
        answer(caller, reply, &self.node);
    }
}

impl<R: Message> Drop for ReplySlot<R> {
    fn drop(&mut self) {
        let caller = mem::replace(&mut self.caller, Caller::Tell);
        refuse(caller, REPLY_NONE, &self.node);
    }
}

impl<R: Message> fmt::Debug for ReplySlot<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplySlot").finish_non_exhaustive()
    }
}

impl<R> Caller<R> {
    /// The entity takes `next` as the next one of the sender of this tracked message.
    pub(crate) fn acknowledge(self, next: u64, node: &NodeShared) {
        if let Self::Tracked(tracked) = self {
            answer(tracked.caller, next, node);
        }
    }
}

fn answer<R: Message>(caller: Caller<R>, reply: R, node: &NodeShared) {
    match caller {
        Caller::Ask(responder) => responder.answer(reply),
        Caller::NodeAsk(to) => {
            let (status, payload) = match Encoded::new(&reply) {
                Ok(payload) => (REPLY_ANSWER, payload),
                Err(error) => {
                    tracing::warn!(%error, "an answer cannot be encoded");
                    (REPLY_NONE, Encoded::EMPTY)
                }
            };
            send_reply(
                node,
                Input::Reply {
                    to,
                    status,
                    payload,
                },
            );
        }
        Caller::Tell | Caller::Node(..) | Caller::Tracked(_) => {}
    }
}

pub(crate) fn refuse<R>(caller: Caller<R>, status: u8, node: &NodeShared) {
    match caller {
        Caller::Ask(responder) => responder.fail(status_error(status)),
        Caller::NodeAsk(to) => send_reply(
            node,
            Input::Reply {
                to,
                status,
                payload: Encoded::EMPTY,
            },
        ),
        // Whatever it is, it may be over when the message comes again.
        Caller::Tracked(tracked) => refuse(tracked.caller, REPLY_FAILED, node),
        Caller::Tell | Caller::Node(..) => {}
    }
}

fn send_reply(node: &NodeShared, reply: Input) {
    // A stopped driver answers nobody.
    let _ = node.inbox.push(reply, usize::MAX);
}

/// What an asker is told about a reply without an answer.
pub(crate) const fn status_error(status: u8) -> AskError {
    match status {
        REPLY_NONE => AskError::NoReply,
        REPLY_FAILED => AskError::EntityFailed,
        _ => AskError::Refused,
    }
}
