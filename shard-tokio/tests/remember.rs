//! Entities that are remembered: whoever serves their shard next starts them again.
#![allow(
    missing_docs,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::*;
use shard_tokio::allocation::{LeastShards, Pinned};
use shard_tokio::store::{Remember, Storage, StoreError, StoreFuture};
use shard_tokio::{
    Context, Entity, EntityType, EntityTypeBuilder, Epoch, KeepShards, MemoryStore, Node, NodeId,
    NotReady, ShardHash, ShardId, StartRate, TypeError,
};

/// Who lives on which node.
#[derive(Default)]
struct House {
    lives: Mutex<BTreeSet<(String, String)>>,
    starts: AtomicU64,
    messages: AtomicU64,
}

impl House {
    fn on(&self, node: &str) -> BTreeSet<String> {
        let lives = self.lives.lock().unwrap();
        lives
            .iter()
            .filter(|(on, _)| on == node)
            .map(|(_, id)| id.clone())
            .collect()
    }

    fn count(&self, node: &str) -> usize {
        self.on(node).len()
    }
}

struct Guest {
    house: Arc<House>,
    node: String,
    id: String,
}

impl Entity for Guest {
    const TYPE: &'static str = "guest";
    type Message = u32;
    type Reply = u32;

    fn create(_id: &str) -> Self {
        unreachable!("there is a factory")
    }

    async fn started(&mut self, _cx: &mut Context<'_, Self>) -> Result<(), shard_tokio::BoxError> {
        self.house.starts.fetch_add(1, SeqCst);
        let life = (self.node.clone(), self.id.clone());
        self.house.lives.lock().unwrap().insert(life);
        Ok(())
    }

    async fn handle(&mut self, message: u32, cx: &mut Context<'_, Self>) {
        self.house.messages.fetch_add(1, SeqCst);
        if message == u32::MAX {
            cx.passivate();
        }
        cx.reply(message);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let life = (self.node.clone(), self.id.clone());
        self.house.lives.lock().unwrap().remove(&life);
    }
}

async fn guests(
    node: &Node,
    house: &Arc<House>,
    store: impl Remember,
    set: impl FnOnce(EntityTypeBuilder<Guest>) -> EntityTypeBuilder<Guest>,
) -> EntityType<Guest> {
    let (house, name) = (Arc::clone(house), node.name().to_owned());
    let builder = node
        .entity_type::<Guest>()
        .shards(8)
        .remember(store)
        .factory(move |id| Guest {
            house: Arc::clone(&house),
            node: name.clone(),
            id: id.to_owned(),
        });
    set(builder).start().await.unwrap()
}

fn ids(range: std::ops::Range<u32>) -> BTreeSet<String> {
    range.map(|n| format!("guest-{n}")).collect()
}

/// A store that fails, waits and tells.
#[derive(Clone, Debug)]
struct Moody {
    store: MemoryStore,
    mood: Arc<Mood>,
}

#[derive(Debug, Default)]
struct Mood {
    bad_loads: AtomicU32,
    /// So many shards, those that are asked for first, are never read.
    unreadable: AtomicUsize,
    unread: Mutex<BTreeSet<ShardId>>,
    refuses: AtomicBool,
    /// The first load never ends.
    hangs: AtomicBool,
    log: Mutex<Vec<(&'static str, Epoch)>>,
}

impl Moody {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            mood: Arc::default(),
        }
    }
}

impl Storage for Moody {
    fn id(&self) -> u64 {
        self.store.id()
    }

    fn describe(&self) -> String {
        "moody".into()
    }
}

struct Dropped<'a>(&'a Mood, Epoch);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.log.lock().unwrap().push(("dropped", self.1));
    }
}

impl Remember for Moody {
    fn load(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        after: Option<Box<str>>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Box<str>>> {
        Box::pin(async move {
            self.mood.log.lock().unwrap().push(("load", epoch));
            {
                let mut unread = self.mood.unread.lock().unwrap();
                if unread.len() < self.mood.unreadable.load(SeqCst) {
                    unread.insert(shard);
                }
                if unread.contains(&shard) {
                    return Err(StoreError::Unavailable("in a bad mood".into()));
                }
            }
            let bad = &self.mood.bad_loads;
            if bad
                .fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                return Err(StoreError::Unavailable("in a bad mood".into()));
            }
            if self.mood.hangs.swap(false, SeqCst) {
                let _dropped = Dropped(&self.mood, epoch);
                std::future::pending::<()>().await;
            }
            Remember::load(&self.store, entity_type, shard, epoch, after, limit).await
        })
    }

