//! Entities whose state is what their events lead to.

use core::fmt;
use core::future::poll_fn;
use std::sync::Arc;

use shard_proto::Epoch;

use super::counters::add;
use super::effect::Effect;
use super::retry::Retry;
use super::{Life, Setup, Stamp, Unwritten, WriteError, encoding, unset};
use crate::entity::{BoxError, Context, Entity};
use crate::message::{CodecError, Message, Payload};
use crate::report::Reason;
use crate::store::{Append, EntityId, Journal, StoreError};
use crate::supervise::Ending;

/// Events that are read at once.
const PAGE: usize = 256;

/// An entity whose state is what its events lead to: a command is decided into events, the events are written to a
/// [`Journal`], and applied to the state, one after the other, in every later life of the entity again.
///
/// Start the type with [`Node::event_sourced`](crate::Node::event_sourced); it is started, reached and set up like any
/// other entity type. The entity gets its first command when it has recovered, and answers when the events are durable:
/// what was answered was written, once, and is there after any crash. See the [module](super) for what happens when
/// the store fails.
///
/// What the entity knows is in [`State`](Self::State), and only [`apply`](Self::apply) changes that. The type that
/// implements the trait has the rest: what it needs from its surroundings, and what may be lost.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use shard_tokio::durable::{Effect, EventSourced, Sourced};
/// use shard_tokio::{Context, MemoryStore, Node};
///
/// struct Account;
///
/// #[derive(Serialize, Deserialize)]
/// enum Command {
///     Deposit(u64),
///     Withdraw(u64),
/// }
///
/// #[derive(Serialize, Deserialize)]
/// enum Event {
///     Deposited(u64),
///     Withdrawn(u64),
/// }
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Balance(u64);
///
/// impl EventSourced for Account {
///     const TYPE: &'static str = "account";
///     type Command = Command;
///     type Reply = Result<u64, String>;
///     type Event = Event;
///     type State = Balance;
///
///     fn create(_id: &str) -> Self {
///         Self
///     }
///
///     async fn decide(
///         &mut self,
///         balance: &Balance,
///         command: Command,
///         _cx: &Context<'_, Sourced<Self>>,
///     ) -> Effect<Self> {
///         let event = match command {
///             Command::Deposit(sum) => Event::Deposited(sum),
///             Command::Withdraw(sum) if sum <= balance.0 => Event::Withdrawn(sum),
///             Command::Withdraw(_) => return Effect::none().reply(Err("no cover".to_owned())),
///         };
///         Effect::persist(event).reply_with(|balance: &Balance| Ok(balance.0))
///     }
///
///     fn apply(balance: &mut Balance, event: &Event) {
///         match event {
///             Event::Deposited(sum) => balance.0 += sum,
///             Event::Withdrawn(sum) => balance.0 -= sum,
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let node = Node::standalone().await?;
/// let accounts = node.event_sourced::<Account>(store.clone()).start().await?;
/// accounts.entity("ada").ask(Command::Deposit(5)).await??;
/// node.shutdown().await;
///
/// let node = Node::standalone().await?;
/// let accounts = node.event_sourced::<Account>(store).start().await?;
/// assert_eq!(accounts.entity("ada").ask(Command::Withdraw(2)).await?, Ok(3));
/// # node.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Other versions
///
/// Events stay for ever, so every later version of the program must understand them. In [postcard](crate::Message)'s
/// encoding, variants of an enum may be added at its end, and nothing else may change. For everything else raise
/// [`VERSION`](Self::VERSION), which is kept with each event and snapshot, keep the type of the former one, and convert
/// in [`decode_event`](Self::decode_event). Snapshots of another version are not used, unless
/// [`decode_state`](Self::decode_state) knows them: all events are read instead.
pub trait EventSourced: Sized + Send + 'static {
    /// Name of the type, the same on all nodes and as long as the journal lives; at most 64 bytes.
    const TYPE: &'static str;
    /// Version of the encodings of events and state.
    const VERSION: u32 = 0;
    /// What it is sent.
    type Command: Message;
    /// What it answers.
    type Reply: Message;
    /// What it writes.
    type Event: Message;
    /// What its events lead to, starting at the default one. Snapshots are made of it.
    type State: Message + Default + Sync;

    /// Makes the entity, before it recovers. To give it what it needs from its surroundings, hand a closure to
    /// [`EntityTypeBuilder::create_with`](crate::EntityTypeBuilder::create_with) instead.
    fn create(id: &str) -> Self;

    /// Decides what a command comes to. If it panics, the entity recovers anew.
    ///
    /// The context says where the entity is and who asks; the answer is part of the effect.
    fn decide(
        &mut self,
        state: &Self::State,
        command: Self::Command,
        cx: &Context<'_, Sourced<Self>>,
    ) -> impl Future<Output = Effect<Self>> + Send;

    /// Applies an event. Must come to the same whenever it is done: no clock, no randomness, no surroundings. It is done
    /// before the event is written, so that one that cannot be applied (it panics) never is.
    fn apply(state: &mut Self::State, event: &Self::Event);

    /// Decodes an event that was written by that [version](Self::VERSION).
    ///
    /// # Errors
    /// It cannot: the entity does not start.
    fn decode_event(version: u32, event: Payload<'_>) -> Result<Self::Event, CodecError> {
        if version == Self::VERSION {
            Self::Event::decode(event)
        } else {
            Err(encoding::other_version(version, Self::VERSION))
        }
    }

    /// Decodes a snapshot that was written by that [version](Self::VERSION).
    ///
    /// # Errors
    /// It cannot: all events are read instead.
    fn decode_state(version: u32, state: Payload<'_>) -> Result<Self::State, CodecError> {
        if version == Self::VERSION {
            Self::State::decode(state)
        } else {
            Err(encoding::other_version(version, Self::VERSION))
        }
    }
}

