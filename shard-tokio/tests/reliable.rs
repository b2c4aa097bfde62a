//! Messages that are sent until they are acknowledged: each handled once and in order, whatever goes wrong.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;
#[path = "reliable/cost.rs"]
mod cost;
#[path = "reliable/durable.rs"]
mod durable;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use common::wire::Wire;
use common::{
    Answer, Peer, Say, World, builder, free_address, map_that, scribes, undelivered, until, within,
};
use shard_tokio::proto::hash::entity_type_id;
use shard_tokio::proto::wire::{Data, Envelope, Flags};
use shard_tokio::reliable::{ReliableConfig, ReliableSender};
use shard_tokio::{
    AskError, CodecError, Context, Entity, EntityType, Membership, Message, Node, Payload, Reason,
    TellError,
};

/// Tells `count` entities the numbers up to `each`.
async fn tell_all<E: Entity<Message = Say>>(
    sender: &ReliableSender<E>,
    caller: u64,
    count: usize,
    each: u64,
) {
    let entities: Vec<_> = (0..count).map(|e| sender.entity(format!("e{e}"))).collect();
    for n in 0..each {
        for entity in &entities {
            let note = Say::Note { caller, n };
            sender.tell(entity, note).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_handled_once_and_in_order_while_shards_move() {
    within(60, "moves", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::proxy("a", &seeds[0], &seeds, &world).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        b.scribes.ready().await.unwrap();
        let (count, each) = (40, 400);
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..2 {
            let sender = ReliableSender::new(&a.scribes, ReliableConfig::new());
            callers.spawn(async move {
                tell_all(&sender, caller, count, each).await;
                sender.flush().await.unwrap();
                sender.stats()
            });
        }
        until(|| world.assert_growing() > 1000).await;
        let c = Peer::start("c", &free_address(), &seeds, &world).await;
        map_that(&c.scribes, |map| common::hosted_by(map, &c.node) > 10).await;
        b.node.leave().await.unwrap();
        for stats in callers.join_all().await {
            assert_eq!(stats.acknowledged, count as u64 * each);
            assert_eq!(
                (stats.unacknowledged, stats.bytes, stats.given_up),
                (0, 0, 0)
            );
        }
        world.assert_in_order(each);
        assert_eq!(world.all_notes().len(), count);
        assert_eq!(undelivered(&a.node), 0);
    })
    .await;
}

/// A node that is gone takes along what its entities had done; a message that was perhaps handled there is handled in
/// the next life. In each life each is handled once, in order, and none is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_that_died_had_taken_is_sent_again() {
    within(60, "death", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::proxy("a", &seeds[0], &seeds, &world).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        let c = Peer::start("c", &free_address(), &seeds, &world).await;
        map_that(&a.scribes, |_| true).await;
        let (count, each) = (20, 300);
        let sender = a.scribes.reliable_sender();
        let telling = tokio::spawn({
            let sender = sender.clone();
            async move { tell_all(&sender, 0, count, each).await }
        });
        until(|| world.all_notes().values().map(Vec::len).sum::<usize>() > 1000).await;
        b.node.shutdown().await;
        telling.await.unwrap();
        sender.flush().await.unwrap();
        let mut again = 0;
        for (id, notes) in world.all_notes() {
            let mut next = 0;
            for (_, n) in notes {
                assert!(n <= next, "{id}: {n} where {next} was next");
                again += u64::from(n < next);
                next = next.max(n + 1);
            }
            assert_eq!(next, each, "{id}");
        }
        // No more than what was on its way.
        assert!(again <= count as u64 * 64, "{again}");
        drop(c);
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_into_a_buffer_is_sent_later() {
    within(60, "buffer", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.proxy().buffer(100, 4)).await;
        a.ready().await.unwrap();
        let sender = a.reliable_sender();
        let telling = tokio::spawn({
            let sender = sender.clone();
            async move { tell_all(&sender, 0, 8, 200).await }
        });
        until(|| sender.stats().sent_again > 10).await;
        let _b = Peer::start("b", &free_address(), &seeds, &world).await;
        telling.await.unwrap();
        sender.flush().await.unwrap();
        world.assert_in_order(200);
        assert_eq!(undelivered(&node), 0);
    })
    .await;
}

/// An entity that fails on some messages the first time it sees them.
struct Shaky(Arc<World>);

impl Entity for Shaky {
    const TYPE: &'static str = "shaky";
    type Message = Say;
    type Reply = Answer;

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn handle(&mut self, message: Say, cx: &mut Context<'_, Self>) {
        assert!(!cx.is_ask());
        let Say::Note { caller, n } = message else {
            panic!("as told");
        };
        let first = {
            let mut log = self.0.log.lock().unwrap();
            let tried = log.entry("tried".to_owned()).or_default();
            let first = !tried.contains(&(caller, n));
            tried.push((caller, n));
            first
        };
        match n % 40 {
            7 if first => panic!("as every first time"),
            23 if first => cx.fail("as every first time"),
            _ => {
                let mut log = self.0.log.lock().unwrap();
                log.entry("done".to_owned()).or_default().push((caller, n));
                cx.reply(Answer::Done);
            }
        }
    }
}

async fn shaky(node: &Node, world: &Arc<World>) -> EntityType<Shaky> {
    let world = Arc::clone(world);
    let make = move |_: &str| Shaky(Arc::clone(&world));
    let builder = node.entity_type::<Shaky>().shards(4).factory(make);
    builder.start().await.unwrap()
}

#[tokio::test]
async fn a_message_on_which_the_entity_fails_is_tried_again_before_those_behind_it() {
    within(60, "failures", async {
        let world = World::new();
        let node = Node::standalone().await.unwrap();
        let shaky = shaky(&node, &world).await;
        let one = shaky.entity("one");
        for n in 0..120 {
            one.tell_reliably(Say::Note { caller: 0, n }).await.unwrap();
        }
        let sender = shaky.reliable_sender();
        sender.flush().await.unwrap();
        let done: Vec<_> = world.notes("done").iter().map(|note| note.1).collect();
        assert_eq!(done, (0..120).collect::<Vec<_>>());
        assert_eq!(world.notes("tried").len(), 126);
        assert_eq!(sender.stats().given_up, 0);
    })
    .await;
}

#[tokio::test]
async fn a_message_that_never_succeeds_is_given_up_at_its_deadline() {
    within(60, "deadline", async {
        let world = World::new();
        let node = Node::standalone().await.unwrap();
        let shaky = shaky(&node, &world).await;
        let config = ReliableConfig::new().with_deadline(Duration::from_millis(200));
        let sender = ReliableSender::new(&shaky, config);
        let one = shaky.entity("one");
        sender.tell(&one, Say::Silence).await.unwrap();
        let given_up = sender.flush().await.unwrap_err();
        assert_eq!(given_up.messages, 1);
        assert_eq!(given_up.error, AskError::EntityFailed);
        // Told once; and the entity takes what comes behind it.
        let note = Say::Note { caller: 0, n: 0 };
        sender.tell(&one, note).await.unwrap();
        sender.flush().await.unwrap();
        assert_eq!(world.notes("done"), [(0, 0)]);
    })
    .await;
}

#[tokio::test]
async fn no_more_is_kept_than_may_be() {
    within(30, "window", async {
        let world = World::new();
        let node = Node::standalone().await.unwrap();
        let scribes = scribes(&node, &world, |it| it).await;
        let config = ReliableConfig::new().with_window(4).with_max_messages(6);
        let sender = ReliableSender::new(&scribes, config);
        let [one, two] = ["one", "two"].map(|id| scribes.entity(id));
        for entity in [&one, &one, &one, &one, &two, &two] {
            sender.tell(entity, Say::Block).await.unwrap();
        }
        for entity in [&one, &two] {
            let soon = Duration::from_millis(20);
            let fifth = sender.tell(entity, Say::Block);
            assert!(tokio::time::timeout(soon, fifth).await.is_err());
        }
        // Whoever gave up waiting has sent nothing.
        assert_eq!(sender.stats().unacknowledged, 6);
        let waiting = tokio::spawn({
            let (sender, one) = (sender.clone(), one.clone());
            async move { sender.tell(&one, Say::Block).await }
        });
        world.door.add_permits(1);
        until(|| sender.stats().acknowledged == 1).await;
        world.door.add_permits(6);
        waiting.await.unwrap().unwrap();
        sender.flush().await.unwrap();
        assert_eq!(sender.stats().acknowledged, 7);
    })
    .await;
}

#[tokio::test]
async fn a_sender_that_is_dropped_forgets_its_messages() {
    within(30, "drop", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.proxy().buffer(100, 1)).await;
        a.ready().await.unwrap();
        let sender = ReliableSender::new(&a, ReliableConfig::new());
        tell_all(&sender, 0, 1, 50).await;
        let waiting = tokio::spawn({
            let entity = a.entity("e0");
            let kept = sender.clone();
            async move {
                let sent = tell_all(&kept, 1, 1, 20);
                let _ = tokio::time::timeout(Duration::from_millis(50), sent).await;
                drop((kept, entity));
            }
        });
        waiting.await.unwrap();
        drop(sender);
        let _b = Peer::start("b", &free_address(), &seeds, &world).await;
        // At most what a buffer had taken arrives; another sender is not held up.
        let other = a.reliable_sender();
        tell_all(&other, 2, 1, 10).await;
        other.flush().await.unwrap();
        let notes = world.notes("e0");
        let of = |caller| notes.iter().filter(|note| note.0 == caller).count();
        assert_eq!((of(1), of(2)), (0, 10));
        assert!(of(0) <= 1, "{notes:?}");
    })
    .await;
}

