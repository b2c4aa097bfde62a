//! Entities and helpers of the tests.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

pub mod certs;
pub mod log;
pub mod net;
pub mod trusting;
pub mod way;
pub mod wire;

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shard_tokio::{
    Context, Entity, EntityType, EntityTypeBuilder, Node, NodeBuilder, Preset, ShardMap,
    TcpTransport, Transport,
};

/// What an entity that keeps a log is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    /// Note a number of a caller.
    Note { caller: u64, n: u64 },
    /// Add, and answer with the sum.
    Add(u64),
    /// Who are you: node name, epoch, sum.
    Who,
    /// Panic.
    Panic,
    /// Do not answer.
    Silence,
    /// Answer only after so many milliseconds.
    Slow(u64),
    /// Block until the gate of the world opens.
    Block,
    /// Something long.
    Blob(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Sum(u64),
    Who { node: String, epoch: u64, sum: u64 },
    Done,
}

/// What all nodes of a test share: what entities saw, and doors they wait at.
pub struct World {
    /// Per entity: what was noted, in order, with the epoch.
    pub log: Mutex<HashMap<String, Vec<(u64, u64)>>>,
    /// Lives that started and stopped.
    pub lives: Mutex<Vec<(String, &'static str)>>,
    /// Entities that block wait for a permit.
    pub door: tokio::sync::Semaphore,
    /// How often one began to.
    pub blocked: std::sync::atomic::AtomicU32,
    /// Starts that shall fail.
    pub bad_starts: std::sync::atomic::AtomicU32,
}

impl World {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            log: Mutex::default(),
            lives: Mutex::default(),
            door: tokio::sync::Semaphore::new(0),
            blocked: 0.into(),
            bad_starts: 0.into(),
        })
    }

    pub fn notes(&self, id: &str) -> Vec<(u64, u64)> {
        self.log
            .lock()
            .unwrap()
            .get(id)
            .cloned()
            .unwrap_or_default()
    }

    pub fn all_notes(&self) -> HashMap<String, Vec<(u64, u64)>> {
        self.log.lock().unwrap().clone()
    }

    /// Every caller's numbers grow per entity: none is handled twice, or before an earlier one. Returns how many there
    /// are.
    pub fn assert_growing(&self) -> u64 {
        let mut count = 0;
        for (id, notes) in self.all_notes() {
            let mut last: HashMap<u64, u64> = HashMap::new();
            for (caller, n) in notes {
                let before = last.insert(caller, n);
                assert!(
                    before.is_none_or(|before| before < n),
                    "entity {id}, caller {caller}: {n} after {before:?}"
                );
                count += 1;
            }
        }
        count
    }

    /// Every caller's numbers are 0, 1, 2, … per entity, and nobody's are missing.
    pub fn assert_in_order(&self, each: u64) {
        for (id, notes) in self.all_notes() {
            let mut next: HashMap<u64, u64> = HashMap::new();
            for (caller, n) in notes {
                let expected = next.entry(caller).or_default();
                assert_eq!(n, *expected, "entity {id}, caller {caller}");
                *expected += 1;
            }
            for (caller, seen) in next {
                assert_eq!(seen, each, "entity {id}, caller {caller}");
            }
        }
    }
}

pub struct Scribe {
    world: Arc<World>,
    node: String,
    sum: u64,
}

impl Scribe {
    pub fn factory(world: &Arc<World>, node: &str) -> impl Fn(&str) -> Self + Send + Sync + use<> {
        let (world, node) = (Arc::clone(world), node.to_owned());
        move |_id| Self {
            world: Arc::clone(&world),
            node: node.clone(),
            sum: 0,
        }
    }
}

impl Entity for Scribe {
    const TYPE: &'static str = "scribe";
    type Message = Say;
    type Reply = Answer;

    fn create(_id: &str) -> Self {
        Self {
            world: World::new(),
            node: String::new(),
            sum: 0,
        }
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), shard_tokio::BoxError> {
        use std::sync::atomic::Ordering::SeqCst;
        let left = &self.world.bad_starts;
        if left
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .is_ok()
        {
            return Err("the store is not there".into());
        }
        self.world
            .lives
            .lock()
            .unwrap()
            .push((cx.id().to_owned(), "started"));
        Ok(())
    }

