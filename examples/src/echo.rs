//! The entity of `bench`.

use serde::{Deserialize, Serialize};
use shard_tokio::{Context, Entity};

/// What an echo is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Counts, and checks that the numbers come in order: 0, 1, 2, …
    Count(u64),
    /// Answers with the same number.
    Echo(u64),
    /// Answers how many numbers came in order.
    Counted,
}

/// Answers, or counts.
#[derive(Debug, Default)]
pub struct Echo {
    in_order: u64,
}

impl Entity for Echo {
    const TYPE: &'static str = "echo";
    type Message = Call;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        Self::default()
    }

    async fn handle(&mut self, call: Call, cx: &mut Context<'_, Self>) {
        match call {
            Call::Count(number) => self.in_order += u64::from(number == self.in_order),
            Call::Echo(number) => cx.reply(number),
            Call::Counted => cx.reply(self.in_order),
        }
    }
}
