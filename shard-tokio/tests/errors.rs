//! What can go wrong: each a clear error, and nothing lost.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use common::log::log;
use common::{
    Answer, Peer, Say, Scribe, World, builder, free_address, map_that, scribes, until, within,
};
use shard_tokio::{AskError, Context, Delivery, Entity, Node, NotReady, Preset, Raw, Reason};
use shard_tokio::{StartError, TellError};

#[tokio::test]
async fn an_address_in_use_is_named() {
    let address = free_address();
    let _first = builder("a", &address, &[]).start().await.unwrap();
    let error = builder("b", &address, &[]).start().await.unwrap_err();
    assert!(matches!(&error, StartError::AddressInUse { address: named } if *named == address));
    assert!(error.to_string().contains(&address));
}

#[tokio::test]
async fn a_foreign_address_needs_consent() {
    let error = builder("a", "0.0.0.0:0", &[]).start().await.unwrap_err();
    assert!(error.to_string().contains("allow_insecure"), "{error}");
}

#[tokio::test]
async fn an_unreachable_seed_is_dialled_again_with_a_warning() {
    within(30, "seed", async {
        let (log, _guard) = log();
        let world = World::new();
        let seeds = [free_address()];
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        log.line(&["WARN", &seeds[0], "cannot reach", "failures=2"])
            .await;
        // It was only early: the seed comes up, and all is well.
        let a = Peer::start("a", &seeds[0], &seeds, &world).await;
        b.scribes.ready().await.unwrap();
        a.scribes.ready().await.unwrap();
    })
    .await;
}

/// Scenario 34: a region with another shard count is refused with both numbers.
#[tokio::test]
async fn a_shard_count_that_differs_is_refused() {
    within(30, "mismatch", async {
        let (log, _guard) = log();
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.shards(33)).await;
        a.ready().await.unwrap();
        let node_b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let b = scribes(&node_b, &world, |it| it.shards(64)).await;
        let error = b.ready().await.unwrap_err();
        let expected = NotReady::ShardCount {
            name: "scribe",
            leader: 33,
            here: 64,
        };
        assert_eq!(error, expected);
        let text = error.to_string();
        assert!(text.contains("`shards`") && text.contains("33") && text.contains("64"));
        log.line(&["ERROR", "`shards`", "33", "64"]).await;
        assert_eq!(b.shards(), []);
        for e in 0..64 {
            a.entity(format!("e{e}")).ask(Say::Add(1)).await.unwrap();
        }
        assert_eq!((a.running(), b.running()), (64, 0));
    })
    .await;
}

#[tokio::test]
async fn a_type_the_leader_does_not_know_is_named_on_both_sides() {
    within(30, "unknown type", async {
        let (log, _guard) = log();
        let world = World::new();
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let b = builder("b", &free_address(), &seeds).start().await.unwrap();
        let b = scribes(&b, &world, |it| it).await;
        let early = b.entity("one");
        let early = tokio::spawn(async move { early.ask(Say::Add(1)).await });
        log.line(&["ERROR", "does not know", "\"scribe\""]).await;
        log.line(&["ERROR", "wants to register", "\"scribe\""])
            .await;
        // Once it is started there, what waited is delivered.
        let _proxy = scribes(&a, &world, |it| it.proxy()).await;
        b.ready().await.unwrap();
        assert_eq!(early.await.unwrap(), Ok(Answer::Sum(1)));
    })
    .await;
}

/// Scenarios 35 and 42: messages for a shard without a home are buffered to the bound; the first beyond is handed back.
#[tokio::test]
async fn a_full_buffer_hands_the_message_back() {
    within(30, "buffer", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let proxy = scribes(&node, &world, |it| it.proxy().buffer(100, 10)).await;
        proxy.ready().await.unwrap();
        let one = proxy.entity("one");
        for n in 0..10 {
            one.tell(Say::Note { caller: 0, n }).await.unwrap();
        }
        let error = one.tell(Say::Note { caller: 0, n: 10 }).await.unwrap_err();
        assert!(error.to_string().contains("buffer"), "{error}");
        assert!(matches!(
            error,
            TellError::BufferFull(Say::Note { n: 10, .. })
        ));
        assert_eq!(one.ask(Say::Who).await, Err(AskError::BufferFull));
        let _b = Peer::start("b", &free_address(), &seeds, &world).await;
        map_that(&proxy, |map| map.known() > 0).await;
        loop {
            match one.ask(Say::Who).await {
                Ok(_) => break,
                // The buffer is on its way.
                Err(error) => assert_eq!(error, AskError::BufferFull),
            }
            tokio::task::yield_now().await;
        }
        world.assert_in_order(10);
    })
    .await;
}

