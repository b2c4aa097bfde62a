//! Node processes are killed, and a proxy in this process watches what becomes of their shards.

mod common;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use common::Node;
use examples::visitor::{Heard, Visitor};
use shard_tokio::{AskError, EntityType, Epoch, NodeId, Preset, ShardId, ShardMap};

const ENTITIES: u32 = 64;
const SHARDS: u32 = 32;

/// Longer than any failover. Entities that wait for one are answered late, not never.
const PATIENCE: Duration = Duration::from_secs(30);

type Visitors = EntityType<Visitor>;
type Homes = BTreeMap<ShardId, (NodeId, Epoch)>;

fn node(name: &str, seeds: &[&str]) -> Node {
    Node::start_with(name, seeds, &["--shards", &SHARDS.to_string()])
}

/// A node of this process that sends only, and never leads.
async fn watcher(seeds: &[&Node]) -> (shard_tokio::Node, Visitors) {
    let node = shard_tokio::Node::builder("watcher")
        .listen("127.0.0.1:0")
        .bootstrap(false)
        .may_lead(false)
        .seeds(seeds.iter().map(|seed| &seed.address))
        .preset(Preset::Lan)
        .start()
        .await
        .unwrap();
    let visitors = node.entity_type::<Visitor>().shards(SHARDS).proxy();
    let visitors = visitors.ask_timeout(PATIENCE).start().await.unwrap();
    visitors.ready().await.unwrap();
    (node, visitors)
}

fn names() -> impl Iterator<Item = String> {
    (0..ENTITIES).map(|n| format!("visitor-{n}"))
}

/// Asks every entity once, all at the same time.
async fn ask_all(visitors: &Visitors) -> Vec<Result<Heard, AskError>> {
    let asks: Vec<_> = names()
        .map(|name| {
            let entity = visitors.entity(name);
            tokio::spawn(async move { entity.ask("hello".to_owned()).await })
        })
        .collect();
    let mut heard = Vec::new();
    for ask in asks {
        heard.push(ask.await.unwrap());
    }
    heard
}

fn homes(map: &ShardMap) -> Homes {
    let known = map.iter().filter_map(|(shard, home)| Some((shard, home?)));
    known
        .map(|(shard, home)| (shard, (home.node, home.epoch)))
        .collect()
}

