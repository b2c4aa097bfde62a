//! The entity of `node` and `send`: counts what it is told, and says where it lives.

use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity, Epoch, Term};

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