#[tokio::test]
async fn a_node_that_stops_says_so() {
    within(30, "stop", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.proxy()).await;
        let sender = a.reliable_sender();
        tell_all(&sender, 0, 2, 5).await;
        node.shutdown().await;
        let given_up = sender.flush().await.unwrap_err();
        assert_eq!((given_up.messages, given_up.error), (10, AskError::Stopped));
        let late = sender.tell(&a.entity("e0"), Say::Who).await;
        assert!(matches!(late, Err(TellError::Stopped(Say::Who))));
    })
    .await;
}

/// A message that only its sender understands if it is odd.
#[derive(Debug)]
struct Odd(u8);

impl Message for Odd {
    fn encode(&self, out: &mut BytesMut) -> Result<(), CodecError> {
        if self.0 == 255 {
            return Err(CodecError::new("too odd"));
        }
        out.extend_from_slice(&[self.0]);
        Ok(())
    }

    fn decode(payload: Payload<'_>) -> Result<Self, CodecError> {
        match payload.as_slice() {
            [number] if number % 2 == 0 => Ok(Self(*number)),
            _ => Err(CodecError::new("odd")),
        }
    }
}

struct Even(Arc<World>);

impl Entity for Even {
    const TYPE: &'static str = "even";
    type Message = Odd;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn handle(&mut self, message: Odd, cx: &mut Context<'_, Self>) {
        let mut log = self.0.log.lock().unwrap();
        let notes = log.entry(cx.id().to_owned()).or_default();
        notes.push((0, message.0.into()));
    }
}

