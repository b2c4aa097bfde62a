//! Entities come, fail, are passivated and come back: nothing is lost or reordered by that.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{all, builder, free_address, log::log, undelivered, until, within};
use serde::{Deserialize, Serialize};
use shard_proto::allocation::{LeastShards, Pinned};
use shard_tokio::{
    AskError, BoxError, Context, Entity, EntityType, EntityTypeBuilder, Node, NodeId, Passivation,
    Reason, TypeError,
};
use tokio::sync::Semaphore;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Do {
    /// Note a number of a caller; answer with how many this life has noted.
    Note {
        caller: u64,
        n: u64,
    },
    /// Note it, and stop.
    Last {
        caller: u64,
        n: u64,
    },
    Fail,
    Panic,
    /// Answer when the house lets it.
    Block,
}

/// What all entities of a test share.
#[derive(Default)]
struct House {
    noted: Mutex<HashMap<String, Vec<(u64, u64)>>>,
    /// Starts and stops, in order.
    lives: Mutex<Vec<(String, &'static str)>>,
    bad_starts: AtomicU32,
    /// Starts that were tried.
    starts: AtomicU64,
    /// Those that stop wait here.
    stop: Option<Semaphore>,
    door: Option<Semaphore>,
    /// What it takes to start and to stop.
    work: Duration,
    /// It wants to be passivated from the start.
    restless: bool,
}

impl House {
    fn lives(&self, id: &str) -> Vec<&'static str> {
        let lives = self.lives.lock().unwrap();
        let of = lives.iter().filter(|(whose, _)| whose == id);
        of.map(|(_, what)| *what).collect()
    }

    fn push(&self, id: &str, what: &'static str) {
        self.lives.lock().unwrap().push((id.to_owned(), what));
    }

    fn count(&self) -> usize {
        self.noted.lock().unwrap().values().map(Vec::len).sum()
    }

    /// Every caller's numbers are 0, 1, 2, … per entity. Returns how many there are.
    fn assert_in_order(&self) -> u64 {
        let mut count = 0;
        for (id, noted) in &*self.noted.lock().unwrap() {
            let mut next: HashMap<u64, u64> = HashMap::new();
            for (caller, n) in noted {
                let next = next.entry(*caller).or_default();
                assert_eq!(n, next, "entity {id}, caller {caller}");
                *next += 1;
                count += 1;
            }
        }
        count
    }
}

struct Guest {
    house: Arc<House>,
    noted: u64,
}

impl Entity for Guest {
    const TYPE: &'static str = "guest";
    type Message = Do;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), BoxError> {
        self.house.starts.fetch_add(1, SeqCst);
        let left = &self.house.bad_starts;
        let bad = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if bad.is_ok() {
            return Err("the store is not there".into());
        }
        if !self.house.work.is_zero() {
            tokio::time::sleep(self.house.work).await;
        }
        if self.house.restless {
            cx.passivate();
        }
        self.house.push(cx.id(), "started");
        Ok(())
    }

    async fn handle(&mut self, message: Do, cx: &mut Context<'_, Self>) {
        match message {
            Do::Note { caller, n } | Do::Last { caller, n } => {
                let mut noted = self.house.noted.lock().unwrap();
                let of = noted.entry(cx.id().to_owned()).or_default();
                of.push((caller, n));
                drop(noted);
                self.noted += 1;
                cx.reply(self.noted);
                if matches!(message, Do::Last { .. }) {
                    cx.passivate();
                }
            }
            Do::Fail => cx.fail("it cannot go on"),
            Do::Panic => panic!("as told"),
            Do::Block => {
                let door = self.house.door.as_ref().unwrap();
                door.acquire().await.unwrap().forget();
                cx.reply(0);
            }
        }
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        self.house.push(cx.id(), "stopping");
        if let Some(door) = &self.house.stop {
            door.acquire().await.unwrap().forget();
        }
        if !self.house.work.is_zero() {
            tokio::time::sleep(self.house.work).await;
        }
        self.house.push(cx.id(), "stopped");
    }
}

async fn guests(
    node: &Node,
    house: &Arc<House>,
    set: impl FnOnce(EntityTypeBuilder<Guest>) -> EntityTypeBuilder<Guest>,
) -> EntityType<Guest> {
    let house = Arc::clone(house);
    let make = move |_: &str| Guest {
        house: Arc::clone(&house),
        noted: 0,
    };
    let builder = node.entity_type::<Guest>().shards(8).factory(make);
    set(builder).start().await.unwrap()
}

