//! Many callers of entities that come and go all the time.

use std::sync::Arc;
use std::time::Duration;

use shard_tokio::{EntityType, EntityTypeBuilder};

use crate::common::{all, builder, free_address, undelivered, within};
use crate::house::{Do, Guest, House, alone, guests};

/// Many callers, entities that come and go all the time: what a caller sends first is handled first.
async fn under_load(types: Vec<EntityType<Guest>>, house: Arc<House>, entities: u64, each: u64) {
    let mut callers = tokio::task::JoinSet::new();
    let count = 4 * types.len() as u64;
    for caller in 0..count {
        let guests = types[caller as usize % types.len()].clone();
        callers.spawn(async move {
            let refs: Vec<_> = (0..entities)
                .map(|e| guests.entity(format!("e{e}")))
                .collect();
            for n in 0..each {
                for (e, entity) in (0..).zip(&refs) {
                    let kind = (caller * 7 + n * 3 + e) % 11;
                    let message = match kind {
                        0 => Do::Last { caller, n },
                        _ => Do::Note { caller, n },
                    };
                    if kind < 3 {
                        entity.ask(message).await.unwrap();
                    } else {
                        entity.tell(message).await.unwrap();
                    }
                }
            }
            for entity in &refs {
                // A mailbox keeps order, so all before it were handled.
                entity.ask(Do::Note { caller, n: each }).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    assert_eq!(house.assert_in_order(), count * entities * (each + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_overtaken_while_entities_come_and_go() {
    within(120, "under load", async {
        let house = Arc::new(House::default());
        let set = |it: EntityTypeBuilder<Guest>| {
            it.max_entities(6)
                .passivate_after(Duration::from_millis(1))
                .ask_timeout(Duration::from_secs(60))
        };
        let (node, guests) = alone(&house, set).await;
        under_load(vec![guests.clone()], house, 10, 2000).await;
        let stats = guests.stats();
        assert_eq!(undelivered(&node), 0, "{stats:?}");
        assert!(stats.passivated_asked > 100, "{stats:?}");
        assert!(stats.passivated_limit > 10, "{stats:?}");
        assert!(stats.handed_back > 100, "{stats:?}");
    })
    .await;
}

/// The same with callers on other nodes, and entities that take their time to start and to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_or_overtaken_from_other_nodes() {
    within(120, "from other nodes", async {
        let house = Arc::new(House {
            work: Duration::from_millis(2),
            ..House::default()
        });
        let addresses = all(3, |_| free_address());
        let seeds = &addresses[..1];
        let (mut nodes, mut types) = (Vec::new(), Vec::new());
        for (name, address) in ["a", "b", "p"].iter().zip(&addresses) {
            let node = builder(name, address, seeds).start().await.unwrap();
            let set = |it: EntityTypeBuilder<Guest>| {
                let it = it
                    .max_entities(6)
                    .passivate_after(Duration::from_millis(5))
                    .ask_timeout(Duration::from_secs(60));
                if *name == "p" { it.proxy() } else { it }
            };
            let guests = guests(&node, &house, set).await;
            guests.ready().await.unwrap();
            nodes.push(node);
            types.push(guests);
        }
        under_load(types.clone(), Arc::clone(&house), 10, 300).await;
        let lost: u64 = nodes.iter().map(undelivered).sum();
        let stats: Vec<_> = types.iter().map(EntityType::stats).collect();
        assert_eq!(lost, 0, "{stats:?}");
        let passivated: u64 = stats.iter().map(|it| it.passivated_asked).sum();
        assert!(passivated > 100, "{stats:?}");
    })
    .await;
}
