//! What every store must do. A backend says how to make one and how to open it again; `suite!` makes a test of each
//! function below.

use std::fmt::Debug;
use std::sync::Arc;

use shard_tokio::store::{
    Append, EntityId, Journal, Loaded, MAX_NAME, MAX_SENDERS, MAX_WRITE, Opened, PAGE_BYTES,
    Recorded, Remember, Save, Sequence, Snapshot, Storage, Store, StoreError,
};
use shard_tokio::{Epoch, ShardId};

#[path = "suite/fences.rs"]
mod fences;
#[path = "suite/handles.rs"]
mod handles;
#[path = "suite/living.rs"]
mod living;
#[path = "suite/sizes.rs"]
mod sizes;

pub(crate) use fences::*;
pub(crate) use handles::*;
pub(crate) use living::*;
pub(crate) use sizes::*;

/// A store that is empty at first, and gone when this is dropped.
pub(crate) trait Backend: Sized + Send + Sync + 'static {
    /// One process' view of it.
    type Handle: Journal + Store + Remember + Clone;
    /// Whether what waits together is written together.
    const GROUPS: bool;
    /// Whether it outlives its handles.
    const FOREVER: bool;

    /// `None`: what it needs is not on this machine (it has said so).
    fn create() -> impl Future<Output = Option<Self>> + Send;

    /// As another process would.
    fn open(&self) -> impl Future<Output = Self::Handle> + Send {
        self.open_with(MAX_WRITE)
    }

    /// With a limit to what one request may write.
    fn open_with(&self, max_write: usize) -> impl Future<Output = Self::Handle> + Send;

    /// Closes a handle, as the end of its process would.
    fn close(handle: Self::Handle) -> impl Future<Output = ()> + Send {
        async move { drop(handle) }
    }
}