/// Decodes an event as it is in a [journal](Journal::read): for those who read the events of others.
///
/// # Errors
/// It is not an event of that type, or of a version that it does not know.
pub fn decode_event<E: EventSourced>(event: &[u8]) -> Result<E::Event, CodecError> {
    let (version, event) = encoding::split(event)?;
    E::decode_event(version, event)
}

/// The entity that runs an [`EventSourced`] one. Made by [`Node::event_sourced`](crate::Node::event_sourced); a proxy,
/// which makes none, can be started with [`Node::entity_type`](crate::Node::entity_type) and needs no journal.
pub struct Sourced<E: EventSourced> {
    setup: Option<Arc<Setup<dyn Journal>>>,
    pub(super) snapshot_every: u64,
    pub(super) inner: Option<E>,
    life: Life<Live<E>>,
}

/// Of an entity that has recovered.
struct Live<E: EventSourced> {
    id: EntityId,
    state: E::State,
    /// The number of its last event.
    seq: u64,
    /// That of the last one in a snapshot.
    snapshot_seq: u64,
    /// Writes a snapshot.
    snapshot: Option<Ending>,
}

impl<E: EventSourced> Sourced<E> {
    pub(super) const fn new(setup: Arc<Setup<dyn Journal>>, snapshot_every: u64) -> Self {
        Self {
            setup: Some(setup),
            snapshot_every,
            inner: None,
            life: Life::Unrecovered,
        }
    }
}

impl<E: EventSourced> Entity for Sourced<E> {
    const TYPE: &'static str = E::TYPE;
    type Message = E::Command;
    type Reply = E::Reply;

