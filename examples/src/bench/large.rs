//! Small asks at a fixed rate to other shards while a large message is on its way over the same connection.

use core::time::Duration;
use std::{thread, time::Instant};

use shard_tokio::proto::hash::entity_shard;
use shard_tokio::{Context, Entity, EntityRef, EntityType, Node, Raw};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinSet, spawn_blocking},
};

use crate::{
    failure::Failure,
    figures::{Figure, Size, figure},
    latency::Latency,
    ledger::Shelf,
    process::within,
    shape::Shape,
};

const SHARDS: u32 = 64;
/// Of a large message.
const LARGE: usize = (64 << 20) - 1024;
/// As it is unless it is set.
const FRAGMENT: u32 = 64 << 10;
/// More than one of them.
const WHOLE: u32 = 80 << 20;
/// Between small asks.
const PERIOD: Duration = Duration::from_millis(1);
/// Of an ask, before it has failed.
const LONGEST: Duration = Duration::from_secs(60);

/// Answers how many bytes it was sent.
struct Sink;

impl Entity for Sink {
    const TYPE: &'static str = "sink";
    type Message = Raw;
    type Reply = u64;

    fn create(_id: &str) -> Self {
        Self
    }

    async fn handle(&mut self, message: Raw, cx: &mut Context<'_, Self>) {
        cx.reply(message.0.len() as u64);
    }
}

struct Pair {
    nodes: [Node; 2],
    sinks: EntityType<Sink>,
}

impl Pair {
    /// Messages up to `fragment` bytes travel in one frame.
    async fn start(shape: &Shape, fragment: u32) -> Result<Self, Failure> {
        let start = async |name: &str, seeds| {
            shape.certify(name)?;
            let node = shape.node(name, seeds)?.fragment(fragment);
            let node = node.max_frame(fragment.max(1 << 20)).start();
            node.await.map_err(Failure::run)
        };
        let home = start("home", Vec::new()).await?;
        let hosting = home.entity_type::<Sink>().shards(SHARDS).start();
        hosting.await.map_err(Failure::run)?;
        let seeds = vec![home.address().to_owned()];
        let caller = start("caller", seeds).await?;
        let sinks = caller.entity_type::<Sink>().shards(SHARDS).proxy();
        let sinks = sinks.start().await.map_err(Failure::run)?;
        within("the nodes know each other", sinks.ready())
            .await?
            .map_err(Failure::run)?;
        Ok(Self {
            nodes: [home, caller],
            sinks,
        })
    }

    async fn stop(self) {
        for node in self.nodes {
            node.shutdown().await;
        }
    }
}

/// Asks one every [`PERIOD`], however long those before take, until `until` is over. An ask is as late as its answer is
/// after the time at which it was due: one that holds others up counts with all of them.
async fn asks(
    entities: Vec<EntityRef<Sink>>,
    until: impl Fn() -> bool + Send + 'static,
) -> Result<Latency, Failure> {
    let here = Handle::current();
    // A thread sleeps more exactly than a task.
    let pace = spawn_blocking(move || {
        let (mut asked, mut due) = (JoinSet::new(), Instant::now());
        for entity in entities.iter().cycle() {
            due += PERIOD;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if until() {
                break;
            }
            let entity = entity.clone();
            let ask = async move {
                let answer = entity.ask_for(Raw::from(&b"12345678"[..]), LONGEST).await;
                answer.map(|len| (len, due.elapsed()))
            };
            asked.spawn_on(ask, &here);
        }
        asked
    });
    let mut asked = pace.await.map_err(Failure::run)?;
    let mut latency = Latency::new();
    while let Some(answer) = asked.join_next().await {
        let (len, late) = answer.map_err(Failure::run)?.map_err(Failure::run)?;
        if len != 8 {
            return Err(Failure::run("a wrong answer"));
        }
        latency.record(late);
    }
    Ok(latency)
}

/// Idle, and with large messages one after the other in parallel: the asks, and how many bytes got through a second.
async fn measure(
    shape: &Shape,
    fragment: u32,
    larges: u64,
) -> Result<(Latency, Latency, f64), Failure> {
    let pair = Pair::start(shape, fragment).await?;
    let shard = |id: &str| entity_shard(id.as_bytes(), SHARDS);
    let large = pair.sinks.entity("large");
    let others = (0..200).map(|number| format!("small-{number}"));
    let others = others.filter(|id| shard(id) != shard("large"));
    let others: Vec<_> = others.map(|id| pair.sinks.entity(id)).collect();
    let start = Instant::now();
    let warm = asks(others.clone(), move || {
        start.elapsed() > Duration::from_millis(300)
    });
    warm.await?;
    let start = Instant::now();
    let idle = asks(others.clone(), move || {
        start.elapsed() > Duration::from_secs(2)
    })
    .await?;
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for _ in 0..larges {
            let answer = large.ask_for(Raw::from(vec![7; LARGE]), LONGEST);
            if answer.await.map_err(Failure::run)? != LARGE as u64 {
                return Err(Failure::run("a wrong answer"));
            }
        }
        Ok(())
    });
    let sent = sending.abort_handle();
    let busy = asks(others, move || sent.is_finished()).await?;
    sending.await.map_err(Failure::run)??;
    let rate = larges as f64 * LARGE as f64 / start.elapsed().as_secs_f64();
    pair.stop().await;
    Ok((idle, busy, rate))
}

/// The encoding of the messages keeps a thread or two busy.
fn runtime() -> Result<Runtime, Failure> {
    let threads = 4;
    Ok(Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?)
}

/// Who copies 64 MiB on a machine with other work to do may be late with a beat.
fn shape() -> Shape {
    Shape {
        lan: false,
        ..Shape::trusting(SHARDS)
    }
}

pub(super) fn large(size: Size) -> Result<Vec<Figure>, Failure> {
    let larges = size.of(20).max(2);
    let shape = shape();
    runtime()?.block_on(async {
        let (idle, busy, rate) = measure(&shape, FRAGMENT, larges).await?;
        let (whole_idle, whole, whole_rate) = measure(&shape, WHOLE, larges).await?;
        Ok(vec![
            figure("idle_ask_p99_us", idle.p99_us()),
            figure("large_ask_p99_us", busy.p99_us()),
            figure("large_ask_max_us", busy.micros(1.0)),
            figure("large_mib_per_s", rate / f64::from(1 << 20)),
            figure("whole_idle_p99_us", whole_idle.p99_us()),
            figure("whole_ask_p99_us", whole.p99_us()),
            figure("whole_ask_max_us", whole.micros(1.0)),
            figure("whole_mib_per_s", whole_rate / f64::from(1 << 20)),
            figure("large_over_idle", busy.p99_us() / idle.p99_us()),
        ])
    })
}

/// Over QUIC each lane has a stream of its own.
pub(super) fn quic_large(size: Size) -> Result<Vec<Figure>, Failure> {
    let larges = size.of(20).max(2);
    let shelf = Shelf::new()?;
    let shape = shape().with_quic(shelf.path().to_owned());
    runtime()?.block_on(async {
        let (idle, busy, rate) = measure(&shape, FRAGMENT, larges).await?;
        Ok(vec![
            figure("quic_idle_ask_p99_us", idle.p99_us()),
            figure("quic_large_ask_p99_us", busy.p99_us()),
            figure("quic_large_ask_max_us", busy.micros(1.0)),
            figure("quic_large_mib_per_s", rate / f64::from(1 << 20)),
            figure("quic_large_over_idle", busy.p99_us() / idle.p99_us()),
        ])
    })
}
