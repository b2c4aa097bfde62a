//! Callers in this process, entities in another one, or in both.

use std::{path::Path, sync::Arc, time::Instant};

use shard_quic::QuicTransport;
use shard_tokio::{EntityType, Node, TcpTransport, Tls, TlsTransport, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{asks, check, runtime, tells};
use crate::{
    certs::load,
    cli::Carrying,
    echo::{Call, Echo},
    failure::Failure,
    figures::{Figure, Size, figure},
    floor::{per_second, timed_async},
    latency::Latency,
    ledger::Shelf,
    process::{Child, Hosts, Orders, within},
    runtimes::On,
    shape::Shape,
};

const SHARDS: u32 = 256;

/// This process and another one.
pub(super) struct Pair {
    pub(super) other: Child,
    node: Node,
    pub(super) echoes: EntityType<Echo>,
}

impl Pair {
    /// `hosts`: whether entities live in this process, too.
    async fn start(hosts: bool) -> Result<Self, Failure> {
        Self::of(hosts, None, Shape::trusting(SHARDS)).await
    }

    /// With certificates in this folder.
    async fn over(carrying: Carrying, folder: &Path) -> Result<Self, Failure> {
        let (shape, folder) = (Shape::trusting(SHARDS), folder.to_owned());
        let shape = match carrying {
            Carrying::Tcp => shape,
            Carrying::Tls => shape.with_tls(folder),
            Carrying::Quic => shape.with_quic(folder),
        };
        Self::of(false, None, shape).await
    }

    /// So many entities may live in the other process, none in this one.
    pub(super) async fn limited(max_entities: u32) -> Result<Self, Failure> {
        Self::of(false, Some(max_entities), Shape::trusting(SHARDS)).await
    }

    async fn of(hosts: bool, max_entities: Option<u32>, shape: Shape) -> Result<Self, Failure> {
        let mut other = Child::spawn(&Orders {
            name: "other".to_owned(),
            seeds: Vec::new(),
            shape: shape.clone(),
            at: None,
            hosts: Hosts::Echoes { max_entities },
            on: On::Tokio,
        })?;
        other.ready().await?;
        let seeds = other.address().map(str::to_owned);
        shape.certify("bench")?;
        let node = shape
            .node("bench", seeds.into_iter().collect())?
            .start()
            .await
            .map_err(Failure::run)?;
        let echoes = node.entity_type::<Echo>().shards(SHARDS);
        let echoes = if hosts { echoes } else { echoes.proxy() };
        let echoes = echoes.start().await.map_err(Failure::run)?;
        within("the nodes know each other", echoes.ready())
            .await?
            .map_err(Failure::run)?;
        Ok(Self {
            other,
            node,
            echoes,
        })
    }

    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        self.node.shutdown().await;
        self.other.stop();
        self.other.ended().await
    }
}

pub(super) fn ask(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(100_000);
    runtime()?.block_on(async {
        let pair = Pair::start(false).await?;
        let entity = pair.echoes.entity("e-0");
        let asked = tokio::spawn(async move {
            let mut latency = Latency::new();
            for number in 0..count + count / 20 {
                let asked = Instant::now();
                check(number, entity.ask(Call::Echo(number)).await)?;
                // The first ones warm up.
                if number >= count / 20 {
                    latency.record(asked.elapsed());
                }
            }
            Ok::<_, Failure>(latency)
        });
        let latency = asked.await.map_err(Failure::run)??;
        pair.stop().await?;
        Ok(vec![
            figure("remote_ask_per_s", 1e6 / latency.mean_us()),
            figure("remote_ask_p50_us", latency.p50_us()),
            figure("remote_ask_p99_us", latency.p99_us()),
        ])
    })
}

pub(super) fn ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(2_000_000);
    runtime()?.block_on(async {
        let pair = Pair::start(false).await?;
        asks(&pair.echoes, 128, 128, 128).await?;
        let (asked, took) = timed_async(asks(&pair.echoes, 128, count, 128)).await;
        asked?;
        pair.stop().await?;
        Ok(vec![figure(
            "remote_ask_128_per_s",
            per_second(count, took),
        )])
    })
}

pub(super) fn tls_ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let per_second = secured_ask_128(size, Carrying::Tls)?;
    Ok(vec![figure("tls_ask_128_per_s", per_second)])
}