    async fn handle(&mut self, message: Say, cx: &mut Context<'_, Self>) {
        match message {
            Say::Note { caller, n } => {
                let mut log = self.world.log.lock().unwrap();
                log.entry(cx.id().to_owned()).or_default().push((caller, n));
                drop(log);
                cx.reply(Answer::Done);
            }
            Say::Add(n) => {
                self.sum += n;
                cx.reply(Answer::Sum(self.sum));
            }
            Say::Who => cx.reply(Answer::Who {
                node: self.node.clone(),
                epoch: cx.epoch().to_bits(),
                sum: self.sum,
            }),
            Say::Panic => panic!("as told"),
            Say::Silence => {}
            Say::Slow(millis) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                cx.reply(Answer::Done);
            }
            Say::Block => {
                self.world
                    .blocked
                    .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                self.world.door.acquire().await.unwrap().forget();
                cx.reply(Answer::Done);
            }
            Say::Blob(bytes) => cx.reply(Answer::Sum(bytes.len() as u64)),
        }
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        self.world
            .lives
            .lock()
            .unwrap()
            .push((cx.id().to_owned(), "stopped"));
    }
}

/// A node of a test cluster and its scribes.
pub struct Peer {
    pub node: Node,
    pub scribes: EntityType<Scribe>,
}

/// An address of this machine that nobody else is given. On Linux all of 127.0.0.0/8 is this machine: there each process
/// has a host of its own, whose ports no connection of anybody else comes from.
pub fn free_address() -> String {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let host = if cfg!(target_os = "linux") {
        let [_, a, b, c] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 64 | (a & 63), b, c)
    } else {
        Ipv4Addr::LOCALHOST
    };
    loop {
        let listener = std::net::TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        if GIVEN.lock().unwrap().insert(address.port()) {
            return address.to_string();
        }
    }
}

pub fn builder(name: &str, address: &str, seeds: &[String]) -> NodeBuilder {
    builder_on(name, address, seeds, TcpTransport::new())
}

/// Node `a` is the only voter.
pub fn builder_on(
    name: &str,
    address: &str,
    seeds: &[String],
    transport: impl Transport,
) -> NodeBuilder {
    Node::builder(name)
        .listen(address)
        .seeds(seeds)
        .voters(["a"])
        .preset(Preset::Lan)
        .transport(transport)
}

pub async fn scribes(
    node: &Node,
    world: &Arc<World>,
    set: impl FnOnce(EntityTypeBuilder<Scribe>) -> EntityTypeBuilder<Scribe>,
) -> EntityType<Scribe> {
    let builder = node
        .entity_type::<Scribe>()
        .shards(32)
        .rebalance_interval(Duration::from_millis(200))
        .factory(Scribe::factory(world, node.name()));
    set(builder).start().await.unwrap()
}

impl Peer {
    pub async fn start(name: &str, address: &str, seeds: &[String], world: &Arc<World>) -> Self {
        let node = builder(name, address, seeds).start().await.unwrap();
        let scribes = scribes(&node, world, |it| it).await;
        Self { node, scribes }
    }

    /// A node that sends only.
    pub async fn proxy(name: &str, address: &str, seeds: &[String], world: &Arc<World>) -> Self {
        let node = builder(name, address, seeds).start().await.unwrap();
        let scribes = scribes(&node, world, EntityTypeBuilder::proxy).await;
        Self { node, scribes }
    }
}

/// Waits for a shard map that `good` accepts.
pub async fn map_that<E: Entity>(
    scribes: &EntityType<E>,
    good: impl Fn(&ShardMap) -> bool,
) -> ShardMap {
    let mut changes = scribes.shard_map_changes();
    loop {
        let map = scribes.shard_map();
        if good(&map) {
            return map;
        }
        changes.next().await.expect("the type stopped");
    }
}

/// How many shards of a map a node hosts.
pub fn hosted_by(map: &ShardMap, node: &Node) -> usize {
    map.iter()
        .filter(|(_, home)| home.is_some_and(|home| home.node == node.id()))
        .count()
}

/// Fails a test that hangs.
pub async fn within<F: Future>(seconds: u64, what: &str, future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(seconds), future)
        .await
        .unwrap_or_else(|_| panic!("not within {seconds} s: {what}"))
}

pub fn all<T, F: Fn(usize) -> T>(count: usize, make: F) -> Vec<T> {
    logs();
    (0..count).map(make).collect()
}

/// Shows logs if `RUST_LOG` asks for them.
pub fn logs() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_test_writer()
        .try_init();
}

/// Waits for what cannot be awaited: counters, and what entities noted.
pub async fn until(mut good: impl FnMut() -> bool) {
    while !good() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Messages of a node that were reported as undelivered.
pub fn undelivered(node: &Node) -> u64 {
    node.stats().undelivered.iter().map(|it| it.1).sum()
}
