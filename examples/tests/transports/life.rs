//! Nodes come, serve, go and are killed.

use core::time::Duration;

use shard_adapter::{MemberState, Preset};

use crate::combination::Combination;
use crate::lab::Lab;
use crate::scribe::{SHARDS, Say, hosted, ids, map_that};

/// Three nodes find each other, and have one type.
pub async fn join<C: Combination>(lab: Lab<C>) {
    let peers = lab.cluster(["a", "b", "c"], |_| {}).await;
    for peer in &peers {
        lab.until(|| {
            let members = peer.node.members();
            members.len() == 3 && members.iter().all(|it| it.state == MemberState::Up)
        })
        .await;
        lab.until(|| peer.node.leader() == peers[0].node.leader() && peer.node.leader().is_some())
            .await;
    }
    lab.spread(&peers).await;
    for peer in &peers {
        peer.node.shutdown().await;
    }
}

/// Every node reaches every entity, and what it asks is handled in the order in which it asked.
pub async fn route<C: Combination>(lab: Lab<C>) {
    let peers = lab.cluster(["a", "b", "c"], |_| {}).await;
    lab.spread(&peers).await;
    let mut homes = Vec::new();
    for (caller, peer) in (0..).zip(&peers) {
        for id in ids(&peer.scribes) {
            let entity = peer.scribes.entity(&id);
            let mut answers = Vec::new();
            for n in 0..20 {
                answers.push(entity.begin_ask(Say::note(caller, n)).await.unwrap());
            }
            for answer in answers {
                homes.push(answer.await.unwrap().node);
            }
            let all: Vec<_> = (0..20).collect();
            assert_eq!(lab.world.told(&id, caller), all, "caller {caller}, {id}");
        }
    }
    for peer in &peers {
        assert!(homes.iter().any(|home| home == peer.node.name()));
    }
}

/// A node comes, and shards move to it while all are in use.
pub async fn shards_move<C: Combination>(lab: Lab<C>) {
    let [a, b] = lab.cluster(["a", "b"], |_| {}).await;
    let traffic = lab.traffic(&[&a, &b]);
    lab.progress(&traffic, 5).await;
    let c = lab.start(lab.setup("c", &[&a])).await;
    let fair = SHARDS as usize / 3;
    map_that(&a.scribes, |map| hosted(map, &c.node) >= fair).await;
    lab.progress(&traffic, 20).await;
    lab.finish(traffic, &[&a, &b, &c]).await;
}

/// A node leaves while its entities are asked.
pub async fn leave<C: Combination>(lab: Lab<C>) {
    let peers = lab.cluster(["a", "b", "c"], |_| {}).await;
    lab.spread(&peers).await;
    let [a, b, c] = &peers;
    let traffic = lab.traffic(&[a, b]);
    lab.progress(&traffic, 5).await;
    c.node.leave().await.unwrap();
    map_that(&a.scribes, |map| {
        hosted(map, &c.node) == 0 && map.known() == SHARDS as usize
    })
    .await;
    lab.progress(&traffic, 20).await;
    lab.until(|| a.node.members().len() == 2).await;
    lab.finish(traffic, &[a, b]).await;
}

/// Everything that a node runs is dropped where it is: the others have its shards soon.
pub async fn kill<C: Combination>(lab: Lab<C>) {
    let peers = lab
        .cluster(["a", "b", "c"], |setup| setup.preset = Preset::Lan)
        .await;
    lab.spread(&peers).await;
    // Who leads is the worst to lose.
    let leader = peers[0].node.leader().unwrap().node;
    let (mut dead, others): (Vec<_>, Vec<_>) =
        peers.into_iter().partition(|peer| peer.node.id() == leader);
    let dead = dead.pop().unwrap();
    dead.end.now();
    lab.until(|| dead.probe.open() == 0).await;
    for peer in &others {
        lab.ask_all(peer).await;
        map_that(&peer.scribes, |map| {
            let here: usize = others.iter().map(|it| hosted(map, &it.node)).sum();
            here == SHARDS as usize
        })
        .await;
    }
    let entity = dead.scribes.entity("0");
    let dead = entity.ask_for(Say::Who, Duration::from_millis(100)).await;
    assert!(dead.is_err(), "{dead:?}");
}