#[tokio::test]
async fn a_message_larger_than_the_largest_is_refused() {
    within(30, "too large", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).max_message(1 << 20);
        let node = node.start().await.unwrap();
        let a = scribes(&node, &world, |it| it.proxy()).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        let mut undelivered = node.undelivered();
        // Its home is not known yet, and might be here.
        let one = a.entity("one");
        one.tell(Say::Blob(vec![7; 2 << 20])).await.unwrap();
        let report = undelivered.next().await.unwrap();
        assert_eq!(report.reason, Reason::Unsendable);
        let answer = one.ask(Say::Blob(vec![7; 900_000])).await;
        assert_eq!(answer, Ok(Answer::Sum(900_000)));
        let error = one.tell(Say::Blob(vec![7; 2 << 20])).await.unwrap_err();
        assert!(
            matches!(error, TellError::TooLarge { size, limit } if size > limit),
            "{error:?}"
        );
        assert!(error.to_string().contains("limit"));
        // On its own node nothing is encoded, and any size is fine.
        let here = b.scribes.entity("one");
        let answer = here.ask(Say::Blob(vec![7; 2 << 20])).await;
        assert_eq!(answer, Ok(Answer::Sum(2 << 20)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_of_another_node_that_fails_says_so() {
    within(30, "panic", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::proxy("a", &seeds[0], &seeds, &world).await;
        let b = Peer::start("b", &free_address(), &seeds, &world).await;
        let mut undelivered = b.node.undelivered();
        let one = a.scribes.entity("one");
        one.ask(Say::Add(5)).await.unwrap();
        assert_eq!(one.ask(Say::Panic).await, Err(AskError::EntityFailed));
        assert_eq!(undelivered.next().await.unwrap().reason, Reason::Panicked);
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(1)));
        assert_eq!(one.ask(Say::Silence).await, Err(AskError::NoReply));
        let timeout = Duration::from_millis(50);
        let late = one.ask_for(Say::Slow(300), timeout).await;
        assert_eq!(late, Err(AskError::Timeout));
        // The late answer is nobody's; the next ask gets its own.
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(2)));
    })
    .await;
}

/// An entity that does not keep up with another node: what it cannot take is reported there, exactly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_that_overflows_is_reported_to_the_sender() {
    within(30, "overflow", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::proxy("a", &seeds[0], &seeds, &world).await;
        let node = builder("b", &free_address(), &seeds).start().await.unwrap();
        let small = |it: shard_tokio::EntityTypeBuilder<Scribe>| it.mailbox(4).buffer(1000, 16);
        let b = scribes(&node, &world, small).await;
        b.ready().await.unwrap();
        let one = a.scribes.entity("one");
        one.ask(Say::Add(0)).await.unwrap();
        let blocked = one.begin_ask(Say::Block).await.unwrap();
        let mut undelivered = a.node.undelivered();
        let sent = 5000;
        for _ in 0..sent {
            one.tell(Say::Add(1)).await.unwrap();
        }
        let report = undelivered.next().await.unwrap();
        assert_eq!(report.reason, Reason::BufferFull);
        world.door.add_permits(1);
        blocked.await.unwrap();
        // The mailbox may still be full when an ask gets there; the one that is taken is behind all that was sent.
        let mut refused = 0;
        let sum = loop {
            match one.ask(Say::Add(0)).await {
                Ok(Answer::Sum(sum)) => break sum,
                answer => assert_eq!(answer, Err(AskError::BufferFull)),
            }
            refused += 1;
        };
        let stats = a.node.stats();
        let full = |it: &&(Reason, u64)| it.0 == Reason::BufferFull;
        let lost = stats.undelivered.iter().find(full).unwrap().1;
        assert_eq!(sum + lost, sent + refused);
        assert!(sum >= 256, "{sum}");
    })
    .await;
}

