//! Who may lead and serve, and by what: settings, leaving, a leader from outside.
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use common::log::log;
use common::{
    Answer, Peer, Say, World, builder, builder_on, hosted_by, map_that, scribes, until, within,
};
use shard_tokio::{
    LeaveError, MemberState, MemoryTransport, Node, NodeBuilder, Ownership, StartError, Term,
    VotersError,
};

fn on(network: &MemoryTransport, name: &str, seeds: &[String]) -> NodeBuilder {
    builder_on(name, name, seeds, network.clone())
}

async fn refused(builder: NodeBuilder) -> StartError {
    builder.start().await.unwrap_err()
}

#[tokio::test]
async fn settings_that_do_not_fit_are_named_together_with_what_to_do() {
    let network = MemoryTransport::new();
    let plain = || Node::builder("a").listen("a").transport(network.clone());
    let error = refused(plain()).await;
    assert!(matches!(error, StartError::NoVoters));
    let text = error.to_string();
    for what in [
        "`voters`",
        "1, 3 or 5",
        "the same on every node",
        "Ownership::Trust",
        "Node::standalone()",
    ] {
        assert!(text.contains(what), "{what}: {text}");
    }
    let error = refused(plain().voters(["a", "b"])).await;
    let count = VotersError::Count { got: 2 };
    assert!(matches!(&error, StartError::Voters(why) if *why == count));
    assert!(error.to_string().contains("`voters`"), "{error}");
    let error = refused(plain().voters(["a", "b", "a"])).await;
    assert!(error.to_string().contains("twice"), "{error}");
    for ownership in [Ownership::Trust, Ownership::External] {
        let error = refused(plain().voters(["a"]).ownership(ownership)).await;
        let text = error.to_string();
        assert!(
            text.contains("`voters`") && text.contains(&format!("{ownership:?}")),
            "{text}"
        );
    }
    // Nothing of it listens.
    plain().voters(["a", "b", "c"]).start().await.unwrap();
    plain()
        .ownership(Ownership::Trust)
        .start()
        .await
        .unwrap_err();
    Node::builder("alone").start().await.unwrap();
}

/// A node with other voters is refused, and both logs say why, once.
#[tokio::test]
async fn other_voters_are_refused_by_name() {
    within(30, "voters", async {
        let (log, _guard) = log();
        let world = World::new();
        let seeds = common::all(2, |_| common::free_address());
        let a = Peer::start("a", &seeds[0], &seeds[..1], &world).await;
        a.scribes.ready().await.unwrap();
        let b = builder("b", &seeds[1], &seeds[..1]).voters(["a", "b", "c"]);
        let b = b.start().await.unwrap();
        let refusals = || log.lines_with(&["WARN", "voters"]);
        log.line(&["WARN", "voters", "refused by the other side"])
            .await;
        until(|| b.stats().core.links_refused + a.node.stats().core.links_refused > 5).await;
        // Again and again it tries, and the log says so ever more rarely.
        assert!(refusals() <= 8, "{}", refusals());
        assert_eq!(a.node.members().len(), 1);
    })
    .await;
}

/// Three voters: the first may leave, the second only by force; what it does not do, it does not do at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leave_that_would_end_the_quorum_is_refused() {
    within(60, "quorum", async {
        let world = World::new();
        let network = MemoryTransport::new();
        let names = ["a", "b", "c"];
        let seeds = names.map(str::to_owned);
        let mut peers = Vec::new();
        for name in names {
            let node = on(&network, name, &seeds).voters(names).start();
            let node = node.await.unwrap();
            let scribes = scribes(&node, &world, |it| it).await;
            peers.push(Peer { node, scribes });
        }
        for peer in &peers {
            peer.scribes.ready().await.unwrap();
        }
        for e in 0..32 {
            let entity = peers[0].scribes.entity(format!("e{e}"));
            entity.ask(Say::Add(1)).await.unwrap();
        }
        peers.pop().unwrap().node.leave().await.unwrap();
        let b = peers.pop().unwrap();
        let a = peers.pop().unwrap();
        for node in [&a.node, &b.node] {
            until(|| node.members().len() == 2).await;
        }
        let error = b.node.leave().await.unwrap_err();
        let expected = LeaveError::EndsQuorum {
            voters_up: 1,
            quorum: 2,
        };
        assert_eq!(error, expected);
        let text = error.to_string();
        assert!(
            text.contains("`voters`") && text.contains("leave_forced"),
            "{text}"
        );
        // As if nothing had been said.
        assert!(
            a.node
                .members()
                .iter()
                .all(|member| member.state == MemberState::Up)
        );
        for e in 0..64 {
            let entity = b.scribes.entity(format!("e{e}"));
            entity.ask(Say::Add(1)).await.unwrap();
        }
        b.node.leave_forced().await.unwrap();
        within(15, "b ends", b.node.stopped()).await;
        // Without a majority nothing runs.
        until(|| a.scribes.shards().is_empty()).await;
        a.node.leave().await.unwrap();
    })
    .await;
}

/// A lease from outside says who leads; its token is the term, and epochs grow with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_else_may_decide_who_leads() {
    within(60, "external", async {
        let world = World::new();
        let network = MemoryTransport::new();
        let seeds = ["a".to_owned(), "b".to_owned()];
        let mut peers = Vec::new();
        for name in ["a", "b"] {
            let node = on(&network, name, &seeds)
                .voters([""; 0])
                .ownership(Ownership::External);
            let node = node.start().await.unwrap();
            let scribes = scribes(&node, &world, |it| it).await;
            peers.push(Peer { node, scribes });
        }
        let [a, b] = &peers[..] else { unreachable!() };
        a.node.lead_externally(Some(Term(7)));
        a.scribes.ready().await.unwrap();
        b.scribes.ready().await.unwrap();
        let who = async |peer: &Peer, id: &str| match peer.scribes.entity(id).ask(Say::Who).await {
            Ok(Answer::Who { epoch, .. }) => shard_tokio::Epoch::from_bits(epoch),
            other => panic!("{other:?}"),
        };
        let before = who(b, "one").await;
        assert_eq!(before.term(), Term(7));
        // The lease changes hands.
        a.node.lead_externally(None);
        b.node.lead_externally(Some(Term(9)));
        until(|| {
            let leads = |peer: &Peer| peer.node.leader().map(|leader| leader.term);
            leads(a) == Some(Term(9)) && leads(b) == Some(Term(9))
        })
        .await;
        for e in 0..64 {
            who(a, &format!("e{e}")).await;
        }
        map_that(&a.scribes, |map| {
            hosted_by(map, &a.node) >= 8 && hosted_by(map, &b.node) >= 8
        })
        .await;
        assert!(who(a, "one").await >= before);
        // Nobody leads: nobody serves for longer than the lease.
        b.node.lead_externally(None);
        until(|| a.scribes.shards().is_empty() && b.scribes.shards().is_empty()).await;
        let waits = a.scribes.entity("one");
        let waits = tokio::spawn(async move { waits.ask(Say::Who).await });
        a.node.lead_externally(Some(Term(12)));
        let Ok(Answer::Who { epoch, .. }) = waits.await.unwrap() else {
            panic!("no answer");
        };
        assert!(shard_tokio::Epoch::from_bits(epoch) > before);
    })
    .await;
}
