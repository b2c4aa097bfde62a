//! Callers and entities that do what they should not.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::time::{Duration, Instant};

use common::{Answer, Peer, Say, World, free_address, scribes, within};
use shard_tokio::{AskError, Context, Entity, EntityRef, Node, TellError};
use tokio::runtime::Builder;

/// A node whose runtime has gone down answers that it stopped, to callers on other runtimes.
#[test]
fn a_runtime_that_goes_down_stops_its_node() {
    for threads in [1, 2] {
        let its = Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        let world = World::new();
        let (node, scribes) = its.block_on(async {
            let node = Node::standalone().await.unwrap();
            let scribes = scribes(&node, &world, |it| it).await;
            scribes.ready().await.unwrap();
            scribes.entity("known").ask(Say::Add(1)).await.unwrap();
            (node, scribes)
        });
        let waits = {
            let known = scribes.entity("known");
            std::thread::spawn(move || {
                let mine = Builder::new_current_thread().enable_all().build().unwrap();
                mine.block_on(within(10, "an ask of before", known.ask(Say::Slow(60_000))))
            })
        };
        std::thread::sleep(Duration::from_millis(100));
        its.shutdown_timeout(Duration::from_secs(1));
        let mine = Builder::new_current_thread().enable_all().build().unwrap();
        mine.block_on(async {
            for id in ["known", "new"] {
                let entity = scribes.entity(id);
                let told = within(2, "tell", entity.tell(Say::Add(1))).await;
                assert!(matches!(told, Err(TellError::Stopped(_))), "{id}");
                let asked = within(2, "ask", entity.ask(Say::Add(1))).await;
                assert_eq!(asked, Err(AskError::Stopped), "{id}");
            }
            within(2, "ready", scribes.ready()).await.unwrap_err();
            within(2, "leave", node.leave()).await.unwrap_err();
            within(2, "shutdown", node.shutdown()).await;
        });
        assert!(waits.join().unwrap().is_err());
    }
}

