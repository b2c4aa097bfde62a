//! The transport and its settings.

use core::fmt;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Runtime, TransportConfig, VarInt};
use shard_adapter::transport::tls::Handshake;
use shard_adapter::transport::{BoxFuture, Connection, Identity, Listener, Tls, Transport};

use crate::connection;
use crate::endpoint::{Endpoints, resolve};
use crate::listener::Listening;

/// Lanes of a connection, at most: as many as a pair of nodes can have.
pub(crate) const MAX_LANES: u8 = 64;

/// QUIC between nodes, with mutual TLS. See the [crate's docs](crate).
///
/// Clones share their sockets; each node needs a transport of its own, as it needs a certificate of its own.
#[derive(Clone)]
pub struct QuicTransport {
    pub(crate) tls: Tls,
    pub(crate) settings: Settings,
    pub(crate) endpoints: Arc<Endpoints>,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lanes: u8,
    pub(crate) retry_above: u16,
    idle_timeout: Duration,
    keep_alive: Duration,
    stream_window: u32,
    fair: bool,
    pub(crate) max_datagram: Option<u16>,
    pub(crate) socket_buffers: u32,
}

/// What a transport counted. Only grows, except for what is counted as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuicStats {
    /// Handshakes in progress whose other side has not shown that it receives what is sent to its address, as of now.
    pub unvalidated: u64,
    /// Times an address was asked to show that it does before anything was done for it; see
    /// [`QuicTransport::retry_above`].
    pub retries: u64,
}

impl QuicTransport {
    /// For nodes on tokio.
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn tokio(tls: Tls) -> Self {
        Self::on(Arc::new(quinn::TokioRuntime), tls)
    }

    /// For nodes on async-std, which is unmaintained.
    #[cfg(feature = "async-std")]
    #[must_use]
    pub fn async_std(tls: Tls) -> Self {
        Self::on(Arc::new(quinn::AsyncStdRuntime), tls)
    }

    /// For nodes on smol.
    #[cfg(feature = "smol")]
    #[must_use]
    pub fn smol(tls: Tls) -> Self {
        Self::on(Arc::new(quinn::SmolRuntime), tls)
    }

    /// For nodes on a runtime of one's own.
    #[must_use]
    pub fn on(runtime: Arc<dyn Runtime>, tls: Tls) -> Self {
        Self {
            tls,
            settings: Settings {
                lanes: 8,
                retry_above: 32,
                idle_timeout: Duration::from_secs(5),
                keep_alive: Duration::from_secs(2),
                stream_window: 1 << 20,
                fair: true,
                max_datagram: None,
                socket_buffers: 2 << 20,
            },
            endpoints: Arc::new(Endpoints::new(runtime)),
        }
    }

    /// Lanes of data, 1 to 64 (other numbers are taken for the next of these): shards are spread over them, and lanes do not wait for each
    /// other. A pair of nodes has as many as the one that has fewer. Default: 8.
    ///
    /// Each is a stream with a [window](Self::stream_window) of its own, and a task that reads from it.
    #[must_use]
    pub fn lanes(mut self, lanes: u8) -> Self {
        self.settings.lanes = lanes.clamp(1, MAX_LANES);
        self
    }