pub(super) fn quic_ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let per_second = secured_ask_128(size, Carrying::Quic)?;
    Ok(vec![figure("quic_ask_128_per_s", per_second)])
}

fn secured_ask_128(size: Size, carrying: Carrying) -> Result<f64, Failure> {
    let count = size.of(2_000_000);
    let shelf = Shelf::new()?;
    runtime()?.block_on(async {
        let pair = Pair::over(carrying, shelf.path()).await?;
        asks(&pair.echoes, 128, 128, 128).await?;
        let (asked, took) = timed_async(asks(&pair.echoes, 128, count, 128)).await;
        asked?;
        pair.stop().await?;
        Ok(per_second(count, took))
    })
}

pub(super) fn tls_handshakes(size: Size) -> Result<Vec<Figure>, Failure> {
    let over =
        |tls| -> Arc<dyn Transport> { Arc::new(TlsTransport::new(TcpTransport::new(), tls)) };
    let per_second = handshakes(size, Carrying::Tls, over)?;
    Ok(vec![figure("tls_handshakes_per_s", per_second)])
}

pub(super) fn quic_handshakes(size: Size) -> Result<Vec<Figure>, Failure> {
    let over = |tls| -> Arc<dyn Transport> { Arc::new(QuicTransport::tokio(tls)) };
    let per_second = handshakes(size, Carrying::Quic, over)?;
    Ok(vec![figure("quic_handshakes_per_s", per_second)])
}

/// Connections to another process that are made, proved on both sides and dropped, 16 at once.
fn handshakes(
    size: Size,
    carrying: Carrying,
    over: impl FnOnce(Tls) -> Arc<dyn Transport>,
) -> Result<f64, Failure> {
    const AT_ONCE: u64 = 16;
    let count = size.of(10_000);
    let shelf = Shelf::new()?;
    runtime()?.block_on(async {
        let pair = Pair::over(carrying, shelf.path()).await?;
        let address = pair.other.address().unwrap_or_default().to_owned();
        let transport = over(load(shelf.path(), "bench")?);
        let dials = async {
            let tasks: Vec<_> = (0..AT_ONCE)
                .map(|_| {
                    let (transport, address) = (Arc::clone(&transport), address.clone());
                    tokio::spawn(async move {
                        for _ in 0..count / AT_ONCE {
                            let mut dialed = transport.dial(&address).await?;
                            // Closed by the other side, which waits for a `Hello`, only once it has proved this one.
                            // Of several streams it lets none but the first be opened before.
                            if let [stream] = &mut dialed.streams[..] {
                                stream.writer.write_all(&[0; 64]).await?;
                                let _ = stream.reader.read(&mut [0; 64]).await;
                            }
                        }
                        Ok::<_, std::io::Error>(())
                    })
                })
                .collect();
            for task in tasks {
                task.await.map_err(Failure::run)??;
            }
            Ok::<_, Failure>(())
        };
        let (dialed, took) = timed_async(dials).await;
        dialed?;
        pair.stop().await?;
        let count = count / AT_ONCE * AT_ONCE;
        Ok(per_second(count, took))
    })
}

pub(super) fn tell(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(10_000_000);
    runtime()?.block_on(async {
        let pair = Pair::start(false).await?;
        asks(&pair.echoes, 1, 1, 1).await?;
        let (told, took) = timed_async(tells(pair.echoes.entity("e-0"), count)).await;
        told?;
        pair.stop().await?;
        Ok(vec![figure("remote_tell_per_s", per_second(count, took))])
    })
}

pub(super) fn million_asks(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(1_000_000);
    runtime()?.block_on(async {
        let pair = Pair::start(true).await?;
        asks(&pair.echoes, 1000, 1000, 100).await?;
        let (asked, took) = timed_async(asks(&pair.echoes, 1000, count, 1000)).await;
        asked?;
        pair.stop().await?;
        Ok(vec![figure("asks_1m_s", took.as_secs_f64())])
    })
}

pub(super) fn first_touch(size: Size) -> Result<Vec<Figure>, Failure> {
    let count = size.of(10_000);
    runtime()?.block_on(async {
        let pair = Pair::start(true).await?;
        let (asked, took) = timed_async(asks(&pair.echoes, count, count, 128)).await;
        asked?;
        pair.stop().await?;
        Ok(vec![figure("first_touch_per_s", per_second(count, took))])
    })
}
