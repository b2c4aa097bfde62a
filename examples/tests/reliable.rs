//! Messages that are sent until they are acknowledged, to node processes: connections break, processes are killed, and
//! the journal has each message once.
#![cfg(unix)]

mod common;

use core::time::Duration;
use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use common::{
    cluster::homes,
    net::{Net, free_address},
};
use examples::{
    ledger::{Account, DurableLedger, Entry, Place},
    process::{Event, Hosts, Orders},
    shape::Shape,
};
use shard_tokio::{
    EntityType, Node, ShardHash,
    durable::{Sourced, decode_event},
    proto::hash::node_id,
    reliable::{ReliableConfig, ReliableSender},
    store::{EntityId, Journal},
};
use tokio::task::JoinHandle;

const NAMES: [&str; 3] = ["node-a", "node-b", "node-c"];
const SHARDS: u32 = 16;
const KEYS: u32 = 8;
/// Messages for each key.
const EACH: u32 = 400;
const ALL: u64 = KEYS as u64 * EACH as u64;

type Ledgers = EntityType<Sourced<DurableLedger>>;

/// A node process. Killed when dropped.
struct Member {
    process: Child,
    lines: BufReader<ChildStdout>,
    /// Its end would tell the process to stop.
    _stdin: ChildStdin,
}

impl Member {
    fn start(orders: &Orders) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_cluster"))
            .args(["--member", &serde_json::to_string(orders).unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut member = Self {
            lines: BufReader::new(process.stdout.take().unwrap()),
            _stdin: process.stdin.take().unwrap(),
            process,
        };
        let said = member.says();
        assert!(matches!(said, Event::Listens(_)), "{said:?}");
        member
    }

    fn says(&mut self) -> Event {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn takes_part(&mut self) {
        let said = self.says();
        assert!(matches!(said, Event::Ready(_)), "{said:?}");
    }

    /// `kill -9`.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Three node processes on one journal, with relays in front, and a sender in this process.
struct World {
    net: Net,
    folder: PathBuf,
    orders: Vec<Orders>,
    members: Vec<Member>,
    node: Node,
    ledgers: Ledgers,
    sender: ReliableSender<Sourced<DurableLedger>>,
}

impl World {
    async fn start(name: &str) -> Self {
        let folder = format!("shard-reliable-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let net = Net::new(&["node-a", "node-b", "node-c", "sender"]);
        let shape = Shape {
            shards: SHARDS,
            voters: NAMES.map(str::to_owned).to_vec(),
            lan: false,
            tls: None,
        };
        let (mut orders, mut members) = (Vec::<Orders>::new(), Vec::new());
        let mut addresses = Vec::new();
        for name in NAMES {
            let listen = free_address();
            let advertise = net.relay(name, listen.clone()).await;
            orders.push(Orders {
                on: examples::runtimes::On::Tokio,
                name: name.to_owned(),
                seeds: addresses.clone(),
                shape: shape.clone(),
                at: Some((listen, advertise.clone())),
                hosts: Hosts::DurableLedgers(Place::Sqlite(folder.join("journal.db"))),
            });
            members.push(Member::start(orders.last().unwrap()));
            addresses.push(advertise);
        }
        // Started again, each knows the others.
        for order in &mut orders {
            let own = order.at.as_ref().map(|at| at.1.clone());
            let others = addresses.iter().filter(|it| Some(*it) != own.as_ref());
            order.seeds = others.cloned().collect();
        }
        let listen = free_address();
        let advertise = net.relay("sender", listen.clone()).await;
        let node = shape.node("sender", addresses).unwrap().listen(listen);
        let node = node.advertise(advertise).bootstrap(false).may_lead(false);
        let node = node.start().await.unwrap();
        let ledgers = node.entity_type::<Sourced<DurableLedger>>().shards(SHARDS);
        let ledgers = ledgers.proxy().start().await.unwrap();
        ledgers.ready().await.unwrap();
        members.iter_mut().for_each(Member::takes_part);
        let sender = ReliableSender::new(&ledgers, ReliableConfig::new());
        Self {
            net,
            folder,
            orders,
            members,
            node,
            ledgers,
            sender,
        }
    }

    /// Tells each key the numbers from 0.
    fn tell(&self) -> JoinHandle<()> {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            for row in 0..EACH {
                for key in 0..KEYS {
                    let entity = sender.entity(format!("key-{key}"));
                    let values = vec![i64::from(row)];
                    let entry = Entry::Row(Account { row, values });
                    sender.tell(&entity, entry).await.unwrap();
                }
            }
            sender.flush().await.unwrap();
        })
    }

    async fn acknowledged(&self, count: u64) {
        while self.sender.stats().acknowledged < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The node on which a key lives.
    fn home(&self, key: &str) -> usize {
        let shard = ShardHash::Default.shard(key.as_bytes(), SHARDS);
        let home = homes(&self.ledgers.shard_map())[&shard].0;
        let names = NAMES.iter();
        let mut homes = names.map(|name| node_id(name) == home);
        homes.position(|it| it).unwrap()
    }

    /// Each message is in the journal, once and in order.
    async fn check(self, told: JoinHandle<()>) {
        let told = tokio::time::timeout(Duration::from_secs(120), told).await;
        told.expect("all is acknowledged").unwrap();
        let stats = self.sender.stats();
        assert_eq!((stats.acknowledged, stats.given_up), (ALL, 0), "{stats:?}");
        let journal = Place::Sqlite(self.folder.join("journal.db"));
        let journal = journal.open().await.unwrap();
        for key in 0..KEYS {
            let rows = rows(&*journal, &format!("key-{key}")).await;
            assert!(rows.iter().copied().eq(0..EACH), "key-{key}: {rows:?}");
        }
        self.node.shutdown().await;
        drop(self.members);
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

async fn rows(journal: &dyn Journal, key: &str) -> Vec<u32> {
    let entity = EntityId::new("ledger", key);
    let (mut rows, mut last) = (Vec::new(), 0);
    loop {
        let page = journal.read(entity.clone(), last, 1000).await.unwrap();
        let Some(end) = page.last() else { return rows };
        last = end.seq;
        let event = |event: &[u8]| decode_event::<DurableLedger>(event).unwrap().row();
        rows.extend(page.iter().map(|recorded| event(&recorded.event)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_is_processed_once_while_connections_break() {
    let world = World::start("resets").await;
    let told = world.tell();
    for part in 1..=10 {
        world.acknowledged(part * ALL / 12).await;
        world.net.reset();
    }
    world.check(told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_is_processed_once_while_nodes_are_killed() {
    let mut world = World::start("kills").await;
    let told = world.tell();
    world.acknowledged(ALL / 4).await;
    let killed = world.home("key-0");
    world.members[killed].kill();
    world.members[killed] = Member::start(&world.orders[killed]);
    world.members[killed].takes_part();
    world.acknowledged(ALL / 2).await;
    let killed = world.home("key-1");
    world.members[killed].kill();
    let sender = world.sender.clone();
    world.check(told).await;
    assert!(sender.stats().sent_again > 0, "{:?}", sender.stats());
}