    /// How long nothing may come from the other side before a connection is given up; at least 1 ms. The shorter of both sides'
    /// counts. Default: 5 s, which is when a link gives up a peer of which it hears nothing.
    #[must_use]
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.settings.idle_timeout = timeout;
        self
    }

    /// How long nothing is sent or received until something is, so that the connection stays and middleboxes remember
    /// it. Must be shorter than [`QuicTransport::idle_timeout`]. Default: 2 s; a link that stands says something every second by itself.
    #[must_use]
    pub const fn keep_alive(mut self, interval: Duration) -> Self {
        self.settings.keep_alive = interval;
        self
    }

    /// Bytes that a peer may send on one stream before this node has read them, and that this node keeps of one stream
    /// until they are acknowledged. Default: 1 MiB; more is needed where the round trip is long: a lane carries no more than this
    /// per round trip.
    ///
    /// A connection takes up to (lanes + 1) of these each way, 18 MiB in all by default, if its peer sends and does not read; all
    /// streams together may always have as much, so that one that is not read from takes nothing from others.
    #[must_use]
    pub const fn stream_window(mut self, bytes: u32) -> Self {
        self.settings.stream_window = bytes;
        self
    }

    /// Whether lanes take turns packet by packet; else what was written first is sent first. Control is before both.
    /// Default: they do.
    #[must_use]
    pub const fn fair(mut self, fair: bool) -> Self {
        self.settings.fair = fair;
        self
    }

    /// While more handshakes than this are in progress with addresses that have not shown that they receive what is sent
    /// to them, whoever is new must show that first, which costs a round trip, and nothing is remembered of them until they have
    /// (stateless retry). 0: always. Default: 32, half of the places that one host has by default
    /// ([`NodeBuilder::max_arrivals`]): so nobody takes all of a host's places in its name.
    ///
    /// [`NodeBuilder::max_arrivals`]: shard_adapter::NodeBuilder::max_arrivals
    #[must_use]
    pub const fn retry_above(mut self, handshakes: u16) -> Self {
        self.settings.retry_above = handshakes;
        self
    }

    /// Bytes of a datagram, at most, 1200 to 65 527, on networks where all carry as much: how much a path carries is found out up to
    /// this. Both sides need it. Default: 1452, which is what Ethernet carries.
    #[must_use]
    pub fn max_datagram(mut self, bytes: u16) -> Self {
        self.settings.max_datagram = Some(bytes.clamp(1200, 65_527));
        self
    }

    /// Bytes of the system's buffers of the socket, each way, as far as the system allows (Linux: `net.core.rmem_max`, `wmem_max`): what
    /// comes while they are full is lost and sent again. Default: 2 MiB.
    #[must_use]
    pub const fn socket_buffers(mut self, bytes: u32) -> Self {
        self.settings.socket_buffers = bytes;
        self
    }

    /// Goes on with another socket, on another address, in place of the one that this node listens on, or dials from if it does not
    /// listen. Connections that it dialed stay; those that it accepted break, and are made again.
    ///
    /// # Errors
    /// The socket cannot be used, or there is none to replace; nothing has changed.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        self.endpoints.rebind(socket, &self.settings)
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> QuicStats {
        QuicStats {
            unvalidated: self.endpoints.unvalidated.load(Ordering::Relaxed),
            retries: self.endpoints.retries.load(Ordering::Relaxed),
        }
    }

    /// For one connection that is dialed.
    fn client(&self) -> io::Result<(ClientConfig, Handshake)> {
        let (tls, handshake) = self.tls.dialing().map_err(io::Error::other)?;
        let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(self.settings.transport(0)?));
        Ok((config, handshake))
    }

    /// For those that arrive. The listener asks for another [`QuicTransport::accepting`] for each of them.
    pub(crate) fn server(&self) -> io::Result<quinn::ServerConfig> {
        let (tls, _) = self.accepting()?;
        let mut config = quinn::ServerConfig::with_crypto(tls);
        // The control stream; how many more there are, it says.
        config.transport_config(Arc::new(self.settings.transport(1)?));
        config.migration(true);
        // Of what the listener has not looked at yet: a handshake's first datagrams, and a few of them.
        config.max_incoming(256);
        config.incoming_buffer_size(16 << 10);
        config.incoming_buffer_size_total(1 << 20);
        Ok(config)
    }

    /// TLS for one connection that arrives.
    pub(crate) fn accepting(&self) -> io::Result<(Arc<QuicServerConfig>, Handshake)> {
        let (tls, handshake) = self.tls.accepting().map_err(io::Error::other)?;
        let tls = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        Ok((Arc::new(tls), handshake))
    }
}

impl Settings {
    /// `streams`: those that the peer may open.
    fn transport(&self, streams: u8) -> io::Result<TransportConfig> {
        let streams_in_all = u64::from(self.lanes) + 1;
        let all = u64::from(self.stream_window) * streams_in_all;
        let mut config = TransportConfig::default();
        config
            .max_concurrent_bidi_streams(streams.into())
            .max_concurrent_uni_streams(0_u8.into())
            .datagram_receive_buffer_size(None)
            .datagram_send_buffer_size(0)
            .max_idle_timeout(Some(
                self.idle_timeout.try_into().map_err(io::Error::other)?,
            ))
            .keep_alive_interval(Some(self.keep_alive))
            .stream_receive_window(self.stream_window.into())
            .receive_window(VarInt::from_u64(all).map_err(io::Error::other)?)
            .send_window(all)
            .send_fairness(self.fair);
        if let Some(bytes) = self.max_datagram {
            let mut mtu = quinn::MtuDiscoveryConfig::default();
            mtu.upper_bound(bytes);
            config.mtu_discovery_config(Some(mtu));
        }
        Ok(config)
    }
}

impl fmt::Debug for QuicTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicTransport")
            .field("tls", &self.tls)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Transport for QuicTransport {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let addresses = resolve(address).await?;
            let server = self.server()?;
            let endpoint = self.endpoints.listen(&addresses, &server, &self.settings)?;
            let listener: Box<dyn Listener> =
                Box::new(Listening::new(endpoint, self.clone(), server)?);
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let addresses = resolve(address).await?;
            let (config, handshake) = self.client()?;
            let connecting = self.endpoints.connect(&addresses, config, &self.settings)?;
            connection::dial(connecting, handshake, self.settings.lanes, address).await
        })
    }

    fn lanes(&self) -> u8 {
        self.settings.lanes
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.tls.identity().clone())
    }
}
