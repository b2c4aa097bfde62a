//! Nodes that lose their lease: paused, stuck, cut off, killed. What is handled never goes back to an older home.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::net::Port;
use common::{hosted_by, map_that, undelivered, until, within};
use serde::{Deserialize, Serialize};
use shard_tokio::{
    Context, Entity, EntityRef, EntityType, Membership, MemoryTransport, Node, NodeBuilder, Preset,
    ShardMap,
};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// Twice the lease of the LAN preset, and more than what follows it.
const LONG: Duration = Duration::from_millis(1500);
/// For an answer when nothing fails.
const SOON: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Told {
    Note { caller: u64, n: u64 },
    Where,
}

#[derive(Debug)]
struct Seen {
    epoch: u64,
    caller: u64,
    n: u64,
    /// What the node said of its lease.
    held: bool,
}

/// What all nodes of a test share.
#[derive(Default)]
struct Ledger {
    /// Per entity, in the order in which it was handled, wherever.
    seen: Mutex<HashMap<String, Vec<Seen>>>,
    /// Questions that entities were asked, and that they heard.
    asked: AtomicU64,
    heard: AtomicU64,
}

impl Ledger {
    async fn ask(&self, entity: &EntityRef<Witness>, wait: Duration) -> Option<String> {
        self.asked.fetch_add(1, SeqCst);
        entity.ask_for(Told::Where, wait).await.ok()
    }

