//! Epochs: what a former home can do no more.

use super::*;

pub(crate) async fn every_request_is_fenced<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    store.append(append(&cart, 8, 1, &[b"a"])).await.unwrap();
    store.save(save(&cart, 8, 1, b"one")).await.unwrap();
    record(&store, 3, 8, &[("a", true)]).await.unwrap();

    fenced(store.open(cart.clone(), epoch(7)).await, 8, 7);
    fenced(store.append(append(&cart, 7, 2, &[b"x"])).await, 8, 7);
    let snapshot = store.snapshot(cart.clone(), epoch(7), 1, b"x".to_vec());
    fenced(snapshot.await, 8, 7);
    fenced(Store::load(&store, cart.clone(), epoch(7)).await, 8, 7);
    fenced(store.save(save(&cart, 7, 2, b"x")).await, 8, 7);
    fenced(record(&store, 3, 7, &[("x", true)]).await, 8, 7);
    let ids = Remember::load(&store, "cart".into(), ShardId(3), epoch(7), None, 10);
    fenced(ids.await, 8, 7);
    // The fence is what is said, also where the number is wrong.
    fenced(store.append(append(&cart, 7, 9, &[b"x"])).await, 8, 7);
    assert_eq!(store.stats().fenced, 8);

    // Nothing was written, and nobody else is fenced.
    let opened = store.open(cart.clone(), epoch(8)).await.unwrap();
    assert_eq!((opened.last_seq, opened.snapshot), (1, None));
    let loaded = Store::load(&store, cart, epoch(8)).await.unwrap();
    assert_eq!(loaded.state, Some(b"one".to_vec()));
    assert_eq!(living(&store, 3, 8).await, [Box::from("a")]);
    let other = entity("user-43");
    store.append(append(&other, 1, 1, &[b"a"])).await.unwrap();
    record(&store, 4, 1, &[("a", true)]).await.unwrap();
}

pub(crate) async fn refused_requests_raise_no_fence<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    store.append(append(&cart, 1, 1, &[b"a"])).await.unwrap();
    store.save(save(&cart, 1, 1, b"one")).await.unwrap();
    out_of_sequence(store.append(append(&cart, 5, 9, &[b"x"])).await, 2, 9);
    out_of_sequence(store.save(save(&cart, 5, 9, b"x")).await, 2, 9);
    let snapshot = store.snapshot(cart.clone(), epoch(5), 9, vec![]);
    out_of_sequence(snapshot.await, 1, 9);
    store.append(append(&cart, 1, 2, &[b"b"])).await.unwrap();
    store.save(save(&cart, 1, 2, b"two")).await.unwrap();
}

pub(crate) async fn equal_and_higher_epochs_are_accepted<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    // Each request raises the fence.
    store.append(append(&cart, 1, 1, &[b"a"])).await.unwrap();
    store.append(append(&cart, 2, 2, &[b"b"])).await.unwrap();
    fenced(store.append(append(&cart, 1, 3, &[b"x"])).await, 2, 1);
    let snapshot = store.snapshot(cart.clone(), epoch(3), 2, vec![]);
    snapshot.await.unwrap();
    fenced(store.append(append(&cart, 2, 3, &[b"x"])).await, 3, 2);
    store.open(cart.clone(), epoch(4)).await.unwrap();
    fenced(store.append(append(&cart, 3, 3, &[b"x"])).await, 4, 3);
    store.append(append(&cart, 4, 3, &[b"c"])).await.unwrap();

    store.save(save(&cart, 1, 1, b"a")).await.unwrap();
    store.save(save(&cart, 2, 2, b"b")).await.unwrap();
    fenced(store.save(save(&cart, 1, 3, b"x")).await, 2, 1);
    Store::load(&store, cart.clone(), epoch(3)).await.unwrap();
    fenced(store.save(save(&cart, 2, 3, b"x")).await, 3, 2);
    store.save(save(&cart, 3, 3, b"c")).await.unwrap();

    record(&store, 1, 1, &[]).await.unwrap();
    record(&store, 1, 2, &[]).await.unwrap();
    fenced(record(&store, 1, 1, &[("x", true)]).await, 2, 1);
    assert_eq!(living(&store, 1, 3).await, []);
    fenced(record(&store, 1, 2, &[("x", true)]).await, 3, 2);
    record(&store, 1, 3, &[("a", true)]).await.unwrap();
}

