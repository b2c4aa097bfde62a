//! Who hosts how many shards, and how often one moved.

use core::{fmt::Write as _, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use shard_tokio::{NodeId, ShardId, ShardMapChanges, proto::hash::node_id};

/// Follows the shard map. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MapWatch(Arc<Mutex<Seen>>);

#[derive(Debug)]
struct Seen {
    homes: BTreeMap<ShardId, NodeId>,
    moves: u64,
    changed: Instant,
}

impl MapWatch {
    /// Follows a stream of changes in the background.
    #[must_use]
    pub fn start(mut changes: ShardMapChanges) -> Self {
        let watch = Self(Arc::new(Mutex::new(Seen {
            homes: BTreeMap::new(),
            moves: 0,
            changed: Instant::now(),
        })));
        let seen = watch.clone();
        tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                seen.change(change.shard, change.home.map(|home| home.node));
            }
        });
        watch
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, shard: ShardId, home: Option<NodeId>) {
        let mut seen = self.lock();
        seen.changed = Instant::now();
        // Between two homes a shard has none; what counts is where it turns up again.
        let Some(home) = home else { return };
        let before = seen.homes.insert(shard, home);
        if before.is_some_and(|before| before != home) {
            seen.moves += 1;
        }
    }

    /// How many times a shard got another home than it had.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.lock().moves
    }

    /// Which shards a node hosts.
    #[must_use]
    pub fn shards_of(&self, node: NodeId) -> BTreeSet<ShardId> {
        let seen = self.lock();
        let of_node = seen.homes.iter().filter(|(_, home)| **home == node);
        of_node.map(|(shard, _)| *shard).collect()
    }

    /// Which shards got another home than they had then.
    #[must_use]
    pub fn moved_since(&self, before: &BTreeMap<ShardId, NodeId>) -> BTreeSet<ShardId> {
        let seen = self.lock();
        let moved = seen.homes.iter().filter(|(shard, home)| {
            let before = before.get(shard);
            before.is_some_and(|before| before != *home)
        });
        moved.map(|(shard, _)| *shard).collect()
    }

    /// The home of each shard that had one.
    #[must_use]
    pub fn homes(&self) -> BTreeMap<ShardId, NodeId> {
        self.lock().homes.clone()
    }

    /// How many shards each node hosts.
    #[must_use]
    pub fn hosts(&self) -> Homes {
        let mut hosts = Homes::default();
        for home in self.lock().homes.values() {
            *hosts.0.entry(*home).or_default() += 1;
        }
        hosts
    }

    /// Returns when the map has not changed for a while.
    pub async fn quiet(&self) {
        const QUIET: Duration = Duration::from_millis(500);
        let begun = Instant::now();
        loop {
            let since = self.lock().changed.max(begun).elapsed();
            match QUIET.checked_sub(since) {
                Some(rest) if !rest.is_zero() => tokio::time::sleep(rest).await,
                _ => return,
            }
        }
    }
}

/// How many shards each node hosts.
#[derive(Clone, Debug, Default)]
pub struct Homes(BTreeMap<NodeId, u32>);

impl Homes {
    /// How many one node hosts.
    #[must_use]
    pub fn of(&self, node: NodeId) -> u32 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    /// A table: a line per moment, a column per node.
    #[must_use]
    pub fn table(moments: &[(String, Self)], names: &[String]) -> String {
        let mut text = format!("{:22}", "shards with a home");
        // Writing to a string cannot fail.
        for name in names {
            let _ = write!(text, "{name:>8}");
        }
        text.push('\n');
        for (moment, hosts) in moments {
            let _ = write!(text, "  {moment:20}");
            for name in names {
                let count = hosts.0.get(&node_id(name));
                let count = count.map_or_else(|| "–".to_owned(), u32::to_string);
                let _ = write!(text, "{count:>8}");
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_a_home_that_changed() {
        let watch = MapWatch(Arc::new(Mutex::new(Seen {
            homes: BTreeMap::new(),
            moves: 0,
            changed: Instant::now(),
        })));
        let (a, b) = (node_id("node-a"), node_id("node-b"));
        watch.change(ShardId(1), Some(a));
        watch.change(ShardId(2), Some(a));
        watch.change(ShardId(1), None);
        watch.change(ShardId(1), Some(b));
        watch.change(ShardId(2), None);
        watch.change(ShardId(2), Some(a));
        assert_eq!(watch.moves(), 1);
        let names = ["node-a", "node-b", "node-c"].map(str::to_owned);
        let table = Homes::table(&[("now".to_owned(), watch.hosts())], &names);
        let columns: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(columns, ["now", "1", "1", "–"]);
    }
}
