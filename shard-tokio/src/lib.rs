//! Sharded entities on tokio: every entity has exactly one home in the cluster, its messages find it, and moving the
//! home delays messages but never loses, duplicates or reorders them.
//!
//! An *entity* is a thing with an id and state: a cart, a device, a game room. Entities of a type are grouped into
//! *shards*, and each shard lives on one node, which runs its entities, each in a task of its own. You say what an
//! entity is and send it messages; this crate makes it where it belongs, finds it there, and moves it when nodes come
//! and go. The protocol is [`shard_proto`], which this crate gives sockets, timers and tasks.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use shard_tokio::{Context, Entity, Node};
//!
//! #[derive(Serialize, Deserialize)]
//! enum Say {
//!     Add(u32),
//!     Total,
//! }
//!
//! struct Cart {
//!     items: u32,
//! }
//!
//! impl Entity for Cart {
//!     const TYPE: &'static str = "cart";
//!     type Message = Say;
//!     type Reply = u32;
//!
//!     fn create(_id: &str) -> Self {
//!         Self { items: 0 }
//!     }
//!
//!     async fn handle(&mut self, message: Say, cx: &mut Context<'_, Self>) {
//!         match message {
//!             Say::Add(items) => self.items += items,
//!             Say::Total => cx.reply(self.items),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One node that is a whole cluster. Several: see below; the rest stays as it is.
//! let node = Node::standalone().await?;
//! let carts = node.entity_type::<Cart>().start().await?;
//! let cart = carts.entity("user-42");
//! cart.tell(Say::Add(3)).await?;
//! cart.tell(Say::Add(4)).await?;
//! assert_eq!(cart.ask(Say::Total).await?, 7);
//! node.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # A cluster
//!
//! Nodes find each other through *seeds*: addresses to start at. The [*voters*](NodeBuilder::voters) are one, three or
//! five nodes, named the same on every node, of which a majority carries whoever leads.
//! A node that starts a type as a [proxy](EntityTypeBuilder::proxy) only sends to it.
//!
//! ```
//! # use shard_tokio::{Context, Entity, Node, Preset};
//! # struct Cart;
//! # impl Entity for Cart {
//! #     const TYPE: &'static str = "cart";
//! #     type Message = u32;
//! #     type Reply = u32;
//! #     fn create(_id: &str) -> Self { Self }
//! #     async fn handle(&mut self, message: u32, cx: &mut Context<'_, Self>) { cx.reply(message + 1) }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One voter keeps this short, and everything depends on it: have three.
//! let cluster = |name| Node::builder(name).listen("127.0.0.1:0").voters(["node-a"]).preset(Preset::Lan);
//! let a = cluster("node-a").start().await?;
//! let b = cluster("node-b").seeds([a.address()]).start().await?;
//!
//! let on_a = a.entity_type::<Cart>().shards(64).proxy().start().await?;
//! let on_b = b.entity_type::<Cart>().shards(64).start().await?;
//! on_b.ready().await?;
//!
//! // From node a to the entity, which runs on node b.
//! assert_eq!(on_a.entity("user-42").ask(41_u32).await?, 42);
//! assert_eq!(on_b.running(), 1);
//!
//! b.leave().await?; // hands its shards over first; `shutdown` would not
//! a.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Who a peer is
//!
//! On plain TCP, which is for loopback, a peer is believed. With certificates of the cluster's own authority nodes know each
//! other on any network: a node is whom its certificate names, `shard://<cluster>/<node>`, and whoever shows no good one is
//! refused, logged and counted. The names, what is refused, and what it costs: [`transport::tls`].
//!
//! ```no_run
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! use shard_tokio::{Node, TlsConfig};
//!
//! // The files ca.pem, node-a.pem and node-a.key: read again when they change.
//! let tls = TlsConfig::from_dir("certs", "node-a").build()?;
//! let node = Node::builder("node-a")
//!     .listen("0.0.0.0:7700")
//!     .voters(["node-a", "node-b", "node-c"])
//!     .security(tls)
//!     .start()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What you can rely on
//!
//! | | |
//! |---|---|
//! | One home | At any moment at most one node serves a shard, whatever the network, clocks and processes do ([leases](#leases)). What an entity had begun before its node's lease was over, [`Context::epoch`] fences in stores. |
//! | Order | What one caller sends to one entity is handled in that order, through any number of moves and lost connections. |
//! | Exactly once, while both nodes live | A broken connection loses and doubles nothing. |
//! | No silent loss | What is not delivered is handed back, or reported by [`Node::undelivered`] with its reason, and counted. |
//! | Bounded memory | Mailboxes, buffers, windows and the number of entities have limits; callers wait, or get their message back. |
//! | Durable state | For entities that are [`durable`]: what was answered is written exactly once, and is there after any crash; no former home writes over its successor. |
//!
//! And what you cannot: messages that a node had accepted die with it; an ask that times out may have been handled;
//! of entities that are not [`durable`], nothing is stored. State of entities without a store is gone after every stop:
//! five idle minutes ([`passivate_after`](EntityTypeBuilder::passivate_after)), a move, the node's end.
//!
//! # Leases
//!
//! A node serves its shards by a *lease*, which it renews with every beat of the leading node (five a second), and which
//! is over [2 s](Preset) after the last beat that counted. Every entity looks at the clock before each message (3 ns),
//! so a node whose driver is stuck, or a process that was stopped for longer, handles nothing of what may run elsewhere
//! by now: its entities are aborted, what waited for them goes on to the new homes, and the node gets shards again when it has
//! registered anew. So has the leading node: it acts only while a majority of the voters has answered its beats.
//!
//! What that costs: a pause longer than the lease costs a node its shards, be it of the process, of the machine or of the
//! network, or an entity that blocks the thread of a single-threaded runtime; and without a majority of the voters every
//! entity stops. Where running twice for a while is better than not running, there is
//! [`Ownership::Trust`]: a node that is believed to be down loses its shards at once, and may run them until it learns
//! of that. If a lease in etcd, Kubernetes or a database shall decide who leads, there is [`Ownership::External`].
//!
//! # Those that live without being asked
//!
//! An entity lives from its first message on, until it is idle, or its node dies. Two kinds go on living by themselves:
//! [remembered](EntityTypeBuilder::remember) entities, whose ids a store keeps, start again wherever their shard is served
//! next, also when the whole cluster was down; and [workers](Node::daemons) are a number of tasks that is always there.
//!
//! # Where things run
//!
//! One task per node, the driver, owns the protocol; one task per running entity handles its messages; one per
//! connection reads. A message to an entity that runs on the same node goes straight into its mailbox, as a value,
//! past the driver; one word per shard says whether that is allowed ([order](#what-you-can-rely-on) included). To
//! another node it is encoded by the caller and written, together with whatever else is on its way, once per wake-up
//! of the driver.
//!
//! Handlers are async and should not block their thread for long: beats, asks and other entities share it.
//!
//! # Errors and logs
//!
//! Every operation has its own error type. What nobody waits for is logged with [`tracing`]: WARN is for people to look
//! at, INFO says who comes and goes. Logs never contain messages.
//!
//! # Features
//!
//! | | |
//! |---|---|
//! | `swim` (default) | Nodes find each other by gossip, starting at the seeds. Without it every node lists the addresses of all others as seeds, or the application tells who is a member. |
//! | `sqlite` | `store::SqliteStore`: a store in a file, for all processes of one machine. Brings SQLite along, and needs a C compiler. |
//! | `postgres` | `store::PostgresStore`: a store in a database, for clusters of several machines. |
#![allow(clippy::std_instead_of_alloc, reason = "tokio has std")]

pub mod store;
mod tasks;
pub mod transport;

#[doc(inline)]
pub use shard_adapter::*;
pub use store::MemoryStore;
pub use tasks::Tokio;
pub use transport::{MemoryTransport, TcpTransport, Transport};

/// A node of a cluster, on tokio.
pub type Node = shard_adapter::Node<Tokio>;

/// Sets up a node on tokio; made by [`Node::builder`].
pub type NodeBuilder = shard_adapter::NodeBuilder<Tokio>;