async fn alone(
    house: &Arc<House>,
    set: impl FnOnce(EntityTypeBuilder<Guest>) -> EntityTypeBuilder<Guest>,
) -> (Node, EntityType<Guest>) {
    let node = Node::standalone().await.unwrap();
    let guests = guests(&node, house, set).await;
    (node, guests)
}

const fn note(n: u64) -> Do {
    Do::Note { caller: 0, n }
}

const fn last(n: u64) -> Do {
    Do::Last { caller: 0, n }
}

#[tokio::test]
async fn an_idle_entity_is_passivated_and_comes_back() {
    within(20, "idle", async {
        let house = Arc::new(House::default());
        let idle = Duration::from_millis(50);
        let (node, guests) = alone(&house, |it| it.passivate_after(idle)).await;
        let one = guests.entity("one");
        assert_eq!(one.ask(note(0)).await, Ok(1));
        let asked = Instant::now();
        until(|| house.lives("one").last() == Some(&"stopped")).await;
        assert!(asked.elapsed() >= idle - Duration::from_millis(30));
        until(|| guests.stats().passivated_idle == 1 && guests.running() == 0).await;
        assert_eq!(guests.shards().len(), 1, "its shard stays");
        assert_eq!(one.ask(note(1)).await, Ok(1), "a new life");
        assert_eq!(
            house.lives("one"),
            ["started", "stopping", "stopped", "started"]
        );
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn an_entity_in_use_is_not_passivated() {
    within(20, "in use", async {
        let house = Arc::new(House::default());
        let idle = Duration::from_secs(1);
        let (_node, guests) = alone(&house, |it| it.passivate_after(idle)).await;
        let (busy, idle) = (guests.entity("busy"), guests.entity("idle"));
        idle.ask(note(0)).await.unwrap();
        let mut n = 0;
        while house.lives("idle").last() != Some(&"stopped") {
            busy.ask(note(n)).await.unwrap();
            n += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(house.lives("busy"), ["started"]);
        assert_eq!(guests.running(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_entity_stops_when_it_wants_to() {
    within(20, "by itself", async {
        let house = Arc::new(House::default());
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        one.ask(note(0)).await.unwrap();
        assert_eq!(one.ask(last(1)).await, Ok(2));
        until(|| guests.stats().passivated_asked == 1 && guests.running() == 0).await;
        assert_eq!(house.lives("one"), ["started", "stopping", "stopped"]);
        // What waits behind it is for the next life, in order.
        for n in 2..100 {
            let message = if n % 3 == 0 { last(n) } else { note(n) };
            one.tell(message).await.unwrap();
        }
        until(|| house.count() == 100).await;
        assert_eq!(house.assert_in_order(), 100);
        until(|| guests.stats().passivated_asked == 34 && guests.running() == 0).await;
        assert_eq!(house.lives("one").len(), 34 * 3);
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn an_entity_that_wants_to_stop_from_its_start_handles_one_message() {
    within(20, "restless", async {
        let house = Arc::new(House {
            restless: true,
            ..House::default()
        });
        let (_node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        for n in 0..10 {
            one.tell(note(n)).await.unwrap();
        }
        until(|| house.lives("one").len() == 30).await;
        assert_eq!(house.assert_in_order(), 10);
    })
    .await;
}

#[tokio::test]
async fn somebody_passivates_an_entity() {
    within(20, "by call", async {
        let house = Arc::new(House {
            door: Some(Semaphore::new(0)),
            ..House::default()
        });
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        assert!(!guests.passivate("one").await, "it does not run");
        one.ask(note(0)).await.unwrap();
        one.tell(Do::Block).await.unwrap();
        one.tell(note(1)).await.unwrap();
        assert!(guests.passivate("one").await);
        one.tell(note(2)).await.unwrap();
        assert_eq!(house.lives("one"), ["started"], "it finishes what it does");
        house.door.as_ref().unwrap().add_permits(1);
        until(|| house.count() == 3).await;
        assert_eq!(house.assert_in_order(), 3);
        assert_eq!(
            house.lives("one"),
            ["started", "stopping", "stopped", "started"]
        );
        assert_eq!(undelivered(&node), 0);
        node.shutdown().await;
        assert!(!guests.passivate("one").await);
    })
    .await;
}

/// Beyond the limit the one that was used least recently goes. Uses count in the order in which they came since the
/// last one went.
#[tokio::test]
async fn too_many_entities_make_the_oldest_go() {
    within(20, "limit", async {
        let house = Arc::new(House::default());
        let set = |it: EntityTypeBuilder<Guest>| {
            it.max_entities(3)
                .passivation(Passivation::LeastRecentlyUsed)
        };
        let (node, guests) = alone(&house, set).await;
        let uses = async |id: &str| {
            guests.entity(id).ask(note(0)).await.unwrap();
            // The answer may be here before the mark of use: the second one is behind it.
            guests.entity(id).ask(note(1)).await.unwrap();
        };
        let stopped = async |id: &str, count| {
            until(|| house.lives(id).last() == Some(&"stopped")).await;
            until(|| guests.stats().passivated_limit == count).await;
        };
        for id in ["a", "b", "c", "d"] {
            uses(id).await;
        }
        stopped("a", 1).await;
        uses("b").await;
        uses("e").await;
        stopped("c", 2).await;
        uses("f").await;
        stopped("d", 3).await;
        for id in ["b", "e", "f"] {
            assert_eq!(house.lives(id), ["started"]);
        }
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_cannot_be_is_refused() {
    let node = Node::standalone().await.unwrap();
    let house = Arc::new(House::default());
    let proportions = vec![0.5, 0.2];
    let builder = node.entity_type::<Guest>();
    let builder = builder.passivation(Passivation::SegmentedLru { proportions });
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, TypeError::Entities { .. }), "{error:?}");
    assert!(error.to_string().contains("proportions"), "{error}");
    // It can be set right.
    guests(&node, &house, |it| it).await.ready().await.unwrap();
}

/// Many callers, entities that come and go all the time: what a caller sends first is handled first.
async fn under_load(types: Vec<EntityType<Guest>>, house: Arc<House>, entities: u64, each: u64) {
    let mut callers = tokio::task::JoinSet::new();
    let count = 4 * types.len() as u64;
    for caller in 0..count {
        let guests = types[caller as usize % types.len()].clone();
        callers.spawn(async move {
            let refs: Vec<_> = (0..entities)
                .map(|e| guests.entity(format!("e{e}")))
                .collect();
            for n in 0..each {
                for (e, entity) in (0..).zip(&refs) {
                    let kind = (caller * 7 + n * 3 + e) % 11;
                    let message = match kind {
                        0 => Do::Last { caller, n },
                        _ => Do::Note { caller, n },
                    };
                    if kind < 3 {
                        entity.ask(message).await.unwrap();
                    } else {
                        entity.tell(message).await.unwrap();
                    }
                }
            }
            for entity in &refs {
                // A mailbox keeps order, so all before it were handled.
                entity.ask(Do::Note { caller, n: each }).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    assert_eq!(house.assert_in_order(), count * entities * (each + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_overtaken_while_entities_come_and_go() {
    within(120, "under load", async {
        let house = Arc::new(House::default());
        let set = |it: EntityTypeBuilder<Guest>| {
            it.max_entities(6)
                .passivate_after(Duration::from_millis(1))
                .ask_timeout(Duration::from_secs(60))
        };
        let (node, guests) = alone(&house, set).await;
        under_load(vec![guests.clone()], house, 10, 2000).await;
        let stats = guests.stats();
        assert_eq!(undelivered(&node), 0, "{stats:?}");
        assert!(stats.passivated_asked > 100, "{stats:?}");
        assert!(stats.passivated_limit > 10, "{stats:?}");
        assert!(stats.handed_back > 100, "{stats:?}");
    })
    .await;
}

/// The same with callers on other nodes, and entities that take their time to start and to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_overtaken_from_other_nodes() {
    within(120, "from other nodes", async {
        let house = Arc::new(House {
            work: Duration::from_millis(2),
            ..House::default()
        });
        let addresses = all(3, |_| free_address());
        let seeds = &addresses[..1];
        let (mut nodes, mut types) = (Vec::new(), Vec::new());
        for (name, address) in ["a", "b", "p"].iter().zip(&addresses) {
            let node = builder(name, address, seeds).start().await.unwrap();
            let set = |it: EntityTypeBuilder<Guest>| {
                let it = it
                    .max_entities(6)
                    .passivate_after(Duration::from_millis(5))
                    .ask_timeout(Duration::from_secs(60));
                if *name == "p" { it.proxy() } else { it }
            };
            let guests = guests(&node, &house, set).await;
            guests.ready().await.unwrap();
            nodes.push(node);
            types.push(guests);
        }
        under_load(types.clone(), Arc::clone(&house), 10, 300).await;
        let lost: u64 = nodes.iter().map(undelivered).sum();
        let stats: Vec<_> = types.iter().map(EntityType::stats).collect();
        assert_eq!(lost, 0, "{stats:?}");
        let passivated: u64 = stats.iter().map(|it| it.passivated_asked).sum();
        assert!(passivated > 100, "{stats:?}");
    })
    .await;
}

/// A failed message is reported, and those behind it are handled by the next life, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_that_fails_is_made_again() {
    within(30, "fail", async {
        let house = Arc::new(House::default());
        let (node, guests) = alone(&house, |it| it).await;
        let mut reports = node.undelivered();
        let (one, other) = (guests.entity("one"), guests.entity("other"));
        other.ask(note(0)).await.unwrap();
        for n in 0..30 {
            one.tell(note(n)).await.unwrap();
            if n % 10 == 5 {
                one.tell(Do::Fail).await.unwrap();
            }
        }
        assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        assert_eq!(one.ask(note(30)).await, Ok(1));
        assert_eq!(house.assert_in_order(), 32);
        for _ in 0..4 {
            assert_eq!(reports.next().await.unwrap().reason, Reason::Failed);
        }
        // It does not run when it failed.
        assert_eq!(house.lives("one"), ["started"; 5]);
        assert_eq!(
            other.ask(note(1)).await,
            Ok(2),
            "a neighbour does not notice"
        );
        until(|| guests.stats().failures == 4).await;
        assert_eq!(guests.stats().restarts, 4);
    })
    .await;
}

/// Only one that does nothing but fail is parked.
#[tokio::test]
async fn an_entity_that_fails_now_and_then_goes_on() {
    within(30, "now and then", async {
        let house = Arc::new(House::default());
        let (_node, guests) = alone(&house, |it| it.restarts(2, Duration::from_secs(60))).await;
        let one = guests.entity("one");
        for n in 0..20 {
            assert_eq!(one.ask(note(n)).await, Ok(1));
            assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        }
        assert_eq!(guests.stats().parked, 0);
    })
    .await;
}

/// One that fails again and again waits longer each time, and is parked then, until a message comes after the window.
#[tokio::test]
async fn an_entity_that_fails_too_often_is_parked() {
    within(30, "park", async {
        let (log, _guard) = log();
        let house = Arc::new(House::default());
        let window = Duration::from_secs(2);
        let (node, guests) = alone(&house, |it| it.restarts(3, window)).await;
        house.bad_starts.store(4, SeqCst);
        let one = guests.entity("one");
        let began = Instant::now();
        let mut reports = node.undelivered();
        one.tell(note(7)).await.unwrap();
        assert_eq!(one.ask(note(8)).await, Err(AskError::EntityFailed));
        // 10 + 20 + 40 ms, of which half is certain.
        assert!(began.elapsed() >= Duration::from_millis(30));
        assert_eq!(house.starts.load(SeqCst), 4);
        for _ in 0..2 {
            let report = reports.next().await.unwrap();
            assert_eq!(report.reason, Reason::Parked);
            assert_eq!(report.entity.as_bytes(), b"one");
        }
        assert_eq!(one.ask(note(9)).await, Err(AskError::EntityFailed));
        assert_eq!(house.starts.load(SeqCst), 4, "it is not tried");
        assert_eq!(guests.entity("two").ask(note(0)).await, Ok(1));
        let parked = Instant::now();
        while let Err(error) = one.ask(note(0)).await {
            assert_eq!(error, AskError::EntityFailed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(parked.elapsed() >= window / 2);
        assert_eq!(guests.stats().parked, 1);
        log.line(&["WARN", "did not start", "the store is not there"])
            .await;
    })
    .await;
}

/// Callers on other nodes are told that a parked entity failed, or that there was no room for what they told it.
#[tokio::test]
async fn a_parked_entity_answers_other_nodes() {
    within(30, "parked, remote", async {
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let p = builder("p", &addresses[1], seeds).start().await.unwrap();
        let once = |it: EntityTypeBuilder<Guest>| it.restarts(0, Duration::from_secs(600));
        let _here = guests(&a, &house, once).await;
        let there = guests(&p, &house, EntityTypeBuilder::proxy).await;
        let one = there.entity("one");
        one.ask(note(0)).await.unwrap();
        // No panic: to print its backtrace takes so long that the node could lose its lease, and what is parked goes
        // with its shard.
        assert_eq!(one.ask(Do::Fail).await, Err(AskError::EntityFailed));
        assert_eq!(one.ask(note(1)).await, Err(AskError::EntityFailed));
        let mut reports = p.undelivered();
        one.tell(note(2)).await.unwrap();
        let report = reports.next().await.unwrap();
        assert_eq!(report.reason, Reason::BufferFull);
        assert_eq!(house.starts.load(SeqCst), 1);
    })
    .await;
}

/// What is told to an entity that stops is kept within bounds.
#[tokio::test]
async fn what_an_entity_is_told_while_it_stops_is_bounded() {
    within(30, "bounds", async {
        let house = Arc::new(House {
            stop: Some(Semaphore::new(0)),
            ..House::default()
        });
        let (node, guests) = alone(&house, |it| it.shards(1).buffer(1000, 20)).await;
        let one = guests.entity("one");
        one.ask(last(0)).await.unwrap();
        until(|| house.lives("one").last() == Some(&"stopping")).await;
        let mut reports = node.undelivered();
        let mut taken = 0;
        for n in 1..=30 {
            match one.tell(note(n)).await {
                Ok(()) => taken += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(one.ask(note(31)).await, Err(AskError::BufferFull));
        assert_eq!(reports.next().await.unwrap().reason, Reason::BufferFull);
        house.stop.as_ref().unwrap().add_permits(100);
        until(|| house.count() == 21).await;
        assert_eq!(taken, 30);
        assert_eq!(house.assert_in_order(), 21);
        until(|| undelivered(&node) == 11).await;
        assert_eq!(guests.stats().refused_keep_full, 11);
    })
    .await;
}

/// Messages that an entity has when the node stops are reported, also those that wait for its next life.
#[tokio::test]
async fn what_is_kept_when_the_node_stops_is_reported() {
    within(30, "the end", async {
        let house = Arc::new(House::default());
        house.bad_starts.store(1000, SeqCst);
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        for n in 0..10 {
            one.tell(note(n)).await.unwrap();
        }
        let asked = tokio::spawn({
            let one = one.clone();
            async move { one.ask(note(10)).await }
        });
        until(|| house.starts.load(SeqCst) >= 4).await;
        node.shutdown().await;
        assert_eq!(asked.await.unwrap(), Err(AskError::Stopped));
        assert_eq!(undelivered(&node), 11);
    })
    .await;
}

/// Scenario 15: a shard of which nothing runs is owned, and handed off like any other, at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s15_a_shard_whose_entities_are_passivated_moves() {
    within(60, "a passivated shard", async {
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, set).await;
        let on_b = guests(&b, &house, set).await;
        on_b.ready().await.unwrap();
        on_b.entity("e").ask(last(0)).await.unwrap();
        until(|| house.lives("e").last() == Some(&"stopped")).await;
        until(|| on_a.running() == 0).await;
        assert_eq!(on_a.shards().len(), 1, "it is owned");
        course.store(b.id().0, SeqCst);
        until(|| on_b.shards().len() == 1).await;
        assert_eq!(on_a.shards(), []);
        assert_eq!(on_a.entity("e").ask(note(1)).await, Ok(1));
        assert_eq!(on_b.running(), 1);
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}

/// Scenario 19 for one that was being passivated: it does not stop in time, is aborted, and what waits for it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s19_a_passivation_that_takes_too_long_is_aborted_when_its_shard_moves() {
    within(60, "a slow passivation", async {
        let house = Arc::new(House {
            stop: Some(Semaphore::new(0)),
            ..House::default()
        });
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .handoff(Duration::from_secs(2), Duration::from_millis(500))
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, set).await;
        let on_b = guests(&b, &house, set).await;
        on_b.ready().await.unwrap();
        on_b.entity("e").ask(last(0)).await.unwrap();
        until(|| house.lives("e").last() == Some(&"stopping")).await;
        for n in 1..=20 {
            on_a.entity("e").tell(note(n)).await.unwrap();
        }
        course.store(b.id().0, SeqCst);
        until(|| house.count() == 21).await;
        assert_eq!(house.assert_in_order(), 21);
        assert_eq!(house.lives("e"), ["started", "stopping", "started"]);
        assert_eq!(on_a.shards(), []);
        assert_eq!(on_a.stats().aborted, 1);
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}
