//! Very many entities on one node.

use shard_tokio::EntityType;

use super::{ask_all, asks, local, numbered, remote::Pair, runtime};
use crate::{
    echo::Echo,
    failure::Failure,
    figures::{Figure, Size, figure},
    floor::timed_async,
};

const IN_FLIGHT: u64 = 128;
/// Well above what is in flight, or new ones would be refused, since the others cannot stop as fast.
const LEAST_LIMIT: u64 = 1000;

/// What an entity costs in memory, its task, its mailbox and whatever finds them included: while it lives and idles,
/// and after it was passivated. In a process of its own, so that nothing is reused that other rows left.
pub(super) fn memory(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(1_000_000);
    // Before something is measured, so many warm up.
    let warm = size.of(20_000).max(2 * LEAST_LIMIT);
    let limit = |entities: u64| u32::try_from(entities).map_err(Failure::run);
    runtime()?.block_on(async {
        let pair = Pair::limited(limit(warm + count)?).await?;
        let live = growth(&pair, warm, count).await?;
        pair.stop().await?;
        let pair = Pair::limited(limit(warm / 2)?).await?;
        let passivated = growth(&pair, warm, count).await?;
        pair.stop().await?;
        Ok(vec![
            figure("idle_entity_bytes", live),
            figure("passivated_entity_bytes", passivated),
        ])
    })
}

/// By how many bytes the other process grows for each further entity that is used once.
async fn growth(pair: &Pair, warm: u64, count: u64) -> Result<f64, Failure> {
    asks(&pair.echoes, warm, warm, IN_FLIGHT).await?;
    asks(&pair.echoes, warm, warm, IN_FLIGHT).await?;
    let before = pair.other.memory()?;
    use_once(&pair.echoes, warm, count).await?;
    let after = pair.other.memory()?;
    Ok((after.saturating_sub(before) / count) as f64)
}

async fn use_once(echoes: &EntityType<Echo>, from: u64, count: u64) -> Result<(), Failure> {
    let entities = numbered(echoes, from..from + count);
    ask_all(entities, count, IN_FLIGHT).await
}

/// The first message to an entity while as many others live as may: one of those is passivated.
pub(super) fn admission(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(200_000);
    let few = admissions(size.of(10_000).max(LEAST_LIMIT), count)?;
    let many = admissions(size.of(1_000_000), count)?;
    Ok(vec![
        figure("admission_10k_ns", few),
        figure("admission_1m_ns", many),
        figure("admission_ratio", many / few),
    ])
}

fn admissions(limit: u64, count: u64) -> Result<f64, Failure> {
    runtime()?.block_on(async {
        let max = usize::try_from(limit).map_err(Failure::run)?;
        let (node, echoes) = local::alone_with(|echoes| echoes.max_entities(max)).await?;
        // Twice, so that what stops entities has warmed up, too.
        use_once(&echoes, 0, 2 * limit).await?;
        let new = numbered(&echoes, 2 * limit..2 * limit + count);
        let (asked, took) = timed_async(ask_all(new, count, IN_FLIGHT)).await;
        asked?;
        node.shutdown().await;
        Ok(took.as_nanos() as f64 / count as f64)
    })
}
