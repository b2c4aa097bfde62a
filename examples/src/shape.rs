//! What all nodes of a cluster agree on.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use shard_adapter::runtime::Runtime;
use shard_tokio::{NodeBuilder, Ownership, Preset};

/// What all nodes of a cluster agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many shards there are.
    pub shards: u32,
    /// Names of the nodes that vote; nobody: homes are trusted to membership.
    pub voters: Vec<String>,
    /// Times for networks with round trips below 10 ms.
    pub lan: bool,
}

impl Shape {
    /// A cluster whose homes are trusted to membership, with short times.
    #[must_use]
    pub const fn trusting(shards: u32) -> Self {
        Self {
            shards,
            voters: Vec::new(),
            lan: true,
        }
    }

    /// How many voters must support a leader; 0 if there are none.
    #[must_use]
    pub fn quorum(&self) -> usize {
        match self.voters.len() {
            0 => 0,
            voters => voters / 2 + 1,
        }
    }

    /// Sets up a node on this machine, on tokio. One without seeds is the first one.
    #[must_use]
    pub fn node(&self, name: &str, seeds: Vec<String>) -> NodeBuilder {
        self.node_on(name, seeds)
    }

    /// The same on any runtime.
    #[must_use]
    pub fn node_on<R: Runtime>(
        &self,
        name: &str,
        seeds: Vec<String>,
    ) -> shard_adapter::NodeBuilder<R> {
        let node = shard_adapter::Node::<R>::builder(name)
            .listen("127.0.0.1:0")
            .bootstrap(seeds.is_empty())
            .seeds(seeds)
            .preset(if self.lan {
                Preset::Lan
            } else {
                Preset::Default
            });
        if self.voters.is_empty() {
            node.ownership(Ownership::Trust)
        } else {
            node.voters(&self.voters)
        }
    }

    /// How long a node may serve without hearing from its leader.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(if self.lan { 500 } else { 2000 })
    }

    /// How long shards may be without service after their node was killed or froze. Without leases they wait until
    /// membership declares it down, for which nothing is promised.
    #[must_use]
    pub const fn takeover_bound(&self) -> Duration {
        Duration::from_millis(match (self.voters.is_empty(), self.lan) {
            (true, _) => 30_000,
            (false, true) => 1000,
            (false, false) => 2900,
        })
    }

    /// The same for a shard that moves as planned: two round trips, of the length that the times are made for.
    #[must_use]
    pub const fn move_bound(&self) -> Duration {
        Duration::from_millis(if self.lan { 20 } else { 100 })
    }
}
