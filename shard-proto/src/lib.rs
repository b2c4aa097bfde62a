//! Sans-IO protocol core for sharded entities: every entity has exactly one home in the cluster, its messages find it,
//! and moving the home delays messages but never loses, duplicates or reorders them.
//!
//! Entities of a type are grouped into shards. A [`region`] on each node routes messages to the homes of shards and
//! hosts the shards that live there; a [`coordinator`] on the leading node decides where a shard lives, by an
//! [`allocation`] strategy; [`leadership`] decides which node leads, and until when a node may serve. For services that
//! many nodes provide equally, [`balance`] decides which of them a client calls, and when it may call another.
//!
//! All of them are state machines without I/O, clock, threads or randomness. Whoever embeds them
//!
//! 1. tells them what happened: a message to route, a frame that arrived, a member that came or went, always with the
//!    time first;
//! 2. carries out what [`poll_command`](region::Region::poll_command) says, until it says nothing;
//! 3. calls [`handle_timeout`](region::Region::handle_timeout) when [`poll_timeout`](region::Region::poll_timeout) says.
//!
//! Any interleaving of these is legal. Control frames may be lost, repeated and late; data frames must arrive once and
//! in order, as long as both nodes live. With the feature `alloc`, `node::Node` composes everything of a process, links
//! that keep that promise over connections that break included; that is what an adapter such as `shard-tokio` drives.
//!
//! # Words
//!
//! | word | what it means |
//! |---|---|
//! | node | A process of the cluster: [`NodeId`], made of its name. One life of it is an [`Incarnation`]. |
//! | entity | A thing with an id and state, of an entity type. The core knows its shard; what it is, the application knows. |
//! | shard | A group of entities of one type that live and move together: [`ShardId`], made of the entity's id by a [`hash`]. |
//! | region | What a node is to one entity type: it routes messages, and hosts shards unless it is a proxy. |
//! | coordinator | What decides, for one entity type, where shards live; it works on the leading node. |
//! | home | The node that hosts a shard, under an epoch: [`Home`]. A shard has one or none. |
//! | term | The number of a node's reign as the leader: [`Term`]. Only grows. |
//! | epoch | The number of one allocation of one shard, ordered by term, then round: [`Epoch`]. The fencing token. |
//! | session | A region's unbroken stay with coordinators: [`Session`]. When it ends, its homes are free. |
//! | registration | A region tells the coordinator of its session and of the shards it hosts already, its claims. |
//! | barrier | After a change of leader, the time in which regions register; no shard is allocated before it opens. |
//! | handoff | A shard leaves its home in order: it is drained, stopped, and then has a new home under a higher epoch. |
//! | path | The way of one node's messages to one shard: a node and an epoch. A flush marks its end when the shard moves. |
//! | lease | Until when a node may serve: as long as the leader hears it, and a majority of the voters hears the leader. Without end where membership is trusted. |
//!
//! # Two regions and a coordinator
//!
//! Node 1 leads and hosts, node 2 has no entities and sends a message. Where this program calls one state machine with
//! the command of another, a real one encodes a frame ([`wire`]), sends it, and decodes it at the other end. The program
//! `in_memory` of this crate's repository is a longer one of this kind, in which a shard moves.
//!
//! ```
//! use core::time::Duration;
//!
//! use shard_proto::{
//!     Incarnation, Instant, Leader, NodeId, Session, ShardId, Term,
//!     allocation::LeastShards,
//!     coordinator::{Coordinator, CoordinatorCommand, CoordinatorConfig},
//!     membership::{Member, MemberChange, MemberState, Roles},
//!     region::{Arrival, Command, Region, RegionConfig, Route},
//!     table::{ArrayStorage, CoordinatorArray},
//! };
//!
//! const SHARDS: usize = 16;
//! type Tables = ArrayStorage<&'static str, SHARDS, 8, 64>;
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let mut now = Instant::ZERO;
//! let (one, two, term) = (NodeId(1), NodeId(2), Term(1));
//! let region = |node: NodeId, proxy: bool| {
//!     let session = Session { incarnation: Incarnation(node.0), ..Session::default() };
//!     let config = RegionConfig::new("greeter")
//!         .with_shard_count(SHARDS as u32)
//!         .with_buffer(32)
//!         .with_buffer_per_shard(32)
//!         .with_return_window(32)
//!         .with_proxy(proxy);
//!     Region::new(now, node, session, config, Tables::new())
//! };
//! let (mut host, mut proxy) = (region(one, false)?, region(two, true)?);
//! let config = CoordinatorConfig::new("greeter").with_shard_count(SHARDS as u32);
//! let tables = CoordinatorArray::<SHARDS, 8>::new();
//! let mut coordinator = Coordinator::new(now, config, LeastShards::new(), tables)?;
//!
//! // Membership: both nodes are there. Leadership: node 1 leads, and everybody may serve.
//! for node in [one, two] {
//!     let (incarnation, state) = (Incarnation(node.0), MemberState::Up);
//!     let member = MemberChange::Member(Member { node, incarnation, state, roles: Roles::NONE });
//!     host.handle_member(now, member)?;
//!     proxy.handle_member(now, member)?;
//!     coordinator.handle_member(now, member)?;
//! }
//! coordinator.begin(now, term);
//! coordinator.open_barrier(now);
//! for region in [&mut host, &mut proxy] {
//!     region.handle_leader(now, Some(Leader { node: one, term }));
//!     region.handle_lease(now, Some(Instant::FAR_FUTURE));
//! }
//!
//! // A caller on node 2. The home of the shard is not known yet, so the region keeps the message.
//! assert_eq!(proxy.route(now, ShardId(3), "hello"), Ok(Route::Queued));
//!
//! let mut heard = Vec::new();
//! for _turn in 0..100 {
//!     now = now.after(Duration::from_millis(10));
//!     coordinator.handle_timeout(now);
//!     host.handle_timeout(now);
//!     proxy.handle_timeout(now);
//!     while let Some(command) = coordinator.poll_command() {
//!         if let CoordinatorCommand::Send { to, control } = command {
//!             let region = if to == one { &mut host } else { &mut proxy };
//!             region.handle_control(now, one, term, &control)?;
//!         }
//!     }
//!     while let Some(command) = host.poll_command() {
//!         match command {
//!             Command::Send { control, .. } => {
//!                 coordinator.handle_control(now, one, term, &control)?;
//!             }
//!             // Start what is needed to host the shard, and say so.
//!             Command::StartShard { shard, epoch } => host.handle_shard_started(now, shard, epoch),
//!             _ => {}
//!         }
//!     }
//!     while let Some(command) = proxy.poll_command() {
//!         match command {
//!             Command::Send { control, .. } => {
//!                 coordinator.handle_control(now, two, term, &control)?;
//!             }
//!             Command::Forward { to, shard, epoch, payload } => {
//!                 assert_eq!(to, one);
//!                 let arrival = host.handle_envelope(now, two, shard, epoch, payload);
//!                 let Arrival::Deliver(message) = arrival else { panic!("{arrival:?}") };
//!                 heard.push(message);
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(heard, ["hello"]);
//!
//! // From now on the home is known: no question, no queue.
//! let home = coordinator.home(ShardId(3)).expect("the shard lives on node 1");
//! assert_eq!(
//!     proxy.route(now, ShardId(3), "again"),
//!     Ok(Route::Remote { to: one, epoch: home.epoch, payload: "again" })
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None is on by default: no allocation, no `std`, tables of fixed size that fit a `static`.
//!
//! | feature | adds |
//! |---|---|
//! | `alloc` | `node`, `entity`, tables on the heap, encoding into growing buffers |
//! | `std` | `alloc`; nothing else of its own |
//! | `swim` | membership by SWIM inside `node` |
//! | `sim` | `sim`: a cluster in virtual time, with faults, that checks what is promised; for tests |
#![no_std]
#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod allocation;
pub mod balance;
pub mod coordinator;
#[cfg(feature = "alloc")]
pub mod entity;
#[cfg(feature = "_fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod hash;
mod id;
pub mod leadership;
pub mod membership;
#[cfg(feature = "alloc")]
pub mod node;
pub mod region;
#[cfg(feature = "sim")]
pub mod sim;
pub mod table;
#[cfg(test)]
mod testing;
mod time;
pub mod wire;

pub use id::{
    EntityTypeId, Epoch, Home, Incarnation, Leader, NodeId, Session, ShardId, Term, Token,
};
pub use time::{Instant, earliest, micros};
