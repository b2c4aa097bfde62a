//! Three node processes that vote, and this process, which watches what becomes of their shards.

use core::num::NonZeroU32;
use core::time::Duration;
use std::collections::BTreeMap;

use examples::{
    clock,
    service::{BUSY, Probed, Prober, Servings},
    shape::Shape,
    visitor::{Heard, Visitor},
};
use shard_tokio::{AskError, EntityType, Epoch, NodeId, ShardId, ShardMap, proto::hash::node_id};

use super::{
    Node,
    net::{Net, free_address},
};

pub const NAMES: [&str; 3] = ["alpha", "bravo", "charlie"];
const ENTITIES: u32 = 64;
pub const SHARDS: u32 = 32;

/// Longer than any failover. Entities that wait for one are answered late, not never.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub type Visitors = EntityType<Visitor>;
pub type Homes = BTreeMap<ShardId, (NodeId, Epoch)>;

/// What all nodes agree on.
pub fn shape() -> Shape {
    Shape {
        shards: SHARDS,
        voters: NAMES.map(str::to_owned).to_vec(),
        lan: false,
        tls: None,
    }
}

/// A node of this process that sends only, and never leads.
pub async fn proxy(name: &str, seeds: &[String]) -> (shard_tokio::Node, Visitors) {
    let node = shape().node(name, seeds.to_vec()).unwrap();
    let node = node.bootstrap(false).may_lead(false).start().await.unwrap();
    let visitors = node.entity_type::<Visitor>().shards(SHARDS).proxy();
    let visitors = visitors.ask_timeout(PATIENCE).start().await.unwrap();
    (node, visitors)
}

pub fn names() -> impl Iterator<Item = String> {
    (0..ENTITIES).map(|n| format!("visitor-{n}"))
}

