//! What is large, and what is too large; odd names, and many senders.

use super::*;

pub(crate) async fn large_events<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let large: Vec<u8> = (0..8 * 1024 * 1024_u32)
        .map(|n| n.wrapping_mul(2_654_435_761) as u8)
        .collect();
    let request = append(&cart, 1, 1, &[b"small", &large, b""]);
    store.append(request).await.unwrap();
    let read = events(&store, &cart).await;
    assert!(read[1] == large, "the large event changed");
    assert_eq!(
        (read.len(), &*read[0], &*read[2]),
        (3, &b"small"[..], &b""[..])
    );

    let snapshot = store.snapshot(cart.clone(), epoch(1), 3, large.clone());
    snapshot.await.unwrap();
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert!(opened.snapshot.unwrap().state == large);
    store.save(save(&cart, 1, 1, &large)).await.unwrap();
    let loaded = Store::load(&store, cart, epoch(1)).await.unwrap();
    assert!(loaded.state.unwrap() == large);
}

pub(crate) async fn too_large<B: Backend>(backend: &B) {
    const MOST: usize = 10_000;
    let store = backend.open_with(MOST).await;
    let cart = entity("user-42");
    let large = vec![7; MOST];
    is_too_large(store.append(append(&cart, 1, 1, &[&large])).await, MOST);
    let half: &[u8] = &large[..MOST / 2];
    is_too_large(store.append(append(&cart, 1, 1, &[half, half])).await, MOST);
    // Empty events weigh something, too.
    let many = vec![&b""[..]; MOST];
    is_too_large(store.append(append(&cart, 1, 1, &many)).await, MOST);
    is_too_large(store.save(save(&cart, 1, 1, &large)).await, MOST);
    let snapshot = store.snapshot(cart.clone(), epoch(1), 0, large.clone());
    is_too_large(snapshot.await, MOST);
    let many = vec![("a", true); MOST];
    is_too_large(record(&store, 1, 1, &many).await, MOST);
    assert_eq!(store.stats().too_large, 6);
    assert_eq!(
        store.open(cart.clone(), epoch(1)).await.unwrap().last_seq,
        0
    );
    store.append(append(&cart, 1, 1, &[half])).await.unwrap();

    // Another process with another limit may have written more: it can be read all the same.
    let wide = backend.open().await;
    wide.save(save(&cart, 1, 1, &large)).await.unwrap();
    let loaded = Store::load(&store, cart, epoch(1)).await.unwrap();
    assert_eq!(loaded.state, Some(large));
}

pub(crate) async fn odd_ids<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let names = [
        "",
        " ",
        "'",
        "\"",
        "\\",
        "\0",
        "a\0b",
        "a\0c",
        "%",
        "_",
        "ä",
        "a\u{308}",
        "Ä",
        "A",
        "a",
        "';DROP TABLE event;--",
        "𝄞",
        "\u{10ffff}",
        "\n",
        "1",
        "1.0",
        "NULL",
    ];
    for (n, name) in names.iter().enumerate() {
        let n = n.to_string();
        for id in [EntityId::new("cart", *name), EntityId::new(*name, "id")] {
            store
                .append(append(&id, 1, 1, &[n.as_bytes()]))
                .await
                .unwrap();
            store.save(save(&id, 1, 1, n.as_bytes())).await.unwrap();
        }
        record(&store, 1, 1, &[(name, true)]).await.unwrap();
    }
    for (n, name) in names.iter().enumerate() {
        let n = n.to_string();
        for id in [EntityId::new("cart", *name), EntityId::new(*name, "id")] {
            let read = events(&store, &id).await;
            assert_eq!(read, [n.as_bytes()], "{id:?}");
            let loaded = Store::load(&store, id.clone(), epoch(1)).await.unwrap();
            assert_eq!(loaded.state.as_deref(), Some(n.as_bytes()), "{id:?}");
        }
    }
    let mut sorted: Vec<Box<str>> = names.iter().map(|name| Box::from(*name)).collect();
    sorted.sort();
    assert_eq!(living(&store, 1, 1).await, sorted);
    record(&store, 1, 1, &[("a\0b", false)]).await.unwrap();
    sorted.retain(|id| **id != *"a\0b");
    assert_eq!(living(&store, 1, 1).await, sorted);
}

