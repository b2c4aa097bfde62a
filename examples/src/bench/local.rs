//! Callers and entities on one node.

use shard_tokio::{EntityType, EntityTypeBuilder, Node};

use super::{asks, runtime, tells};
use crate::{
    echo::Echo,
    failure::Failure,
    figures::{Figure, Size, figure},
    floor::{per_second, timed_async},
};

const SHARDS: u32 = 256;

async fn alone() -> Result<(Node, EntityType<Echo>), Failure> {
    alone_with(|echoes| echoes).await
}

pub(super) async fn alone_with(
    settings: impl FnOnce(EntityTypeBuilder<Echo>) -> EntityTypeBuilder<Echo>,
) -> Result<(Node, EntityType<Echo>), Failure> {
    let node = Node::standalone().await.map_err(Failure::run)?;
    let echoes = settings(node.entity_type::<Echo>().shards(SHARDS));
    let echoes = echoes.start().await.map_err(Failure::run)?;
    echoes.ready().await.map_err(Failure::run)?;
    Ok((node, echoes))
}

pub(super) fn tell(size: Size) -> Result<Vec<Figure>, Failure> {
    let messages = size.of(10_000_000);
    runtime()?.block_on(async {
        let (node, echoes) = alone().await?;
        asks(&echoes, 1, 1, 1).await?;
        let (told, took) = timed_async(tells(echoes.entity("e-0"), messages)).await;
        told?;
        node.shutdown().await;
        Ok(vec![figure("local_tell_per_s", per_second(messages, took))])
    })
}

pub(super) fn ask(size: Size) -> Result<Vec<Figure>, Failure> {
    let rate = rate(size.of(1_000_000), 1)?;
    Ok(vec![figure("local_ask_per_s", rate)])
}

pub(super) fn ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let rate = rate(size.of(4_000_000), 128)?;
    Ok(vec![figure("local_ask_128_per_s", rate)])
}

fn rate(count: u64, in_flight: u64) -> Result<f64, Failure> {
    runtime()?.block_on(async {
        let (node, echoes) = alone().await?;
        asks(&echoes, in_flight, in_flight, in_flight).await?;
        let (asked, took) = timed_async(asks(&echoes, in_flight, count, in_flight)).await;
        asked?;
        node.shutdown().await;
        Ok(per_second(count, took))
    })
}
