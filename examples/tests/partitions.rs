//! What nodes send is held up in one direction, or their connections break, by relays between their processes.

mod common;

use common::cluster::{Cluster, Homes, NAMES, PATIENCE, SHARDS, ask_all, homes_that};
use common::net::Net;
use examples::{clock, visitor::Heard};
use shard_tokio::AskError;
use tokio::task::JoinHandle;

fn net() -> Net {
    Net::new(&["alpha", "bravo", "charlie", "watcher", "prober"])
}

/// A node whose beats, or whose leader's, do not arrive loses its shards; service returns in time, with one home each.
async fn cut_off(net: &Net, cluster: &mut Cluster, cut_off: usize, ways: &[(usize, usize)]) {
    let (from_us, asks) = loses_its_shards(net, cluster, cut_off, ways).await;
    cluster.check_service(from_us, cut_off);
    heals(net, cluster, cut_off, asks).await;
}

type Asks = JoinHandle<Vec<Result<Heard, AskError>>>;

/// Returns when they are served elsewhere: when it began, and asks from then.
async fn loses_its_shards(
    net: &Net,
    cluster: &Cluster,
    cut_off: usize,
    ways: &[(usize, usize)],
) -> (u64, Asks) {
    let from_us = clock::micros();
    for (from, to) in ways {
        net.cut(NAMES[*from], NAMES[*to]);
    }
    let visitors = cluster.visitors.clone();
    let asks = tokio::spawn(async move { ask_all(&visitors).await });
    let id = cluster.id(cut_off);
    let moved = |homes: &Homes| homes.values().all(|home| home.0 != id);
    let now = homes_that(&cluster.visitors, |homes| {
        homes.len() == SHARDS as usize && moved(homes)
    })
    .await;
    let lived = cluster.lived(cut_off, true).into_keys().collect();
    let served = cluster.prober.served_since(clock::micros(), Some(&lived));
    served.await.unwrap();
    for (shard, (_, epoch)) in cluster.lived(cut_off, true) {
        assert!(now[&shard].1 > epoch, "{shard:?}");
    }
    (from_us, asks)
}

async fn heals(net: &Net, cluster: &mut Cluster, cut_off: usize, asks: Asks) {
    net.heal();
    let heard = tokio::time::timeout(PATIENCE, asks).await.unwrap().unwrap();
    cluster.check_fates(heard);
    if cluster.nodes[cut_off].process.try_wait().unwrap().is_some() {
        cluster.start_again(cut_off);
    }
    cluster.comes_to_rest().await;
    cluster.check_lives().await;
    cluster.check_homes();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_hear_its_leader_loses_its_shards() {
    let net = net();
    let mut cluster = Cluster::start(Some(&net)).await;
    let (leader, deaf) = (cluster.leader(), cluster.follower());
    cut_off(&net, &mut cluster, deaf, &[(leader, deaf)]).await;
    assert_eq!(cluster.leader(), leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_its_leader_does_not_hear_loses_its_shards() {
    let net = net();
    let mut cluster = Cluster::start(Some(&net)).await;
    let (leader, mute) = (cluster.leader(), cluster.follower());
    cut_off(&net, &mut cluster, mute, &[(mute, leader)]).await;
    assert_eq!(cluster.leader(), leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_nobody_hears_is_replaced() {
    let net = net();
    let mut cluster = Cluster::start(Some(&net)).await;
    let leader = cluster.leader();
    let ways = [1, 2].map(|other| (leader, (leader + other) % 3));
    cut_off(&net, &mut cluster, leader, &ways).await;
    assert_ne!(cluster.leader(), leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_nobody_is_replaced() {
    let net = net();
    let mut cluster = Cluster::start(Some(&net)).await;
    let leader = cluster.leader();
    let ways = [1, 2].map(|other| ((leader + other) % 3, leader));
    let (from_us, asks) = loses_its_shards(&net, &cluster, leader, &ways).await;
    // It says that it hears nobody, and echoes nobody: everybody's lease ends before another one leads.
    cluster.check_gaps(from_us, |_| true);
    cluster.check_homes();
    heals(&net, &mut cluster, leader, asks).await;
    assert_ne!(cluster.leader(), leader);
}

/// Scenario 45: all connections break with 200 messages on their way in them: each is handled once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s45_messages_of_a_broken_connection_arrive_once_and_in_order() {
    const IN_FLIGHT: u64 = 200;
    let net = net();
    let cluster = Cluster::start(Some(&net)).await;
    let entity = cluster.visitors.entity("visitor-0");
    let before = entity.ask("before".to_owned()).await.unwrap();
    let home = NAMES.iter().find(|name| **name == before.node).unwrap();
    for round in 0..3 {
        // They get as far as the relay, or their answers do.
        let (from, to) = if round % 2 == 0 {
            ("watcher", *home)
        } else {
            (*home, "watcher")
        };
        net.cut(from, to);
        let mut asks = Vec::new();
        for n in 0..IN_FLIGHT {
            asks.push(entity.begin_ask(format!("{round}.{n}")).await.unwrap());
        }
        tokio::time::sleep(core::time::Duration::from_millis(50)).await;
        net.reset();
        net.heal();
        for (n, ask) in (0..).zip(asks) {
            let heard = tokio::time::timeout(PATIENCE, ask).await.unwrap().unwrap();
            assert_eq!(heard.text, format!("{round}.{n}"));
            assert_eq!(heard.epoch, before.epoch);
            assert_eq!(heard.count, before.count + round * IN_FLIGHT + n + 1);
        }
    }
    assert_eq!(
        cluster
            .watcher
            .stats()
            .undelivered
            .iter()
            .map(|it| it.1)
            .sum::<u64>(),
        0
    );
    cluster.check_homes();
}
