//! Workers that are always there.
#![allow(
    missing_docs,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use shard_tokio::daemon::{Daemon, DaemonContext, Daemons, ResizeError};
use shard_tokio::{BoxError, Node, Preset, TypeError};

/// Which workers run, how often each began, and the highest number of one index that ran at once.
#[derive(Default)]
struct Board {
    running: Mutex<BTreeMap<u32, Vec<String>>>,
    starts: Mutex<BTreeMap<u32, u32>>,
    twice: Mutex<Vec<u32>>,
}

impl Board {
    fn running(&self) -> Vec<u32> {
        let running = self.running.lock().unwrap();
        let there = running.iter().filter(|(_, on)| !on.is_empty());
        there.map(|(index, _)| *index).collect()
    }

    fn on(&self, node: &str) -> usize {
        let running = self.running.lock().unwrap();
        running.values().flatten().filter(|on| *on == node).count()
    }

    fn starts(&self, index: u32) -> u32 {
        self.starts
            .lock()
            .unwrap()
            .get(&index)
            .copied()
            .unwrap_or(0)
    }
}

struct Worker {
    board: Arc<Board>,
    node: String,
    fails: bool,
}

/// Present on the board until it is dropped.
struct Present<'a>(&'a Worker, u32);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let mut running = self.0.board.running.lock().unwrap();
        let on = running.entry(self.1).or_default();
        let place = on.iter().position(|node| *node == self.0.node).unwrap();
        on.remove(place);
    }
}

impl Daemon for Worker {
    async fn run(&mut self, cx: &mut DaemonContext) -> Result<(), BoxError> {
        assert!(cx.holds_lease());
        let index = cx.index();
        let _present = {
            let mut running = self.board.running.lock().unwrap();
            let on = running.entry(index).or_default();
            if !on.is_empty() {
                self.board.twice.lock().unwrap().push(index);
            }
            on.push(self.node.clone());
            Present(self, index)
        };
        let starts = {
            let mut starts = self.board.starts.lock().unwrap();
            let starts = starts.entry(index).or_default();
            *starts += 1;
            *starts
        };
        match (self.fails, index, starts) {
            (true, 1, 1) => Err("the first time".into()),
            (true, 2, 1) => Ok(()),
            (true, 3, 1) => panic!("as told"),
            _ => {
                cx.stopping().await;
                Ok(())
            }
        }
    }
}

