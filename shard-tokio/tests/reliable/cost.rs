//! What it costs.

use shard_tokio::{Context, Entity, EntityType, Node};

use crate::common::{builder, free_address};

struct Sink;

impl Entity for Sink {
    const TYPE: &'static str = "sink";
    type Message = u64;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(&mut self, message: u64, cx: &mut Context<'_, Self>) {
        cx.reply(message);
    }
}

async fn asks(sinks: &EntityType<Sink>, entities: usize, count: u64) -> f64 {
    let begun = std::time::Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for e in 0..entities {
        let entity = sinks.entity(format!("e{e}"));
        callers.spawn(async move {
            let mut flying = std::collections::VecDeque::new();
            for n in 0..count {
                if flying.len() == 64 {
                    let first: shard_tokio::Answer<u64> = flying.pop_front().unwrap();
                    first.await.unwrap();
                }
                flying.push_back(entity.begin_ask(n).await.unwrap());
            }
            for answer in flying {
                answer.await.unwrap();
            }
        });
    }
    callers.join_all().await;
    (entities as u64 * count) as f64 / begun.elapsed().as_secs_f64()
}

async fn reliably(sinks: &EntityType<Sink>, entities: usize, count: u64) -> f64 {
    let begun = std::time::Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for e in 0..entities {
        let entity = sinks.entity(format!("e{e}"));
        callers.spawn(async move {
            for n in 0..count {
                entity.tell_reliably(n).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    sinks.reliable_sender().flush().await.unwrap();
    assert_eq!(sinks.reliable_sender().stats().sent_again, 0);
    (entities as u64 * count) as f64 / begun.elapsed().as_secs_f64()
}

/// The figures of the module's documentation: `cargo test --release -p shard-tokio --test reliable -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn cost() {
    let node = Node::standalone().await.unwrap();
    let here = node.entity_type::<Sink>().start().await.unwrap();
    let seeds = [free_address()];
    let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
    let b = builder("b", &free_address(), &seeds).start().await.unwrap();
    let there = a.entity_type::<Sink>().proxy().start().await.unwrap();
    let host = b.entity_type::<Sink>().start().await.unwrap();
    there.ready().await.unwrap();
    host.ready().await.unwrap();
    for (name, sinks) in [("here", &here), ("there", &there)] {
        for entities in [1, 16] {
            let count = 400_000 / entities as u64;
            asks(sinks, entities, count / 4).await;
            for _ in 0..3 {
                let asked = asks(sinks, entities, count).await;
                let told = reliably(sinks, entities, count).await;
                println!(
                    "{name}, {entities} entities: {:.0} ns per ask, {:.0} ns per reliable tell: {:.2} of the asks",
                    1e9 / asked,
                    1e9 / told,
                    told / asked
                );
            }
        }
    }
}
