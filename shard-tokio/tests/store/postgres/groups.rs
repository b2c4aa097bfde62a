//! Many requests at once, of one process and of two.

use shard_tokio::ShardId;
use shard_tokio::store::{EntityId, Journal, Remember, Save, Sequence, Storage, Store, StoreError};
use tokio::task::JoinSet;

use super::{Place, append, epoch, events, waiting};

#[tokio::test]
async fn everything_that_waits_is_written_at_once_and_who_is_refused_fails_alone() {
    let Some(place) = Place::shared() else { return };
    let (store, client) = (place.store().await, place.client().await);
    for number in 0..100 {
        store
            .append(append(&number.to_string(), 5, 1, "first"))
            .await
            .unwrap();
    }
    client
        .batch_execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$BEGIN IF NEW.event = 'poison' THEN RAISE EXCEPTION 'no poison here'; END IF; RETURN NEW; END$$; \
             CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await
        .unwrap();
    let before = store.stats();
    // The writer waits for this row, and meanwhile everything else is queued.
    client
        .batch_execute("BEGIN; SELECT FROM fence WHERE id = '0' FOR UPDATE")
        .await
        .unwrap();
    let mut asked = JoinSet::new();
    let blocked = store.clone();
    asked.spawn(async move { (0, blocked.append(append("0", 5, 2, "second")).await) });
    waiting(&client, 1).await;
    for number in 1..100 {
        let mut request = append(&number.to_string(), 5, 2, "second");
        match number {
            10 => request.epoch = epoch(4),
            20 => request.first_seq = 3,
            30 => request.first_seq = 1,
            40 => request.events[0] = b"poison".to_vec(),
            _ => {}
        }
        let store = store.clone();
        asked.spawn(async move { (number, store.append(request).await) });
    }
    // On one thread: all of them have run as far as they can.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    while let Some(answer) = asked.join_next().await {
        let (number, answer) = answer.unwrap();
        let right = match (number, &answer) {
            (10, Err(StoreError::Fenced { seen, given })) => {
                (*seen, *given) == (epoch(5), epoch(4))
            }
            (20, Err(StoreError::Sequence { expected, given })) => (*expected, *given) == (2, 3),
            (30, Err(StoreError::Sequence { expected, given })) => (*expected, *given) == (2, 1),
            (40, Err(StoreError::Unavailable(error))) => {
                error.to_string().contains("no poison here")
            }
            (10 | 20 | 30 | 40, _) => false,
            (_, answer) => answer.is_ok(),
        };
        assert!(right, "{number}: {answer:?}");
    }
    for number in 0..100 {
        let expected: &[&str] = match number {
            10 | 20 | 30 | 40 => &["first"],
            _ => &["first", "second"],
        };
        assert_eq!(events(&store, &number.to_string()).await, expected);
    }

    // The same without what the server refuses: one transaction.
    let middle = store.stats();
    assert_eq!(middle.writes - before.writes, 96);
    client
        .batch_execute("BEGIN; SELECT FROM fence WHERE id = '0' FOR UPDATE")
        .await
        .unwrap();
    let blocked = store.clone();
    asked.spawn(async move { (0, blocked.append(append("0", 5, 3, "third")).await) });
    waiting(&client, 1).await;
    for number in 50..100 {
        let store = store.clone();
        asked.spawn(async move {
            let request = append(&number.to_string(), 5, 3, "third");
            (number, store.append(request).await)
        });
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    assert!(
        asked
            .join_all()
            .await
            .iter()
            .all(|(_, answer)| answer.is_ok())
    );
    let after = store.stats();
    assert_eq!(after.transactions - middle.transactions, 2);
    assert!(after.largest_group >= 50, "{after:?}");
}

/// Two processes that believe to be the home of the same entities, under the same epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_are_serialised_and_never_wait_for_each_other_in_a_circle() {
    let Some(place) = Place::shared() else { return };
    let stores = [place.store().await, place.store().await];
    let client = place.client().await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    let before: i64 = client.query_one(deadlocks, &[]).await.unwrap().get(0);
    for round in 1..=20 {
        let mut asked = JoinSet::new();
        for (index, store) in stores.iter().enumerate() {
            for number in 0..40 {
                // In opposite orders, and half of them new to the server in each round.
                let number = if index == 0 { number } else { 39 - number };
                let (id, seq) = if number % 2 == 0 {
                    (number.to_string(), round)
                } else {
                    (format!("{round}-{number}"), 1)
                };
                let store = store.clone();
                asked.spawn(async move {
                    let event = format!("by {index}");
                    store.append(append(&id, 1, seq, &event)).await
                });
            }
        }
        let answers = asked.join_all().await;
        let done = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(done, 40, "one of each two");
        let refused = |answer: &Result<(), StoreError>| {
            matches!(answer, Ok(()) | Err(StoreError::Sequence { .. }))
        };
        assert!(answers.iter().all(refused), "{answers:?}");
    }
    assert_eq!(events(&stores[0], "0").await.len(), 20);
    let after: i64 = client.query_one(deadlocks, &[]).await.unwrap().get(0);
    assert_eq!(after, before);
}

/// The server knows neither how large new tables will be nor how long arrays are, and may guess wrong for good.
#[tokio::test]
async fn no_table_is_read_as_a_whole() {
    let Some(place) = Place::shared() else { return };
    let (store, client) = (place.store().await, place.client().await);
    let cart = EntityId::new("cart", "a");
    // Beyond the few times for which the server makes a plan of its own.
    for number in 1..=20 {
        let mut event = append("a", 1, number, "event");
        let sequence = Sequence {
            sender: number,
            seq: 1,
        };
        event.sequence = Some(sequence);
        store.append(event).await.unwrap();
        let state = vec![1];
        let snapshot = store.snapshot(cart.clone(), epoch(1), number, state);
        snapshot.await.unwrap();
        let save = Save {
            entity: cart.clone(),
            epoch: epoch(1),
            revision: number,
            state: (number % 2 == 0).then(|| vec![1]),
            sequence: Some(sequence),
        };
        store.save(save).await.unwrap();
        store.open(cart.clone(), epoch(1)).await.unwrap();
        Store::load(&store, cart.clone(), epoch(1)).await.unwrap();
        store.read(cart.clone(), 0, 10).await.unwrap();
        let changes = vec![("a".into(), number % 2 == 0), ("b".into(), true)];
        let record = store.record("cart".into(), ShardId(1), epoch(1), changes);
        record.await.unwrap();
        Remember::load(&store, "cart".into(), ShardId(1), epoch(1), None, 10)
            .await
            .unwrap();
    }
    // The sessions say what they did when they end.
    store.close().await;
    // Each index was made by one such scan, of nothing.
    let question = "SELECT relname::text, idx_scan, \
                    seq_scan - (SELECT count(*) FROM pg_index i WHERE i.indrelid = t.relid) \
                    FROM pg_stat_user_tables t WHERE schemaname = $1 AND relname <> 'store'";
    loop {
        let tables = client.query(question, &[&place.schema]).await.unwrap();
        assert_eq!(tables.len(), 5);
        for table in &tables {
            let (name, scans): (String, i64) = (table.get(0), table.get(2));
            assert!(scans <= 0, "{scans} of {name}");
        }
        if tables.iter().all(|table| table.get::<_, i64>(1) >= 20) {
            break;
        }
        tokio::task::yield_now().await;
    }
}
