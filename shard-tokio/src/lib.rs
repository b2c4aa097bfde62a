//! Sharded entities on tokio.
#![allow(clippy::std_instead_of_alloc, reason = "tokio has std")]

mod ask;
mod body;
mod builder;
mod clock;
mod driver;
mod entity;
mod entity_ref;
mod entity_type;
mod error;
mod gate;
mod host;
mod message;
mod node;
mod queue;
mod report;
mod shared;
mod status;
mod task;
pub mod transport;

pub use ask::Answer;
pub use builder::{Membership, NodeBuilder, Preset};
pub use entity::{BoxError, Context, Entity, ReplySlot};
pub use entity_ref::EntityRef;
pub use entity_type::{EntityType, EntityTypeBuilder};
pub use error::{AskError, LeaveError, NotReady, StartError, TellError, TypeError};
pub use message::{CodecError, Message, Payload, Raw};
pub use node::{Member, Node, Stats};
pub use report::{Reason, Undelivered, UndeliveredReports};
pub use status::{ShardMap, ShardMapChange, ShardMapChanges};
pub use transport::{MemoryTransport, TcpTransport, Transport};

pub use shard_proto as proto;
pub use shard_proto::{Epoch, Home, NodeId, ShardId};
