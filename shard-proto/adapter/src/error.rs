//! What can go wrong, per operation.

use core::fmt;
use std::io;

use shard_proto::entity;
use shard_proto::hash::ShardHash;
use shard_proto::leadership::{Ownership, VotersError};
use shard_proto::node::{self as proto, AddTypeError, ConfigError};
use shard_proto::region::RejectReason;
use shard_proto::wire::control::RegisterRefusal;

use crate::message::CodecError;
use crate::transport::Identity;

/// Why a node did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Another process listens there.
    AddressInUse {
        /// The address.
        address: String,
    },
    /// The transport cannot listen there.
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// [`Ownership::Lease`], which is the default, needs [`NodeBuilder::voters`](crate::NodeBuilder::voters).
    NoVoters,
    /// The setting `voters` cannot work.
    Voters(VotersError),
    /// There are voters, but with this ownership nobody votes.
    VotersUnused(Ownership),
    /// A setting cannot work.
    Config(ConfigError),
    /// The certificate is somebody else's.
    Identity {
        /// The node's name.
        name: String,
        /// The setting `cluster`.
        cluster: String,
        /// Who it is by its certificate.
        proven: Identity,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse { address } => write!(
                f,
                "address {address} is in use: another process listens there"
            ),
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::NoVoters => f.write_str(
                "the setting `voters` is missing: name 1, 3 or 5 nodes, the same on every node, as in \
                 `.voters([\"a\", \"b\", \"c\"])`; nodes serve while a majority of them agrees on a leader. Without \
                 voters there is `.ownership(Ownership::Trust)`, which lets an entity run twice while membership is \
                 wrong about a node, and `Node::standalone()` for a single node",
            ),
            Self::Voters(error) => write!(f, "the setting `voters` cannot work: {error}"),
            Self::VotersUnused(ownership) => write!(
                f,
                "the setting `voters` is for `Ownership::Lease`; with `Ownership::{ownership:?}` nobody votes: leave \
                 one of the two out"
            ),
            Self::Config(error) => write!(f, "setting {error}"),
            Self::Identity {
                name,
                cluster,
                proven,
            } => write!(
                f,
                "this node is \"{name}\" of cluster \"{cluster}\", and its certificate is for {proven}"
            ),
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Listen { error, .. } => Some(error),
            Self::Config(error) => Some(error),
            Self::Voters(error) => Some(error),
            Self::AddressInUse { .. }
            | Self::NoVoters
            | Self::VotersUnused(_)
            | Self::Identity { .. } => None,
        }
    }
}

/// Why an entity type did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeError {
    /// The core does not take it.
    Refused {
        /// The type.
        name: &'static str,
        /// Why.
        error: AddTypeError,
    },
    /// A setting of its entities cannot work.
    Entities {
        /// The type.
        name: &'static str,
        /// Which, and why.
        error: entity::ConfigError,
    },
    /// Its state and the memory of who lives are in two stores: an entity could be remembered whose state is not there.
    Stores {
        /// The type.
        name: &'static str,
        /// Id of the store of its state.
        state: u64,
        /// Id of the store that knows who lives.
        remember: u64,
    },
    /// It was stopped on this node, and starts again only when the node does.
    Ended {
        /// The type.
        name: &'static str,
    },
    /// The node stopped.
    Stopped,
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { name, error } => {
                write!(f, "entity type \"{name}\" does not start: {error}")
            }
            Self::Entities { name, error } => {
                write!(f, "entity type \"{name}\" does not start: setting {error}")
            }
            Self::Stores {
                name,
                state,
                remember,
            } => write!(
                f,
                "entity type \"{name}\" does not start: its state is in store {state:016x}, who lives in {remember:016x}; \
                 give both the same store"
            ),
            Self::Ended { name } => write!(
                f,
                "entity type \"{name}\" was stopped on this node: start the node anew"
            ),
            Self::Stopped => f.write_str("the node is stopped"),
        }
    }
}

impl core::error::Error for TypeError {}