    fn create(_id: &str) -> Self {
        Self {
            setup: None,
            snapshot_every: 0,
            inner: None,
            life: Life::Unrecovered,
        }
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), BoxError> {
        let setup = self.setup.as_ref().ok_or_else(|| unset("event_sourced"))?;
        if self.inner.is_none() {
            self.inner = Some(E::create(cx.id()));
        }
        self.life = setup.life(recover::<E>(setup, cx).await, E::TYPE, cx.id())?;
        if let Life::Live(live) = &mut self.life {
            live.snapshot_if_due(setup, self.snapshot_every, cx.epoch());
        }
        Ok(())
    }

    async fn handle(&mut self, command: E::Command, cx: &mut Context<'_, Self>) {
        let (Some(setup), Some(inner), Life::Live(live)) =
            (&self.setup, &mut self.inner, &mut self.life)
        else {
            cx.refuse_as(Reason::Fenced);
            return;
        };
        let Effect { events, mut tail } = inner.decide(&live.state, command, cx).await;
        let stamp = Stamp::of(cx);
        // That a message told reliably changed nothing is written, too.
        if (!events.is_empty() || stamp.sequence.is_some())
            && let Err(error) = live.write(setup, events, stamp).await
        {
            match setup.unwritten(error, cx) {
                Unwritten::Unharmed => {}
                Unwritten::Fenced => self.life = Life::Fenced,
                // What was not written was applied.
                Unwritten::Refused => {
                    let recovered = Box::pin(recover::<E>(setup, cx)).await;
                    match setup.life(recovered, E::TYPE, cx.id()) {
                        Ok(life) => self.life = life,
                        Err(error) => cx.fail(error),
                    }
                }
            }
            return;
        }
        if let Some(reply) = tail.take_answer(&live.state) {
            cx.reply(reply);
        }
        if tail.stop {
            cx.passivate();
        }
        live.snapshot_if_due(setup, self.snapshot_every, cx.epoch());
    }

    async fn stopped(&mut self, _cx: &mut Context<'_, Self>) {
        if let Life::Live(live) = &mut self.life
            && let Some(snapshot) = live.snapshot.take()
        {
            // It says what went wrong by itself.
            snapshot.wait().await;
        }
    }
}

impl<E: EventSourced> Live<E> {
    /// Applies events and writes them.
    async fn write(
        &mut self,
        setup: &Setup<dyn Journal>,
        events: Vec<E::Event>,
        stamp: Stamp,
    ) -> Result<(), WriteError> {
        let encoded = encode::<E>(&events)?;
        for event in &events {
            E::apply(&mut self.state, event);
        }
        let count = events.len() as u64;
        if let Err(error) = setup.store.append(self.append(stamp, encoded)).await {
            // Boxed: an idle entity shall not pay for what is rare.
            Box::pin(self.write_again(setup, events, stamp, error)).await?;
        }
        self.seq += count;
        add(&setup.counters.writes, 1);
        add(&setup.counters.events, count);
        Ok(())
    }

