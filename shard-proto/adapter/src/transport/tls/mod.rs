//! Mutual TLS over any transport of one stream, and who a peer is.
//!
//! # Who a peer is
//!
//! A peer is whom its certificate names: an authority of the cluster signed it, and among its names is exactly one URI, of
//! the form
//!
//! | URI | the peer is |
//! |---|---|
//! | `shard://<cluster>/<node>` | the node of that name in that cluster |
//! | `shard-client://<cluster>/<name>` | a client of the cluster: it may dial nodes, and is never one |
//!
//! Names are 1 to 255 letters, digits, `-`, `_`, `.` and `~` ([`Identity`]). Names of other kinds in the certificate, such as
//! DNS names, are not looked at, so that an address may change without a new certificate; a second URI makes it
//! useless here. The id of a node is made of the name, and nothing that a peer says changes who it is: each frame is
//! put down to the node of the certificate.
//!
//! Both sides look at each other's certificate by the same rules, in every handshake: TLS 1.3 only, no session is taken up again
//! (no tickets, no 0-RTT), and the protocol `shard/1` is agreed on (ALPN). The other side is refused, with one WARN for each host
//! and reason (repetitions at doublings) and a counter ([`ConnectionStats`](crate::ConnectionStats)), if its certificate
//!
//! - is missing, has expired or is not valid yet, is not signed by one of the [authorities](TlsConfig::from_files), or not made
//!   for its side, if it says for which (extended key usage);
//! - was [revoked](TlsConfig::revoked_file), or no list says that it was not, once there are lists;
//! - names nobody, or somebody of another cluster;
//! - names somebody who is not [admitted](TlsConfig::admit);
//! - is a client's, and the side that dialed needs a node.
//!
//! The side that is refused logs what it was told (an alert of TLS says only the kind of trouble) and dials again with growing pauses.
//! After this comes the handshake of the link, which refuses a name other than the certificate's, a client that speaks as a
//! node, a life of a node older than the one that is known, and one of the [future](crate::NodeBuilder::max_clock_ahead).
//!
//! # Lifetime
//!
//! A certificate is looked at when a connection begins. One that expires or is revoked later does not end a connection that
//! stands; to shut somebody out at once, restart the nodes that it is connected with. Certificates are
//! [read again](TlsConfig::reload_every) when their files change, without a restart; write the key and the certificate as you
//! like: until both fit, the former ones stay in use, with a WARN.
//!
//! # Costs
//!
//! A handshake takes a key exchange, a signature and two verifications on each side, one more if there are lists of revoked
//! certificates, and one round trip before the dialer speaks. With P-256 that was 0.25 ms of a core on each side, all of the
//! connection included (`bench --only tls_handshakes`: 10 000 of them took 2.6 s of processor time here and 2.5 s there, on two
//! virtual cores of a Xeon). Small asks are as many as without: in the same minute, on the same busy machine,
//! `tls_ask_128` made 221 000 per second and `remote_ask_128` 220 000, where a bare socket carried 27 to 30 million.
//!
//! What an authority is to the cluster: whoever has its key is every node.
//!
//! # What a member that lies can do
//!
//! A certificate proves who speaks, not that what is said is true. That the life of a node is over can be said by each member,
//! and has to be believed: a node that was out of reach for too long is removed for good by each of the others on its own,
//! and would never be let in again if it did not take their word for it. So somebody who has a good certificate of a node
//!
//! - can end the life of any other node. It refuses the node's link with the words that this life is over, or was followed
//!   by another; or, with membership by gossip, it tells anybody that the node is down, or lives anew. The node
//!   stops as if it had been removed ([`Node::stopped`](crate::Node::stopped)), its shards move, and it may come back in a new life, at once;
//! - can delay its return, with membership by gossip, by a life that is said to have begun in the future: by
//!   [`max_clock_ahead`](crate::NodeBuilder::max_clock_ahead) at most;
//! - can name nodes that do not exist, with membership by gossip: they count as members, up to
//!   [`max_nodes`](crate::NodeBuilder::max_nodes), until it is found that nobody answers, and their addresses are dialed; they
//!   get no shards, because those are given to nodes that have shown a certificate;
//! - can send messages to any entity, as each node does; and, if it is a voter that is made the leader, say where shards live.
//!
//! It can neither speak in another's name, nor be taken for another life of another node on a link, nor, unless it leads,
//! have shards moved or serve what was not given to it. To be rid of it, revoke its certificate and restart the nodes that
//! it is connected with.

