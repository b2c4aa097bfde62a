//! Decides which node is the home of each shard of one entity type.
//!
//! A [`Coordinator`] is a state machine without I/O, one per type on every node that may lead. The one on the leading
//! node works, between [`Coordinator::begin`] and [`Coordinator::end`]; the others only note who is a member.
//!
//! ```text
//!               first GetShardHome; kept; or freed before
//!   Unallocated ----------------------------------> Allocated --- ShardStarted: no longer repeated
//!     ^  ^   |                                       |  ^   |
//!     |  |   +---- claim of a Register --------------+--+   | HandOff: rebalance, leaving member, draining claim
//!     |  |                                           |      v
//!     |  +------- HandOffComplete; session ended ----+   HandingOff
//!     |                                                     |
//!     +------- HandOffComplete; session ended --------------+   handoff_timeout: the owner's sessions end, or,
//!                                                               with trusted membership, the shard is freed
//! ```
//!
//! # What it keeps, and what it does not
//!
//! - Epochs of a shard's allocations grow, over reigns too. One home at a time is recorded; a claim never replaces a home
//!   that was granted under this reign, and of two claims the higher epoch wins.
//! - Nothing waits for one frame: grants, handoffs and requests to give up a former allocation are repeated every
//!   `retry_interval` until they are answered. Acknowledgements and maps are not; regions ask again.
//! - Every input is O(1) in the number of shards, except for a `Register` (O(claims)), `begin` (O(shards)) and the
//!   strategy's rebalance. What concerns many shards is done in batches of [`Coordinator::handle_timeout`].
//! - Unless membership is trusted, a shard is freed only by its owner's word, by a newer session of its owner's region, or
//!   when leadership says that the owner's lease is over ([`Coordinator::handle_lapsed`]); never by a removal, a refusal or
//!   a timeout.
//! - It does not detect failures: membership and leadership say who is there and whose lease is over.
//!
//! ```
//! use shard_proto::{
//!     Incarnation, Instant, NodeId, Session, ShardId, Term,
//!     allocation::LeastShards,
//!     coordinator::{Coordinator, CoordinatorCommand, CoordinatorConfig},
//!     membership::{Member, MemberChange, MemberState, Roles},
//!     table::CoordinatorArray,
//!     wire::{Claims, Control, control::{GetShardHome, Register, Size}},
//! };
//!
//! let now = Instant::ZERO;
//! let config = CoordinatorConfig::new("cart").with_shard_count(64);
//! let tables = CoordinatorArray::<64, 8>::new();
//! let mut coordinator = Coordinator::new(now, config, LeastShards::new(), tables)?;
//! coordinator.begin(now, Term(1));
//! coordinator.act(now);
//!
//! let (node, incarnation) = (NodeId(1), Incarnation(1));
//! let member = Member { node, incarnation, state: MemberState::Up, roles: Roles::NONE };
//! coordinator.handle_member(now, MemberChange::Member(member))?;
//! let register = Register {
//!     part: 0,
//!     parts: 1,
//!     session: Session { incarnation, lapses: 0, starts: 0 },
//!     type_name: "cart",
//!     shard_count: 64,
//!     shard_hash: 0,
//!     wants_map: true,
//!     proxy: false,
//!     last_beat_age: 0,
//!     storage_id: 0,
//!     remembers: false,
//!     size: Size::default(),
//!     claims: Claims::EMPTY,
//! };
//! coordinator.handle_control(now, node, Term(1), &Control::Register(register))?;
//! coordinator.open_barrier(now);
//!
//! let ask = Control::GetShardHome(GetShardHome { shard: ShardId(3) });
//! coordinator.handle_control(now, node, Term(1), &ask)?;
//! assert_eq!(coordinator.home(ShardId(3)).map(|home| home.node), Some(node));
//! while let Some(command) = coordinator.poll_command() {
//!     match command {
//!         CoordinatorCommand::Send { to, control } => println!("to {to}: {control:?}"),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod allocate;
mod announce;
mod command;
mod config;
mod error;
mod keep;
mod ledger;
mod machine;
mod members;
mod moves;
mod poll;
mod register;
mod slot;
mod stats;
#[cfg(all(test, feature = "alloc"))]
mod tests;
#[cfg(all(any(test, feature = "_fuzzing"), feature = "alloc"))]
mod validate;

pub use command::CoordinatorCommand;
pub use config::{ConfigError, CoordinatorConfig, StorageMismatch};
pub use error::ControlError;
pub use keep::KeepShards;
pub use machine::Coordinator;
pub use slot::{CoordNodeSlot, CoordShardSlot};
pub use stats::{CoordPhase, CoordShardState, CoordinatorStats};
#[cfg(all(any(test, feature = "_fuzzing"), feature = "alloc"))]
pub(crate) use validate::validate;
