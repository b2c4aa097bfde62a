//! Entities of the tests, on whichever runtime.
#![allow(dead_code, missing_docs, unreachable_pub)]

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use shard_adapter::runtime::Runtime;
use shard_adapter::{Context, Entity, EntityType, Node, NodeBuilder, Preset, ShardMap};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    /// Note a number of a caller.
    Note {
        caller: u64,
        n: u64,
    },
    /// How many notes there are of this life, and on which node.
    Who,
    Panic,
    /// Never come to an end.
    Hang,
    Silence,
}

/// What all nodes of a test share.
#[derive(Default)]
pub struct World {
    /// Per entity and caller: what was noted, in order.
    pub notes: Mutex<HashMap<(String, u64), Vec<u64>>>,
    /// Entities that were dropped while they hung.
    pub aborted: Mutex<u32>,
    pub hanging: Mutex<u32>,
}

/// Notes what it is told.
pub struct Scribe {
    world: Arc<World>,
    node: String,
    notes: u64,
}

struct Hanging(Arc<World>);

impl Drop for Hanging {
    fn drop(&mut self) {
        *self.0.aborted.lock().unwrap() += 1;
    }
}

impl Entity for Scribe {
    const TYPE: &'static str = "scribe";
    type Message = Say;
    type Reply = (String, u64);

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn handle(&mut self, message: Say, cx: &mut Context<'_, Self>) {
        match message {
            Say::Note { caller, n } => {
                self.notes += 1;
                let key = (cx.id().to_owned(), caller);
                let mut notes = self.world.notes.lock().unwrap();
                notes.entry(key).or_default().push(n);
                drop(notes);
                cx.reply((self.node.clone(), self.notes));
            }
            Say::Who => cx.reply((self.node.clone(), self.notes)),
            Say::Panic => panic!("as told"),
            Say::Hang => {
                let _hanging = Hanging(Arc::clone(&self.world));
                *self.world.hanging.lock().unwrap() += 1;
                core::future::pending().await
            }
            Say::Silence => {}
        }
    }
}

pub fn builder<R: Runtime>(name: &str, voters: &[&str], seeds: &[&str]) -> NodeBuilder<R> {
    Node::<R>::builder(name)
        .listen("127.0.0.1:0")
        .seeds(seeds)
        .voters(voters.iter().copied())
        .preset(Preset::Lan)
}

pub async fn scribes<R>(node: &Node<R>, world: &Arc<World>) -> EntityType<Scribe> {
    let (world, name) = (Arc::clone(world), node.name().to_owned());
    let builder = node.entity_type::<Scribe>().shards(32);
    builder
        .rebalance_interval(Duration::from_millis(200))
        .handoff(Duration::from_secs(2), Duration::from_millis(300))
        .factory(move |_id| Scribe {
            world: Arc::clone(&world),
            node: name.clone(),
            notes: 0,
        })
        .start()
        .await
        .unwrap()
}

/// An entity of each shard.
pub fn ids(scribes: &EntityType<Scribe>) -> Vec<String> {
    let mut of_shards = BTreeMap::new();
    let mut ids = (0..).map(|number: u32| number.to_string());
    while of_shards.len() < 32 {
        let id = ids.next().unwrap();
        of_shards.entry(scribes.shard_of(&id)).or_insert(id);
    }
    of_shards.into_values().collect()
}

/// Asks an entity of each shard who it is, until it says so: only shards that are asked for have homes.
pub async fn ask_all(scribes: &EntityType<Scribe>) {
    for id in ids(scribes) {
        while scribes.entity(&id).ask(Say::Who).await.is_err() {}
    }
}

/// How many shards of the map a node hosts.
pub fn hosted<R>(map: &ShardMap, node: &Node<R>) -> usize {
    let homes = map.iter().filter_map(|(_, home)| home);
    homes.filter(|home| home.node == node.id()).count()
}

/// Waits for a shard map that `good` accepts.
pub async fn map_that(scribes: &EntityType<Scribe>, good: impl Fn(&ShardMap) -> bool) {
    let mut changes = scribes.shard_map_changes();
    while !good(&scribes.shard_map()) {
        changes.next().await.expect("the type stopped");
    }
}

/// Waits for what can only be looked at.
pub async fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "in vain: {what}");
        async_io::Timer::after(Duration::from_millis(2)).await;
    }
}

/// Runs a test that may not hang, on this thread.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    async_io::block_on(async {
        let mut test = core::pin::pin!(test);
        let mut over = core::pin::pin!(async_io::Timer::after(Duration::from_secs(120)));
        core::future::poll_fn(|cx| {
            assert!(over.as_mut().poll(cx).is_pending(), "it hangs");
            test.as_mut().poll(cx)
        })
        .await
    })
}
