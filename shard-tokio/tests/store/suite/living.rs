//! Who lives.

use super::*;

pub(crate) async fn remembers<B: Backend>(backend: &B) {
    let store = backend.open().await;
    assert_eq!(living(&store, 1, 1).await, []);
    record(&store, 1, 1, &[("b", true), ("a", true), ("c", true)])
        .await
        .unwrap();
    // In order, and what is so already stays so.
    let changes = [
        ("a", true),
        ("b", false),
        ("c", false),
        ("c", true),
        ("d", true),
        ("d", false),
        ("nobody", false),
    ];
    record(&store, 1, 1, &changes).await.unwrap();
    record(&store, 2, 1, &[("z", true)]).await.unwrap();
    assert_eq!(living(&store, 1, 1).await.concat(), "ac");
    assert_eq!(living(&store, 2, 1).await.concat(), "z");
    let other = Remember::load(&store, "other".into(), ShardId(1), epoch(1), None, 9);
    assert_eq!(other.await.unwrap(), [], "shards are of a type");
    // It moved, and all are there.
    assert_eq!(living(&store, 1, 2).await.concat(), "ac");
    record(&store, 1, 2, &[("a", false), ("c", false)])
        .await
        .unwrap();
    fenced(record(&store, 1, 1, &[("x", true)]).await, 2, 1);
    assert_eq!(living(&store, 1, 2).await, []);
}

pub(crate) async fn remembered_pages<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let ids: Vec<String> = (0..250).map(|n| format!("{n:04}")).collect();
    let changes: Vec<(&str, bool)> = ids.iter().map(|id| (&**id, true)).collect();
    record(&store, u32::MAX, 1, &changes).await.unwrap();
    let load = |after: Option<&str>, limit| {
        let after = after.map(Box::from);
        Remember::load(
            &store,
            "cart".into(),
            ShardId(u32::MAX),
            epoch(1),
            after,
            limit,
        )
    };
    let first = load(None, 100).await.unwrap();
    assert_eq!((first.len(), &*first[99]), (100, "0099"));
    // The last of a page may be gone by now.
    let gone = [("0099", false)];
    record(&store, u32::MAX, 1, &gone).await.unwrap();
    let second = load(Some("0099"), 100).await.unwrap();
    assert_eq!((&*second[0], &*second[99]), ("0100", "0199"));
    let last = load(Some("0199"), 100).await.unwrap();
    assert_eq!((last.len(), &*last[49]), (50, "0249"));
    assert_eq!(load(Some("0249"), 100).await.unwrap(), []);
    assert_eq!(load(None, 0).await.unwrap(), []);
    assert_eq!(load(None, usize::MAX).await.unwrap().len(), 249);
}

pub(crate) async fn remembered_page_bytes<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let per_page = PAGE_BYTES / MAX_NAME;
    let ids: Vec<String> = (0..per_page + 3)
        .map(|n| format!("{n:04}{}", "x".repeat(MAX_NAME - 4)))
        .collect();
    for id in &ids {
        record(&store, 1, 1, &[(id, true)]).await.unwrap();
    }
    let page = Remember::load(&store, "cart".into(), ShardId(1), epoch(1), None, 10_000);
    assert_eq!(page.await.unwrap().len(), per_page);
    assert_eq!(living(&store, 1, 1).await.len(), ids.len());
}