/// Asks every entity once, all at the same time.
pub async fn ask_all(visitors: &Visitors) -> Vec<Result<Heard, AskError>> {
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

pub fn homes(map: &ShardMap) -> Homes {
    let known = map.iter().filter_map(|(shard, home)| Some((shard, home?)));
    known
        .map(|(shard, home)| (shard, (home.node, home.epoch)))
        .collect()
}

pub async fn homes_that(visitors: &Visitors, good: impl Fn(&Homes) -> bool) -> Homes {
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

/// All shards have homes on these nodes, spread as evenly as they can be.
pub fn at_rest(homes: &Homes, nodes: &[NodeId]) -> bool {
    let mut loads: BTreeMap<_, usize> = nodes.iter().map(|node| (*node, 0)).collect();
    for (node, _) in homes.values() {
        match loads.get_mut(node) {
            Some(load) => *load += 1,
            None => return false,
        }
    }
    let least = loads.values().min().unwrap();
    homes.len() == SHARDS as usize && loads.values().all(|load| load - least <= 1)
}

pub struct Cluster {
    pub nodes: Vec<Node>,
    /// Where they are dialled.
    addresses: Vec<String>,
    pub watcher: shard_tokio::Node,
    pub visitors: Visitors,
    /// Asks all the time; a node of its own, so that what is reported to the watcher is the test's.
    _probing: (shard_tokio::Node, Visitors),
    pub prober: Prober,
    /// When all had come to rest.
    pub homes: Homes,
    servings: Servings,
}

impl Cluster {
    /// Through relays, if there is a net.
    pub async fn start(net: Option<&Net>) -> Self {
        let shards = SHARDS.to_string();
        let mut options = vec!["--shards".to_owned(), shards];
        options.extend(["--voters".to_owned(), NAMES.join(",")]);
        let mut nodes: Vec<Node> = Vec::new();
        let mut addresses: Vec<String> = Vec::new();
        for name in NAMES {
            let listen = free_address();
            let mut options = options.clone();
            let address = match net {
                None => listen.clone(),
                Some(net) => net.relay(name, listen.clone()).await,
            };
            options.extend(["--advertise".to_owned(), address.clone()]);
            let seeds: Vec<_> = addresses.iter().map(String::as_str).collect();
            let options: Vec<_> = options.iter().map(String::as_str).collect();
            nodes.push(Node::spawn(name, &listen, &seeds, &options));
            addresses.push(address);
        }
        let (watcher, visitors) = proxy("watcher", &addresses).await;
        let probing = proxy("prober", &addresses).await;
        visitors.ready().await.unwrap();
        probing.1.ready().await.unwrap();
        for node in &mut nodes {
            node.takes_part();
        }
        let prober = Prober::start(&probing.1, NonZeroU32::new(SHARDS).unwrap());
        prober.served_since(0, None).await.unwrap();
        let mut cluster = Self {
            nodes,
            addresses,
            watcher,
            visitors,
            _probing: probing,
            prober,
            homes: Homes::new(),
            servings: Servings::default(),
        };
        cluster.comes_to_rest().await;
        cluster
    }

    pub fn id(&self, index: usize) -> NodeId {
        node_id(NAMES[index])
    }

    /// The node that leads.
    pub fn leader(&self) -> usize {
        let leader = self.watcher.leader().unwrap().node;
        (0..3).find(|index| self.id(*index) == leader).unwrap()
    }

    /// One that does not.
    pub fn follower(&self) -> usize {
        (self.leader() + 1) % 3
    }

    /// All nodes but one.
    pub fn others(&self, index: usize) -> [NodeId; 2] {
        [self.id((index + 1) % 3), self.id((index + 2) % 3)]
    }

    /// Every entity has a life where it is going to be, on all three nodes.
    pub async fn comes_to_rest(&mut self) {
        let all = [0, 1, 2].map(|index| self.id(index));
        homes_that(&self.visitors, |homes| at_rest(homes, &all)).await;
        for heard in ask_all(&self.visitors).await {
            self.heard(&heard.unwrap());
        }
        self.homes = homes(&self.visitors.shard_map());
    }

    /// Starts a node again, under its name.
    pub fn start_again(&mut self, index: usize) {
        let shards = SHARDS.to_string();
        let voters = NAMES.join(",");
        let options = ["--shards", &shards, "--voters", &voters];
        let others = [(index + 1) % 3, (index + 2) % 3];
        let seeds = others.map(|other| self.addresses[other].as_str());
        let node = Node::start(NAMES[index], &seeds, &options);
        self.addresses[index] = node.address.clone();
        self.nodes[index] = node;
    }

    /// Homes of the shards that lived, or did not live, on a node.
    pub fn lived(&self, index: usize, on: bool) -> Homes {
        let of = self.homes.iter();
        of.filter(|(_, home)| (home.0 == self.id(index)) == on)
            .map(|(shard, home)| (*shard, *home))
            .collect()
    }

    /// What an entity said: counts among what no two homes may do at once.
    pub fn heard(&mut self, heard: &Heard) {
        let served = Visitor::served(heard).unwrap();
        let (shard, at_us) = (ShardId(heard.shard), served.at_us);
        self.servings.add(shard, served.epoch, at_us, at_us);
    }

    /// Every ask is answered, or reported, and nothing is reported of one that was answered.
    pub fn check_fates(&mut self, heard: Vec<Result<Heard, AskError>>) {
        let mut reported = 0;
        for (name, heard) in names().zip(heard) {
            match heard {
                Ok(heard) => self.heard(&heard),
                Err(AskError::PerhapsDelivered | AskError::Undelivered(_)) => reported += 1,
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let stats = self.watcher.stats();
        let undelivered: u64 = stats.undelivered.iter().map(|it| it.1).sum();
        assert_eq!(undelivered, reported, "{stats:?}");
    }

    /// Shards of a node that failed were served elsewhere in time, those of others without a break; nothing was served
    /// by two homes at once.
    pub fn check_service(&self, from_us: u64, failed: usize) {
        self.check_gaps(from_us, |home| home == self.id(failed));
        self.check_homes();
    }

    /// Shards with such a home were served again in time, those with another one without a break.
    pub fn check_gaps(&self, from_us: u64, hit: impl Fn(NodeId) -> bool) {
        // This is no release build, and other tests run at the same time: the programs judge more strictly.
        let slow = 2 * shape().takeover_bound();
        let to_us = clock::micros();
        let noise = self.prober.resolution(from_us, to_us) + 5 * BUSY;
        for (shard, gap) in self.prober.gaps(from_us, to_us) {
            let home = self.homes[&shard].0;
            let bound = if hit(home) { slow } else { noise };
            assert!(gap <= bound, "{shard:?} on {home:?}: {gap:?}");
        }
    }

    /// Nothing was served by two homes at once.
    pub fn check_homes(&self) {
        let mut servings = self.servings.clone();
        servings.merge(&self.prober.servings());
        assert_eq!(servings.beside_a_newer_home(), 0, "{servings:?}");
    }

    /// Every entity has one life, and it is where the shard map says.
    pub async fn check_lives(&mut self) {
        let first = ask_all(&self.visitors).await;
        let homes = homes(&self.visitors.shard_map());
        for (name, (one, two)) in names().zip(first.into_iter().zip(ask_all(&self.visitors).await))
        {
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((one.epoch, &one.node), (two.epoch, &two.node), "{name}");
            assert_eq!(one.count + 1, two.count, "{name}");
            let (node, epoch) = homes[&ShardId(two.shard)];
            assert_eq!(node, node_id(&two.node), "{name}");
            assert_eq!((epoch.term().0, epoch.round()), two.epoch, "{name}");
            self.heard(&one);
            self.heard(&two);
        }
    }
}