/// Why an entity type is not ready and will not become so by waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotReady {
    /// The leading node does not know the type: it must be started on every node that may lead, as a proxy at least.
    UnknownType {
        /// The type.
        name: &'static str,
    },
    /// The setting `shards` differs between the nodes.
    ShardCount {
        /// The type.
        name: &'static str,
        /// The leading node's setting, which counts.
        leader: u32,
        /// This node's.
        here: u32,
    },
    /// This node's setting `hash` is not the cluster's.
    ShardHash {
        /// The type.
        name: &'static str,
        /// The leading node's [`ShardHash::id`].
        leader: u16,
        /// This node's.
        here: u16,
    },
    /// This node opened another store for the type than the others, see
    /// [`EntityTypeBuilder::storage_mismatch`](crate::EntityTypeBuilder::storage_mismatch).
    Storage {
        /// The type.
        name: &'static str,
        /// The store of the others.
        cluster: u64,
        /// This node's.
        here: u64,
        /// Kind and place of this node's, by [`Storage::describe`](crate::store::Storage::describe). Empty if only its id is
        /// known.
        place: String,
    },
    /// The setting [`remember`](crate::EntityTypeBuilder::remember) is made on this node and not on the others that host
    /// the type, or the other way round.
    Remember {
        /// The type.
        name: &'static str,
        /// Whether this node remembers.
        here: bool,
    },
    /// Refused for another reason.
    Refused {
        /// The type.
        name: &'static str,
        /// Why.
        reason: RegisterRefusal,
    },
    /// The node stopped.
    Stopped,
}

impl NotReady {
    pub(crate) fn new(name: &'static str, reason: RegisterRefusal, place: &str) -> Self {
        match reason {
            RegisterRefusal::UnknownType => Self::UnknownType { name },
            RegisterRefusal::ShardCount {
                coordinator,
                region,
            } => Self::ShardCount {
                name,
                leader: coordinator,
                here: region,
            },
            RegisterRefusal::ShardHash {
                coordinator,
                region,
            } => Self::ShardHash {
                name,
                leader: coordinator,
                here: region,
            },
            RegisterRefusal::Storage { expected, found } => Self::Storage {
                name,
                cluster: expected,
                here: found,
                place: place.to_owned(),
            },
            RegisterRefusal::Remember { region } => Self::Remember { name, here: region },
            reason => Self::Refused { name, reason },
        }
    }
}

/// A place behind an id.
pub(crate) fn in_brackets(place: &str) -> String {
    if place.is_empty() {
        String::new()
    } else {
        format!(" ({place})")
    }
}

fn hash_name(id: u16) -> &'static str {
    let known = ShardHash::ALL.iter().find(|hash| hash.id() == id);
    known.map_or("another", |hash| hash.name())
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownType { name } => write!(
                f,
                "the leading node does not know entity type \"{name}\": start it on every node that may lead, \
                 as a proxy at least"
            ),
            Self::ShardHash { name, leader, here } => write!(
                f,
                "entity type \"{name}\": the setting `hash` is {} here and {} on the leading node; it must be the same \
                 on every node",
                hash_name(*here),
                hash_name(*leader),
            ),
            Self::ShardCount { name, leader, here } => write!(
                f,
                "entity type \"{name}\": the setting `shards` is {here} here and {leader} on the leading node; \
                 it must be the same on every node"
            ),
            Self::Storage {
                name,
                cluster,
                here,
                place,
            } => write!(
                f,
                "entity type \"{name}\": this node opened store {here:016x}{}, the others use {cluster:016x}; every \
                 node must open the same store, a file per node is not one store. Point this node at the store of the \
                 others, or set `storage_mismatch(StorageMismatch::Warn)` on every node if both have the same contents",
                in_brackets(place)
            ),
            Self::Remember { name, here } => write!(
                f,
                "entity type \"{name}\": the setting `remember` is {} on this node and {} on the others that host the type, \
                 so what is remembered would depend on where a shard is. Give every node that hosts it the same store by \
                 `remember(store)`, or none; a node that only sends to it is a `proxy`",
                if *here { "made" } else { "missing" },
                if *here { "missing" } else { "made" },
            ),
            Self::Refused { name, reason } => {
                write!(
                    f,
                    "the leading node refuses entity type \"{name}\": {reason:?}"
                )
            }
            Self::Stopped => f.write_str("the node is stopped"),
        }
    }
}