/// A test of each property, in a module of its own.
macro_rules! suite {
    ($(#[$attribute:meta])* $module:ident, $backend:ty) => {
        $crate::suite::suite! { @ $(#[$attribute])* $module, $backend:
            journal_round_trip, value_round_trip, journal_and_value_are_apart, types_are_apart,
            event_pages, page_bytes, gaps_and_duplicates_write_nothing, append_without_events,
            snapshots_are_numbered, every_request_is_fenced, refused_requests_raise_no_fence,
            equal_and_higher_epochs_are_accepted, two_handles_take_turns,
            refused_requests_fail_alone, reopening_keeps_everything, ids_of_stores,
            large_events, too_large, odd_ids, long_ids, deletes_keep_the_fence, senders_are_kept,
            senders_are_bounded, many_writers, dropped_requests, remembers, remembered_pages,
            remembered_page_bytes, extreme_numbers, works_as_an_object
        }
    };
    (@ $(#[$attribute:meta])* $module:ident, $backend:ty: $($test:ident),*) => {
        $(#[$attribute])*
        mod $module {
            use super::*;
            $(
                #[tokio::test]
                async fn $test() {
                    if let Some(backend) = <$backend as $crate::suite::Backend>::create().await {
                        $crate::suite::$test(&backend).await;
                    }
                }
            )*
        }
    };
}
pub(crate) use suite;

pub(crate) fn entity(id: &str) -> EntityId {
    EntityId::new("cart", id)
}

pub(crate) fn epoch(number: u64) -> Epoch {
    Epoch::from_bits(number)
}

pub(crate) fn append(id: &EntityId, at: u64, first_seq: u64, events: &[&[u8]]) -> Append {
    Append {
        entity: id.clone(),
        epoch: epoch(at),
        first_seq,
        events: events.iter().map(|event| event.to_vec()).collect(),
        sequence: None,
    }
}

pub(crate) fn save(id: &EntityId, at: u64, revision: u64, state: &[u8]) -> Save {
    Save {
        entity: id.clone(),
        epoch: epoch(at),
        revision,
        state: Some(state.to_vec()),
        sequence: None,
    }
}

/// All events, however many pages they are.
pub(crate) async fn events(store: &impl Journal, id: &EntityId) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    loop {
        let page = store.read(id.clone(), all.len() as u64, 1000).await;
        let page = page.unwrap();
        if page.is_empty() {
            return all;
        }
        for Recorded { seq, event } in page {
            assert_eq!(seq, all.len() as u64 + 1);
            all.push(event);
        }
    }
}

async fn living(store: &impl Remember, shard: u32, at: u64) -> Vec<Box<str>> {
    let (name, shard, at) = ("cart".into(), ShardId(shard), epoch(at));
    let mut all: Vec<Box<str>> = Vec::new();
    loop {
        let after = all.last().cloned();
        let page = store.load(Arc::clone(&name), shard, at, after, 1000).await;
        let page = page.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn record(
    store: &impl Remember,
    shard: u32,
    at: u64,
    changes: &[(&str, bool)],
) -> Result<(), StoreError> {
    let changes = changes.iter().map(|(id, alive)| ((*id).into(), *alive));
    store
        .record("cart".into(), ShardId(shard), epoch(at), changes.collect())
        .await
}

#[track_caller]
fn fenced<T: Debug>(result: Result<T, StoreError>, by: u64, at: u64) {
    match result {
        Err(StoreError::Fenced { seen, given }) => {
            assert_eq!((seen, given), (epoch(by), epoch(at)));
        }
        other => panic!("not fenced: {other:?}"),
    }
}

#[track_caller]
fn out_of_sequence<T: Debug>(result: Result<T, StoreError>, next: u64, number: u64) {
    match result {
        Err(StoreError::Sequence { expected, given }) => {
            assert_eq!((expected, given), (next, number));
        }
        other => panic!("not out of sequence: {other:?}"),
    }
}

#[track_caller]
fn is_too_large<T: Debug>(result: Result<T, StoreError>, most: usize) {
    match result {
        Err(StoreError::TooLarge { size, limit }) => {
            assert_eq!(limit, most);
            assert!(size > limit);
        }
        Ok(_) => panic!("not too large"),
        Err(other) => panic!("not too large: {other}"),
    }
}

pub(crate) async fn journal_round_trip<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert_eq!(opened, Opened::default());
    assert_eq!(events(&store, &cart).await, Vec::<Vec<u8>>::new());

    store
        .append(append(&cart, 1, 1, &[b"a", b"b"]))
        .await
        .unwrap();
    store.append(append(&cart, 1, 3, &[b""])).await.unwrap();
    assert_eq!(
        events(&store, &cart).await,
        [b"a".to_vec(), b"b".to_vec(), b"".to_vec()]
    );
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert_eq!((opened.last_seq, opened.snapshot), (3, None));

    let snapshot = store.snapshot(cart.clone(), epoch(1), 2, b"ab".to_vec());
    snapshot.await.unwrap();
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    let state = b"ab".to_vec();
    assert_eq!(opened.snapshot, Some(Snapshot { seq: 2, state }));
    assert_eq!(opened.last_seq, 3);
    let rest = store.read(cart.clone(), 2, 10).await.unwrap();
    let event = Vec::new();
    assert_eq!(rest, [Recorded { seq: 3, event }]);
    assert_eq!(events(&store, &cart).await.len(), 3, "events stay");
}

pub(crate) async fn value_round_trip<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let load = || Store::load(&store, cart.clone(), epoch(1));
    assert_eq!(load().await.unwrap(), Loaded::default());
    store.save(save(&cart, 1, 1, b"one")).await.unwrap();
    let loaded = load().await.unwrap();
    assert_eq!((loaded.revision, loaded.state), (1, Some(b"one".to_vec())));
    store.save(save(&cart, 1, 2, b"")).await.unwrap();
    let loaded = load().await.unwrap();
    assert_eq!((loaded.revision, loaded.state), (2, Some(Vec::new())));
}

pub(crate) async fn journal_and_value_are_apart<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    store.append(append(&cart, 9, 1, &[b"a"])).await.unwrap();
    store.save(save(&cart, 1, 1, b"one")).await.unwrap();
    let loaded = Store::load(&store, cart.clone(), epoch(1)).await.unwrap();
    assert_eq!(loaded.revision, 1);
    assert_eq!(store.open(cart, epoch(9)).await.unwrap().last_seq, 1);
}

pub(crate) async fn types_are_apart<B: Backend>(backend: &B) {
    let store = backend.open().await;
    // Together, type and id are the same string.
    let (one, other) = (EntityId::new("ab", "c"), EntityId::new("a", "bc"));
    store.append(append(&one, 5, 1, &[b"one"])).await.unwrap();
    store
        .append(append(&other, 1, 1, &[b"other"]))
        .await
        .unwrap();
    assert_eq!(events(&store, &one).await, [b"one".to_vec()]);
    assert_eq!(events(&store, &other).await, [b"other".to_vec()]);
}

pub(crate) async fn event_pages<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let all: Vec<Vec<u8>> = (0..25_u8).map(|n| vec![n]).collect();
    let mut request = append(&cart, 1, 1, &[]);
    request.events = all.clone();
    store.append(request).await.unwrap();
    let mut read = Vec::new();
    loop {
        let page = store.read(cart.clone(), read.len() as u64, 10).await;
        let page = page.unwrap();
        assert!(page.len() <= 10);
        if page.is_empty() {
            break;
        }
        read.extend(page.into_iter().map(|recorded| recorded.event));
    }
    assert_eq!(read, all);
    for (after, limit) in [(0, 0), (25, 10), (26, 10), (u64::MAX, 10)] {
        let page = store.read(cart.clone(), after, limit).await.unwrap();
        assert_eq!(page, [], "after {after}");
    }
    let page = store.read(cart, 0, usize::MAX).await.unwrap();
    assert_eq!(page.len(), 25);
}

pub(crate) async fn page_bytes<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let event = vec![7; PAGE_BYTES / 4];
    for seq in 1..=6 {
        store
            .append(append(&cart, 1, seq, &[&event]))
            .await
            .unwrap();
    }
    let page = store.read(cart.clone(), 0, 1000).await.unwrap();
    assert_eq!(page.len(), 4, "a page has its bytes");
    assert_eq!(events(&store, &cart).await.len(), 6);
}