pub(crate) async fn long_ids<B: Backend>(backend: &B) {
    let store = backend.open().await;
    // Alike in front, and incompressible, as an index may not take it.
    let noise = |last: char| -> String {
        let mut state = 1_u64;
        let mut name: String = (1..MAX_NAME)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b' ' + (state >> 58) as u8)
            })
            .collect();
        name.push(last);
        name
    };
    let (one, other) = (noise('1'), noise('2'));
    for (id, event) in [(&one, b"1"), (&other, b"2")] {
        let id = EntityId::new(&**id, &**id);
        store.append(append(&id, 1, 1, &[event])).await.unwrap();
        store.save(save(&id, 1, 1, event)).await.unwrap();
    }
    for (id, event) in [(&one, b"1"), (&other, b"2")] {
        let id = EntityId::new(&**id, &**id);
        assert_eq!(events(&store, &id).await, [event]);
    }
    record(&store, 1, 1, &[(&other, true), (&one, true)])
        .await
        .unwrap();
    assert_eq!(living(&store, 1, 1).await, [&*one, &*other].map(Box::from));

    let longer = one + "x";
    for id in [
        EntityId::new("cart", &*longer),
        EntityId::new(&*longer, "id"),
    ] {
        is_too_large(store.open(id.clone(), epoch(1)).await, MAX_NAME);
        is_too_large(store.append(append(&id, 1, 1, &[])).await, MAX_NAME);
        is_too_large(Store::load(&store, id.clone(), epoch(1)).await, MAX_NAME);
        is_too_large(store.save(save(&id, 1, 1, b"")).await, MAX_NAME);
    }
    is_too_large(record(&store, 1, 1, &[(&longer, true)]).await, MAX_NAME);
}

pub(crate) async fn senders_are_kept<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let sequence = |sender, seq| Sequence { sender, seq };
    // The last number is below the one that is known: it stays.
    let said = [(1, 1), (2, 1), (u64::MAX, u64::MAX), (1, 2), (2, 9), (1, 1)];
    for (n, (sender, seq)) in (1..).zip(said) {
        let mut request = append(&cart, 1, n, &[b"a"]);
        request.sequence = Some(sequence(sender, seq));
        store.append(request).await.unwrap();
        let mut request = save(&cart, 1, n, b"a");
        request.sequence = Some(sequence(sender, seq));
        store.save(request).await.unwrap();
    }
    let expected = [sequence(u64::MAX, u64::MAX), sequence(2, 9), sequence(1, 2)];
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert_eq!(opened.senders, expected);
    let loaded = Store::load(&store, cart, epoch(1)).await.unwrap();
    assert_eq!(loaded.senders, expected);
    let other = store.open(entity("user-43"), epoch(1)).await.unwrap();
    assert_eq!(other.senders, [], "senders are of an entity");
}

pub(crate) async fn senders_are_bounded<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let most = MAX_SENDERS as u64;
    let heard = |sender| {
        let mut request = append(&cart, 1, 1, &[]);
        request.sequence = Some(Sequence { sender, seq: 1 });
        store.append(request)
    };
    for sender in 1..=most {
        heard(sender).await.unwrap();
    }
    // The first is heard of again: the second is the one that goes.
    heard(1).await.unwrap();
    heard(most + 1).await.unwrap();
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    let senders: Vec<u64> = opened.senders.iter().map(|s| s.sender).collect();
    let expected: Vec<u64> = (3..=most).chain([1, most + 1]).collect();
    assert_eq!(senders, expected);
}
