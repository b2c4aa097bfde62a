//! Shards that have homes without being asked for: entities live in them that nobody sends to. And how many shards a type
//! uses, where that can be changed.

use super::{
    ControlError, CoordPhase, CoordinatorConfig,
    ledger::{Book, Ledger},
    slot::Phase,
};
use crate::{
    allocation::AllocationStrategy,
    wire::control::{Resize, Size},
};

/// Which shards are given a home without a message for them.
///
/// Any shard that is used and had a home gets another one when it loses it, whatever this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeepShards {
    /// None: a shard's first message gives it a home.
    #[default]
    Asked,
    /// All of them.
    All,
    /// The first so many. No others are used: they have no homes, asked for or not. A
    /// [`Control::Resize`](crate::wire::Control::Resize) changes how many, up to the shard count; this is how many there
    /// are until then.
    First(u32),
}

impl KeepShards {
    /// Whether the number of shards in use can be changed.
    pub(crate) const fn is_sized(self) -> bool {
        matches!(self, Self::First(_))
    }

    /// How many of so many shards are in use, where `size` is what was decided last.
    pub(crate) const fn used(self, size: Size, shards: u32) -> u32 {
        let count = match self {
            Self::Asked | Self::All => shards,
            Self::First(_) if size.version.to_bits() > 0 => size.count,
            Self::First(count) => count,
        };
        if count < shards { count } else { shards }
    }

    /// How many shards have to be looked at when a reign opens.
    const fn watched(self, shards: u32) -> u32 {
        match self {
            Self::Asked => 0,
            Self::All | Self::First(_) => shards,
        }
    }
}

impl Book {
    /// How many shards are used, the first ones.
    pub(super) const fn used(&self, config: &CoordinatorConfig) -> u32 {
        config.keep.used(self.size, config.shard_count)
    }

    /// What regions are told of it.
    pub(super) const fn told_size(&self, config: &CoordinatorConfig) -> Size {
        Size {
            version: self.size.version,
            count: self.used(config),
        }
    }

    /// Whether shards are left to be looked at.
    pub(super) const fn is_keeping(&self, config: &CoordinatorConfig) -> bool {
        matches!(self.phase, CoordPhase::Open)
            && self.keep_next < config.keep.watched(config.shard_count)
    }
}

impl Ledger<'_> {
    /// Looks at all shards from the first one on. What is freed later is wanted, and needs no second look.
    pub(super) const fn keep_from_start(&mut self) {
        self.book.keep_next = 0;
    }

    /// Gives kept shards that have no home one, or puts them in the list of wanted ones, and takes those that are not used
    /// from their owners; looks at most at `budget` shards. What is left of it.
    pub(super) fn keep(&mut self, mut budget: u32, strategy: &mut dyn AllocationStrategy) -> u32 {
        let used = self.book.used(self.config);
        while budget > 0 && self.book.is_keeping(self.config) {
            budget = budget.saturating_sub(1);
            let shard = self.book.keep_next;
            self.book.keep_next = shard.saturating_add(1);
            let homeless = self
                .shard(shard)
                .is_some_and(|slot| slot.phase() == Phase::Unallocated && !slot.timed.is_linked());
            if shard >= used {
                self.begin_handoff(shard);
            } else if homeless {
                self.place(shard, strategy);
            }
        }
        budget
    }

    /// A region wants another number of shards to be used. Whoever asks is told the number that holds.
    pub(super) fn resize(&mut self, from: u16, what: Resize) -> Result<(), ControlError> {
        if !self.node(from).is_some_and(|node| node.registered) {
            return Err(ControlError::NotRegistered);
        }
        if !self.config.keep.is_sized() {
            return Err(ControlError::Unexpected);
        }
        if what.count > self.config.shard_count {
            return Err(ControlError::Malformed);
        }
        if self.book.phase != CoordPhase::Open {
            // Somebody may still claim to know better.
            return Err(ControlError::NotLeading);
        }
        if what.after == self.book.size.version && what.count != self.book.used(self.config) {
            let version = self.next_epoch().ok_or(ControlError::NotLeading)?;
            self.adopt_size(Size {
                version,
                count: what.count,
            });
        } else {
            self.say_size(from);
        }
        Ok(())
    }

    /// Takes a size that is newer, and tells everybody. O(nodes) then.
    pub(super) fn adopt_size(&mut self, size: Size) {
        if !self.config.keep.is_sized() || size.version <= self.book.size.version {
            return;
        }
        self.book.size = size;
        self.keep_from_start();
        for index in 0..u16::try_from(self.nodes.len()).unwrap_or(u16::MAX) {
            if self.node(index).is_some_and(|node| node.registered) {
                self.say_size(index);
            }
        }
    }

    fn say_size(&mut self, node: u16) {
        if let Some(slot) = self.node_mut(node) {
            slot.say_size = true;
            self.say_node(node);
        }
    }
}
