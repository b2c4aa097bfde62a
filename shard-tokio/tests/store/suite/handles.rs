//! Opening a store several times, and using it from many tasks.

use super::*;

pub(crate) async fn reopening_keeps_everything<B: Backend>(backend: &B) {
    if !B::FOREVER {
        return;
    }
    let store = backend.open().await;
    let cart = entity("user-42");
    let sequence = Some(Sequence { sender: 7, seq: 3 });
    let mut request = append(&cart, 2, 1, &[b"a", b"b"]);
    request.sequence = sequence;
    store.append(request).await.unwrap();
    let snapshot = store.snapshot(cart.clone(), epoch(2), 1, b"s".to_vec());
    snapshot.await.unwrap();
    let mut request = save(&cart, 2, 1, b"one");
    request.sequence = sequence;
    store.save(request).await.unwrap();
    record(&store, 1, 2, &[("a", true), ("b", true)])
        .await
        .unwrap();
    let (id, place) = (store.id(), store.describe());
    B::close(store).await;

    let store = backend.open().await;
    assert_eq!((store.id(), store.describe()), (id, place));
    fenced(store.open(cart.clone(), epoch(1)).await, 2, 1);
    fenced(Store::load(&store, cart.clone(), epoch(1)).await, 2, 1);
    fenced(record(&store, 1, 1, &[]).await, 2, 1);
    let opened = store.open(cart.clone(), epoch(2)).await.unwrap();
    let expected = Opened {
        snapshot: Some(Snapshot {
            seq: 1,
            state: b"s".to_vec(),
        }),
        last_seq: 2,
        senders: sequence.into_iter().collect(),
    };
    assert_eq!(opened, expected);
    assert_eq!(events(&store, &cart).await.concat(), b"ab");
    let loaded = Store::load(&store, cart, epoch(2)).await.unwrap();
    let expected = Loaded {
        revision: 1,
        state: Some(b"one".to_vec()),
        senders: sequence.into_iter().collect(),
    };
    assert_eq!(loaded, expected);
    assert_eq!(living(&store, 1, 2).await.concat(), "ab");
}

pub(crate) async fn ids_of_stores<B: Backend>(backend: &B) {
    let (one, same) = tokio::join!(backend.open(), backend.open());
    assert_ne!(one.id(), 0);
    assert_eq!(one.id(), same.id(), "two views of one store");
    let Some(other) = B::create().await else {
        return;
    };
    assert_ne!(one.id(), other.open().await.id(), "two stores");
    assert!(!one.describe().is_empty());
}

pub(crate) async fn many_writers<B: Backend>(backend: &B) {
    const WRITERS: u64 = 64;
    const WRITES: u64 = 20;
    let store = backend.open().await;
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = entity(&writer.to_string());
            store.open(id.clone(), epoch(1)).await.unwrap();
            for seq in 1..=WRITES {
                let event = format!("{writer}-{seq}");
                let request = append(&id, 1, seq, &[event.as_bytes()]);
                store.append(request).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let stats = store.stats();
    assert_eq!(stats.writes, WRITERS * (WRITES + 1));
    if B::GROUPS {
        assert!(stats.transactions * 2 < stats.writes, "{stats:?}");
        assert!(stats.largest_group > 1, "{stats:?}");
    }
    for writer in 0..WRITERS {
        let read = events(&store, &entity(&writer.to_string())).await;
        let expected: Vec<Vec<u8>> = (1..=WRITES)
            .map(|seq| format!("{writer}-{seq}").into_bytes())
            .collect();
        assert_eq!(read, expected);
    }
}

pub(crate) async fn dropped_requests<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    // Never polled: never asked for.
    drop(store.append(append(&cart, 9, 1, &[b"x"])));
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert_eq!(opened.last_seq, 0);
    // Polled once: written or not, but whole, and before what the same task asks for next.
    let request = store.append(append(&cart, 1, 1, &[b"a", b"b"]));
    tokio::select! {
        biased;
        result = request => result.unwrap(),
        () = std::future::ready(()) => {}
    }
    let last = store.open(cart.clone(), epoch(1)).await.unwrap().last_seq;
    assert!([0, 2].contains(&last), "{last}");
    let next = store.append(append(&cart, 1, last + 1, &[b"c"]));
    next.await.unwrap();
    assert_eq!(events(&store, &cart).await.len() as u64, last + 1);
}

pub(crate) async fn works_as_an_object<B: Backend>(backend: &B) {
    let store = Arc::new(backend.open().await);
    let journal: Arc<dyn Journal> = Arc::clone(&store) as Arc<dyn Journal>;
    let values: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
    let remember: Arc<dyn Remember> = store;
    let cart = entity("user-42");
    journal.append(append(&cart, 1, 1, &[b"a"])).await.unwrap();
    values.save(save(&cart, 1, 1, b"one")).await.unwrap();
    let changes = vec![("a".into(), true)];
    let recorded = remember.record("cart".into(), ShardId(1), epoch(1), changes);
    recorded.await.unwrap();
    assert_eq!(journal.id(), remember.id());
    assert_eq!(values.load(cart, epoch(1)).await.unwrap().revision, 1);
}
