//! QUIC between the nodes of `shard-tokio` and `shard-asyncstd`: mutual TLS by the certificates that TLS over TCP has, and a
//! stream for each lane, so that what is lost, large or not read on one lane holds up neither control nor other lanes.
//!
//! Swapping the transport is one line: where a node has [`security`](shard_adapter::NodeBuilder::security) with a
//! [`Tls`](shard_adapter::Tls), give it a [`QuicTransport`] of the same instead. All nodes of a cluster have to speak the same.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use shard_quic::QuicTransport;
//! use shard_tokio::{Context, Entity, Node, TlsConfig};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Add(u32);
//!
//! struct Cart {
//!     items: u32,
//! }
//!
//! impl Entity for Cart {
//!     const TYPE: &'static str = "cart";
//!     type Message = Add;
//!     type Reply = u32;
//!
//!     fn create(_id: &str) -> Self {
//!         Self { items: 0 }
//!     }
//!
//!     async fn handle(&mut self, Add(items): Add, cx: &mut Context<'_, Self>) {
//!         self.items += items;
//!         cx.reply(self.items);
//!     }
//! }
//!
//! # fn sign() -> Result<(String, String, String), rcgen::Error> {
//! #     use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
//! #     let mut ca = CertificateParams::default();
//! #     ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
//! #     let (ca_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
//! #     let authority = ca.self_signed(&ca_key)?.pem();
//! #     let mut node = CertificateParams::default();
//! #     node.subject_alt_names = vec![SanType::URI("shard://shop/node-a".try_into()?)];
//! #     let chain = node.signed_by(&key, &Issuer::new(ca, ca_key))?.pem();
//! #     Ok((authority, chain, key.serialize_pem()))
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (authority, chain, key) = sign()?;
//! // Or `TlsConfig::from_dir("certs", "node-a")`, with files that the example program `certs` makes.
//! let tls = TlsConfig::from_pem(authority, chain, key).build()?;
//! let node = Node::builder("node-a")
//!     .listen("127.0.0.1:0")
//!     .voters(["node-a"])
//!     .transport(QuicTransport::tokio(tls))
//!     .start()
//!     .await?;
//! let carts = node.entity_type::<Cart>().start().await?;
//! assert_eq!(carts.entity("user-42").ask(Add(3)).await?, 3);
//! node.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Runtimes
//!
//! | feature | transport | for nodes on |
//! |---|---|---|
//! | `tokio` (default) | [`QuicTransport::tokio`] | tokio |
//! | `async-std` | `QuicTransport::async_std` | async-std, which is unmaintained ([RUSTSEC-2025-0052](https://rustsec.org/advisories/RUSTSEC-2025-0052)) |
//! | `smol` | `QuicTransport::smol` | smol |
//! | none | [`QuicTransport::on`] | anything with a [`quinn::Runtime`] |
//!
//! The transport has to be that of the node's runtime: its sockets and timers are that one's. Nodes on all of them are nodes of
//! one cluster.
//!
//! # What differs from TLS over TCP
//!
//! Who is let in, how certificates are read again, and how refusals are counted and logged is the same
//! ([`shard_adapter::transport::tls`]): TLS 1.3, both sides show certificates, the protocol is `shard/1`, no session is taken
//! up again. And there is **no 0-RTT**: what is sent along with the first datagram can be recorded and sent again by whoever sees it, and
//! a frame of the handshake that is handled twice is a link that its peer knows nothing of.
//!
//! | | TLS over TCP | QUIC |
//! |---|---|---|
//! | streams of a connection | one | control, and one per lane ([`lanes`](QuicTransport::lanes)) |
//! | a lost packet holds up | everything behind it | its lane |
//! | an entity that does not keep up holds up | everything, for some ms at a time | its lane |
//! | order | control and data as they were sent | per lane; control has priority over all lanes |
//! | a changed address (NAT, another network) | breaks the connection | is followed (migration), if the side that dialed has changed; logs go on naming the old one |
//! | open to whoever fakes addresses | no: the system's handshake is in front | only a [few at once](QuicTransport::retry_above), then each must show that it receives what it is sent (stateless retry) |
//! | a peer whose process was killed | the system says so | noticed by the link's timeout, or when it is dialed anew |
//! | sockets | one per connection | one per node, for listening and dialing; without `listen` one that dials |
//! | work per byte | the system's, in large pieces | this process's, per datagram of some 1400 bytes |
//!
//! One stream that is broken or reset ends its connection, and a new one is made: numbering and acknowledgement are the
//! link's, so nothing is lost, doubled or reordered by it.
//!
//! # Defaults
//!
//! | | default | what it bounds |
//! |---|---|---|
//! | [`lanes`](QuicTransport::lanes) | 8 | streams: one more |
//! | [`stream_window`](QuicTransport::stream_window) | 1 MiB | memory of a connection: (lanes + 1) × this, each way; and the rate of a lane: this per round trip |
//! | [`idle_timeout`](QuicTransport::idle_timeout) | 5 s | how long a connection stands of which nothing is heard |
//! | [`keep_alive`](QuicTransport::keep_alive) | 2 s | |
//! | [`retry_above`](QuicTransport::retry_above) | 32 | handshakes in the name of faked addresses |
//! | [`fair`](QuicTransport::fair) | yes | how long a short frame waits for long ones on other lanes: a packet of each |
//! | [`max_datagram`](QuicTransport::max_datagram) | 1452 bytes | what is tried when the path is measured, starting at 1200 |
//! | [`socket_buffers`](QuicTransport::socket_buffers) | 2 MiB each way, as far as the system allows | |
//!
//! Of the node: 256 handshakes at once, 64 of one host, 5 s for each
//! ([`max_arrivals`](shard_adapter::NodeBuilder::max_arrivals), [`arrival_timeout`](shard_adapter::NodeBuilder::arrival_timeout));
//! whoever comes when there are more is refused with one datagram. What nobody asked for is dropped, or answered with
//! less than came, 50 times a second at most.
//!
//! # Costs
//!
//! A handshake has the signatures of TLS, and keys for two directions of three levels; the rows `quic_*` of the example program `bench` measure it.
//! Dialing takes two round trips until the first frame, one more with a retry. An idle connection takes some 40 KiB. Each byte is copied once more than over TCP, on either side, and sealed and sent in datagrams by this
//! process. On Linux, several datagrams go in
//! one call of the system (GSO, GRO); raise `net.core.rmem_max` where much comes at once.
//!
//! A name is looked up by a thread of its own, and stands for its first address that the node's socket reaches. A transport
//! that ends leaves its socket open for some round trips, until the other sides know.
#![allow(clippy::std_instead_of_alloc, reason = "adapters have std")]

mod connection;
mod endpoint;
mod error;
mod listener;
mod stream;
mod transport;

pub use transport::{QuicStats, QuicTransport};