    fn record(
        &self,
        entity_type: Arc<str>,
        shard: ShardId,
        epoch: Epoch,
        changes: Vec<(Box<str>, bool)>,
    ) -> StoreFuture<'_, ()> {
        if self.mood.refuses.load(SeqCst) {
            return Box::pin(async { Err(StoreError::Unavailable("in a bad mood".into())) });
        }
        self.store.record(entity_type, shard, epoch, changes)
    }
}

#[tokio::test]
async fn they_come_back_when_the_whole_cluster_starts_again() {
    within(60, "the second life", async {
        let store = MemoryStore::new();
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it).await;
        for id in ids(0..20) {
            on.entity(&id).ask(1_u32).await.unwrap();
        }
        // Five are passivated: they are forgotten.
        for id in ids(0..5) {
            on.entity(&id).ask(u32::MAX).await.unwrap();
        }
        until(|| on.remember_stats().changes == 25).await;
        assert_eq!(house.on(node.name()), ids(5..20));
        node.shutdown().await;
        until(|| house.count(node.name()) == 0).await;

        let messages = house.messages.load(SeqCst);
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it).await;
        until(|| house.count(node.name()) == 15).await;
        assert_eq!(house.on(node.name()), ids(5..20));
        assert_eq!(
            house.messages.load(SeqCst),
            messages,
            "nobody was sent anything"
        );
        let stats = on.remember_stats();
        assert_eq!((stats.shards_read, stats.ids_read), (8, 15));
        assert_eq!(stats.changes, 0, "they were remembered already");
        node.shutdown().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_live_on_where_their_shards_go() {
    within(60, "the move", async {
        let store = MemoryStore::new();
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let fast = |it: EntityTypeBuilder<Guest>| it.rebalance_interval(Duration::from_millis(50));
        let on_a = guests(&a, &house, store.clone(), fast).await;
        let on_b = guests(&b, &house, store.clone(), fast).await;
        on_b.ready().await.unwrap();
        for id in ids(0..40) {
            on_a.entity(&id).ask(1_u32).await.unwrap();
        }
        until(|| on_a.shards().len() == 4 && on_b.shards().len() == 4).await;
        until(|| house.count("a") + house.count("b") == 40).await;
        b.leave().await.unwrap();
        until(|| house.count("a") == 40).await;
        assert_eq!(house.count("b"), 0);
        assert_eq!(on_a.shards().len(), 8);
        a.shutdown().await;
    })
    .await;
}

/// Scenario 16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_shard_that_moves_while_it_is_read_completes_when_that_is_cancelled() {
    within(60, "the move", async {
        let store = Moody::new();
        store.mood.hangs.store(true, SeqCst);
        let house = Arc::new(House::default());
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let course = Arc::new(AtomicU64::new(a.id().0));
        let set = |it: EntityTypeBuilder<Guest>| {
            let course = Arc::clone(&course);
            let pins = move |_| Some(NodeId(course.load(SeqCst)));
            it.shards(1)
                .rebalance_interval(Duration::from_millis(20))
                .strategy(Pinned::new(pins, LeastShards::default()))
        };
        let on_a = guests(&a, &house, store.clone(), set).await;
        let on_b = guests(&b, &house, store.clone(), set).await;
        on_b.ready().await.unwrap();
        until(|| !store.mood.hangs.load(SeqCst)).await;
        assert_eq!(on_a.shards().len(), 1);
        let asked = tokio::spawn({
            let guest = on_a.entity("guest-1");
            async move { guest.ask(7_u32).await }
        });
        course.store(b.id().0, SeqCst);
        assert_eq!(asked.await.unwrap(), Ok(7));
        assert_eq!(house.on("b"), ids(1..2));
        let log = store.mood.log.lock().unwrap().clone();
        let [
            ("load", first),
            ("dropped", cancelled),
            ("load", second),
            ..,
        ] = log[..]
        else {
            panic!("{log:?}");
        };
        assert_eq!(first, cancelled);
        assert!(second > first);
        assert_eq!(on_a.shards(), []);
    })
    .await;
}

#[tokio::test]
async fn a_store_that_fails_delays_starts_and_nothing_else() {
    within(60, "the store's better days", async {
        let store = Moody::new();
        store.mood.bad_loads.store(5, SeqCst);
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it.shards(1)).await;
        let early = on.entity("guest-0");
        assert_eq!(early.ask(1_u32).await, Ok(1));
        assert_eq!(on.remember_stats().read_failures, 5);

        store.mood.refuses.store(true, SeqCst);
        let late = tokio::spawn({
            let guest = on.entity("guest-1");
            async move { guest.ask(2_u32).await }
        });
        until(|| on.remember_stats().write_failures >= 3).await;
        assert_eq!(early.ask(3_u32).await, Ok(3));
        assert_eq!(house.on(node.name()), ids(0..1));
        store.mood.refuses.store(false, SeqCst);
        assert_eq!(late.await.unwrap(), Ok(2));
        assert_eq!(house.starts.load(SeqCst), 2, "nobody was started twice");
        node.shutdown().await;
    })
    .await;
}

