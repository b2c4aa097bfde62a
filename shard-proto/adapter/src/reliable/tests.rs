//! Entities with a store: once, across crashes, and a crash between the write and the acknowledgement.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use shard_proto::hash;

use super::*;
use crate::entity::{BoxError, Context};
use crate::node::Node;
use crate::store::{Append, EntityId, Journal, MemoryStore};

/// Writes each message down, as `durable` does, and fails at every point at times.
struct Book {
    store: MemoryStore,
    random: Arc<AtomicU64>,
    last: u64,
}

impl Book {
    fn id(cx: &Context<'_, Self>) -> EntityId {
        EntityId {
            entity_type: "book".into(),
            id: cx.id().into(),
        }
    }

    fn unlucky(&self) -> bool {
        let n = self.random.fetch_add(1, Ordering::Relaxed);
        hash::mix(n).is_multiple_of(6)
    }
}

impl Entity for Book {
    const TYPE: &'static str = "book";
    type Message = u64;
    type Reply = ();

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), BoxError> {
        let opened = self.store.open(Self::id(cx), cx.epoch()).await?;
        self.last = opened.last_seq;
        cx.seed_senders(opened.senders);
        Ok(())
    }

    async fn handle(&mut self, message: u64, cx: &mut Context<'_, Self>) {
        assert!(!self.unlucky(), "before the write");
        let append = Append {
            entity: Self::id(cx),
            epoch: cx.epoch(),
            first_seq: self.last + 1,
            events: vec![message.to_le_bytes().to_vec()],
            sequence: cx.sequence(),
        };
        if let Err(error) = self.store.append(append).await {
            cx.fail(error);
            return;
        }
        self.last += 1;
        assert!(!self.unlucky(), "after it");
        if self.unlucky() {
            cx.fail("after it");
        } else if self.unlucky() {
            cx.passivate();
        }
    }
}

async fn written(store: &MemoryStore, id: &str) -> Vec<u64> {
    let entity = EntityId {
        entity_type: "book".into(),
        id: id.into(),
    };
    let mut events = Vec::new();
    loop {
        let after = events.len() as u64;
        let page = store.read(entity.clone(), after, 1000).await.unwrap();
        if page.is_empty() {
            return events;
        }
        let numbers = page.iter().map(|it| {
            let bytes = it.event.as_slice().try_into().unwrap();
            u64::from_le_bytes(bytes)
        });
        events.extend(numbers);
    }
}

#[tokio::test]
async fn each_message_is_written_once_whenever_the_entity_fails() {
    let node = Node::<crate::runtime::Test>::standalone().await.unwrap();
    let store = MemoryStore::new();
    let random = Arc::new(AtomicU64::new(7));
    let made = store.clone();
    let books = node
        .entity_type::<Book>()
        .restarts(1_000_000, Duration::from_secs(60))
        .factory(move |_| Book {
            store: made.clone(),
            random: Arc::clone(&random),
            last: 0,
        });
    let books = books.start().await.unwrap();
    let senders = [(); 3].map(|()| ReliableSender::new(&books, ReliableConfig::new()));
    let each = 20;
    let mut telling = tokio::task::JoinSet::new();
    for (caller, sender) in (0_u64..).zip(senders) {
        telling.spawn(async move {
            for n in 0..each {
                for id in ["one", "two"] {
                    let entity = sender.entity(id);
                    sender.tell(&entity, caller << 32 | n).await.unwrap();
                }
            }
            sender.flush().await.unwrap();
            sender.stats()
        });
    }
    let mut again = 0;
    for stats in telling.join_all().await {
        assert_eq!(stats.acknowledged, 2 * each);
        again += stats.sent_again;
    }
    // Otherwise it was not tried.
    assert!(again > 5, "{again}");
    for id in ["one", "two"] {
        let mut next = [0; 3];
        for number in written(&store, id).await {
            let caller = (number >> 32) as usize;
            assert_eq!(number & 0xFFFF_FFFF, next[caller], "{id}, caller {caller}");
            next[caller] += 1;
        }
        assert_eq!(next, [each; 3], "{id}");
    }
}