#[tokio::test]
async fn a_message_that_is_refused_for_good_is_given_up_and_told() {
    within(30, "refused", async {
        let world = World::new();
        let node = Node::standalone().await.unwrap();
        let shared = Arc::clone(&world);
        let evens = node
            .entity_type::<Even>()
            .factory(move |_| Even(Arc::clone(&shared)));
        let evens = evens.start().await.unwrap();
        let one = evens.entity("one");
        for n in 0..10 {
            one.tell_reliably(Odd(n)).await.unwrap();
        }
        let given_up = evens.reliable_sender().flush().await.unwrap_err();
        assert_eq!((given_up.messages, given_up.error), (5, AskError::Refused));
        let notes: Vec<_> = world.notes("one").iter().map(|note| note.1).collect();
        assert_eq!(notes, [0, 2, 4, 6, 8]);
        let error = one.tell_reliably(Odd(255)).await.unwrap_err();
        assert!(matches!(error, TellError::Codec(_)));
        assert_eq!(evens.reliable_sender().stats().unacknowledged, 0);
    })
    .await;
}

#[tokio::test]
async fn a_message_larger_than_the_largest_is_refused_at_once() {
    within(30, "large", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).max_message(2 << 20);
        let node = node.start().await.unwrap();
        let scribes = scribes(&node, &world, |it| it).await;
        let one = scribes.entity("one");
        let long = |len| Say::Blob(vec![7; len]);
        let error = one.tell_reliably(long(2 << 20)).await.unwrap_err();
        assert!(matches!(error, TellError::TooLarge { .. }));
        // Longer than a frame may be.
        one.tell_reliably(long(3 << 19)).await.unwrap();
        scribes.reliable_sender().flush().await.unwrap();
    })
    .await;
}