#[tokio::test]
async fn a_fenced_shard_is_not_written_to_any_more() {
    within(60, "the fence", async {
        let store = MemoryStore::new();
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it.shards(2)).await;
        let (fenced, served): (Vec<_>, Vec<_>) = ids(0..40)
            .into_iter()
            .partition(|id| ShardHash::Default.shard(id.as_bytes(), 2) == ShardId(0));
        on.entity(&fenced[0]).ask(1_u32).await.unwrap();
        assert_eq!(raise(&store, ShardId(0)).await, [(*fenced[0]).into()]);
        for id in &fenced[1..=5] {
            on.entity(id).tell(1_u32).await.unwrap();
        }
        until(|| on.remember_stats().fenced == 1).await;
        assert_eq!(on.entity(&fenced[0]).ask(2_u32).await, Ok(2));
        for (late, other) in fenced[6..].iter().zip(&served) {
            on.entity(late).tell(1_u32).await.unwrap();
            // It starts when that is written, which is asked for after what the other shard asks for.
            assert_eq!(on.entity(other).ask(3_u32).await, Ok(3));
            assert_eq!(on.remember_stats().fenced, 1, "it is not tried again");
        }
        assert!(!house.on(node.name()).contains(&fenced[1]));
        assert_eq!(raise(&store, ShardId(0)).await, [(*fenced[0]).into()]);
        node.shutdown().await;
    })
    .await;
}

/// Somebody else has the shard: nobody with a lower epoch than the highest writes to it any more. Returns who lives.
async fn raise(store: &MemoryStore, shard: ShardId) -> Vec<Box<str>> {
    let above = Epoch::from_bits(u64::MAX);
    let load = Remember::load(store, Guest::TYPE.into(), shard, above, None, 10);
    load.await.unwrap()
}

#[tokio::test]
async fn many_fenced_shards_are_few_lines_of_the_log() {
    within(60, "the fences", async {
        let (log, _guard) = log::log();
        let store = MemoryStore::new();
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it.shards(32)).await;
        on.entity("guest-0").ask(1_u32).await.unwrap();
        for shard in (0..32).map(ShardId) {
            raise(&store, shard).await;
        }
        for id in ids(1..400) {
            on.entity(id).tell(1_u32).await.unwrap();
        }
        until(|| on.remember_stats().fenced == 32).await;
        let lines = log.lines_with(&["WARN", "since it was granted to this one"]);
        assert_eq!(lines, 6, "one for each of 1, 2, 4, 8, 16 and 32");
        node.shutdown().await;
    })
    .await;
}

/// As many as are read at once cannot be read for now: all others are.
#[tokio::test]
async fn shards_that_cannot_be_read_do_not_keep_others_waiting() {
    within(60, "the others", async {
        let store = Moody::new();
        store.mood.unreadable.store(8, SeqCst);
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let on = guests(&node, &house, store.clone(), |it| it.shards(32)).await;
        until(|| on.remember_stats().shards_read == 24).await;
        until(|| on.remember_stats().read_failures > 16).await;
        node.shutdown().await;
    })
    .await;
}

#[tokio::test]
async fn state_and_memory_are_in_one_store() {
    let store = MemoryStore::new();
    let node = Node::standalone().await.unwrap();
    let start = |id| {
        let guests = node.entity_type::<Guest>().storage_id(id);
        guests.remember(store.clone()).start()
    };
    let error = start(7).await.unwrap_err();
    let name = Guest::TYPE;
    let (state, remember) = (7, store.id());
    let expected = TypeError::Stores {
        name,
        state,
        remember,
    };
    assert_eq!(error, expected);
    assert!(error.to_string().contains("the same store"), "{error}");
    start(store.id()).await.unwrap();
    node.shutdown().await;
}