async fn homes_that(visitors: &Visitors, good: impl Fn(&Homes) -> bool) -> Homes {
    let mut changes = visitors.shard_map_changes();
    let waiting = async {
        loop {
            let homes = homes(&visitors.shard_map());
            if good(&homes) {
                return homes;
            }
            changes.next().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    waited.unwrap_or_else(|_| panic!("{:?}", visitors.shard_map()))
}

/// The shards of all entities have homes on these nodes, spread as evenly as they can be.
fn at_rest(homes: &Homes, shards: usize, nodes: &[NodeId]) -> bool {
    let mut loads: BTreeMap<_, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    for (node, _) in homes.values() {
        match loads.get_mut(node) {
            Some(load) => *load += 1,
            None => return false,
        }
    }
    let least = loads.values().min().unwrap();
    homes.len() == shards && loads.values().all(|load| load - least <= 1)
}

/// Three processes, a watcher, and the homes of all entities' shards when they have come to rest.
struct Cluster {
    nodes: Vec<Node>,
    ids: Vec<NodeId>,
    watcher: shard_tokio::Node,
    visitors: Visitors,
    shards: usize,
    homes: Homes,
}

impl Cluster {
    async fn start() -> Self {
        let a = node("a", &[]);
        let b = node("b", &[&a.address]);
        let c = node("c", &[&a.address, &b.address]);
        let (watcher, visitors) = watcher(&[&a, &b, &c]).await;
        let ids = ["a", "b", "c"].map(shard_proto::hash::node_id).to_vec();
        for heard in ask_all(&visitors).await {
            heard.unwrap();
        }
        let shards: BTreeSet<_> = names().map(|name| visitors.shard_of(&name)).collect();
        let shards = shards.len();
        let homes = homes_that(&visitors, |homes| at_rest(homes, shards, &ids)).await;
        // Every entity has a life where it is going to be.
        for heard in ask_all(&visitors).await {
            heard.unwrap();
        }
        Self {
            nodes: vec![a, b, c],
            ids,
            watcher,
            visitors,
            shards,
            homes,
        }
    }

    /// `kill -9`.
    fn kill(&mut self, index: usize) {
        self.nodes[index].process.kill().unwrap();
        self.nodes[index].process.wait().unwrap();
    }

    /// Homes of the shards that lived, or did not live, on a node.
    fn lived(&self, index: usize, on: bool) -> Homes {
        let of = self.homes.iter();
        of.filter(|(_, home)| (home.0 == self.ids[index]) == on)
            .map(|(shard, home)| (*shard, *home))
            .collect()
    }

    /// Every ask is answered, or reported as one that the dead node perhaps handled.
    async fn ask_through_a_failure(&self) {
        let mut reported = 0;
        for (name, heard) in names().zip(ask_all(&self.visitors).await) {
            match heard {
                Ok(_) => {}
                Err(AskError::PerhapsDelivered) => reported += 1,
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let stats = self.watcher.stats();
        let undelivered: u64 = stats.undelivered.iter().map(|it| it.1).sum();
        assert_eq!(undelivered, reported, "{stats:?}");
    }

    /// Every entity has one life, and it is where the shard map says.
    async fn check_lives(&self) {
        let first = ask_all(&self.visitors).await;
        let homes = homes(&self.visitors.shard_map());
        for (name, (one, two)) in names().zip(first.into_iter().zip(ask_all(&self.visitors).await))
        {
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((one.epoch, &one.node), (two.epoch, &two.node), "{name}");
            assert_eq!(one.count + 1, two.count, "{name}");
            let (node, epoch) = homes[&ShardId(two.shard)];
            assert_eq!(node, shard_proto::hash::node_id(&two.node), "{name}");
            assert_eq!((epoch.term().0, epoch.round()), two.epoch, "{name}");
        }
    }
}

/// Scenario 28: a node that does not lead is killed. Its shards get homes on the two others, theirs stay.
#[tokio::test]
async fn s28_shards_of_a_killed_node_live_elsewhere() {
    let mut cluster = Cluster::start().await;
    cluster.kill(1);
    cluster.ask_through_a_failure().await;
    let left = [cluster.ids[0], cluster.ids[2]];
    let now = homes_that(&cluster.visitors, |homes| {
        at_rest(homes, cluster.shards, &left)
    })
    .await;
    for (shard, home) in cluster.lived(1, false) {
        assert_eq!(now[&shard], home, "{shard:?} lived");
    }
    for (shard, (_, epoch)) in cluster.lived(1, true) {
        assert!(now[&shard].1 > epoch, "{shard:?}");
    }
    cluster.check_lives().await;
}

/// Scenario 29: a node is killed and started again at once, under the same name. What it had is given homes anew, once.
#[tokio::test]
async fn s29_a_node_restarts_quickly_under_its_name() {
    let mut cluster = Cluster::start().await;
    cluster.kill(1);
    let seeds = [0, 2].map(|index| cluster.nodes[index].address.clone());
    cluster.nodes[1] = node("b", &seeds.each_ref().map(String::as_str));
    cluster.ask_through_a_failure().await;
    let before = cluster.lived(1, true);
    let newer = |homes: &Homes| before.iter().all(|(shard, home)| homes[shard].1 > home.1);
    homes_that(&cluster.visitors, |homes| {
        at_rest(homes, cluster.shards, &cluster.ids) && newer(homes)
    })
    .await;
    cluster.check_lives().await;
}

/// Scenario 30: the leading node is killed. What others host stays where it is, under the same epochs.
#[tokio::test]
async fn s30_shards_that_live_stay_when_the_leader_is_killed() {
    let mut cluster = Cluster::start().await;
    cluster.kill(0);
    cluster.ask_through_a_failure().await;
    let left = [cluster.ids[1], cluster.ids[2]];
    let now = homes_that(&cluster.visitors, |homes| {
        at_rest(homes, cluster.shards, &left)
    })
    .await;
    for (shard, home) in cluster.lived(0, false) {
        assert_eq!(now[&shard], home, "{shard:?} lived");
    }
    for (shard, (_, epoch)) in cluster.lived(0, true) {
        assert!(now[&shard].1.term() > epoch.term(), "{shard:?}");
    }
    cluster.check_lives().await;
}