/// Dropped in the middle, tells and asks leave nothing behind that a later caller would wait for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_hold_nobody_up() {
    within(60, "dropped calls", async {
        let node = Node::standalone().await.unwrap();
        let world = World::new();
        let scribes = scribes(&node, &world, |it| it.mailbox(4).buffer(64, 64)).await;
        let one = scribes.entity("one");
        let first = tokio::spawn({
            let one = one.clone();
            async move { one.ask(Say::Block).await }
        });
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..2000_u64 {
            let (one, fresh) = (one.clone(), scribes.entity(format!("e{}", n % 7)));
            calls.spawn(async move {
                let patience = Duration::from_micros(n % 300);
                let _ = tokio::time::timeout(patience, one.tell(Say::Add(1))).await;
                let _ = tokio::time::timeout(patience, fresh.ask(Say::Add(1))).await;
                let _ = tokio::time::timeout(patience, one.begin_ask(Say::Add(1))).await;
            });
        }
        while calls.join_next().await.is_some() {}
        world.door.add_permits(1);
        assert_eq!(first.await.unwrap(), Ok(Answer::Done));
        for e in 0..7 {
            let fresh = scribes.entity(format!("e{e}"));
            fresh.ask(Say::Add(0)).await.unwrap();
        }
        one.ask(Say::Add(0)).await.unwrap();
        node.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_ids_and_long_messages() {
    within(60, "odd ids", async {
        let world = World::new();
        let seeds = common::all(2, |_| free_address());
        let a = Peer::start("a", &seeds[0], &seeds[..1], &world).await;
        let b = Peer::start("b", &seeds[1], &seeds[..1], &world).await;
        a.scribes.ready().await.unwrap();
        b.scribes.ready().await.unwrap();
        let mut ids = vec![
            String::new(),
            "\0".to_owned(),
            "a\0b\nc".to_owned(),
            "é".repeat(1000),
        ];
        ids.extend((0..4).map(|n| format!("{n}{}", "x".repeat(65_471))));
        for id in &ids {
            for peer in [&a, &b] {
                let answer = peer.scribes.entity(id).ask(Say::Add(1)).await;
                assert!(answer.is_ok(), "{} bytes: {answer:?}", id.len());
            }
        }
        for len in [65_473, 65_535, 65_536, 2_000_000] {
            for n in 0..4 {
                let id = format!("{n}{}", "x".repeat(len - 1));
                let answers = [
                    a.scribes.entity(&id).ask(Say::Add(1)).await,
                    b.scribes.entity(&id).ask(Say::Add(1)).await,
                ];
                assert!(answers.iter().all(Result::is_err), "{len}: {answers:?}");
            }
        }
        let limit = 1 << 20;
        for size in [
            limit - 200,
            limit - 64,
            limit - 1,
            limit,
            limit + 1,
            3 * limit,
        ] {
            for e in 0..4 {
                let answer = a
                    .scribes
                    .entity(format!("blob{e}"))
                    .ask(Say::Blob(vec![7; size]))
                    .await;
                match answer {
                    Ok(answer) => {
                        assert_eq!(answer, Answer::Sum(size as u64));
                    }
                    Err(error) => assert!(
                        matches!(error, AskError::TooLarge { .. }),
                        "{size} {error:?}"
                    ),
                }
            }
        }
        a.scribes.entity("last").ask(Say::Add(1)).await.unwrap();
        b.node.leave().await.unwrap();
        // The only voter may leave without force once it knows that it is alone.
        common::until(|| a.node.members().len() == 1).await;
        a.node.leave().await.unwrap();
    })
    .await;
}

/// Misbehaves as told by its id.
struct Rogue(Option<EntityRef<Self>>);

impl Entity for Rogue {
    const TYPE: &'static str = "rogue";
    type Message = u64;
    type Reply = u64;

    fn create(id: &str) -> Self {
        assert!(!id.starts_with("create"), "in create");
        Self(None)
    }

    async fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), shard_tokio::BoxError> {
        self.0 = Some(cx.entity(cx.id()));
        assert!(!cx.id().starts_with("started"), "in started");
        if cx.id().starts_with("never-starts") {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn handle(&mut self, n: u64, cx: &mut Context<'_, Self>) {
        let me = cx.entity(cx.id());
        match cx.id() {
            "asks-itself" if n == 0 => {
                let asked = me.ask_for(1_u64, Duration::from_millis(100)).await;
                cx.reply(u64::from(asked == Err(AskError::Timeout)));
            }
            "tells-itself" => {
                let _ = me.try_tell(n + 1);
                cx.reply(n);
            }
            "blocks" => std::thread::sleep(Duration::from_secs(3)),
            "pends" => std::future::pending().await,
            id if id.starts_with("handle") => panic!("in handle"),
            _ => cx.reply(n),
        }
    }

    async fn stopped(&mut self, cx: &mut Context<'_, Self>) {
        assert!(!cx.id().starts_with("stopped"), "in stopped");
        let me = cx.entity(cx.id());
        let _ = me.try_tell(7_u64);
        if cx.id().starts_with("tells") {
            let _ = tokio::time::timeout(Duration::from_millis(100), me.tell(8_u64)).await;
        }
        if cx.id() == "never-stops" {
            std::future::pending::<()>().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn rogue_entities_harm_only_themselves() {
    within(60, "rogues", async {
        let node = Node::standalone().await.unwrap();
        let rogues = node
            .entity_type::<Rogue>()
            .shards(4)
            .mailbox(8)
            .ask_timeout(Duration::from_millis(300))
            .handoff(Duration::from_secs(4), Duration::from_secs(2))
            .start()
            .await
            .unwrap();
        let twin = node.entity_type::<Rogue>().start().await;
        assert!(twin.is_err());
        assert_eq!(rogues.entity("asks-itself").ask(0_u64).await, Ok(1));
        rogues.entity("tells-itself").ask(0_u64).await.unwrap();
        for id in [
            "create",
            "started",
            "never-starts",
            "handle",
            "pends",
            "blocks",
        ] {
            assert!(rogues.entity(id).ask(0_u64).await.is_err(), "{id}");
        }
        for id in ["never-stops", "stopped", "good"] {
            assert_eq!(rogues.entity(id).ask(5_u64).await, Ok(5), "{id}");
        }
        for n in 0..64 {
            let id = format!("good{n}");
            assert_eq!(rogues.entity(&id).ask(5_u64).await, Ok(5), "{id}");
        }
        let start = Instant::now();
        node.shutdown().await;
        assert!(start.elapsed() < Duration::from_secs(12));
    })
    .await;
}

#[tokio::test]
async fn many_entities_and_a_dropped_node() {
    within(100, "many", async {
        let node = Node::standalone().await.unwrap();
        let rogues = node
            .entity_type::<Rogue>()
            .shards(64)
            .start()
            .await
            .unwrap();
        for n in 0..100_000_u64 {
            rogues.entity(format!("good{n}")).tell(n).await.unwrap();
        }
        rogues.entity("good99999").ask(1_u64).await.unwrap();
        let late = rogues.entity("good1");
        drop(node);
        drop(rogues);
        let start = Instant::now();
        while late.ask(1_u64).await.is_ok() {
            assert!(start.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
