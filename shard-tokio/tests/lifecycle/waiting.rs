//! What waits for entities that have no mailbox.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use shard_tokio::{AskError, Delivery, Reason, TellError};
use tokio::sync::Semaphore;

use crate::common::{undelivered, until, within};
use crate::house::{Do, House, alone, last, note};

/// What is told to an entity that stops is kept within bounds.
#[tokio::test]
async fn what_an_entity_is_told_while_it_stops_is_bounded() {
    within(30, "bounds", async {
        let house = Arc::new(House {
            stop: Some(Semaphore::new(0)),
            ..House::default()
        });
        let (node, guests) = alone(&house, |it| it.shards(1).buffer(1000, 20)).await;
        let one = guests.entity("one");
        one.ask(last(0)).await.unwrap();
        until(|| house.lives("one").last() == Some(&"stopping")).await;
        let mut reports = node.undelivered();
        let mut taken = 0;
        for n in 1..=30 {
            match one.tell(note(n)).await {
                Ok(()) => taken += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(one.ask(note(31)).await, Err(AskError::BufferFull));
        assert_eq!(reports.next().await.unwrap().reason, Reason::BufferFull);
        // From now on whoever tells it something has it back, also through another reference.
        let again = guests.entity("one");
        let error = again.tell(note(32)).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::No);
        let Some(Do::Note { n: 32, .. }) = error.into_message() else {
            panic!("it is not given back");
        };
        let error = one.try_tell(note(33)).unwrap_err();
        assert!(matches!(error, TellError::BufferFull(_)), "{error}");
        // Others start.
        assert_eq!(guests.entity("two").ask(note(0)).await, Ok(1));
        house.stop.as_ref().unwrap().add_permits(100);
        until(|| house.count() == 22).await;
        assert_eq!(taken, 30);
        assert_eq!(house.assert_in_order(), 22);
        until(|| undelivered(&node) == 11).await;
        assert_eq!(guests.stats().refused_keep_full, 13);
        again.tell(note(34)).await.unwrap();
        assert_eq!(one.ask(note(35)).await, Ok(22));
    })
    .await;
}

/// Messages that an entity has when the node stops are reported, also those that wait for its next life.
#[tokio::test]
async fn what_is_kept_when_the_node_stops_is_reported() {
    within(30, "the end", async {
        let house = Arc::new(House::default());
        house.bad_starts.store(1000, SeqCst);
        let (node, guests) = alone(&house, |it| it).await;
        let one = guests.entity("one");
        for n in 0..10 {
            one.tell(note(n)).await.unwrap();
        }
        let asked = tokio::spawn({
            let one = one.clone();
            async move { one.ask(note(10)).await }
        });
        until(|| house.starts.load(SeqCst) >= 4).await;
        node.shutdown().await;
        assert_eq!(asked.await.unwrap(), Err(AskError::Stopped));
        assert_eq!(undelivered(&node), 11);
    })
    .await;
}