async fn workers(node: &Node, board: &Arc<Board>, count: u32, fails: bool) -> Daemons {
    let (board, name) = (Arc::clone(board), node.name().to_owned());
    let make = move |_| Worker {
        board: Arc::clone(&board),
        node: name.clone(),
        fails,
    };
    node.daemons("worker", count, make)
        .max(64)
        .rebalance_interval(Duration::from_millis(50))
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn they_run_without_being_asked_and_again_after_they_fail() {
    within(30, "the workers", async {
        let board = Arc::new(Board::default());
        let node = Node::standalone().await.unwrap();
        let workers = workers(&node, &board, 8, true).await;
        until(|| (1..4).all(|index| board.starts(index) == 2)).await;
        until(|| board.running().len() == 8).await;
        assert_eq!(board.running(), (0..8).collect::<Vec<_>>());
        assert_eq!(workers.here(), (0..8).collect::<Vec<_>>());
        assert_eq!(board.starts(0), 1);
        node.shutdown().await;
        assert_eq!(board.running(), []);
        assert_eq!(workers.resize(3).await, Err(ResizeError::Stopped));
    })
    .await;
}

#[tokio::test]
async fn there_are_more_or_fewer_of_them_as_told() {
    within(30, "the other number", async {
        let board = Arc::new(Board::default());
        let node = Node::standalone().await.unwrap();
        let workers = workers(&node, &board, 4, false).await;
        assert_eq!(workers.count(), 4);
        for count in [10, 2, 0, 64, 5] {
            workers.resize(count).await.unwrap();
            assert_eq!(workers.count(), count);
            until(|| board.running() == (0..count).collect::<Vec<_>>()).await;
        }
        let refused = workers.resize(65).await;
        assert_eq!(refused, Err(ResizeError::TooMany { max: 64 }));
        assert_eq!(*board.twice.lock().unwrap(), []);
        let again = node.daemons("worker", 1, |_| Worker {
            board: Arc::default(),
            node: String::new(),
            fails: false,
        });
        assert!(matches!(
            again.start().await,
            Err(TypeError::Refused { .. })
        ));
        node.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_spread_and_their_number_outlives_who_leads() {
    within(120, "the workers", async {
        let names = ["a", "b", "c"];
        let addresses = all(3, |_| free_address());
        let board = Arc::new(Board::default());
        let mut nodes = Vec::new();
        for (name, address) in names.iter().zip(&addresses) {
            let node = Node::builder(*name)
                .listen(address)
                .seeds(&addresses)
                .voters(names)
                .preset(Preset::Lan)
                .start()
                .await
                .unwrap();
            let daemons = workers(&node, &board, 6, false).await;
            nodes.push((node, daemons));
        }
        for (_, daemons) in &nodes {
            daemons.ready().await.unwrap();
        }
        until(|| names.iter().all(|name| board.on(name) == 2)).await;
        nodes[1].1.resize(12).await.unwrap();
        until(|| names.iter().all(|name| board.on(name) == 4)).await;
        for (_, daemons) in &nodes {
            until(|| daemons.count() == 12).await;
        }
        // Whoever leads goes.
        let leader = nodes[0].0.leader().unwrap().node;
        let at = nodes
            .iter()
            .position(|(node, _)| node.id() == leader)
            .unwrap();
        let (gone, _) = nodes.remove(at);
        gone.leave().await.unwrap();
        let left: Vec<_> = nodes.iter().map(|(node, _)| node.name()).collect();
        until(|| left.iter().all(|name| board.on(name) == 6)).await;
        assert_eq!(board.running(), (0..12).collect::<Vec<_>>());
        // The next one counts on from there.
        nodes[0].1.resize(4).await.unwrap();
        until(|| left.iter().all(|name| board.on(name) == 2)).await;
        assert_eq!(board.running(), (0..4).collect::<Vec<_>>());
        assert_eq!(*board.twice.lock().unwrap(), []);
        for (node, _) in &nodes {
            node.shutdown().await;
        }
    })
    .await;
}

/// Looks again and again whether it may work.
struct Watchful {
    looks: Arc<AtomicU64>,
    beyond: Arc<AtomicU64>,
}

impl Daemon for Watchful {
    async fn run(&mut self, cx: &mut DaemonContext) -> Result<(), BoxError> {
        loop {
            self.looks.fetch_add(1, SeqCst);
            self.beyond.fetch_add(u64::from(!cx.holds_lease()), SeqCst);
            tokio::task::yield_now().await;
        }
    }
}

/// The one thread of a node stands still for longer than the lease, and its workers are there before the driver is: they
/// do nothing any more, since they may have successors.
#[tokio::test]
async fn no_worker_goes_on_after_its_lease() {
    within(30, "workers and leases", async {
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let (looks, beyond) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let watch = (Arc::clone(&looks), Arc::clone(&beyond));
        let daemons = node.daemons("watch", 4, move |_index| Watchful {
            looks: Arc::clone(&watch.0),
            beyond: Arc::clone(&watch.1),
        });
        let _daemons = daemons.start().await.unwrap();
        for _ in 0..3 {
            let before = looks.load(SeqCst);
            while looks.load(SeqCst) < before + 100 {
                tokio::task::yield_now().await;
            }
            // Longer than the lease of the LAN preset.
            std::thread::sleep(Duration::from_millis(600));
            tokio::task::yield_now().await;
        }
        assert_eq!(beyond.load(SeqCst), 0);
    })
    .await;
}