pub(crate) async fn gaps_and_duplicates_write_nothing<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    out_of_sequence(store.append(append(&cart, 1, 2, &[b"x"])).await, 1, 2);
    out_of_sequence(store.append(append(&cart, 1, 0, &[b"x"])).await, 1, 0);
    store.append(append(&cart, 1, 1, &[b"a"])).await.unwrap();
    for wrong in [0, 1, 3, u64::MAX] {
        let mut request = append(&cart, 1, wrong, &[b"x", b"y"]);
        request.sequence = Some(Sequence { sender: 1, seq: 1 });
        out_of_sequence(store.append(request).await, 2, wrong);
    }
    let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
    assert_eq!((opened.last_seq, opened.senders), (1, vec![]));
    assert_eq!(events(&store, &cart).await, [b"a".to_vec()]);

    out_of_sequence(store.save(save(&cart, 1, 2, b"x")).await, 1, 2);
    store.save(save(&cart, 1, 1, b"one")).await.unwrap();
    for wrong in [0, 1, 3, u64::MAX] {
        let mut request = save(&cart, 1, wrong, b"x");
        request.sequence = Some(Sequence { sender: 1, seq: 1 });
        out_of_sequence(store.save(request).await, 2, wrong);
    }
    let loaded = Store::load(&store, cart, epoch(1)).await.unwrap();
    assert_eq!((loaded.revision, loaded.senders), (1, vec![]));
    assert_eq!(loaded.state, Some(b"one".to_vec()));
    assert_eq!(store.stats().out_of_sequence, 11);
}

pub(crate) async fn append_without_events<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let sequence = Sequence { sender: 7, seq: 3 };
    let mut request = append(&cart, 4, 1, &[]);
    request.sequence = Some(sequence);
    store.append(request).await.unwrap();
    let opened = store.open(cart.clone(), epoch(4)).await.unwrap();
    assert_eq!((opened.last_seq, opened.senders), (0, vec![sequence]));
    fenced(store.append(append(&cart, 3, 1, &[])).await, 4, 3);
    out_of_sequence(store.append(append(&cart, 4, 2, &[])).await, 1, 2);
    store.append(append(&cart, 4, 1, &[b"a"])).await.unwrap();
}

pub(crate) async fn snapshots_are_numbered<B: Backend>(backend: &B) {
    let store = backend.open().await;
    let cart = entity("user-42");
    let snapshot = |seq: u64, state: &[u8]| {
        let state = state.to_vec();
        store.snapshot(cart.clone(), epoch(1), seq, state)
    };
    out_of_sequence(snapshot(1, b"x").await, 0, 1);
    snapshot(0, b"zero").await.unwrap();
    store
        .append(append(&cart, 1, 1, &[b"a", b"b"]))
        .await
        .unwrap();
    snapshot(2, b"two").await.unwrap();
    out_of_sequence(snapshot(3, b"x").await, 2, 3);
    out_of_sequence(snapshot(1, b"x").await, 2, 1);
    out_of_sequence(snapshot(u64::MAX, b"x").await, 2, u64::MAX);
    let there = || async {
        let opened = store.open(cart.clone(), epoch(1)).await.unwrap();
        opened.snapshot.unwrap()
    };
    assert_eq!(there().await.state, b"two");
    // Again, as after an answer that was lost.
    snapshot(2, b"again").await.unwrap();
    assert_eq!(there().await.state, b"again");
}
