//! Room for entities, and for messages that wait for them: whoever cannot be helped takes none from the others.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::time::Duration;

use common::{builder, free_address, undelivered, until, within};
use serde::{Deserialize, Deserializer, Serialize};
use shard_tokio::{AskError, BoxError, Context, Entity, EntityType, EntityTypeBuilder, Node};
use tokio::sync::Semaphore;

/// A number; 255 cannot be decoded.
#[derive(Clone, Debug, Serialize)]
struct Number(u8);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match u8::deserialize(from)? {
            u8::MAX => Err(serde::de::Error::custom("as told")),
            n => Ok(Self(n)),
        }
    }
}

/// Answers with what it is sent. `bad` does not start, `slow` does not stop.
struct Echo;

impl Entity for Echo {
    const TYPE: &'static str = "echo";
    type Message = Number;
    type Reply = u8;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), BoxError> {
        match cx.id() {
            "bad" => Err("as told".into()),
            _ => Ok(()),
        }
    }

    async fn handle(&mut self, message: Number, cx: &mut Context<'_, Self>) {
        cx.reply(message.0);
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        static NEVER: Semaphore = Semaphore::const_new(0);
        if cx.id() == "slow" {
            let _ = NEVER.acquire().await;
        }
    }
}

async fn echoes(
    node: &Node,
    set: impl FnOnce(EntityTypeBuilder<Echo>) -> EntityTypeBuilder<Echo>,
) -> EntityType<Echo> {
    let echoes = set(node.entity_type::<Echo>().shards(1)).start().await;
    let echoes = echoes.unwrap();
    echoes.ready().await.unwrap();
    echoes
}

/// There is room as soon as those that go are gone.
async fn takes_one_more(echoes: &EntityType<Echo>) {
    while echoes.entity("e").ask(Number(3)).await != Ok(3) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Those that were started for others' sake only go once they were used, and that nobody asks for.
#[tokio::test]
async fn after_a_burst_those_that_are_too_many_go() {
    within(20, "a burst", async {
        let node = Node::standalone().await.unwrap();
        let echoes = echoes(&node, |it| it.max_entities(2)).await;
        for id in ["a", "b", "c", "d"] {
            echoes.entity(id).try_tell(Number(0)).unwrap();
        }
        until(|| echoes.stats().starts == 4 && echoes.running() == 2).await;
        assert_eq!(undelivered(&node), 0);
        takes_one_more(&echoes).await;
    })
    .await;
}

/// A message that cannot be decoded starts an entity like any other: it must not stay for ever.
#[tokio::test]
async fn entities_that_were_sent_nonsense_go_as_well() {
    within(30, "nonsense", async {
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let here = echoes(&a, |it| it.max_entities(2)).await;
        let b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let there = echoes(&b, EntityTypeBuilder::proxy).await;
        for id in ["a", "b", "c", "d"] {
            let answer = there.entity(id).ask(Number(u8::MAX)).await;
            assert_eq!(answer, Err(AskError::Refused));
        }
        until(|| here.stats().starts == 4 && here.running() == 2).await;
        takes_one_more(&here).await;
    })
    .await;
}

/// What waits for one that does not start fills the shard's room: others, which need none, start all the same.
#[tokio::test]
async fn one_that_fails_does_not_keep_others_from_starting() {
    within(20, "neighbours", async {
        let node = Node::standalone().await.unwrap();
        let echoes = echoes(&node, |it| it.buffer(10, 10)).await;
        let bad = echoes.entity("bad");
        for n in 0..10 {
            bad.tell(Number(n)).await.unwrap();
        }
        until(|| echoes.stats().handed_back >= 10).await;
        for n in 0..20 {
            let other = echoes.entity(format!("other {n}"));
            assert_eq!(other.ask(Number(n)).await, Ok(n));
        }
        assert_eq!(echoes.stats().refused_keep_full, 0);
    })
    .await;
}

/// However early the end of the node comes, and whatever its entities do.
#[test]
fn what_waits_for_one_that_is_stopping_is_reported_at_the_end() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().unwrap()
    };
    let first = runtime();
    let (node, _echoes, ask) = first.block_on(within(20, "before the end", async {
        let node = Node::standalone().await.unwrap();
        let echoes = echoes(&node, |it| it).await;
        let slow = echoes.entity("slow");
        assert_eq!(slow.ask(Number(3)).await, Ok(3));
        assert!(echoes.passivate("slow").await);
        for _ in 0..3 {
            slow.tell(Number(2)).await.unwrap();
        }
        let ask = slow.begin_ask(Number(4)).await.unwrap();
        until(|| echoes.stats().kept == 5).await;
        (node, echoes, ask)
    }));
    first.shutdown_timeout(Duration::from_secs(10));
    let answer = runtime().block_on(within(20, "the answer", ask));
    assert_eq!(answer, Err(AskError::Stopped));
    assert_eq!(undelivered(&node), 4);
}
