//! The entities of these tests.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shard_tokio::durable::{
    Change, Durable, DurableStats, Effect, EventSourced, Kept, KeptType, Sourced, SourcedType,
};
use shard_tokio::store::{Journal, Store};
use shard_tokio::{CodecError, Context, EntityTypeBuilder, Node, Payload};

use crate::faulty::Faulty;

/// Adds numbers up.
#[derive(Clone, Default)]
pub struct Tally {
    pub unit: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    Add(u64),
    AddAll(Vec<u64>),
    Sum,
    /// Add, and stop.
    Last(u64),
    /// An event that cannot be applied.
    Poison,
    /// An event that cannot be encoded.
    Odd,
    /// Panic while deciding.
    Panic,
}

/// An event, with the epoch it was written under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    Added { n: u64, epoch: u64 },
    Poison,
    Odd(Odd),
}

/// Has no encoding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Odd;

impl Serialize for Odd {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("odd"))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    pub sum: u64,
    pub events: u64,
}

impl EventSourced for Tally {
    const TYPE: &'static str = "tally";
    type Command = Say;
    type Reply = Sum;
    type Event = Event;
    type State = Sum;

    fn create(_id: &str) -> Self {
        Self { unit: 1 }
    }

    async fn decide(
        &mut self,
        sum: &Sum,
        say: Say,
        cx: &Context<'_, Sourced<Self>>,
    ) -> Effect<Self> {
        let epoch = cx.epoch().to_bits();
        let unit = self.unit;
        let added = |n| Event::Added { n: n * unit, epoch };
        let effect = match say {
            Say::Add(n) => Effect::persist(added(n)),
            Say::AddAll(all) => Effect::persist_all(all.into_iter().map(added)),
            Say::Sum => return Effect::none().reply(sum.clone()),
            Say::Last(n) => Effect::persist(added(n)).stop(),
            Say::Poison => Effect::persist_all([added(1), Event::Poison]),
            Say::Odd => Effect::persist_all([added(1), Event::Odd(Odd)]),
            Say::Panic => panic!("as told"),
        };
        effect.reply_with(Sum::clone)
    }

    fn apply(sum: &mut Sum, event: &Event) {
        match event {
            Event::Added { n, .. } => sum.sum += n,
            Event::Poison | Event::Odd(_) => panic!("poisoned"),
        }
        sum.events += 1;
    }
}

/// As [`Tally`], of a later version: events were kept in tens, once.
pub struct Tally2;

impl EventSourced for Tally2 {
    const TYPE: &'static str = "tally";
    const VERSION: u32 = 2;
    type Command = Say;
    type Reply = Sum;
    type Event = u64;
    type State = Sum;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn decide(
        &mut self,
        sum: &Sum,
        say: Say,
        _cx: &Context<'_, Sourced<Self>>,
    ) -> Effect<Self> {
        match say {
            Say::Add(n) => Effect::persist(n).reply_with(Sum::clone),
            _ => Effect::none().reply(sum.clone()),
        }
    }

    fn apply(sum: &mut Sum, event: &u64) {
        sum.sum += event;
        sum.events += 1;
    }

    fn decode_event(version: u32, event: Payload<'_>) -> Result<u64, CodecError> {
        use shard_tokio::Message;
        match version {
            0 => match Event::decode(event)? {
                Event::Added { n, .. } => Ok(n * 10),
                _ => Err(CodecError::new("poisoned")),
            },
            2 => u64::decode(event),
            _ => Err(CodecError::new("unknown")),
        }
    }
}

/// Keeps a number.
pub struct Cell;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Put {
    Add(u64),
    Get,
    Delete,
    Odd,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    pub n: u64,
    odd: Option<Odd>,
}

impl Durable for Cell {
    const TYPE: &'static str = "cell";
    type Message = Put;
    type Reply = u64;
    type State = Value;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(
        &mut self,
        value: &Value,
        put: Put,
        _cx: &Context<'_, Kept<Self>>,
    ) -> Change<Self> {
        let to = |n| Value { n, odd: None };
        match put {
            Put::Add(n) => Change::replace(to(value.n + n)).reply_with(|value: &Value| value.n),
            Put::Get => Change::none().reply(value.n),
            Put::Delete => Change::delete().reply_with(|value: &Value| value.n),
            Put::Odd => Change::replace(Value {
                odd: Some(Odd),
                ..to(7)
            }),
        }
    }
}

/// A node that is a cluster, and its tallies.
pub async fn tallies(
    journal: impl Journal,
    set: impl FnOnce(EntityTypeBuilder<Sourced<Tally>>) -> EntityTypeBuilder<Sourced<Tally>>,
) -> (Node, SourcedType<Tally>) {
    crate::common::logs();
    let node = Node::standalone().await.unwrap();
    let tallies = set(node.event_sourced(journal).shards(4));
    let tallies = tallies.start().await.unwrap();
    (node, tallies)
}

pub async fn cells(store: impl Store) -> (Node, KeptType<Cell>) {
    crate::common::logs();
    let node = Node::standalone().await.unwrap();
    let cells = node.durable(store).shards(4).start().await.unwrap();
    (node, cells)
}

/// What the durable entities of a node counted, which are of one type.
pub fn stats(node: &Node) -> DurableStats {
    node.stats().durable[0].1
}

pub fn sum(sum: u64, events: u64) -> Sum {
    Sum { sum, events }
}

pub fn shared(faulty: &Faulty) -> Arc<dyn Journal> {
    Arc::new(faulty.clone())
}
