//! Entities that note what they are told, in which order.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shard_adapter::{Context, Entity, EntityType, EntityTypeBuilder, Node, ShardMap};

/// Shards of the type.
pub const SHARDS: u32 = 16;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Say {
    /// Note a number of a caller.
    Note { caller: u32, n: u32, with: Bytes },
    /// Where are you?
    Who,
}

impl Say {
    pub const fn note(caller: u32, n: u32) -> Self {
        let with = Bytes::new();
        Self::Note { caller, n, with }
    }

    /// A long one: the number 0 of its caller.
    pub fn long(caller: u32, bytes: usize) -> Self {
        let (n, with) = (0, Bytes::from(vec![7; bytes]));
        Self::Note { caller, n, with }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The name of the entity's node.
    pub node: String,
    /// What came with the message.
    pub bytes: usize,
}

/// What the entities of all nodes of a test were told.
#[derive(Default)]
pub struct World {
    notes: Mutex<HashMap<(String, u32), Vec<u32>>>,
}

impl World {
    /// What an entity was told by a caller.
    pub fn told(&self, id: &str, caller: u32) -> Vec<u32> {
        let notes = self.notes.lock().unwrap();
        notes
            .get(&(id.to_owned(), caller))
            .cloned()
            .unwrap_or_default()
    }
}

pub struct Scribe {
    world: Arc<World>,
    node: String,
}

impl Entity for Scribe {
    const TYPE: &'static str = "scribe";
    type Message = Say;
    type Reply = Answer;

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn handle(&mut self, message: Say, cx: &mut Context<'_, Self>) {
        let mut bytes = 0;
        if let Say::Note { caller, n, with } = message {
            bytes = with.len();
            let key = (cx.id().to_owned(), caller);
            let mut notes = self.world.notes.lock().unwrap();
            notes.entry(key).or_default().push(n);
        }
        cx.reply(Answer {
            node: self.node.clone(),
            bytes,
        });
    }
}

/// The type on a node, with a world.
pub fn scribes<R>(node: &Node<R>, world: &Arc<World>) -> EntityTypeBuilder<Scribe> {
    let (world, name) = (Arc::clone(world), node.name().to_owned());
    node.entity_type::<Scribe>()
        .shards(SHARDS)
        .rebalance_interval(Duration::from_millis(200))
        .handoff(Duration::from_secs(5), Duration::from_millis(300))
        .ask_timeout(Duration::from_secs(30))
        .factory(move |_id| Scribe {
            world: Arc::clone(&world),
            node: name.clone(),
        })
}

/// An entity of each shard.
pub fn ids(scribes: &EntityType<Scribe>) -> Vec<String> {
    let mut of_shards = BTreeMap::new();
    let mut ids = (0..).map(|number: u32| number.to_string());
    while of_shards.len() < SHARDS as usize {
        let id = ids.next().unwrap();
        of_shards.entry(scribes.shard_of(&id)).or_insert(id);
    }
    of_shards.into_values().collect()
}

/// How many shards of the map a node hosts.
pub fn hosted(map: &ShardMap, node: &Node) -> usize {
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
