//! Node processes are stopped for longer than their lease and go on later, not knowing.
#![cfg(unix)]

mod common;

use common::cluster::{Cluster, PATIENCE, ask_all, homes, homes_that};
use examples::clock;

/// The shards of a node that hangs live elsewhere; when it goes on it serves none of them, and gets some again.
async fn a_node_hangs(cluster: &mut Cluster, hung: usize) {
    let from_us = clock::micros();
    cluster.nodes[hung].signal("STOP");
    let visitors = cluster.visitors.clone();
    let asks = tokio::spawn(async move { ask_all(&visitors).await });
    let id = cluster.id(hung);
    let moved = |homes: &common::cluster::Homes| homes.values().all(|home| home.0 != id);
    let now = homes_that(&cluster.visitors, |homes| {
        homes.len() == common::cluster::SHARDS as usize && moved(homes)
    })
    .await;
    let lived = cluster.lived(hung, true).into_keys().collect();
    let served = cluster.prober.served_since(from_us + 500_000, Some(&lived));
    served.await.unwrap();
    for (shard, (_, epoch)) in cluster.lived(hung, true) {
        assert!(now[&shard].1 > epoch, "{shard:?}");
    }
    for (shard, home) in cluster.lived(hung, false) {
        assert_eq!(now[&shard], home, "{shard:?} lived");
    }
    cluster.check_service(from_us, hung);

    cluster.nodes[hung].signal("CONT");
    let heard = tokio::time::timeout(PATIENCE, asks).await.unwrap().unwrap();
    cluster.check_fates(heard);
    while !homes(&cluster.visitors.shard_map())
        .values()
        .any(|home| home.0 == id)
    {
        // It was gone for so long that the others gave it up.
        if cluster.nodes[hung].process.try_wait().unwrap().is_some() {
            cluster.start_again(hung);
            break;
        }
        tokio::time::sleep(core::time::Duration::from_millis(10)).await;
    }
    cluster.comes_to_rest().await;
    cluster.check_lives().await;
    cluster.check_homes();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hung_serves_nothing_of_what_moved() {
    let mut cluster = Cluster::start(None).await;
    let hung = cluster.follower();
    a_node_hangs(&mut cluster, hung).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hung_serves_nothing_of_what_moved() {
    let mut cluster = Cluster::start(None).await;
    let hung = cluster.leader();
    a_node_hangs(&mut cluster, hung).await;
    assert_ne!(cluster.leader(), hung);
}
