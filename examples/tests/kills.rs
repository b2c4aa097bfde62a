//! Node processes are killed, and this process watches what becomes of their shards.

mod common;

use common::cluster::{Cluster, Homes, ask_all, at_rest, homes_that};
use examples::clock;

/// Scenario 28: a node that does not lead is killed. Its shards get homes on the two others, theirs stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s28_shards_of_a_killed_node_live_elsewhere() {
    let mut cluster = Cluster::start(None).await;
    let killed = cluster.follower();
    let from_us = clock::micros();
    cluster.nodes[killed].kill();
    let heard = ask_all(&cluster.visitors).await;
    cluster.check_fates(heard);
    let left = cluster.others(killed);
    let now = homes_that(&cluster.visitors, |homes| at_rest(homes, &left)).await;
    for (shard, home) in cluster.lived(killed, false) {
        assert_eq!(now[&shard], home, "{shard:?} lived");
    }
    for (shard, (_, epoch)) in cluster.lived(killed, true) {
        assert!(now[&shard].1 > epoch, "{shard:?}");
    }
    cluster.check_lives().await;
    cluster.check_service(from_us, killed);
}

/// Scenario 29: a node is killed and started again at once, under the same name. What it had is given homes anew, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s29_a_node_restarts_quickly_under_its_name() {
    let mut cluster = Cluster::start(None).await;
    let killed = cluster.follower();
    let from_us = clock::micros();
    cluster.nodes[killed].kill();
    cluster.start_again(killed);
    let heard = ask_all(&cluster.visitors).await;
    cluster.check_fates(heard);
    let before = cluster.lived(killed, true);
    let newer = |homes: &Homes| before.iter().all(|(shard, home)| homes[shard].1 > home.1);
    let all = [0, 1, 2].map(|index| cluster.id(index));
    homes_that(&cluster.visitors, |homes| {
        at_rest(homes, &all) && newer(homes)
    })
    .await;
    cluster.check_lives().await;
    cluster.check_service(from_us, killed);
}

/// Scenario 30: the leading node is killed. What others host stays where it is, under the same epochs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s30_shards_that_live_stay_when_the_leader_is_killed() {
    let mut cluster = Cluster::start(None).await;
    let killed = cluster.leader();
    let from_us = clock::micros();
    cluster.nodes[killed].kill();
    let heard = ask_all(&cluster.visitors).await;
    cluster.check_fates(heard);
    let left = cluster.others(killed);
    let now = homes_that(&cluster.visitors, |homes| at_rest(homes, &left)).await;
    for (shard, home) in cluster.lived(killed, false) {
        assert_eq!(now[&shard], home, "{shard:?} lived");
    }
    for (shard, (_, epoch)) in cluster.lived(killed, true) {
        assert!(now[&shard].1.term() > epoch.term(), "{shard:?}");
    }
    cluster.check_lives().await;
    cluster.check_service(from_us, killed);
}
