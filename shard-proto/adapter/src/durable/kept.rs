//! Entities whose state is one value, which is replaced.

use core::{fmt, mem};
use std::sync::Arc;

use super::counters::add;
use super::effect::{Change, Write};
use super::retry::Retry;
use super::{Life, Setup, Stamp, Unwritten, WriteError, encoding, unset};
use crate::entity::{BoxError, Context, Entity};
use crate::message::{CodecError, Message, Payload};
use crate::report::Reason;
use crate::store::{EntityId, Save, Store, StoreError};

/// An entity whose state is one value, which is written as a whole to a [`Store`] when it changes.
///
/// Start the type with [`Node::durable`](crate::Node::durable); it is started, reached and set up like any other entity
/// type. The entity gets its first message when its value is loaded, and answers when the new one is durable. For large
/// values of which little changes at a time, or to keep how it came to them, there is
/// [`EventSourced`](super::EventSourced). See the [module](super) for what happens when the store fails.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use shard_tokio::durable::{Change, Durable, Kept};
/// use shard_tokio::{Context, MemoryStore, Node};
///
/// struct Profile;
///
/// #[derive(Serialize, Deserialize)]
/// enum Message {
///     Rename(String),
///     Name,
///     Forget,
/// }
///
/// #[derive(Clone, Default, Serialize, Deserialize)]
/// struct State {
///     name: String,
///     renamed: u32,
/// }
///
/// impl Durable for Profile {
///     const TYPE: &'static str = "profile";
///     type Message = Message;
///     type Reply = String;
///     type State = State;
///
///     fn create(_id: &str) -> Self {
///         Self
///     }
///
///     async fn handle(
///         &mut self,
///         state: &State,
///         message: Message,
///         _cx: &Context<'_, Kept<Self>>,
///     ) -> Change<Self> {
///         match message {
///             Message::Rename(name) => {
///                 let renamed = state.renamed + 1;
///                 Change::replace(State { name, renamed }).reply("done".to_owned())
///             }
///             Message::Name => Change::none().reply(state.name.clone()),
///             Message::Forget => Change::delete().reply("forgotten".to_owned()).stop(),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = Node::standalone().await?;
/// let profiles = node.durable::<Profile>(MemoryStore::new()).start().await?;
/// let ada = profiles.entity("ada");
/// ada.ask(Message::Rename("Ada".to_owned())).await?;
/// assert_eq!(ada.ask(Message::Name).await?, "Ada");
/// # node.shutdown().await;
/// # Ok(())
/// # }
/// ```
///
/// # Other versions
///
/// A later version of the program must understand the values of the former ones. Raise [`VERSION`](Self::VERSION),
/// which is kept with each value, when the encoding of the state changes; keep the former type, and convert in
/// [`decode_state`](Self::decode_state).
pub trait Durable: Sized + Send + 'static {
    /// Name of the type, the same on all nodes and as long as the store lives; at most 64 bytes.
    const TYPE: &'static str;
    /// Version of the encoding of the state.
    const VERSION: u32 = 0;
    /// What it is sent.
    type Message: Message;
    /// What it answers.
    type Reply: Message;
    /// What is kept. The default one is that of an entity that never wrote.
    type State: Message + Default + Sync;

    /// Makes the entity, before it recovers. To give it what it needs from its surroundings, hand a closure to
    /// [`EntityTypeBuilder::create_with`](crate::EntityTypeBuilder::create_with) instead.
    fn create(id: &str) -> Self;

    /// Handles a message. If it panics, the entity recovers anew.
    ///
    /// The context says where the entity is and who asks; the answer is part of the change.
    fn handle(
        &mut self,
        state: &Self::State,
        message: Self::Message,
        cx: &Context<'_, Kept<Self>>,
    ) -> impl Future<Output = Change<Self>> + Send;

    /// Decodes a state that was written by that [version](Self::VERSION).
    ///
    /// # Errors
    /// It cannot: the entity does not start.
    fn decode_state(version: u32, state: Payload<'_>) -> Result<Self::State, CodecError> {
        if version == Self::VERSION {
            Self::State::decode(state)
        } else {
            Err(encoding::other_version(version, Self::VERSION))
        }
    }
}

/// The entity that runs a [`Durable`] one. Made by [`Node::durable`](crate::Node::durable); a proxy, which makes none,
/// can be started with [`Node::entity_type`](crate::Node::entity_type) and needs no store.
pub struct Kept<D: Durable> {
    setup: Option<Arc<Setup<dyn Store>>>,
    pub(super) inner: Option<D>,
    life: Life<Live<D>>,
}

/// Of an entity that has recovered.
struct Live<D: Durable> {
    id: EntityId,
    state: D::State,
    revision: u64,
}