impl core::error::Error for NotReady {}

/// Whether a message reached its entity: what an error says about it, see [`AskError::delivery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "there is no fourth answer, and who sends again must handle each"
)]
pub enum Delivery {
    /// Surely not: the entity has not seen it and will not. Sending it again cannot make it count twice.
    No,
    /// Perhaps: it may have been handled, in part or to the end, or may be later.
    Maybe,
    /// Surely: the entity handled it. Only the answer is missing.
    Yes,
}

/// Why a message was not taken. It is handed back where it still exists as a value.
#[derive(PartialEq, Eq)]
#[non_exhaustive]
pub enum TellError<M> {
    /// The shard has no home now, and the buffer for it is full.
    BufferFull(M),
    /// `try_tell` only: the entity's mailbox, or the way to its node, is full now.
    Busy(M),
    /// The node or the entity type is stopped.
    Stopped(M),
    /// The message is larger than the cluster takes.
    TooLarge {
        /// Bytes of the encoded message and its id.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The message cannot be encoded.
    Codec(CodecError),
}

impl<M> TellError<M> {
    /// The message, if it is handed back.
    pub fn into_message(self) -> Option<M> {
        match self {
            Self::BufferFull(message) | Self::Busy(message) | Self::Stopped(message) => {
                Some(message)
            }
            Self::TooLarge { .. } | Self::Codec(_) => None,
        }
    }

    /// Whether the entity got the message: always [`Delivery::No`].
    pub const fn delivery(&self) -> Delivery {
        match self {
            Self::BufferFull(_)
            | Self::Busy(_)
            | Self::Stopped(_)
            | Self::TooLarge { .. }
            | Self::Codec(_) => Delivery::No,
        }
    }
}

impl<M> fmt::Debug for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferFull(_) => f.write_str("BufferFull"),
            Self::Busy(_) => f.write_str("Busy"),
            Self::Stopped(_) => f.write_str("Stopped"),
            Self::TooLarge { size, limit } => f
                .debug_struct("TooLarge")
                .field("size", size)
                .field("limit", limit)
                .finish(),
            Self::Codec(error) => f.debug_tuple("Codec").field(error).finish(),
        }
    }
}

impl<M> fmt::Display for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BufferFull(_) => {
                f.write_str("the entity has no home now and the buffer for its shard is full")
            }
            Self::Busy(_) => f.write_str("the entity's mailbox or the way to its node is full"),
            Self::Stopped(_) => f.write_str("the node or the entity type is stopped"),
            Self::TooLarge { size, limit } => too_large(f, *size, *limit),
            Self::Codec(error) => write!(f, "the message cannot be encoded: {error}"),
        }
    }
}

impl<M> core::error::Error for TellError<M> {}

fn too_large(f: &mut fmt::Formatter<'_>, size: usize, limit: usize) -> fmt::Result {
    write!(f, "a message of {size} bytes is over the limit of {limit}")
}

/// Why an ask has no answer. Whether the message was handled, [`AskError::delivery`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// No answer in time. The message may have been handled, or may be later.
    Timeout,
    /// The entity handled the message and did not answer, or its answer could not be encoded.
    NoReply,
    /// The entity failed while it handled the message.
    EntityFailed,
    /// The entity could not take the message: it could not decode it, or its node refused it.
    Refused,
    /// The home ended before it acknowledged the message, which was perhaps handled.
    PerhapsDelivered,
    /// The shard has no home now, or the entity's mailbox is full, and so is the buffer.
    BufferFull,
    /// The message was not delivered.
    Undelivered(RejectReason),
    /// Too many asks wait for other nodes.
    TooManyAsks,
    /// The node or the entity type is stopped, perhaps after the message was sent to another node.
    Stopped,
    /// The message is larger than the cluster takes.
    TooLarge {
        /// Bytes of the encoded message and its id.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The message cannot be encoded.
    Codec(CodecError),
    /// The entity answered, and the answer cannot be decoded.
    Answer(CodecError),
}

