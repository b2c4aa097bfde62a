//! Tables that every kind of host has: of the shards that run here, and of the tasks in them.

use shard_proto::entity::EntitySlot;
use shard_proto::{Epoch, ShardId};

use super::{Desk, Effect};
use crate::status::Status;

/// A shard that runs here, and what its host has to know of it.
pub(crate) struct Hosted<T> {
    pub(crate) epoch: Epoch,
    pub(crate) stopping: bool,
    pub(crate) more: T,
}

/// The shards of a type that run here.
pub(crate) struct Shards<T>(Box<[Option<Hosted<T>>]>);

impl<T> Shards<T> {
    pub(crate) fn new(count: u32) -> Self {
        Self((0..count).map(|_| None).collect())
    }

    /// One begins to run. `false`: there is none of that number.
    pub(crate) fn start(&mut self, status: &Status, shard: ShardId, epoch: Epoch, more: T) -> bool {
        let Some(slot) = self.0.get_mut(shard.0 as usize) else {
            return false;
        };
        *slot = Some(Hosted {
            epoch,
            stopping: false,
            more,
        });
        status.set_hosted(shard, Some(epoch));
        true
    }

    /// The shard under that epoch.
    pub(crate) fn get(&mut self, shard: ShardId, epoch: Epoch) -> Option<&mut Hosted<T>> {
        let slot = self.0.get_mut(shard.0 as usize)?;
        slot.as_mut().filter(|hosted| hosted.epoch == epoch)
    }

    /// The same if it stops.
    pub(crate) fn stopping(&mut self, shard: ShardId, epoch: Epoch) -> Option<&mut Hosted<T>> {
        self.get(shard, epoch).filter(|hosted| hosted.stopping)
    }

    /// Under which epoch the shard runs; none if it does not.
    pub(crate) fn epoch(&self, shard: ShardId) -> Epoch {
        let slot = self.0.get(shard.0 as usize).and_then(Option::as_ref);
        slot.map_or(Epoch::NONE, |hosted| hosted.epoch)
    }

    /// Nothing of it runs any more: forgets it, and has the driver told, also of one that is not known.
    pub(crate) fn stopped(
        &mut self,
        status: &Status,
        desk: &mut Desk<'_>,
        shard: ShardId,
        epoch: Epoch,
        forced: bool,
    ) {
        let ran = self.get(shard, epoch).is_some();
        if ran && let Some(slot) = self.0.get_mut(shard.0 as usize) {
            *slot = None;
            status.set_hosted(shard, None);
        }
        desk.effects.push(Effect::Stopped {
            shard,
            epoch,
            forced,
            ran,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Numbers and epochs of those that run, and what is known of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ShardId, &Hosted<T>)> {
        let slots = (0..).map(ShardId).zip(&self.0);
        slots.filter_map(|(shard, slot)| Some((shard, slot.as_ref()?)))
    }
}

/// A task that has a life of the core's.
pub(crate) trait Life {
    fn slot(&self) -> EntitySlot;
}

/// Tasks, by the index of their slot.
pub(crate) struct Tasks<T>(Vec<Option<T>>);

impl<T: Life> Tasks<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn insert(&mut self, task: T) {
        let index = task.slot().index as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some(task);
    }

    pub(crate) fn get(&mut self, slot: EntitySlot) -> Option<&mut T> {
        let task = self.0.get_mut(slot.index as usize)?.as_mut()?;
        (task.slot() == slot).then_some(task)
    }

    pub(crate) fn remove(&mut self, slot: EntitySlot) -> Option<T> {
        let task = self.0.get_mut(slot.index as usize)?;
        task.take_if(|task| task.slot() == slot)
    }

    /// Takes out all for which that holds.
    pub(crate) fn take_all(&mut self, is: impl Fn(&T) -> bool) -> Vec<T> {
        let tasks = self.0.iter_mut();
        tasks.filter_map(|task| task.take_if(|it| is(it))).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
