//! Sharded entities on async-std and smol: every entity has exactly one home in the cluster, its messages find it, and
//! moving the home delays messages but never loses, duplicates or reorders them.
//!
//! This is `shard-tokio` on other executors, timers and sockets, with the same names: what its documentation says of
//! entities, clusters, leases, stores and limits holds here word for word, and its examples need but another `use`. Nodes
//! on tokio, async-std and smol are nodes of one cluster.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use shard_asyncstd::{Context, Entity, Node};
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
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Or `async_std::task::block_on`, or `#[async_std::main]`: whatever runs the program.
//! async_io::block_on(async {
//!     let node = Node::builder("node-a").listen("127.0.0.1:0").voters(["node-a"]).start().await?;
//!     let carts = node.entity_type::<Cart>().start().await?;
//!     let cart = carts.entity("user-42");
//!     cart.tell(Say::Add(3)).await?;
//!     cart.tell(Say::Add(4)).await?;
//!     assert_eq!(cart.ask(Say::Total).await?, 7);
//!     node.shutdown().await;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # Which runtime
//!
//! **async-std is unmaintained** ([RUSTSEC-2025-0052](https://rustsec.org/advisories/RUSTSEC-2025-0052)): its feature is for
//! programs that have it anyway. smol is the way forward; its `Node` has the same methods.
//!
//! | feature | `Node` | tasks run on |
//! |---|---|---|
//! | `async-std` (default) | `async_std::Node`, and `Node` | async-std's global executor: a thread per core |
//! | `smol` | `smol::Node`; without `async-std` also `Node` | smol's global executor: one thread, unless `SMOL_THREADS` says otherwise |
//!
//! Both have timers and sockets from `async-io`. One program may have nodes on both, and on tokio as well.
//!
//! # What is missing
//!
//! | in `shard-tokio` | here |
//! |---|---|
//! | feature `postgres`: `store::PostgresStore` | not there: its client runs on tokio. A store that is opened on a runtime of tokio, in a thread of its own, is an `Arc<dyn Store>` like any other, and serves these nodes as well. |
//! | virtual time in tests (`tokio::time::pause`) | not there: async-io has none |
//!
//! # Features
//!
//! | | |
//! |---|---|
//! | `async-std` (default), `smol` | See [above](#which-runtime). One is needed to have a `Node`. |
//! | `swim` (default) | Nodes find each other by gossip, starting at the seeds. |
//! | `sqlite` | `store::SqliteStore`: a store in a file, for all processes of one machine. It writes in threads of its own. |
#![allow(clippy::std_instead_of_alloc, reason = "the runtimes have std")]

#[cfg(feature = "async-std")]
pub mod async_std;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(any(feature = "async-std", feature = "smol"))]
mod tasks;
pub mod transport;

#[doc(inline)]
pub use shard_adapter::*;
pub use transport::{MemoryTransport, TcpTransport, Transport};

#[cfg(feature = "async-std")]
pub use crate::async_std::{AsyncStd, Node, NodeBuilder};
#[cfg(all(feature = "smol", not(feature = "async-std")))]
pub use crate::smol::{Node, NodeBuilder, Smol};