/// A peer that says a message is tracked, and it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tracked_message_without_a_number_is_refused_and_counted() {
    within(30, "hostile", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).membership(Membership::Links);
        let node = node.start().await.unwrap();
        let a = scribes(&node, &world, |it| it).await;
        let one = a.entity("one");
        one.ask(Say::Add(1)).await.unwrap();
        let home = a.shard_map().home(one.shard()).unwrap();
        let (shard, address) = (one.shard(), node.address().to_owned());
        let mut bad: Vec<Vec<u8>> = (0..24).map(|len| vec![1; len]).collect();
        // Its number is below its base; it is the last one there is.
        let tag = |seq: u64, base: u64| [7_u64, seq, base].map(u64::to_le_bytes).concat();
        bad.extend([tag(4, 5), tag(u64::MAX, 1)]);
        let count = bad.len() as u64 * 2;
        tokio::task::spawn_blocking(move || {
            let mut wire = Wire::open(&address, "x", 9).unwrap();
            wire.drain();
            for payload in &bad {
                for correlation in [0, 8] {
                    let envelope = Data::Envelope(Envelope {
                        shard,
                        correlation,
                        id: b"one",
                        payload,
                    });
                    let scribe = entity_type_id("scribe");
                    assert!(wire.flagged(Flags::TRACKED, scribe, home.epoch, &envelope));
                }
            }
            // What it says of itself is believed, but a message that cannot be decoded is not handled.
            let payload = [tag(1, 1), vec![0xFF; 3]].concat();
            let envelope = Data::Envelope(Envelope {
                shard,
                correlation: 9,
                id: b"one",
                payload: &payload,
            });
            wire.flagged(
                Flags::TRACKED,
                entity_type_id("scribe"),
                home.epoch,
                &envelope,
            );
            wire
        })
        .await
        .unwrap();
        until(|| {
            let counts: HashMap<_, _> = node.stats().undelivered.into_iter().collect();
            counts.get(&Reason::Codec) == Some(&(count + 1))
        })
        .await;
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(2)));
        one.tell_reliably(Say::Add(1)).await.unwrap();
        a.reliable_sender().flush().await.unwrap();
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(4)));
    })
    .await;
}

/// Counts who still holds it.
struct Nobody;

