//! Several nodes in one process, over real sockets: beside the suite of all transports (`examples/tests/transports`).
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::time::Duration;

use common::{
    Answer, Peer, Say, World, builder, builder_on, free_address, hosted_by, map_that, scribes,
    undelivered, until, within,
};
use shard_tokio::{EntityTypeBuilder, MemberState, MemoryTransport, Preset};

/// Callers of two nodes and a proxy tell numbers to sixteen entities while a third node joins and the second leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_while_nodes_join_and_leave() {
    within(120, "order", async {
        let world = World::new();
        let seeds = common::all(4, |_| free_address());
        // With leases that bear a busy machine, and not so much on the way that beats are stuck behind it.
        let start = async |name: &str, address: &str| {
            let node = builder(name, address, &seeds[..1])
                .preset(Preset::Default)
                .window(1 << 20, 1024);
            let node = node.start().await.unwrap();
            let set = |it: EntityTypeBuilder<_>| if name == "p" { it.proxy() } else { it };
            let scribes = scribes(&node, &world, set).await;
            Peer { node, scribes }
        };
        let a = start("a", &seeds[0]).await;
        let b = start("b", &seeds[1]).await;
        let p = start("p", &seeds[3]).await;
        for peer in [&a, &b, &p] {
            peer.scribes.ready().await.unwrap();
        }
        let mut callers = tokio::task::JoinSet::new();
        let each = 3000;
        // Node b leaves in the middle, so its callers are not among those that count.
        for caller in 0..6 {
            let scribes = if caller % 2 == 0 {
                a.scribes.clone()
            } else {
                p.scribes.clone()
            };
            callers.spawn(async move {
                let entities: Vec<_> = (0..16).map(|e| scribes.entity(format!("e{e}"))).collect();
                for n in 0..each {
                    for entity in &entities {
                        // A shard without a home may have as many as it buffers.
                        while entity.tell(Say::Note { caller, n }).await.is_err() {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    if n % 10 == 0 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                for entity in &entities {
                    // Asks are in line behind the rest.
                    let _ = entity.ask_for(Say::Add(0), Duration::from_secs(30)).await;
                }
            });
        }
        let c = start("c", &seeds[2]).await;
        map_that(&a.scribes, |map| hosted_by(map, &c.node) >= 3).await;
        b.node.leave().await.unwrap();
        map_that(&a.scribes, |map| hosted_by(map, &b.node) == 0).await;
        callers.join_all().await;
        let nodes = [&a, &b, &c, &p].map(|peer| &peer.node);
        let lapses: u64 = nodes.iter().map(|node| node.stats().core.lapses).sum();
        if lapses > 0 {
            // This machine stalled for longer than a lease. Then messages may be undelivered, but in order, and reported.
            let lost = || nodes.iter().map(|node| undelivered(node)).sum::<u64>();
            until(|| world.assert_growing() + lost() >= 6 * 16 * each).await;
            let lost: Vec<_> = nodes
                .iter()
                .map(|node| (node.name(), node.stats().undelivered))
                .collect();
            eprintln!("{lapses} leases lost; not delivered: {lost:?}");
            return;
        }
        world.assert_in_order(each);
        assert_eq!(world.all_notes().len(), 16);
        for node in nodes {
            assert_eq!(undelivered(node), 0, "{:?}", node.stats());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_runs_over_any_transport() {
    within(30, "memory", async {
        let world = World::new();
        let network = MemoryTransport::new();
        let seeds = ["a".to_owned()];
        let mut peers = Vec::new();
        for name in ["a", "b", "c"] {
            let builder = builder_on(name, name, &seeds, network.clone());
            let node = builder.start().await.unwrap();
            let scribes = scribes(&node, &world, |it| it).await;
            peers.push(Peer { node, scribes });
        }
        for peer in &peers {
            peer.scribes.ready().await.unwrap();
        }
        for e in 0..96 {
            let peer = &peers[e % 3];
            let entity = peer.scribes.entity(format!("e{e}"));
            assert_eq!(entity.ask(Say::Add(1)).await, Ok(Answer::Sum(1)));
        }
        map_that(&peers[0].scribes, |map| hosted_by(map, &peers[2].node) >= 8).await;
    })
    .await;
}

/// What a node says last is that it has left. If that were lost, the others would wait for it, and declare it down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_process_ends_right_after_it_left_is_not_declared_down() {
    within(60, "a node that ends", async {
        let world = World::new();
        let seeds = [free_address()];
        let a = Peer::start("a", &seeds[0], &seeds, &world).await;
        a.scribes.ready().await.unwrap();
        for life in 0..5 {
            let (name, address) = (format!("b{life}"), free_address());
            let (seed, world) = (seeds.clone(), world.clone());
            let leaver = std::thread::spawn(move || {
                let process = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build();
                process.unwrap().block_on(async {
                    let b = Peer::start(&name, &address, &seed, &world).await;
                    b.scribes.ready().await.unwrap();
                    b.node.leave().await.unwrap();
                });
            });
            while !leaver.is_finished() || a.node.members().len() > 1 {
                for member in a.node.members() {
                    assert_ne!(member.state, MemberState::Unreachable, "{member:?}");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            leaver.join().unwrap();
        }
    })
    .await;
}
