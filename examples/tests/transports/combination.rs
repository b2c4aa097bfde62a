//! What the suite is run for: a transport, and what nodes run on.

use core::marker::PhantomData;
use core::time::Duration;
use std::sync::Arc;

use shard_adapter::runtime::Runtime;
use shard_adapter::transport::BoxFuture;
use shard_adapter::{
    EntityType, Membership, Node, NodeBuilder, Ownership, Preset, StartError, Tls, TlsTransport,
    Transport,
};
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_quic::QuicTransport;
use shard_tokio::Tokio;

use crate::probe::Probe;
use crate::runtimes::{End, Mortal, On};
use crate::scribe::{Scribe, World, scribes};

/// How nodes speak to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tcp,
    Tls,
    Quic,
}

impl Way {
    /// What those who have that certificate dial with.
    pub fn transport<R: On>(self, tls: &Tls) -> Arc<dyn Transport> {
        let plain = R::default().transport();
        match self {
            Self::Tcp => plain,
            Self::Tls => {
                let plain = Probe::default().over(plain);
                Arc::new(TlsTransport::new(plain, tls.clone()))
            }
            Self::Quic => Arc::new(quic::<R>(tls.clone())),
        }
    }

    /// Gives a node on `R` its transport.
    fn set<R: On, N: Runtime>(
        self,
        builder: NodeBuilder<N>,
        probe: &Probe,
        tls: Tls,
    ) -> NodeBuilder<N> {
        let plain = || probe.over(R::default().transport());
        match self {
            Self::Tcp => builder.transport(plain()).cluster("test"),
            Self::Tls => builder.transport(plain()).security(tls),
            Self::Quic => builder.transport(probe.over(Arc::new(quic::<R>(tls)))),
        }
    }
}

/// How long a connection over QUIC lives of which nothing is heard.
pub const QUIC_IDLE: Duration = Duration::from_secs(1);

fn quic<R: On>(tls: Tls) -> QuicTransport {
    QuicTransport::on(R::quinn(), tls)
        .idle_timeout(QUIC_IDLE)
        .keep_alive(QUIC_IDLE / 4)
}

/// A transport as a type, to tell combinations by.
pub trait Over: Send + Sync + 'static {
    const WAY: Way;
}

pub struct OverTcp;

impl Over for OverTcp {
    const WAY: Way = Way::Tcp;
}

pub struct OverTls;

impl Over for OverTls {
    const WAY: Way = Way::Tls;
}

pub struct OverQuic;

impl Over for OverQuic {
    const WAY: Way = Way::Quic;
}

/// What one run of the suite is for.
pub trait Combination: Send + Sync + 'static {
    /// Runs the test, and whoever is no node in it.
    type Runtime: On;
    const WAY: Way;

    /// Starts the `nth` node of a test.
    fn start(nth: usize, setup: Setup) -> BoxFuture<'static, Result<Peer, StartError>>;
}

/// All nodes on one runtime.
pub struct All<R, W>(PhantomData<(R, W)>);

impl<R: On, W: Over> Combination for All<R, W> {
    type Runtime = R;
    const WAY: Way = W::WAY;

    fn start(_nth: usize, setup: Setup) -> BoxFuture<'static, Result<Peer, StartError>> {
        Box::pin(setup.start::<R>())
    }
}

/// By turns on tokio, async-std and smol.
pub struct Mixed<W>(PhantomData<W>);

impl<W: Over> Combination for Mixed<W> {
    type Runtime = Tokio;
    const WAY: Way = W::WAY;

    fn start(nth: usize, setup: Setup) -> BoxFuture<'static, Result<Peer, StartError>> {
        match nth % 3 {
            0 => Box::pin(setup.start::<Tokio>()),
            1 => Box::pin(setup.start::<AsyncStd>()),
            _ => Box::pin(setup.start::<Smol>()),
        }
    }
}

/// A node, its scribes, and what a test does to it from outside.
pub struct Peer {
    pub node: Node,
    /// Where it listens, whatever it says.
    pub bound: String,
    pub scribes: EntityType<Scribe>,
    pub probe: Probe,
    pub end: End,
}

/// A node to be. Unless it says otherwise: in a cluster of the voters a, b and c, found by gossip.
pub struct Setup {
    pub name: String,
    pub way: Way,
    pub tls: Tls,
    pub world: Arc<World>,
    pub seeds: Vec<String>,
    pub preset: Preset,
    pub advertise: Option<String>,
    /// Without leases, and whoever is linked is a member: as good as connections are for the moment, so are nodes.
    pub trusting: bool,
    /// Hosts nothing.
    pub proxy: bool,
    pub window: Option<(u32, u32)>,
    pub arrival_timeout: Duration,
    pub max_message: Option<u32>,
    pub probe: Probe,
}

impl Setup {
    async fn start<R: On>(self) -> Result<Peer, StartError> {
        let probe = self.probe;
        let mut builder = Node::<Mortal<R>>::builder(&self.name);
        let end = Mortal::<R>::end();
        builder = builder
            .listen("127.0.0.1:0")
            .seeds(&self.seeds)
            .preset(self.preset)
            .arrival_timeout(self.arrival_timeout);
        builder = self.way.set::<R, _>(builder, &probe, self.tls);
        builder = if self.trusting {
            builder
                .ownership(Ownership::Trust)
                .membership(Membership::Links)
                .down_after(Duration::from_secs(60))
                .bootstrap(self.name == "a")
        } else {
            builder.voters(["a", "b", "c"])
        };
        if let Some(address) = &self.advertise {
            builder = builder.advertise(address);
        }
        if let Some((bytes, frames)) = self.window {
            builder = builder.window(bytes, frames);
        }
        if let Some(bytes) = self.max_message {
            builder = builder.max_message(bytes);
        }
        let node = builder.start().await?;
        let mut scribes = scribes(&node, &self.world);
        if self.proxy {
            scribes = scribes.proxy();
        }
        let scribes = scribes.start().await.expect("the type starts");
        Ok(Peer {
            node: scribes.node(),
            bound: probe.bound(),
            scribes,
            probe,
            end,
        })
    }
}
