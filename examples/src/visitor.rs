//! The entity of `node` and `send`: counts what it is told, and says where it lives.

use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity};

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
        });
    }
}