impl AskError {
    /// Whether the entity got the message, and so what sending it again may do.
    ///
    /// | | |
    /// |---|---|
    /// | [`No`](Delivery::No) | `Refused`, `BufferFull`, `Undelivered`, `TooManyAsks`, `TooLarge`, `Codec` |
    /// | [`Maybe`](Delivery::Maybe) | `Timeout`, `EntityFailed`, `PerhapsDelivered`, `Stopped` |
    /// | [`Yes`](Delivery::Yes) | `NoReply`, `Answer` |
    #[must_use]
    pub const fn delivery(&self) -> Delivery {
        match self {
            Self::Refused
            | Self::BufferFull
            | Self::TooManyAsks
            | Self::TooLarge { .. }
            | Self::Codec(_) => Delivery::No,
            Self::Undelivered(reason) => rejected(*reason),
            Self::Timeout | Self::EntityFailed | Self::PerhapsDelivered | Self::Stopped => {
                Delivery::Maybe
            }
            Self::NoReply | Self::Answer(_) => Delivery::Yes,
        }
    }
}

/// What the core says of a message that it gave up.
const fn rejected(reason: RejectReason) -> Delivery {
    match reason {
        RejectReason::BufferFull
        | RejectReason::Stopped
        | RejectReason::PathGivenUp
        | RejectReason::OriginEnded
        | RejectReason::Unsendable => Delivery::No,
        // Also a reason that this crate does not know yet.
        _ => Delivery::Maybe,
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::NoReply => f.write_str("the entity did not answer"),
            Self::EntityFailed => f.write_str("the entity failed while it handled the message"),
            Self::Refused => f.write_str("the entity could not take the message"),
            Self::PerhapsDelivered => {
                f.write_str("the entity's node ended; the message was perhaps handled")
            }
            Self::BufferFull => f.write_str("the buffer or the entity's mailbox is full"),
            Self::Undelivered(reason) => write!(f, "the message was not delivered: {reason:?}"),
            Self::TooManyAsks => f.write_str("too many asks wait for other nodes"),
            Self::Stopped => f.write_str("the node or the entity type is stopped"),
            Self::TooLarge { size, limit } => too_large(f, *size, *limit),
            Self::Codec(error) => write!(f, "the message cannot be encoded: {error}"),
            Self::Answer(error) => write!(f, "the answer cannot be decoded: {error}"),
        }
    }
}

impl core::error::Error for AskError {}

impl<M> From<TellError<M>> for AskError {
    fn from(error: TellError<M>) -> Self {
        match error {
            TellError::BufferFull(_) | TellError::Busy(_) => Self::BufferFull,
            TellError::Stopped(_) => Self::Stopped,
            TellError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            TellError::Codec(error) => Self::Codec(error),
        }
    }
}

/// Why a node did not leave in order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaveError {
    /// The node was stopped before, or the others had removed it. It is stopped.
    Stopped,
    /// The node is a voter, and with those that would remain there is no majority: nobody could lead, and every entity
    /// of the cluster would stop until another voter starts. The node goes on as if nothing had been said.
    EndsQuorum {
        /// Voters that would remain: up, and not leaving.
        voters_up: usize,
        /// How many are needed.
        quorum: usize,
    },
}

impl fmt::Display for LeaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the node was stopped before it could leave"),
            Self::EndsQuorum { voters_up, quorum } => write!(
                f,
                "{voters_up} of the nodes in the setting `voters` would remain, and {quorum} are needed: no entity \
                 would run anywhere until another voter starts. Start one first, or stop this one all the same with \
                 `leave_forced()`"
            ),
        }
    }
}

impl core::error::Error for LeaveError {}

impl From<proto::LeaveError> for LeaveError {
    fn from(error: proto::LeaveError) -> Self {
        match error {
            proto::LeaveError::EndsQuorum { voters_up, quorum } => {
                Self::EndsQuorum { voters_up, quorum }
            }
            // A reason that this crate does not know yet: as if it had not left.
            _ => Self::Stopped,
        }
    }
}

#[cfg(test)]
mod tests;