impl<D: Durable> Kept<D> {
    pub(super) const fn new(setup: Arc<Setup<dyn Store>>) -> Self {
        Self {
            setup: Some(setup),
            inner: None,
            life: Life::Unrecovered,
        }
    }
}

impl<D: Durable> Entity for Kept<D> {
    const TYPE: &'static str = D::TYPE;
    type Message = D::Message;
    type Reply = D::Reply;

    fn create(_id: &str) -> Self {
        Self {
            setup: None,
            inner: None,
            life: Life::Unrecovered,
        }
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), BoxError> {
        let setup = self.setup.as_ref().ok_or_else(|| unset("durable"))?;
        if self.inner.is_none() {
            self.inner = Some(D::create(cx.id()));
        }
        self.life = setup.life(recover::<D>(setup, cx).await, D::TYPE, cx.id())?;
        Ok(())
    }

    async fn handle(&mut self, message: D::Message, cx: &mut Context<'_, Self>) {
        let (Some(setup), Some(inner), Life::Live(live)) =
            (&self.setup, &mut self.inner, &mut self.life)
        else {
            cx.refuse_as(Reason::Fenced);
            return;
        };
        let Change { write, mut tail } = inner.handle(&live.state, message, cx).await;
        if let Err(error) = live.write(setup, write, Stamp::of(cx)).await {
            match setup.unwritten(error, cx) {
                Unwritten::Unharmed | Unwritten::Refused => {}
                Unwritten::Fenced => self.life = Life::Fenced,
            }
            return;
        }
        if let Some(reply) = tail.take_answer(&live.state) {
            cx.reply(reply);
        }
        if tail.stop {
            cx.passivate();
        }
    }
}

impl<D: Durable> Live<D> {
    /// Writes a value, and takes it over.
    async fn write(
        &mut self,
        setup: &Setup<dyn Store>,
        write: Write<D::State>,
        stamp: Stamp,
    ) -> Result<(), WriteError> {
        let state = match write {
            Write::Keep if stamp.sequence.is_none() => return Ok(()),
            // That a message told reliably changed nothing is written, too.
            Write::Keep => {
                let encoded = encode::<D>(Some(&self.state))?;
                if let Err(error) = setup.store.save(self.save(stamp, encoded)).await {
                    Box::pin(self.write_again(setup, Some(&self.state), stamp, error)).await?;
                }
                self.revision += 1;
                add(&setup.counters.writes, 1);
                return Ok(());
            }
            Write::Replace(state) => Some(state),
            Write::Delete => None,
        };
        let encoded = encode::<D>(state.as_ref())?;
        if let Err(error) = setup.store.save(self.save(stamp, encoded)).await {
            // Boxed: an idle entity shall not pay for what is rare.
            Box::pin(self.write_again(setup, state.as_ref(), stamp, error)).await?;
        }
        self.revision += 1;
        self.state = state.unwrap_or_default();
        add(&setup.counters.writes, 1);
        Ok(())
    }

    async fn write_again(
        &self,
        setup: &Setup<dyn Store>,
        state: Option<&D::State>,
        stamp: Stamp,
        mut error: StoreError,
    ) -> Result<(), WriteError> {
        let mut retry = Retry::new(
            &setup.runtime,
            &setup.counters,
            stamp.epoch.to_bits() ^ self.revision,
        );
        loop {
            retry.after(error).await?;
            let save = self.save(stamp, encode::<D>(state)?);
            match setup.store.save(save).await {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
    }

    fn save(&self, stamp: Stamp, state: Option<Vec<u8>>) -> Save {
        Save {
            entity: self.id.clone(),
            epoch: stamp.epoch,
            revision: self.revision + 1,
            state,
            sequence: stamp.sequence,
        }
    }
}

fn encode<D: Durable>(state: Option<&D::State>) -> Result<Option<Vec<u8>>, CodecError> {
    state
        .map(|state| encoding::encode(D::VERSION, state))
        .transpose()
}

/// Reads what there is.
async fn recover<D: Durable>(
    setup: &Setup<dyn Store>,
    cx: &Context<'_, Kept<D>>,
) -> Result<Live<D>, BoxError> {
    let id = EntityId {
        entity_type: Arc::clone(&setup.name),
        id: cx.id().into(),
    };
    let mut loaded = setup.store.load(id.clone(), cx.epoch()).await?;
    cx.seed_senders(mem::take(&mut loaded.senders));
    let state = match mem::take(&mut loaded.state) {
        None => D::State::default(),
        Some(state) => encoding::split(&state)
            .and_then(|(version, state)| D::decode_state(version, state))
            .map_err(|error| format!("its state cannot be decoded: {error}"))?,
    };
    add(&setup.counters.recoveries, 1);
    Ok(Live {
        id,
        state,
        revision: loaded.revision,
    })
}

impl<D: Durable> fmt::Debug for Kept<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("type", &D::TYPE)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}
