//! The entities: visitors, as the other examples have them, in a table of fixed size.

use heapless::Vec;
use serde::Serialize;
use shard_proto::{Epoch, Instant, ShardId};

use crate::{BODY, ENTITIES, ID};

/// Name of their type.
pub const VISITOR: &str = "visitor";

/// What a visitor answers.
#[derive(Serialize)]
struct Heard<'a> {
    text: &'a str,
    count: u64,
    node: &'a str,
    shard: u32,
    epoch: (u64, u32),
    at_us: u64,
}

/// Counts what each of them has heard.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    entities: Vec<(ShardId, Vec<u8, ID>, u64), ENTITIES>,
}

impl Visitors {
    /// One of them handles a message. `None`: there is no room for one more, or no text in the message.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        node: &str,
        (shard, epoch): (ShardId, Epoch),
        id: &Vec<u8, ID>,
        message: &[u8],
    ) -> Option<Vec<u8, BODY>> {
        let text = postcard::from_bytes(message).ok()?;
        let known =
            |entity: &&mut (ShardId, Vec<u8, ID>, u64)| entity.0 == shard && entity.1 == *id;
        if self.entities.iter_mut().find(known).is_none() {
            self.entities.push((shard, id.clone(), 0)).ok()?;
        }
        let entity = self.entities.iter_mut().find(known)?;
        let heard = Heard {
            text,
            count: entity.2.saturating_add(1),
            node,
            shard: shard.0,
            epoch: (epoch.term().0, epoch.round()),
            at_us: now.as_micros(),
        };
        let mut answer = [0; BODY];
        let answer = postcard::to_slice(&heard, &mut answer).ok()?;
        entity.2 = heard.count;
        Vec::from_slice(answer).ok()
    }

    /// The shard stops: they are gone.
    pub(crate) fn stop(&mut self, shard: ShardId) {
        self.entities.retain(|entity| entity.0 != shard);
    }
}
