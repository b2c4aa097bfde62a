//! The entities of these tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shard_tokio::{BoxError, Context, Entity, EntityType, EntityTypeBuilder, Node};
use tokio::sync::Semaphore;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Do {
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
pub struct House {
    pub noted: Mutex<HashMap<String, Vec<(u64, u64)>>>,
    /// Starts and stops, in order.
    pub lives: Mutex<Vec<(String, &'static str)>>,
    pub bad_starts: AtomicU32,
    /// Starts that were tried.
    pub starts: AtomicU64,
    /// Starts that hung, and were cancelled.
    pub cancelled: AtomicU64,
    /// Those that stop wait here.
    pub stop: Option<Semaphore>,
    pub door: Option<Semaphore>,
    /// What it takes to start and to stop.
    pub work: Duration,
    /// Starts hang while it is set.
    pub hangs: AtomicBool,
    /// It wants to be passivated from the start.
    pub restless: bool,
}

impl House {
    pub fn lives(&self, id: &str) -> Vec<&'static str> {
        let lives = self.lives.lock().unwrap();
        let of = lives.iter().filter(|(whose, _)| whose == id);
        of.map(|(_, what)| *what).collect()
    }

    pub fn push(&self, id: &str, what: &'static str) {
        self.lives.lock().unwrap().push((id.to_owned(), what));
    }

    pub fn count(&self) -> usize {
        self.noted.lock().unwrap().values().map(Vec::len).sum()
    }

    /// Every caller's numbers are 0, 1, 2, … per entity. Returns how many there are.
    pub fn assert_in_order(&self) -> u64 {
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

/// Dropped with a start that hangs.
struct Cancelled<'a>(&'a House);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(1, SeqCst);
    }
}

pub struct Guest {
    pub house: Arc<House>,
    pub noted: u64,
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
        if self.house.hangs.load(SeqCst) {
            let _cancelled = Cancelled(&self.house);
            core::future::pending::<()>().await;
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

pub async fn guests(
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

pub async fn alone(
    house: &Arc<House>,
    set: impl FnOnce(EntityTypeBuilder<Guest>) -> EntityTypeBuilder<Guest>,
) -> (Node, EntityType<Guest>) {
    let node = Node::standalone().await.unwrap();
    let guests = guests(&node, house, set).await;
    (node, guests)
}

pub const fn note(n: u64) -> Do {
    Do::Note { caller: 0, n }
}

pub const fn last(n: u64) -> Do {
    Do::Last { caller: 0, n }
}