pub(crate) async fn two_handles_take_turns<B: Backend>(backend: &B) {
    let (old, new) = (backend.open().await, backend.open().await);
    let cart = entity("user-42");
    old.append(append(&cart, 1, 1, &[b"a"])).await.unwrap();
    assert_eq!(new.open(cart.clone(), epoch(2)).await.unwrap().last_seq, 1);
    fenced(old.append(append(&cart, 1, 2, &[b"x"])).await, 2, 1);
    new.append(append(&cart, 2, 2, &[b"b"])).await.unwrap();
    fenced(old.open(cart.clone(), epoch(1)).await, 2, 1);
    // It comes back.
    assert_eq!(old.open(cart.clone(), epoch(3)).await.unwrap().last_seq, 2);
    fenced(new.append(append(&cart, 2, 3, &[b"x"])).await, 3, 2);
    out_of_sequence(old.append(append(&cart, 3, 2, &[b"x"])).await, 3, 2);
    old.append(append(&cart, 3, 3, &[b"c"])).await.unwrap();
    for store in [&old, &new] {
        assert_eq!(events(store, &cart).await.concat(), b"abc");
    }

    old.save(save(&cart, 1, 1, b"a")).await.unwrap();
    let loaded = Store::load(&new, cart.clone(), epoch(2)).await.unwrap();
    assert_eq!(loaded.state, Some(b"a".to_vec()));
    fenced(old.save(save(&cart, 1, 2, b"x")).await, 2, 1);
    new.save(save(&cart, 2, 2, b"b")).await.unwrap();

    record(&old, 1, 1, &[("a", true)]).await.unwrap();
    assert_eq!(living(&new, 1, 2).await, [Box::from("a")]);
    fenced(record(&old, 1, 1, &[("x", true)]).await, 2, 1);
    record(&new, 1, 2, &[("b", true)]).await.unwrap();
    assert_eq!(living(&old, 1, 3).await, [Box::from("a"), Box::from("b")]);
}

pub(crate) async fn refused_requests_fail_alone<B: Backend>(backend: &B) {
    const ENTITIES: u64 = 60;
    let store = backend.open().await;
    for n in 0..ENTITIES {
        let id = entity(&n.to_string());
        store.append(append(&id, 5, 1, &[b"a"])).await.unwrap();
    }
    let before = store.stats();
    let requests = (0..ENTITIES).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = entity(&n.to_string());
            // By turns: right, fenced, out of sequence.
            let (at, seq) = [(5, 2), (4, 2), (5, 7)][n as usize % 3];
            let result = store.append(append(&id, at, seq, &[b"b"])).await;
            match n % 3 {
                0 => result.unwrap(),
                1 => fenced(result, 5, 4),
                _ => out_of_sequence(result, 2, 7),
            }
        })
    });
    for request in requests.collect::<Vec<_>>() {
        request.await.unwrap();
    }
    let after = store.stats();
    assert_eq!(after.fenced - before.fenced, ENTITIES / 3);
    assert_eq!(after.writes - before.writes, ENTITIES / 3);
    if B::GROUPS {
        assert!(after.largest_group > 1, "nothing was grouped: {after:?}");
    }
    for n in 0..ENTITIES {
        let written = events(&store, &entity(&n.to_string())).await.len();
        assert_eq!(written, if n % 3 == 0 { 2 } else { 1 }, "entity {n}");
    }
}

pub(crate) async fn deletes_keep_the_fence<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let mut request = save(&cart, 5, 1, b"one");
    request.sequence = Some(Sequence { sender: 7, seq: 3 });
    store.save(request).await.unwrap();
    let mut delete = save(&cart, 5, 2, b"");
    delete.state = None;
    store.save(delete.clone()).await.unwrap();

    fenced(Store::load(&store, cart.clone(), epoch(4)).await, 5, 4);
    fenced(store.save(save(&cart, 4, 3, b"x")).await, 5, 4);
    out_of_sequence(store.save(save(&cart, 5, 1, b"x")).await, 3, 1);
    let expected = Loaded {
        revision: 2,
        state: None,
        senders: vec![Sequence { sender: 7, seq: 3 }],
    };
    let loaded = Store::load(&store, cart.clone(), epoch(5)).await.unwrap();
    assert_eq!(loaded, expected);
    // What is not there can be deleted again, and come back.
    delete.revision = 3;
    store.save(delete).await.unwrap();
    store.save(save(&cart, 5, 4, b"back")).await.unwrap();
    let loaded = Store::load(&store, cart, epoch(5)).await.unwrap();
    assert_eq!(loaded.state, Some(b"back".to_vec()));
}

pub(crate) async fn extreme_numbers<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    // Epochs are unsigned: the highest bit is no sign.
    let (low, high) = (i64::MAX as u64, i64::MAX as u64 + 1);
    store.append(append(&cart, 0, 1, &[b"a"])).await.unwrap();
    store.append(append(&cart, low, 2, &[b"b"])).await.unwrap();
    store.append(append(&cart, high, 3, &[b"c"])).await.unwrap();
    fenced(
        store.append(append(&cart, low, 4, &[b"x"])).await,
        high,
        low,
    );
    store.open(cart.clone(), epoch(u64::MAX)).await.unwrap();
    fenced(store.open(cart.clone(), epoch(high)).await, u64::MAX, high);
    record(&store, 1, high, &[]).await.unwrap();
    fenced(record(&store, 1, low, &[]).await, high, low);
    record(&store, 1, u64::MAX, &[]).await.unwrap();
    Store::load(&store, cart.clone(), epoch(high))
        .await
        .unwrap();
    fenced(store.save(save(&cart, low, 1, b"x")).await, high, low);
}
