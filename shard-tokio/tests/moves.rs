//! Shards move while messages are under way, over real sockets.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    Answer, Peer, Say, World, all, builder, free_address, hosted_by, map_that, scribes,
    undelivered, until, within,
};
use serde::{Deserialize, Serialize};
use shard_proto::allocation::{LeastShards, Pinned};
use shard_tokio::{
    AskError, Context, Entity, EntityType, EntityTypeBuilder, Node, NodeId, TypeError,
};
use tokio::sync::{Semaphore, watch};

/// The node that every shard is sent to; the leading node reads it.
#[derive(Clone)]
struct Course(Arc<AtomicU64>);

impl Course {
    fn to(node: &Node) -> Self {
        Self(Arc::new(AtomicU64::new(node.id().0)))
    }

    fn set(&self, node: &Node) {
        self.0.store(node.id().0, SeqCst);
    }

    fn apply<E: Entity>(&self, types: EntityTypeBuilder<E>) -> EntityTypeBuilder<E> {
        let course = Arc::clone(&self.0);
        let pins = move |_| Some(NodeId(course.load(SeqCst)));
        types
            .shards(1)
            .rebalance_interval(Duration::from_millis(20))
            .strategy(Pinned::new(pins, LeastShards::default()))
    }
}

/// Scenario 41: one entity is told numbers by callers on three nodes and a proxy while its shard moves three times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s41_order_holds_through_three_moves() {
    within(120, "three moves", async {
        let world = World::new();
        let addresses = all(4, |_| free_address());
        let seeds = &addresses[..1];
        let mut nodes = Vec::new();
        for (name, address) in ["a", "b", "d", "p"].iter().zip(&addresses) {
            nodes.push(builder(name, address, seeds).start().await.unwrap());
        }
        let course = Course::to(&nodes[0]);
        let mut types = Vec::new();
        for node in &nodes {
            let set = |it| {
                let it: EntityTypeBuilder<common::Scribe> = course.apply(it);
                if node.name() == "p" { it.proxy() } else { it }
            };
            let scribes = scribes(node, &world, set).await;
            scribes.ready().await.unwrap();
            types.push(scribes);
        }
        types[3].entity("e").ask(Say::Add(0)).await.unwrap();

        let (over, going_on) = watch::channel(false);
        let mut callers = tokio::task::JoinSet::new();
        for (caller, scribes) in (0..).zip(types.clone()) {
            let going_on = going_on.clone();
            callers.spawn(async move {
                let entity = scribes.entity("e");
                let mut n = 0;
                while n < 1000 || !*going_on.borrow() {
                    entity.tell(Say::Note { caller, n }).await.unwrap();
                    n += 1;
                    if n % 10 == 0 {
                        // As fast as the others need to be heard, too.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                entity.ask(Say::Add(0)).await.unwrap();
                n
            });
        }
        let mut epochs = Vec::new();
        for home in [1, 2, 0] {
            course.set(&nodes[home]);
            let map = map_that(&types[3], |map| hosted_by(map, &nodes[home]) == 1).await;
            epochs.push(map.iter().next().unwrap().1.unwrap().epoch);
            // It serves there before it moves on.
            let answer = types[3].entity("e").ask(Say::Who).await.unwrap();
            assert!(matches!(&answer, Answer::Who { node, .. } if *node == nodes[home].name()));
        }
        assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
        over.send_replace(true);
        let told = callers.join_all().await.iter().sum::<u64>();

        let mut next = [0; 4];
        for (caller, n) in world.notes("e") {
            let next = &mut next[usize::try_from(caller).unwrap()];
            assert_eq!(n, *next, "of caller {caller}");
            *next += 1;
        }
        assert_eq!(next.iter().sum::<u64>(), told);
        for node in &nodes {
            assert_eq!(undelivered(node), 0, "{node:?}: {:?}", node.stats());
        }
    })
    .await;
}

/// An entity that is slow to stop.
struct Slow {
    house: Arc<House>,
    node: String,
}

/// What the slow entities share.
#[derive(Default)]
struct House {
    stopping: Mutex<Vec<String>>,
    noted: Mutex<Vec<(String, u64)>>,
    door: Option<Semaphore>,
}

#[derive(Serialize, Deserialize)]
struct Note(u64);

impl Entity for Slow {
    const TYPE: &'static str = "slow";
    type Message = Note;
    type Reply = ();

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn handle(&mut self, note: Note, cx: &mut Context<'_, Self>) {
        let noted = (self.node.clone(), note.0);
        self.house.noted.lock().unwrap().push(noted);
        cx.reply(());
    }

    async fn stopped(&mut self, _cx: &mut Context<'_, Self>) {
        self.house.stopping.lock().unwrap().push(self.node.clone());
        if let Some(door) = &self.house.door {
            door.acquire().await.unwrap().forget();
        }
    }
}

async fn slow(node: &Node, house: &Arc<House>, course: &Course) -> EntityType<Slow> {
    let (name, house) = (node.name().to_owned(), Arc::clone(house));
    let make = move |_: &str| Slow {
        house: Arc::clone(&house),
        node: name.clone(),
    };
    let types = course.apply(node.entity_type::<Slow>()).factory(make);
    let slow = types.start().await.unwrap();
    slow.ready().await.unwrap();
    slow
}

/// Scenarios 13, 14 and 22: what is told while the shard drains waits, and reaches the entity at its next home, once
/// and in order, without any further message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s13_what_is_told_during_a_handoff_arrives_at_the_next_home() {
    within(60, "a handoff", async {
        let house = Arc::new(House {
            door: Some(Semaphore::new(0)),
            ..House::default()
        });
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Course::to(&a);
        let on_a = slow(&a, &house, &course).await;
        let on_b = slow(&b, &house, &course).await;
        on_b.entity("e").ask(Note(0)).await.unwrap();
        map_that(&on_b, |map| hosted_by(map, &a) == 1).await;

        course.set(&b);
        until(|| !house.stopping.lock().unwrap().is_empty()).await;
        // Its own callers' messages wait in the old home; those of others arrive there and wait, too.
        let (queued, sent) = (a.stats().core.queued, b.stats().core.sent);
        let (here, there) = (on_a.entity("e"), on_b.entity("e"));
        for n in 1..=50 {
            here.tell(Note(n)).await.unwrap();
            there.tell(Note(100 + n)).await.unwrap();
        }
        until(|| a.stats().core.queued == queued + 50).await;
        until(|| b.stats().core.sent == sent + 50).await;
        assert_eq!(on_a.shards().len(), 1, "it is not over");
        assert_eq!(house.noted.lock().unwrap().len(), 1, "nothing overtook");

        house.door.as_ref().unwrap().add_permits(1000);
        until(|| house.noted.lock().unwrap().len() >= 101).await;
        let noted = house.noted.lock().unwrap().clone();
        assert_eq!(noted[0], ("a".to_owned(), 0));
        assert!(noted[1..].iter().all(|(node, _)| node == "b"), "{noted:?}");
        let of = |low: u64| {
            let of = noted[1..].iter().map(|noted| noted.1);
            of.filter(|n| (low..low + 100).contains(n))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0), (1..=50).collect::<Vec<_>>());
        assert_eq!(of(100), (101..=150).collect::<Vec<_>>());
        assert_eq!(undelivered(&a) + undelivered(&b), 0);
    })
    .await;
}