    /// Waits until each message of every caller, `told` notes and all questions, was handled or reported: nothing is
    /// lost in silence, and nothing waits for good.
    async fn settled(&self, nodes: &[&Node], told: u64) {
        let start = Instant::now();
        loop {
            let handled = self.handled() + self.heard.load(SeqCst);
            let lost: u64 = nodes.iter().map(|node| undelivered(node)).sum();
            let sent = told + self.asked.load(SeqCst);
            if handled + lost >= sent {
                assert_eq!(handled + lost, sent, "{handled} handled, {lost} reported");
                break;
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{handled} handled, {lost} reported of {sent}: {nodes:?}"
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn handled(&self) -> u64 {
        self.seen
            .lock()
            .unwrap()
            .values()
            .map(Vec::len)
            .sum::<usize>() as u64
    }

    /// At most one home at a time: epochs never go back. Per caller in order, nothing twice.
    ///
    /// Each message begins under a lease. A thread may be preempted between that look and the note: then this one is
    /// without a lease, a fenced store would refuse it, and none follows under its epoch.
    fn check(&self) {
        for (id, seen) in &*self.seen.lock().unwrap() {
            let mut epoch = 0;
            let mut over = HashSet::new();
            let mut last: HashMap<u64, u64> = HashMap::new();
            for note in seen {
                assert!(
                    !over.contains(&note.epoch),
                    "{id}: {note:?} without a lease"
                );
                if !note.held {
                    over.insert(note.epoch);
                    if note.epoch < epoch {
                        continue;
                    }
                }
                assert!(note.epoch >= epoch, "{id}: {note:?} after epoch {epoch}");
                epoch = note.epoch;
                let before = last.insert(note.caller, note.n);
                assert!(
                    before.is_none_or(|before| before < note.n),
                    "{id}: {note:?}"
                );
            }
        }
    }
}

struct Witness {
    ledger: Arc<Ledger>,
    node: String,
}

impl Entity for Witness {
    const TYPE: &'static str = "witness";
    type Message = Told;
    type Reply = String;

    fn create(_id: &str) -> Self {
        unreachable!("a factory makes them")
    }

    async fn handle(&mut self, told: Told, cx: &mut Context<'_, Self>) {
        match told {
            Told::Note { caller, n } => {
                let mut seen = self.ledger.seen.lock().unwrap();
                seen.entry(cx.id().to_owned()).or_default().push(Seen {
                    epoch: cx.epoch().to_bits(),
                    caller,
                    n,
                    held: cx.holds_lease(),
                });
            }
            Told::Where => {
                self.ledger.heard.fetch_add(1, SeqCst);
                cx.reply(self.node.clone());
            }
        }
    }
}

const NAMES: [&str; 3] = ["a", "b", "c"];

struct Peer {
    node: Node,
    witnesses: EntityType<Witness>,
    port: Port,
    ledger: Arc<Ledger>,
}

impl Peer {
    async fn start(
        name: &str,
        voters: &[&str],
        network: &MemoryTransport,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let port = Port::new(network);
        let node = Node::builder(name)
            .listen(name)
            .seeds(NAMES)
            .voters(voters.iter().copied())
            // Nobody is declared down: leases do without.
            .membership(Membership::Links)
            .preset(Preset::Lan)
            .transport(port.clone());
        Self::with(node, port, ledger).await
    }

    async fn with(node: NodeBuilder, port: Port, ledger: &Arc<Ledger>) -> Self {
        let node = node.start().await.unwrap();
        let (shared, name) = (Arc::clone(ledger), node.name().to_owned());
        let witnesses = node
            .entity_type::<Witness>()
            .shards(16)
            .rebalance_interval(Duration::from_millis(200))
            .factory(move |_| Witness {
                ledger: Arc::clone(&shared),
                node: name.clone(),
            });
        let witnesses = witnesses.start().await.unwrap();
        Self {
            node,
            witnesses,
            port,
            ledger: Arc::clone(ledger),
        }
    }

    fn hosts(&self, map: &ShardMap, at_least: usize) -> bool {
        map.known() == 16 && hosted_by(map, &self.node) >= at_least
    }

    /// An entity that runs on `home`, by now.
    async fn one_on(&self, home: &Self) -> EntityRef<Witness> {
        for e in 0..64 {
            let entity = self.witnesses.entity(format!("e{e}"));
            self.ledger.ask(&entity, SOON).await.unwrap();
        }
        let map = map_that(&self.witnesses, |map| home.hosts(map, 4)).await;
        let mut ids = (0..64).map(|e| format!("e{e}"));
        let id = ids
            .find(|id| {
                let shard = self.witnesses.shard_of(id);
                map.home(shard).is_some_and(|it| it.node == home.node.id())
            })
            .unwrap();
        let entity = self.witnesses.entity(id);
        let runs_on = self.ledger.ask(&entity, SOON).await;
        assert_eq!(runs_on.as_deref(), Some(home.node.name()));
        entity
    }
}

/// Tells an entity numbers until told to stop. Returns how many were taken.
async fn tell(entity: EntityRef<Witness>, caller: u64, stop: Arc<AtomicBool>) -> u64 {
    let mut n = 0;
    while !stop.load(SeqCst) {
        if entity.tell(Told::Note { caller, n }).await.is_ok() {
            n += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    n
}

/// Until it runs at `home`.
async fn serves(ledger: &Ledger, entity: &EntityRef<Witness>, home: &str) {
    let wait = Duration::from_millis(200);
    while ledger.ask(entity, wait).await.as_deref() != Some(home) {}
}

/// A process of its own, with one thread.
fn process<T: Send + 'static>(
    work: impl AsyncFnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(|| {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    })
}

/// A whole process is stopped for longer than its lease, with messages in the mailboxes, and wakes up.
#[test]
fn what_moved_while_a_process_was_paused_is_not_served_by_it() {
    let ledger = Arc::new(Ledger::default());
    let network = MemoryTransport::new();
    let (to_b, from_a) = oneshot::channel::<String>();
    let (to_a, from_b) = oneshot::channel::<Node>();
    let (end_b, until_a) = oneshot::channel::<()>();
    let b = process({
        let (ledger, network) = (Arc::clone(&ledger), network.clone());
        async move || {
            let b = Peer::start("b", &["a"], &network, &ledger).await;
            b.witnesses.ready().await.unwrap();
            let id = from_a.await.unwrap();
            let entity = b.witnesses.entity(&id);
            assert_eq!(ledger.ask(&entity, SOON).await.as_deref(), Some("b"));
            // Into the mailbox, past the driver; nobody else runs before the pause is over.
            for n in 0..500 {
                entity.try_tell(Told::Note { caller: 1, n }).unwrap();
            }
            thread::sleep(LONG);
            for n in 500..600 {
                entity.tell(Told::Note { caller: 1, n }).await.unwrap();
            }
            // It follows again, and its callers are served.
            ledger.ask(&entity, SOON).await.unwrap();
            to_a.send(b.node.clone()).unwrap();
            let _ = until_a.await;
        }
    });
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(within(60, "a pause", async {
        let a = Peer::start("a", &["a"], &network, &ledger).await;
        a.witnesses.ready().await.unwrap();
        let b_id = shard_tokio::proto::hash::node_id("b");
        until(|| a.node.members().iter().any(|member| member.node == b_id)).await;
        for e in 0..64 {
            let entity = a.witnesses.entity(format!("e{e}"));
            ledger.ask(&entity, SOON).await.unwrap();
        }
        let id = loop {
            let map = a.witnesses.shard_map();
            let mut ids = (0..64).map(|e| format!("e{e}"));
            let on_b = ids.find(|id| {
                let home = map.home(a.witnesses.shard_of(id));
                home.is_some_and(|home| home.node == b_id)
            });
            if let Some(id) = on_b {
                break id;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let entity = a.witnesses.entity(&id);
        assert_eq!(ledger.ask(&entity, SOON).await.as_deref(), Some("b"));
        let stop = Arc::new(AtomicBool::new(false));
        let told = tokio::spawn(tell(entity.clone(), 2, Arc::clone(&stop)));
        let start = Instant::now();
        to_b.send(id).unwrap();
        serves(&ledger, &entity, "a").await;
        let took = start.elapsed();
        assert!(took < LONG, "only after the pause: {took:?}");
        let b_node = from_b.await.unwrap();
        stop.store(true, SeqCst);
        let told = told.await.unwrap();
        ledger.ask(&entity, SOON).await.unwrap();
        ledger.settled(&[&a.node, &b_node], told + 600).await;
        ledger.check();
        end_b.send(()).unwrap();
        tokio::task::spawn_blocking(|| b.join().unwrap())
            .await
            .unwrap();
    }));
}

/// Only the driver is stuck: entities and callers run on, on other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entities_stop_by_themselves_when_the_driver_is_stuck() {
    within(60, "a stuck driver", async {
        let ledger = Arc::new(Ledger::default());
        let network = MemoryTransport::new();
        let a = Peer::start("a", &["a"], &network, &ledger).await;
        let b = Peer::start("b", &["a"], &network, &ledger).await;
        a.witnesses.ready().await.unwrap();
        b.witnesses.ready().await.unwrap();
        let entity = a.one_on(&b).await;
        let here = b.witnesses.entity(entity.id());
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = [(&here, 1), (&here, 2), (&entity, 3)]
            .map(|(entity, caller)| tokio::spawn(tell(entity.clone(), caller, Arc::clone(&stop))))
            .into();
        until(|| ledger.handled() > 100).await;
        b.port.line.stick();
        let stuck = Instant::now();
        serves(&ledger, &entity, "a").await;
        // Callers go on meanwhile, and the entity on b has stopped without its driver.
        let before = ledger.handled();
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(ledger.handled() > before, "a serves");
        assert!(stuck.elapsed() > Duration::from_millis(500));
        b.port.line.free();
        // What it would serve now, it would serve soon.
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.store(true, SeqCst);
        let mut told = 0;
        for caller in callers {
            told += caller.await.unwrap();
        }
        for entity in [&entity, &here] {
            ledger.ask(entity, SOON).await.unwrap();
        }
        ledger.settled(&[&a.node, &b.node], told).await;
        ledger.check();
    })
    .await;
}

/// The leader hears the node, but the node does not hear it: it stops, and comes back when it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_hear_its_leader_stops_and_comes_back() {
    within(60, "a one-way cut", async {
        let ledger = Arc::new(Ledger::default());
        let network = MemoryTransport::new();
        let a = Peer::start("a", &["a"], &network, &ledger).await;
        let b = Peer::start("b", &["a"], &network, &ledger).await;
        a.witnesses.ready().await.unwrap();
        b.witnesses.ready().await.unwrap();
        let entity = a.one_on(&b).await;
        let here = b.witnesses.entity(entity.id());
        let stop = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = [(&here, 1), (&entity, 2)]
            .map(|(entity, caller)| tokio::spawn(tell(entity.clone(), caller, Arc::clone(&stop))))
            .into();
        a.port.line.cut();
        let cut = Instant::now();
        until(|| b.witnesses.shards().is_empty()).await;
        let took = cut.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        serves(&ledger, &entity, "a").await;
        let took = cut.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        a.port.line.heal();
        map_that(&a.witnesses, |map| b.hosts(map, 4)).await;
        stop.store(true, SeqCst);
        let mut told = 0;
        for caller in callers {
            told += caller.await.unwrap();
        }
        for entity in [&entity, &here] {
            ledger.ask(entity, SOON).await.unwrap();
        }
        ledger.settled(&[&a.node, &b.node], told).await;
        ledger.check();
    })
    .await;
}

/// The leading node of three voters is killed: another one leads, and its shards have new homes.
#[test]
fn the_leader_is_killed_and_its_shards_live_on() {
    let ledger = Arc::new(Ledger::default());
    let network = MemoryTransport::new();
    let runtime = || Builder::new_multi_thread().enable_all().build().unwrap();
    let (its, ours) = (runtime(), runtime());
    let a = its.block_on(Peer::start("a", &NAMES, &network, &ledger));
    ours.block_on(within(60, "a killed leader", async {
        let b = Peer::start("b", &NAMES, &network, &ledger).await;
        let c = Peer::start("c", &NAMES, &network, &ledger).await;
        for peer in [&a, &b, &c] {
            peer.witnesses.ready().await.unwrap();
        }
        let leader = b.node.leader().map(|leader| leader.node);
        assert_eq!(leader, Some(a.node.id()), "the oldest leads");
        let lost = b.one_on(&a).await;
        let kept = b.one_on(&c).await;
        let stop = Arc::new(AtomicBool::new(false));
        for (entity, caller) in [(&lost, 1), (&kept, 2)] {
            tokio::spawn(tell(entity.clone(), caller, Arc::clone(&stop)));
        }
        until(|| ledger.handled() > 100).await;
        its.shutdown_background();
        let killed = Instant::now();
        until(|| {
            b.node
                .leader()
                .is_some_and(|leader| leader.node != a.node.id())
        })
        .await;
        loop {
            let wait = Duration::from_millis(100);
            if let Ok("b" | "c") = lost.ask_for(Told::Where, wait).await.as_deref() {
                break;
            }
        }
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert_eq!(kept.ask(Told::Where).await.as_deref(), Ok("c"));
        stop.store(true, SeqCst);
        ledger.check();
    }));
}