/// A type that only some of its hosts remember would be forgotten by where a shard is.
#[tokio::test]
async fn a_host_that_does_not_remember_is_refused_among_those_that_do() {
    within(30, "some remember", async {
        let addresses = all(2, |_| free_address());
        let seeds = &addresses[..1];
        let a = builder("a", &addresses[0], seeds).start().await.unwrap();
        let b = builder("b", &addresses[1], seeds).start().await.unwrap();
        let house = Arc::new(House::default());
        let on_a = guests(&a, &house, MemoryStore::new(), |it| it).await;
        on_a.ready().await.unwrap();
        let on_b = b.entity_type::<Guest>().shards(8).keep(KeepShards::All);
        let on_b = on_b.start().await.unwrap();
        let error = on_b.ready().await.unwrap_err();
        let name = Guest::TYPE;
        assert_eq!(error, NotReady::Remember { name, here: false });
        let text = error.to_string();
        for part in ["`remember`", "missing on this node", "remember(store)"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(on_b.shards(), []);
    })
    .await;
}

/// Prints what a running entity's callers notice while 100 000 remembered ones start. Run it in release:
/// `cargo test --release -p shard-tokio --test remember -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn a_hundred_thousand_start_again_without_starving_who_runs() {
    const GUESTS: u32 = 100_000;
    const SHARDS: u32 = 100;
    let store = MemoryStore::new();
    let kind: Arc<str> = Guest::TYPE.into();
    let hash = ShardHash::Default;
    let mut lots: Vec<Vec<(Box<str>, bool)>> = vec![Vec::new(); SHARDS as usize];
    for id in ids(0..GUESTS) {
        let shard = hash.shard(id.as_bytes(), SHARDS);
        lots[shard.0 as usize].push((id.into(), true));
    }
    for (shard, lot) in (0..).map(ShardId).zip(lots) {
        let recorded = store.record(Arc::clone(&kind), shard, Epoch::from_bits(1), lot);
        recorded.await.unwrap();
    }
    for rate in [
        StartRate::PerInterval {
            count: 1000,
            interval: Duration::from_millis(100),
        },
        StartRate::AtOnce,
    ] {
        let house = Arc::new(House::default());
        let node = Node::standalone().await.unwrap();
        let began = Instant::now();
        let on = guests(&node, &house, store.clone(), |it| {
            it.shards(SHARDS).start_rate(rate)
        })
        .await;
        let live = on.entity("guest-7");
        live.ask(0_u32).await.unwrap();
        let mut waits = Vec::new();
        while house.starts.load(SeqCst) < u64::from(GUESTS) {
            let asked = Instant::now();
            live.ask(1_u32).await.unwrap();
            waits.push(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let took = began.elapsed();
        waits.sort_unstable();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize];
        println!(
            "{rate:?}: {GUESTS} in {SHARDS} shards back in {took:.2?}; ask of a running one meanwhile: p50 {:?}, p99 \
             {:?}, max {:?} ({} asks)",
            at(0.5),
            at(0.99),
            at(1.0),
            waits.len()
        );
        // Without pacing it is worse, and that is what pacing is for.
        let paced = !matches!(rate, StartRate::AtOnce);
        assert!(!paced || at(0.99) < Duration::from_millis(100));
        node.shutdown().await;
    }
}

/// A sum that is kept, by an entity that is remembered.
#[cfg(feature = "sqlite")]
struct Purse;

#[cfg(feature = "sqlite")]
impl shard_tokio::durable::Durable for Purse {
    const TYPE: &'static str = "purse";
    type Message = u64;
    type Reply = u64;
    type State = u64;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(
        &mut self,
        sum: &u64,
        add: u64,
        _cx: &Context<'_, shard_tokio::durable::Kept<Self>>,
    ) -> shard_tokio::durable::Change<Self> {
        shard_tokio::durable::Change::replace(sum + add).reply(sum + add)
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn durable_ones_come_back_with_their_state_from_a_file() {
    within(60, "the second life", async {
        let path = std::env::temp_dir().join(format!("remember-{}.sqlite", std::process::id()));
        let store = shard_tokio::store::SqliteStore::open(&path).await.unwrap();
        let node = Node::standalone().await.unwrap();
        let purses = node.durable::<Purse>(store.clone()).shards(8);
        let purses = purses.remember(store).start().await.unwrap();
        for id in ids(0..20) {
            purses.entity(&id).ask(40_u64).await.unwrap();
        }
        node.shutdown().await;
        drop((purses, node));

        let store = shard_tokio::store::SqliteStore::open(&path).await.unwrap();
        let node = Node::standalone().await.unwrap();
        let purses = node.durable::<Purse>(store.clone()).shards(8);
        let purses = purses.remember(store).start().await.unwrap();
        until(|| purses.running() == 20).await;
        assert_eq!(purses.remember_stats().ids_read, 20);
        for id in ids(0..20) {
            assert_eq!(purses.entity(&id).ask(2_u64).await, Ok(42));
        }
        node.shutdown().await;
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    })
    .await;
}
