//! Entities with a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shard_tokio::durable::{Change, Durable, Effect, EventSourced, Kept, Sourced};
use shard_tokio::proto::hash;
use shard_tokio::{Context, MemoryStore};

use crate::common::{builder, free_address, until, within};

/// Keeps what it was told, as events or as a value; every sixth message it fails at first, or changes nothing.
struct Diary;

fn unlucky() -> bool {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    hash::mix(COUNT.fetch_add(1, Ordering::Relaxed)).is_multiple_of(6)
}

impl EventSourced for Diary {
    const TYPE: &'static str = "diary";
    type Command = u64;
    type Reply = Vec<u64>;
    type Event = u64;
    type State = Vec<u64>;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn decide(
        &mut self,
        _: &Vec<u64>,
        n: u64,
        cx: &Context<'_, Sourced<Self>>,
    ) -> Effect<Self> {
        if cx.is_ask() {
            return Effect::none().reply_with(Vec::clone);
        }
        assert!(!unlucky(), "as it happens");
        let effect = Effect::persist(n);
        if unlucky() { effect.stop() } else { effect }
    }

    fn apply(notes: &mut Vec<u64>, n: &u64) {
        notes.push(*n);
    }
}

struct Page;

impl Durable for Page {
    const TYPE: &'static str = "page";
    type Message = u64;
    type Reply = Vec<u64>;
    type State = Vec<u64>;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(
        &mut self,
        notes: &Vec<u64>,
        n: u64,
        cx: &Context<'_, Kept<Self>>,
    ) -> Change<Self> {
        if cx.is_ask() {
            return Change::none().reply_with(Vec::clone);
        }
        assert!(!unlucky(), "as it happens");
        if n % 6 == 5 {
            return Change::none();
        }
        let mut notes = notes.clone();
        notes.push(n);
        let change = Change::replace(notes);
        if unlucky() { change.stop() } else { change }
    }
}

/// Entities that fail, stop, move, and lose their node: what they keep has each message once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_entities_process_each_message_once_whatever_happens() {
    within(90, "durable", async {
        let seeds = [free_address()];
        let store = MemoryStore::new();
        let start = async |name: &'static str, address: &str| {
            let node = builder(name, address, &seeds).start().await.unwrap();
            let often = Duration::from_secs(60);
            let diaries = node.event_sourced::<Diary>(store.clone()).shards(8);
            let pages = node.durable::<Page>(store.clone()).shards(8);
            let diaries = diaries.restarts(100_000, often).start().await.unwrap();
            let pages = pages.restarts(100_000, often).start().await.unwrap();
            (node, diaries, pages)
        };
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let diaries = node.entity_type::<Sourced<Diary>>().shards(8).proxy();
        let pages = node.entity_type::<Kept<Page>>().shards(8).proxy();
        let diaries = diaries.start().await.unwrap();
        let pages = pages.start().await.unwrap();
        let b = start("b", &free_address()).await;
        let (count, each) = (6, 80);
        let telling = tokio::spawn({
            let (diaries, pages) = (diaries.clone(), pages.clone());
            async move {
                for n in 0..each {
                    for e in 0..count {
                        let id = format!("e{e}");
                        diaries.entity(&id).tell_reliably(n).await.unwrap();
                        pages.entity(&id).tell_reliably(n).await.unwrap();
                    }
                }
            }
        });
        let sender = diaries.reliable_sender();
        until(|| sender.stats().acknowledged > 60).await;
        let c = start("c", &free_address()).await;
        until(|| sender.stats().acknowledged > 150).await;
        b.0.shutdown().await;
        telling.await.unwrap();
        sender.flush().await.unwrap();
        pages.reliable_sender().flush().await.unwrap();
        for e in 0..count {
            let id = format!("e{e}");
            let all: Vec<_> = (0..each).collect();
            assert_eq!(diaries.entity(&id).ask(0_u64).await, Ok(all), "{id}");
            let kept: Vec<_> = (0..each).filter(|n| n % 6 != 5).collect();
            assert_eq!(pages.entity(&id).ask(0_u64).await, Ok(kept), "{id}");
        }
        drop(c);
    })
    .await;
}
