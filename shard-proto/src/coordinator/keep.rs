//! Shards that have homes without being asked for: entities live in them that nobody sends to.

use super::{CoordPhase, ledger::Ledger, slot::Phase};
use crate::allocation::AllocationStrategy;

/// Which shards are given a home without a message for them.
///
/// Any shard that had a home gets another one when it loses it, whatever this says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeepShards {
    /// None: a shard's first message gives it a home.
    #[default]
    Asked,
    /// All of them.
    All,
    /// The first so many; the others as with [`Self::Asked`].
    First(u32),
}

impl KeepShards {
    /// How many of so many shards are kept.
    pub(super) const fn count(self, shards: u32) -> u32 {
        match self {
            Self::Asked => 0,
            Self::All => shards,
            Self::First(count) if count < shards => count,
            Self::First(_) => shards,
        }
    }
}

impl Ledger<'_> {
    /// Looks at all kept shards from the first one on. What is freed later is wanted, and needs no second look.
    pub(super) const fn keep_from_start(&mut self) {
        self.book.keep_next = 0;
    }

    /// Gives kept shards that have no home one, or puts them in the list of wanted ones; looks at most at `budget`
    /// shards. What is left of it.
    pub(super) fn keep(&mut self, mut budget: u32, strategy: &mut dyn AllocationStrategy) -> u32 {
        if !self.book.is_keeping(self.config) {
            return budget;
        }
        let end = self.config.keep.count(self.config.shard_count);
        while budget > 0 && self.book.keep_next < end {
            budget = budget.saturating_sub(1);
            let shard = self.book.keep_next;
            self.book.keep_next = shard.saturating_add(1);
            let homeless = self
                .shard(shard)
                .is_some_and(|slot| slot.phase() == Phase::Unallocated && !slot.timed.is_linked());
            if homeless {
                self.place(shard, strategy);
            }
        }
        budget
    }
}

impl super::ledger::Book {
    /// Whether kept shards are left that nobody has looked at in this reign.
    pub(super) const fn is_keeping(&self, config: &super::CoordinatorConfig) -> bool {
        matches!(self.phase, CoordPhase::Open)
            && self.keep_next < config.keep.count(config.shard_count)
    }
}
