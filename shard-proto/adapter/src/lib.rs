//! What the adapters of [`shard_proto`] share. **Not used directly**: an application depends on an adapter,
//! `shard-tokio` or `shard-asyncstd`, whose documentation begins with an example and which has every name of this crate.
//! The examples here are those of `shard-tokio`; on other runtimes they need but another `use`.
//!
//! An adapter is this crate and a [`Runtime`](runtime::Runtime), and whatever else only one runtime has. Here are the
//! driver, which owns the protocol, the entities as tasks, and the stores and transports that ask for no runtime.
//!
//! [`store`] says what a store must do; [`backend`] is what the stores of this project are made with.
//!
//! # Leases
//!
//! A node serves its shards by a *lease*, which it renews with every beat of the leading node, and which is over
//! [2 s](Preset) after the last beat that counted. Every entity looks at the clock before each message: what it was
//! told is handled under the lease, or goes on to the shard's new home.
#![allow(clippy::std_instead_of_alloc, reason = "adapters have std")]

mod arrivals;
mod ask;
pub mod backend;
mod body;
mod builder;
mod carried;
mod clock;
pub mod daemon;
mod driver;
pub mod durable;
mod entity;
mod entity_ref;
mod entity_type;
mod error;
mod faults;
mod gate;
mod host;
mod lease;
mod lock;
mod message;
mod node;
mod queue;
pub mod reliable;
pub mod remember;
mod report;
pub mod runtime;
mod shared;
mod status;
pub mod store;
mod supervise;
mod task;
pub mod transport;

pub use arrivals::ConnectionStats;
pub use ask::Answer;
pub use builder::{Membership, NodeBuilder, Preset};
pub use entity::{BoxError, Context, Entity, ReplySlot};
pub use entity_ref::EntityRef;
pub use entity_type::{EntityType, EntityTypeBuilder};
pub use error::{AskError, Delivery, LeaveError, NotReady, StartError, TellError, TypeError};
pub use message::{CodecError, Message, Payload, Raw};
pub use node::{Erased, Member, Node, Stats};
pub use report::{Reason, Undelivered, UndeliveredReports};
pub use status::{ShardMap, ShardMapChange, ShardMapChanges};
pub use store::MemoryStore;
pub use transport::{
    Identity, MemoryTransport, Peer, Tls, TlsConfig, TlsError, TlsTransport, Transport,
};

pub use shard_proto as proto;
pub use shard_proto::coordinator::{KeepShards, StorageMismatch};
pub use shard_proto::entity::{EntityStats, Passivation, StartRate};
pub use shard_proto::hash::ShardHash;
pub use shard_proto::leadership::{Ownership, VotersError};
pub use shard_proto::membership::{MemberChange, MemberState};
pub use shard_proto::node::{EntityKey, NodeStats};
pub use shard_proto::region::RejectReason;
pub use shard_proto::{Epoch, Home, Incarnation, Leader, NodeId, ShardId, Term, allocation};