impl std::task::Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Callers that give up waiting leave nothing behind, while nothing is acknowledged for whoever knows how long.
#[tokio::test]
async fn who_stops_waiting_is_forgotten() {
    within(60, "the callers", async {
        let node = Node::standalone().await.unwrap();
        let stuck = node.entity_type::<Stuck>().start().await.unwrap();
        for config in [
            ReliableConfig::new().with_window(1),
            ReliableConfig::new().with_max_messages(1),
        ] {
            let sender = ReliableSender::new(&stuck, config);
            let entity = sender.entity("a");
            sender.tell(&entity, 1_u64).await.unwrap();
            let nobody = Arc::new(Nobody);
            let waker = std::task::Waker::from(Arc::clone(&nobody));
            let mut cx = std::task::Context::from_waker(&waker);
            for _ in 0..100 {
                let mut tell = Box::pin(sender.tell(&entity, 2_u64));
                assert!(tell.as_mut().poll(&mut cx).is_pending());
                let mut flush = Box::pin(sender.flush());
                assert!(flush.as_mut().poll(&mut cx).is_pending());
            }
            drop(waker);
            assert_eq!(Arc::strong_count(&nobody), 1);
        }
        node.shutdown().await;
    })
    .await;
}

/// More callers than there are places, some of which stop waiting: the others all get their turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_who_waits_gets_a_turn() {
    within(60, "the callers", async {
        let node = Node::standalone().await.unwrap();
        let stuck = node.entity_type::<Stuck>().start().await.unwrap();
        for config in [
            ReliableConfig::new().with_window(2),
            ReliableConfig::new().with_max_messages(2),
            ReliableConfig::new().with_max_bytes(2),
        ] {
            let sender = ReliableSender::new(&stuck, config);
            let mut callers = tokio::task::JoinSet::new();
            for caller in 0..200_u64 {
                let sender = sender.clone();
                callers.spawn(async move {
                    let entity = sender.entity(format!("free-{}", caller % 3));
                    let mut n = 0;
                    while n < 20 {
                        let tell = sender.tell(&entity, 1_u64);
                        let patience = Duration::from_micros(caller % 4 * 100);
                        let told = if caller % 4 == 0 {
                            Ok(tell.await)
                        } else {
                            tokio::time::timeout(patience, tell).await
                        };
                        n += 1;
                        if let Ok(told) = told {
                            told.unwrap();
                        }
                    }
                });
            }
            callers.join_all().await;
            sender.flush().await.unwrap();
        }
        node.shutdown().await;
    })
    .await;
}

/// Whoever sends first may be on a runtime that ends: what it sent is sent on.
#[test]
fn what_was_told_on_another_runtime_outlives_it() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let (here, foreign) = (runtime(), runtime());
    let (node, stuck) = here.block_on(async {
        let node = Node::standalone().await.unwrap();
        let stuck = node.entity_type::<Stuck>().start().await.unwrap();
        (node, stuck)
    });
    let sender = ReliableSender::new(&stuck, ReliableConfig::new());
    let gate = Arc::clone(&*GATE);
    let closed = here.block_on(gate.acquire_owned()).unwrap();
    foreign.block_on(async {
        let entity = sender.entity("gated");
        for n in 0..10_u64 {
            sender.tell(&entity, n).await.unwrap();
        }
    });
    drop(foreign);
    drop(closed);
    here.block_on(within(60, "the rest", async {
        sender.flush().await.unwrap();
        assert_eq!(sender.stats().acknowledged, 10);
        node.shutdown().await;
    }));
}

/// Handles a message when it may: never, at once, or when the gate is open.
struct Stuck;

static GATE: std::sync::LazyLock<Arc<tokio::sync::Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(tokio::sync::Semaphore::new(1)));

impl Entity for Stuck {
    const TYPE: &'static str = "stuck";
    type Message = u64;
    type Reply = ();

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(&mut self, _: u64, cx: &mut Context<'_, Self>) {
        match cx.id() {
            "gated" => drop(GATE.acquire().await),
            "a" => std::future::pending().await,
            _ => {}
        }
    }
}
