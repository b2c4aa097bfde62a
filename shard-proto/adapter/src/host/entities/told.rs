//! What the store says of who lives in a shard.

use shard_proto::{Epoch, ShardId};

use super::{Desk, Effect, TypeHost};
use crate::entity::Entity;
use crate::remember::{ReadEnd, Told, Written};

impl<E: Entity> TypeHost<E> {
    pub(super) fn told(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch, told: Told) {
        let now = desk.now;
        let Some(hosted) = self.shards.get(shard, epoch) else {
            return;
        };
        match told {
            Told::Page(keys) if hosted.more.reading.is_some() && !hosted.stopping => {
                for key in keys {
                    self.core.remembered(now, shard, epoch, key);
                }
            }
            Told::Page(_) => {}
            Told::Read(end) => {
                if hosted.more.reading.take().is_none() {
                    return;
                }
                if end == ReadEnd::All && !hosted.stopping {
                    self.core.start_shard(now, shard, epoch);
                    desk.effects.push(Effect::Served(shard, epoch));
                } else {
                    // Nothing runs: it has stopped, asked or not.
                    hosted.stopping = true;
                    self.core.stop_shard(now, shard, epoch);
                }
            }
            Told::Written(_, Written::Fenced) => hosted.more.fenced = true,
            Told::Written(changes, written) => {
                let done = written == Written::Done;
                for (key, alive) in changes {
                    self.core.recorded(now, shard, epoch, &key, alive, done);
                    self.commands(desk);
                }
            }
        }
        self.commands(desk);
    }
}