/// Scenario 26: the type stops on a node that stays. Its shards get other homes at once, and those who knew the old
/// ones get through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s26_a_type_that_stops_lives_on_elsewhere() {
    within(60, "a stopped type", async {
        let world = World::new();
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = Peer::start("a", &addresses[0], seeds, &world).await;
        let b = Peer::start("b", &addresses[1], seeds, &world).await;
        a.scribes.ready().await.unwrap();
        b.scribes.ready().await.unwrap();
        let ids: Vec<_> = (0..64).map(|e| format!("e{e}")).collect();
        for id in &ids {
            a.scribes.entity(id).ask(Say::Add(1)).await.unwrap();
        }
        map_that(&a.scribes, |map| hosted_by(map, &b.node) >= 10).await;
        for id in &ids {
            a.scribes.entity(id).ask(Say::Add(1)).await.unwrap();
        }

        b.scribes.stop().await;
        assert_eq!(b.scribes.shards(), []);
        assert_eq!(b.scribes.running(), 0);
        for id in &ids {
            let answer = a.scribes.entity(id).ask(Say::Who).await.unwrap();
            assert!(matches!(&answer, Answer::Who { node, .. } if node == "a"));
        }
        assert_eq!(b.node.members().len(), 2, "the node stays");
        assert_eq!(undelivered(&a.node), 0);
        let refused = b.scribes.entity("e1").ask(Say::Who).await;
        assert_eq!(refused, Err(AskError::Stopped));

        let again = b.node.entity_type::<common::Scribe>().start().await;
        assert_eq!(again.unwrap_err(), TypeError::Ended { name: "scribe" });
        b.scribes.stop().await;
        b.node.leave().await.unwrap();
        for id in &ids {
            a.scribes.entity(id).ask(Say::Add(1)).await.unwrap();
        }
    })
    .await;
}