/// Few messages can be many bytes: an entity that does not keep up holds so many of them and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mailbox_is_bounded_in_bytes_too() {
    within(30, "bytes", async {
        let world = World::new();
        let seeds = [free_address()];
        // Leases that bear that a debug build decodes megabytes on a busy machine.
        let start = |name, address| {
            let node = builder(name, address, &seeds).preset(Preset::Default);
            async { node.start().await.unwrap() }
        };
        let node = start("a", &seeds[0]).await;
        let scribes_a = scribes(&node, &world, |it| it.proxy()).await;
        let a = Peer {
            node,
            scribes: scribes_a,
        };
        let node = start("b", &free_address()).await;
        let b = scribes(&node, &world, |it| it.buffer_bytes(1 << 20)).await;
        b.ready().await.unwrap();
        let one = a.scribes.entity("one");
        one.ask(Say::Add(0)).await.unwrap();
        let blocked = one.begin_ask(Say::Block).await.unwrap();
        let long = || Say::Blob(vec![7; 100_000]);
        let mut asks = Vec::new();
        for _ in 0..60 {
            asks.push(one.begin_ask(long()).await.unwrap());
        }
        // Short ones are not meant by it, nor are other entities' that keep up.
        let short = one.begin_ask(Say::Add(1)).await.unwrap();
        assert_eq!(
            a.scribes.entity("two").ask(Say::Add(1)).await,
            Ok(Answer::Sum(1))
        );
        world.door.add_permits(1);
        blocked.await.unwrap();
        let mut taken = 0;
        for ask in asks {
            match ask.await {
                Ok(_) => taken += 1,
                Err(error) => assert_eq!(error, AskError::BufferFull),
            }
        }
        // Some may have come after the door was opened.
        assert!((10..50).contains(&taken), "{taken}");
        assert_eq!(short.await, Ok(Answer::Sum(1)));
        assert_eq!(
            a.scribes.node().stats().undelivered[0],
            (Reason::BufferFull, 60 - taken)
        );
        assert_eq!(node.stats().core.returned, 60 - taken);
        assert_eq!(one.ask(long()).await, Ok(Answer::Sum(100_000)));
    })
    .await;
}

/// Beyond its limit a node passivates some for others; but nobody, here or on another node, makes it run more than twice
/// as many while those do not stop.
#[tokio::test]
async fn one_entity_too_many_is_refused() {
    within(30, "entities", async {
        let (log, _guard) = log();
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.max_entities(10)).await;
        let b = Peer::proxy("b", &free_address(), &seeds, &world).await;
        let from = |e: u64| if e.is_multiple_of(2) { &a } else { &b.scribes };
        for e in 0..10 {
            let entity = from(e).entity(format!("e{e}"));
            let answer = entity.ask(Say::Add(1)).await;
            assert_eq!(answer, Ok(Answer::Sum(1)));
            entity.tell(Say::Block).await.unwrap();
        }
        until(|| world.blocked.load(SeqCst) == 10).await;
        for e in 10..20 {
            let answer = from(e).entity(format!("e{e}")).ask(Say::Add(1)).await;
            assert_eq!(answer, Ok(Answer::Sum(1)));
        }
        assert_eq!((a.running(), a.stats().passivated_limit), (10, 10));
        for from in [&a, &b.scribes] {
            let mut undelivered = from.node().undelivered();
            let more = from.entity("more");
            assert_eq!(more.ask(Say::Add(1)).await, Err(AskError::BufferFull));
            more.tell(Say::Add(1)).await.unwrap();
            let here = from.node().id() == node.id();
            let reason = undelivered.next().await.unwrap().reason;
            let expected = [Reason::BufferFull, Reason::TooManyEntities];
            assert_eq!(reason, expected[usize::from(here)]);
            let answer = from.entity("e13").ask(Say::Add(0)).await;
            assert_eq!(answer, Ok(Answer::Sum(1)));
        }
        assert_eq!((a.running(), node.stats().core.returned), (10, 2));
        log.line(&["WARN", "`max_entities`", "scribe", "refused=4"])
            .await;
        world.door.add_permits(10);
        let more = a.entity("more");
        while more.ask(Say::Add(1)).await != Ok(Answer::Sum(1)) {}
        assert_eq!(a.running(), 10);
    })
    .await;
}

struct Printer;

