//! What a command comes to: what is to be written, and what is done when that is durable.

use core::{fmt, mem};

use super::{Durable, EventSourced};

/// What is done when everything is durable.
pub(super) struct Tail<S, R> {
    pub(super) answer: Answer<S, R>,
    pub(super) stop: bool,
}

/// What the asker is told.
pub(super) enum Answer<S, R> {
    None,
    Value(R),
    Of(Box<dyn FnOnce(&S) -> R + Send>),
}

impl<S, R> Tail<S, R> {
    const NOTHING: Self = Self {
        answer: Answer::None,
        stop: false,
    };

    /// The answer, made of the state as it is now.
    pub(super) fn take_answer(&mut self, state: &S) -> Option<R> {
        match mem::replace(&mut self.answer, Answer::None) {
            Answer::None => None,
            Answer::Value(reply) => Some(reply),
            Answer::Of(make) => Some(make(state)),
        }
    }

    fn fmt(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("replies", &!matches!(self.answer, Answer::None))
            .field("stops", &self.stop)
            .finish_non_exhaustive()
    }
}

/// What is common to all that has a [`Tail`].
macro_rules! tail {
    ($name:ident<$entity:ident: $kind:ident>, $written:literal, $state:literal) => {
        impl<$entity: $kind> $name<$entity> {
            #[doc = concat!("Answers, when ", $written, " durable. Without an answer an asker is told")]
            /// [`NoReply`](crate::AskError::NoReply).
            pub fn reply(mut self, reply: $entity::Reply) -> Self {
                self.tail.answer = Answer::Value(reply);
                self
            }

            #[doc = concat!("Answers with something of ", $state, " durable.")]
            pub fn reply_with(
                mut self,
                reply: impl FnOnce(&$entity::State) -> $entity::Reply + Send + 'static,
            ) -> Self {
                self.tail.answer = Answer::Of(Box::new(reply));
                self
            }

            /// Stops the entity afterwards, as if it were idle. The next message makes it again.
            pub fn stop(mut self) -> Self {
                self.tail.stop = true;
                self
            }
        }

        impl<$entity: $kind> fmt::Debug for $name<$entity> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.tail.fmt(stringify!($name), f)
            }
        }
    };
}

/// What a command of an [`EventSourced`] entity comes to: events, then an answer.
///
/// ```
/// # use shard_tokio::{Context, durable::{Effect, EventSourced, Sourced}};
/// # struct Cart;
/// # impl EventSourced for Cart {
/// #     const TYPE: &'static str = "cart";
/// #     type Command = u32;
/// #     type Reply = u32;
/// #     type Event = u32;
/// #     type State = u32;
/// #     fn create(_id: &str) -> Self { Self }
/// #     async fn decide(&mut self, _: &u32, _: u32, _: &Context<'_, Sourced<Self>>) -> Effect<Self> { Effect::none() }
/// #     fn apply(_: &mut u32, _: &u32) {}
/// # }
/// let _: Effect<Cart> = Effect::none().reply(7); // nothing is written
/// let _: Effect<Cart> = Effect::persist(3).reply_with(|items: &u32| *items);
/// let _: Effect<Cart> = Effect::persist_all([1, 2]).stop();
/// ```
#[must_use = "an effect is what a command comes to: return it"]
pub struct Effect<E: EventSourced> {
    pub(super) events: Vec<E::Event>,
    pub(super) tail: Tail<E::State, E::Reply>,
}

impl<E: EventSourced> Effect<E> {
    /// Writes nothing.
    pub const fn none() -> Self {
        Self {
            events: Vec::new(),
            tail: Tail::NOTHING,
        }
    }

    /// Writes an event.
    pub fn persist(event: E::Event) -> Self {
        Self::persist_all([event])
    }

    /// Writes events: all of them or, if that fails, none.
    pub fn persist_all(events: impl IntoIterator<Item = E::Event>) -> Self {
        Self {
            events: events.into_iter().collect(),
            ..Self::none()
        }
    }
}

tail!(Effect<E: EventSourced>, "the events are", "the state to which the events have led, when they are");

/// What becomes of a value.
pub(super) enum Write<S> {
    Keep,
    Replace(S),
    Delete,
}

/// What a message to a [`Durable`] entity comes to: another value, then an answer.
#[must_use = "a change is what a message comes to: return it"]
pub struct Change<D: Durable> {
    pub(super) write: Write<D::State>,
    pub(super) tail: Tail<D::State, D::Reply>,
}

impl<D: Durable> Change<D> {
    const fn new(write: Write<D::State>) -> Self {
        Self {
            write,
            tail: Tail::NOTHING,
        }
    }

    /// Writes nothing.
    pub const fn none() -> Self {
        Self::new(Write::Keep)
    }

    /// Replaces the value.
    pub const fn replace(state: D::State) -> Self {
        Self::new(Write::Replace(state))
    }

    /// Deletes the value: the state is the default one again.
    pub const fn delete() -> Self {
        Self::new(Write::Delete)
    }
}

tail!(Change<D: Durable>, "the value is", "the new value, when it is");