mod config;
mod handshake;
mod reason;
mod verify;

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;

use rustls::CommonState;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, join, split};
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use config::{Tls, TlsConfig, TlsError};
pub use handshake::Handshake;

use super::{Arriving, BoxFuture, Connection, Identity, Listener, Stream, Transport};

/// What is spoken inside.
const ALPN: &[u8] = b"shard/1";

/// Whom to let in.
type Admit = Arc<dyn Fn(&Identity) -> bool + Send + Sync>;

/// Mutual TLS over another transport, which has one stream per connection. See the [module's docs](self).
#[derive(Clone)]
pub struct TlsTransport {
    inner: Arc<dyn Transport>,
    tls: Tls,
}

impl TlsTransport {
    /// Over a transport, which is used for any address ([`Transport::secured`]).
    #[must_use]
    pub fn new(transport: impl Transport, tls: Tls) -> Self {
        Self::over(Arc::new(transport), tls)
    }

    pub(crate) fn over(transport: Arc<dyn Transport>, tls: Tls) -> Self {
        let inner = transport.secured().unwrap_or(transport);
        Self { inner, tls }
    }
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport")
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl Transport for TlsTransport {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener: Box<dyn Listener> = Box::new(TlsListener {
                inner: self.inner.listen(address).await?,
                tls: self.tls.clone(),
            });
            Ok(listener)
        })
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        Box::pin(async move {
            let (peer, stream) = only(self.inner.dial(address).await?)?;
            let connector = TlsConnector::from(self.tls.client_config());
            // Certificates name nodes, not addresses: this name is neither sent nor looked at.
            let name = ServerName::try_from("shard").map_err(io::Error::other)?;
            let stream = connector
                .connect(name, join(stream.reader, stream.writer))
                .await
                .map_err(reason::explain)?;
            let identity = proven(stream.get_ref().1)?;
            Ok(connection(peer, identity, stream))
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.tls.identity().clone())
    }
}

struct TlsListener {
    inner: Box<dyn Listener>,
    tls: Tls,
}

impl Listener for TlsListener {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let arriving = self.inner.accept().await?;
            let tls = self.tls.clone();
            Ok(Arriving {
                peer: arriving.peer,
                connection: Box::pin(async move {
                    let (peer, stream) = only(arriving.connection.await?)?;
                    let acceptor = TlsAcceptor::from(tls.server_config());
                    let stream = acceptor
                        .accept(join(stream.reader, stream.writer))
                        .await
                        .map_err(reason::explain)?;
                    let identity = proven(stream.get_ref().1)?;
                    Ok(connection(peer, identity, stream))
                }),
            })
        })
    }
}

/// Its only stream.
fn only(connection: Connection) -> io::Result<(String, Stream)> {
    let mut streams = connection.streams.into_iter();
    match (streams.next(), streams.next()) {
        (Some(stream), None) => Ok((connection.peer, stream)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "TLS goes over transports of one stream per connection",
        )),
    }
}

/// Who the peer is, after a handshake that looked at the certificate.
fn proven(state: &CommonState) -> io::Result<Identity> {
    handshake::proven(state.alpn_protocol(), state.peer_certificates())
}

fn connection(
    peer: String,
    identity: Identity,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Connection {
    let (reader, writer) = split(stream);
    Connection {
        peer,
        identity: Some(identity),
        streams: vec![Stream::new(Reader(reader), writer)],
    }
}

/// Says in words why the other side ended the connection: whoever dialed learns only after its own handshake whether it
/// was let in.
struct Reader<R>(R);

impl<R: AsyncRead + Unpin> AsyncRead for Reader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0)
            .poll_read(cx, buf)
            .map_err(reason::explain)
    }
}