impl Entity for Printer {
    const TYPE: &'static str = "printer";
    type Message = u32;
    type Reply = Raw;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(&mut self, bytes: u32, cx: &mut Context<'_, Self>) {
        cx.reply(Raw::from(vec![7; bytes as usize]));
    }
}

/// What an error says of the message is true, whatever went wrong on the way.
#[tokio::test]
async fn an_error_says_whether_the_message_was_delivered() {
    within(30, "delivery", async {
        let world = World::new();
        let seeds = [free_address()];
        let node = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let a = scribes(&node, &world, |it| it.proxy().buffer(100, 2)).await;
        let one = a.entity("one");
        // No home, and the buffer is full: surely not.
        for n in 0..2 {
            one.tell(Say::Note { caller: 0, n }).await.unwrap();
        }
        let error = one.tell(Say::Note { caller: 0, n: 2 }).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::No);
        let error = one.ask(Say::Note { caller: 0, n: 2 }).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::No);
        let _b = Peer::start("b", &free_address(), &seeds, &world).await;
        while one.ask(Say::Who).await.is_err() {
            tokio::task::yield_now().await;
        }
        world.assert_in_order(2);
        // It got there, and there is no answer.
        let error = one.ask(Say::Silence).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::Yes);
        let error = one.ask(Say::Panic).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::Maybe);
        let soon = Duration::from_millis(50);
        let error = one.ask_for(Say::Block, soon).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::Maybe);
        world.door.add_permits(1);
    })
    .await;
}

/// An answer that cannot travel does not make a message that was handled one that was refused.
#[tokio::test]
async fn an_answer_larger_than_the_largest_message_is_no_answer() {
    within(30, "answer", async {
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let b = builder("b", &free_address(), &seeds).max_message(1 << 20);
        let b = b.start().await.unwrap();
        let proxy = a.entity_type::<Printer>().shards(1).proxy().start();
        let proxy = proxy.await.unwrap();
        let _host = b.entity_type::<Printer>().shards(1).start().await.unwrap();
        let one = proxy.entity("one");
        assert_eq!(one.ask(10_u32).await.unwrap().0.len(), 10);
        let error = one.ask(2_u32 << 20).await.unwrap_err();
        assert_eq!(error, AskError::NoReply);
        assert_eq!(error.delivery(), Delivery::Yes);
    })
    .await;
}

#[tokio::test]
#[expect(
    clippy::mutable_key_type,
    reason = "what may change in a reference is not compared"
)]
async fn references_are_equal_by_type_and_id() {
    let node = Node::standalone().await.unwrap();
    let printers = node.entity_type::<Printer>().start().await.unwrap();
    let one = printers.entity("one");
    one.ask(1_u32).await.unwrap();
    // A clone has found the mailbox already, a new one has not.
    let set = std::collections::HashSet::from([one.clone(), printers.entity("one")]);
    assert_eq!(set.len(), 1);
    assert!(set.contains(&one));
    assert_ne!(one, printers.entity("two"));
}

/// A newer life of a node takes over, and the older one says why it stops.
#[tokio::test]
async fn a_node_that_was_replaced_says_so() {
    within(30, "replaced", async {
        let (log, _guard) = log();
        let seeds = [free_address()];
        let _a = builder("a", &seeds[0], &seeds).start().await.unwrap();
        let old = builder("twin", &free_address(), &seeds)
            .start()
            .await
            .unwrap();
        log.line(&["INFO", "member", &old.id().0.to_string(), "state=Up"])
            .await;
        let new = builder("twin", &free_address(), &seeds)
            .start()
            .await
            .unwrap();
        old.stopped().await;
        log.line(&["ERROR", "twin", "a newer incarnation"]).await;
        assert_eq!(log.lines_with(&["ERROR", "declared this node down"]), 0);
        assert_eq!(new.members().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn dropping_every_handle_stops_the_node() {
    within(30, "drop", async {
        let world = World::new();
        let node = Node::standalone().await.unwrap();
        let scribes = scribes(&node, &world, |it| it).await;
        let one = scribes.entity("one");
        let mut changes = scribes.shard_map_changes();
        drop(node);
        assert_eq!(one.ask(Say::Add(1)).await, Ok(Answer::Sum(1)));
        drop(scribes);
        while changes.next().await.is_some() {}
        assert_eq!(one.ask(Say::Add(1)).await, Err(AskError::Stopped));
    })
    .await;
}
