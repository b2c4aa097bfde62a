//! Clusters of which every node ends, at once or in order, and which start anew on the same file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use shard_tokio::durable::SourcedType;
use shard_tokio::store::{EntityId, Journal, SqliteStore};
use shard_tokio::{Node, Preset};
use tokio::runtime::Runtime;

use crate::common::{free_address, until, within};
use crate::ledger::{Event, Say, Tally};

const NAMES: [&str; 3] = ["a", "b", "c"];
const ENTITIES: u64 = 20;

/// A file that goes with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{}-{name}.sqlite", std::process::id()));
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        for more in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{more}", self.0.display()));
        }
    }
}

/// Nodes, each with a runtime and a connection to the file of its own, as if it were a process.
struct Cluster {
    nodes: Vec<(Node, SourcedType<Tally>)>,
    runtimes: Vec<Runtime>,
}

impl Cluster {
    async fn start(file: &File) -> Self {
        let seeds: Vec<_> = NAMES.iter().map(|_| free_address()).collect();
        let mut cluster = Self {
            nodes: Vec::new(),
            runtimes: Vec::new(),
        };
        for (name, address) in NAMES.iter().zip(&seeds) {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
            let (path, address, seeds) = (file.0.clone(), address.clone(), seeds.clone());
            let started = runtime.spawn(async move {
                let node = Node::builder(*name).listen(address).seeds(seeds);
                let node = node.voters(NAMES).preset(Preset::Lan);
                let node = node.start().await.unwrap();
                let store = SqliteStore::open(path).await.unwrap();
                let tallies = node.event_sourced(store).shards(12).snapshot_every(10);
                (node, tallies.start().await.unwrap())
            });
            cluster.nodes.push(started.await.unwrap());
            cluster.runtimes.push(runtime);
        }
        for (_, tallies) in &cluster.nodes {
            tallies.ready().await.unwrap();
        }
        cluster
    }

    /// Adds different numbers, from every node.
    fn feed(&self, first: u64, rounds: u64) -> Vec<tokio::task::JoinHandle<()>> {
        let tasks = self.nodes.iter().zip(0..).map(|((_, tallies), node)| {
            let tallies = tallies.clone();
            tokio::spawn(async move {
                for round in 0..rounds {
                    for entity in 0..ENTITIES {
                        let n = first + (round * ENTITIES + entity) * 3 + node;
                        let id = format!("e{entity}");
                        let told = tallies.entity(&id).ask(Say::Add(n)).await;
                        if told.is_ok() {
                            answered().lock().unwrap().push((first, id, n));
                        }
                        // Those of a node that has ended come at once.
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        tasks.collect()
    }

    fn kill(self) {
        for runtime in self.runtimes {
            runtime.shutdown_background();
        }
    }

    async fn stop(self) {
        for (node, _) in &self.nodes {
            node.shutdown().await;
        }
        self.kill();
    }
}

/// What was answered: by which feed, by whom, and what.
fn answered() -> &'static Mutex<Vec<(u64, String, u64)>> {
    static ANSWERED: Mutex<Vec<(u64, String, u64)>> = Mutex::new(Vec::new());
    &ANSWERED
}

fn answers(of: u64) -> Vec<(String, u64)> {
    let answered = answered().lock().unwrap();
    let answered = answered.iter().filter(|(first, ..)| *first == of);
    answered.map(|(_, id, n)| (id.clone(), *n)).collect()
}

/// Each answered number is in the journal once, others at most once, epochs never go back, and the entities say so.
async fn check(cluster: &Cluster, file: &File, firsts: &[u64]) {
    let store: Arc<dyn Journal> = Arc::new(SqliteStore::open(&file.0).await.unwrap());
    let mut found: HashMap<(String, u64), u64> = HashMap::new();
    for entity in 0..ENTITIES {
        let id = format!("e{entity}");
        let told = within(20, "an answer", async {
            loop {
                // Whoever asks while homes are unknown may have to ask again.
                if let Ok(told) = cluster.nodes[0].1.entity(&id).ask(Say::Sum).await {
                    return told;
                }
            }
        })
        .await;
        let key = EntityId::new("tally", &*id);
        let (mut sum, mut last, mut newest) = (0, 0, 0);
        loop {
            let page = store.read(key.clone(), last, 1000).await.unwrap();
            let Some(end) = page.last() else { break };
            last = end.seq;
            for recorded in &page {
                let event = shard_tokio::durable::decode_event::<Tally>(&recorded.event);
                let Event::Added { n, epoch } = event.unwrap() else {
                    panic!("nobody wrote that");
                };
                assert!(epoch >= newest, "{id}: epoch {epoch} after {newest}");
                newest = epoch;
                sum += n;
                *found.entry((id.clone(), n)).or_default() += 1;
            }
        }
        assert_eq!((told.sum, told.events), (sum, last), "{id}");
    }
    let twice: Vec<_> = found.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    for first in firsts {
        for answered in answers(*first) {
            assert!(found.contains_key(&answered), "{answered:?} is lost");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_stops_goes_on_where_it_was() {
    within(60, "restart", async {
        let file = File::new("stop");
        let cluster = Cluster::start(&file).await;
        for fed in cluster.feed(1_000_000, 5) {
            fed.await.unwrap();
        }
        // On a busy machine a lease of half a second may be lost, and answers with it.
        assert!(answers(1_000_000).len() as u64 > 2 * 5 * ENTITIES);
        check(&cluster, &file, &[1_000_000]).await;
        cluster.stop().await;
        let cluster = Cluster::start(&file).await;
        check(&cluster, &file, &[1_000_000]).await;
        for fed in cluster.feed(2_000_000, 2) {
            fed.await.unwrap();
        }
        check(&cluster, &file, &[1_000_000, 2_000_000]).await;
        cluster.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_killed_while_it_writes_keeps_what_it_answered() {
    within(60, "kill", async {
        let file = File::new("kill");
        for first in [3_000_000, 4_000_000] {
            let cluster = Cluster::start(&file).await;
            let fed = cluster.feed(first, 1_000_000);
            until(|| answers(first).len() >= 300).await;
            cluster.kill();
            for fed in fed {
                fed.abort();
            }
        }
        let cluster = Cluster::start(&file).await;
        check(&cluster, &file, &[3_000_000, 4_000_000]).await;
        cluster.stop().await;
    })
    .await;
}
