//! Messages to an entity whose shard moves from process to process.

mod common;

use std::collections::BTreeMap;

use common::cluster::{Cluster, NAMES, PATIENCE};
use examples::visitor::Heard;

const MESSAGES: u64 = 1000;

/// Scenario 41: an origin sends 1 to 1000 to an entity while its shard moves three times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s41_messages_stay_in_order_while_their_shard_moves() {
    let mut cluster = Cluster::start(None).await;
    let entity = cluster.visitors.entity("visitor-0");
    let (moved, mut moves) = tokio::sync::watch::channel(0_u64);
    let asking = tokio::spawn(async move {
        let mut asks = Vec::new();
        for n in 1..=MESSAGES {
            // Some of them while the shard does not move, and the last ones after all moves.
            let share = n * 4 / (MESSAGES + 1);
            if n % 5 == 0 {
                tokio::time::sleep(core::time::Duration::from_millis(1)).await;
            }
            if share > *moves.borrow() {
                let ready = moves.wait_for(|moves| *moves >= share);
                let slow = core::time::Duration::from_millis(40);
                // Go on slowly while it moves.
                let _ = tokio::time::timeout(slow, ready).await;
            }
            asks.push((n, entity.begin_ask(n.to_string()).await.unwrap()));
        }
        let mut heard = Vec::new();
        for (n, ask) in asks {
            heard.push((n, ask.await.unwrap()));
        }
        heard
    });
    let mut epochs = Vec::new();
    for round in 1..=3 {
        let heard = cluster.visitors.entity("visitor-0");
        let heard: Heard = heard.ask("where?".to_owned()).await.unwrap();
        epochs.push(heard.epoch);
        let home = NAMES.iter().position(|name| *name == heard.node).unwrap();
        cluster.nodes[home].signal("TERM");
        cluster.nodes[home].line_with("has left");
        assert!(cluster.nodes[home].process.wait().unwrap().success());
        moved.send(round).unwrap();
        cluster.start_again(home);
        cluster.comes_to_rest().await;
    }
    let heard = tokio::time::timeout(PATIENCE, asking)
        .await
        .unwrap()
        .unwrap();

    // In the order of the entity's lives, and within each in the order in which it counted.
    let mut handled = BTreeMap::new();
    for (n, heard) in heard {
        assert_eq!(heard.text, n.to_string());
        cluster.heard(&heard);
        let twice = handled.insert((heard.epoch, heard.count), n);
        assert_eq!(twice, None, "{heard:?}");
    }
    let order: Vec<_> = handled.into_values().collect();
    assert_eq!(order, (1..=MESSAGES).collect::<Vec<_>>());
    epochs.dedup();
    assert_eq!(epochs.len(), 3, "it moved each time");
    cluster.check_homes();
    let stats = cluster.watcher.stats();
    assert_eq!(stats.undelivered.iter().map(|it| it.1).sum::<u64>(), 0);
}