    async fn write_again(
        &self,
        setup: &Setup<dyn Journal>,
        events: Vec<E::Event>,
        stamp: Stamp,
        mut error: StoreError,
    ) -> Result<(), WriteError> {
        let mut retry = Retry::new(
            &setup.runtime,
            &setup.counters,
            stamp.epoch.to_bits() ^ self.seq,
        );
        loop {
            retry.after(error).await?;
            let append = self.append(stamp, encode::<E>(&events)?);
            match setup.store.append(append).await {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
    }

    fn append(&self, stamp: Stamp, events: Vec<Vec<u8>>) -> Append {
        Append {
            entity: self.id.clone(),
            epoch: stamp.epoch,
            first_seq: self.seq + 1,
            events,
            sequence: stamp.sequence,
        }
    }

    /// Begins to write a snapshot if enough events came since the last one, and that one is written.
    fn snapshot_if_due(&mut self, setup: &Arc<Setup<dyn Journal>>, every: u64, epoch: Epoch) {
        if every == 0 || self.seq - self.snapshot_seq < every {
            return;
        }
        if self.snapshot.as_mut().is_some_and(|it| !it.is_over()) {
            return;
        }
        self.snapshot_seq = self.seq;
        match encoding::encode(E::VERSION, &self.state) {
            Ok(state) => {
                let (id, seq) = (self.id.clone(), self.seq);
                let writing = Arc::clone(setup);
                let snapshot = async move { writing.snapshot::<E>(id, epoch, seq, state).await };
                self.snapshot = Some(setup.runtime.spawn_awaited(snapshot));
            }
            Err(error) => setup.no_snapshot::<E>(&self.id, &error),
        }
    }
}

impl Setup<dyn Journal> {
    async fn snapshot<E: EventSourced>(
        &self,
        id: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) {
        match self.store.snapshot(id.clone(), epoch, seq, state).await {
            Ok(()) => add(&self.counters.snapshots, 1),
            Err(StoreError::Fenced { seen, given }) => {
                let now = self.runtime.now();
                self.counters.fence(now, E::TYPE, &id.id, (seen, given));
            }
            Err(error) => self.no_snapshot::<E>(&id, &error),
        }
    }

    fn no_snapshot<E: EventSourced>(&self, id: &EntityId, error: &dyn fmt::Display) {
        let failed = self.counters.count_failed_snapshot();
        if failed.is_power_of_two() {
            tracing::warn!(
                entity_type = E::TYPE,
                id = &*id.id,
                %error,
                so_far = failed,
                "a snapshot is not written: until the next one there is more to read when the entity starts"
            );
        }
    }
}

fn encode<E: EventSourced>(events: &[E::Event]) -> Result<Vec<Vec<u8>>, CodecError> {
    let events = events.iter();
    events
        .map(|event| encoding::encode(E::VERSION, event))
        .collect()
}

/// Reads what there is.
async fn recover<E: EventSourced>(
    setup: &Setup<dyn Journal>,
    cx: &Context<'_, Sourced<E>>,
) -> Result<Live<E>, BoxError> {
    let id = EntityId {
        entity_type: Arc::clone(&setup.name),
        id: cx.id().into(),
    };
    let opened = setup.store.open(id.clone(), cx.epoch()).await?;
    cx.seed_senders(opened.senders);
    let mut live = Live {
        id,
        state: E::State::default(),
        seq: 0,
        snapshot_seq: 0,
        snapshot: None,
    };
    if let Some(snapshot) = opened.snapshot {
        let state = encoding::split(&snapshot.state)
            .and_then(|(version, state)| E::decode_state(version, state));
        match state {
            Ok(state) => {
                live.state = state;
                live.seq = snapshot.seq;
                live.snapshot_seq = snapshot.seq;
            }
            Err(error) => tracing::info!(
                entity_type = E::TYPE,
                id = &*live.id.id,
                seq = snapshot.seq,
                %error,
                "a snapshot cannot be decoded: all events are read instead"
            ),
        }
    }
    let first = live.seq;
    while live.seq < opened.last_seq {
        let page = setup.store.read(live.id.clone(), live.seq, PAGE).await?;
        if page.is_empty() {
            let (seq, last) = (live.seq, opened.last_seq);
            return Err(format!("the journal ends after event {seq}, it said {last}").into());
        }
        for recorded in page {
            let seq = live.seq + 1;
            if recorded.seq != seq {
                return Err(format!("event {seq} is missing").into());
            }
            let event = decode_event::<E>(&recorded.event)
                .map_err(|error| format!("event {seq} cannot be decoded: {error}"))?;
            E::apply(&mut live.state, &event);
            live.seq = seq;
        }
        // What is in memory is read without a pause.
        poll_fn(|cx| setup.runtime.poll_proceed(cx)).await;
    }
    add(&setup.counters.recoveries, 1);
    add(&setup.counters.recovered_events, live.seq - first);
    Ok(live)
}

impl<E: EventSourced> fmt::Debug for Sourced<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sourced")
            .field("type", &E::TYPE)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}
