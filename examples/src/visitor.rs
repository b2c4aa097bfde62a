//! The entity of `node` and `send`: counts what it is told, and says where it lives.

use std::collections::HashMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity, Epoch, ShardId, Term};

use crate::{
    clock,
    service::{Probed, Served},
};

/// What a visitor answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// What was said.
    pub text: String,
    /// How many messages this life of the entity has heard.
    pub count: u64,
    /// The node it lives on.
    pub node: String,
    /// Its shard.
    pub shard: u32,
    /// The term of its shard's allocation, and the round within that term.
    pub epoch: (u64, u32),
    /// When it was heard, by [`clock::micros`].
    pub at_us: u64,
}

/// Hears messages.
#[derive(Debug)]
pub struct Visitor {
    node: String,
    count: u64,
}

impl Visitor {
    /// One that lives on a node of that name.
    #[must_use]
    pub const fn new(node: String) -> Self {
        Self { node, count: 0 }
    }
}

impl Entity for Visitor {
    const TYPE: &'static str = "visitor";
    type Message = String;
    type Reply = Heard;

    fn create(_id: &str) -> Self {
        Self::new(String::new())
    }

    async fn handle(&mut self, text: String, cx: &mut Context<'_, Self>) {
        self.count += 1;
        let epoch = cx.epoch();
        cx.reply(Heard {
            text,
            count: self.count,
            node: self.node.clone(),
            shard: cx.shard().0,
            epoch: (epoch.term().0, epoch.round()),
            at_us: clock::micros(),
        });
    }
}

impl Probed for Visitor {
    fn probe() -> String {
        "do you serve?".to_owned()
    }

    fn served(heard: &Heard) -> Option<Served> {
        let (term, round) = heard.epoch;
        let epoch = Epoch::new(Term(term), round)?;
        Some(Served {
            epoch: epoch.to_bits(),
            at_us: heard.at_us,
        })
    }
}

/// The visitors of a node whose runtime is not tokio: what they are sent and answer, in `shard-tokio`'s encoding.
#[derive(Debug, Default)]
pub struct Visitors {
    node: String,
    counts: HashMap<(ShardId, Vec<u8>), u64>,
}

impl Visitors {
    /// None yet, on a node of that name.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            ..Self::default()
        }
    }

    /// One of them handles a message. Its answer.
    pub fn handle(&mut self, shard: ShardId, epoch: Epoch, id: &[u8], text: &[u8]) -> Bytes {
        let count = self.counts.entry((shard, id.to_vec())).or_default();
        *count += 1;
        let heard = Heard {
            text: postcard::from_bytes(text).unwrap_or_default(),
            count: *count,
            node: self.node.clone(),
            shard: shard.0,
            epoch: (epoch.term().0, epoch.round()),
            at_us: clock::micros(),
        };
        postcard::to_allocvec(&heard).unwrap_or_default().into()
    }

    /// The shard stops: they are gone.
    pub fn stop(&mut self, shard: ShardId) {
        self.counts.retain(|(at, _), _| *at != shard);
    }

    /// What one is sent.
    #[must_use]
    pub fn say(text: &str) -> Bytes {
        postcard::to_allocvec(text).unwrap_or_default().into()
    }

    /// What one answered, in words.
    #[must_use]
    pub fn read(id: &str, answer: &[u8]) -> String {
        match postcard::from_bytes::<Heard>(answer) {
            Ok(heard) => format!(
                "{id} on {}: message {}: {:?}",
                heard.node, heard.count, heard.text
            ),
            Err(_) => format!("{id} did not answer"),
        }
    }
}
