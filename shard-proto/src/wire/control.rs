//! The bodies of control frames, one variant per kind.
//!
//! Any control frame may be lost, duplicated or late; timers repeat it. None names its sender: that is the
//! authenticated peer of the link. The term of a frame travels in its header, epochs travel in its body.

use serde::{Deserialize, Serialize};

use super::codec::as_bytes;
use super::list::{Claims, EntityIds, Homes};
use crate::{Epoch, Incarnation, NodeId, Session, ShardId};

/// Longest name of a node or an entity type, in bytes.
pub const MAX_NAME_LEN: usize = 255;
/// Longest address, in bytes.
pub const MAX_ADDRESS_LEN: usize = 512;
/// Longest [`Welcome::expected`], in bytes: 255 lanes.
pub const MAX_LANES_LEN: usize = 255 * 8;

/// A control body, borrowed from the buffer it was decoded from (or from the scratch it was made in).
///
/// What each variant may do, and who may send it, is the table of section 1 of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control<'a> {
    /// First frame of a link, in both directions.
    Hello(Hello<'a>),
    /// Accepts a [`Control::Hello`]; carries what the receiver expects next on each lane.
    Welcome(Welcome<'a>),
    /// Refuses a [`Control::Hello`]; the link closes behind it.
    Refused(Refusal),
    /// Nothing else was sent for a while.
    KeepAlive(KeepAlive),
    /// Every data frame of the lane below `next` was accepted.
    Ack(Ack),
    /// This incarnation has left; nothing follows.
    Goodbye,
    /// A packet of the membership protocol, opaque to the link.
    Swim(&'a [u8]),

    /// Leader to node. The term is in the header.
    LeaderBeat(LeaderBeat),
    /// Node to leader. The term is in the header.
    NodeBeat(NodeBeat),
    /// To whoever sent a beat whose term (in the header here) is too low.
    TermRefused(TermRefused),
    /// Leader to node: the reign of the header's term is over.
    Resign,

    /// Region to coordinator: what the region is and hosts. In parts; counts when the last part is there.
    Register(Register<'a>),
    /// Coordinator to region: registered for the header's term.
    RegisterAck(RegisterAck),
    /// Coordinator to region: not registered, and why.
    RegisterRefused(RegisterRefused),
    /// Region to coordinator: the region stopped.
    Deregister(Deregister),
    /// Region to coordinator: where does this shard live?
    GetShardHome(GetShardHome),
    /// Coordinator to region: where a shard lives. A grant, if it names the receiver.
    ShardHome(ShardHome),
    /// Region to coordinator: the granted shard is served.
    ShardStarted(ShardEpoch),
    /// Coordinator to region: stop the shard and say so.
    HandOff(HandOff),
    /// Region to coordinator: nothing of the shard runs under this epoch, nor will.
    HandOffComplete(HandOffComplete),
    /// Coordinator to region: homes that changed.
    ShardMapUpdate(ShardMapUpdate<'a>),
    /// Coordinator to region: entities that were alive when the shard last moved. Reserved: checked, without effect.
    RememberedEntities(RememberedEntities<'a>),
    /// Region to coordinator: an entity to remember. Reserved: a region writes to a store that is fenced by its epoch.
    EntityStarted(EntityNote<'a>),
    /// Region to coordinator: an entity to forget. Reserved, too.
    EntityStopped(EntityNote<'a>),
    /// Coordinator to region: report your load.
    StatsQuery(StatsQuery),
    /// Region to coordinator: the answer.
    Stats(Stats),
    /// Region to coordinator: use another number of the type's shards.
    Resize(Resize),
    /// Coordinator to region: how many are used.
    Resized(Size),
}

/// See [`Control::Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello<'a> {
    /// Lowest wire version this side speaks.
    pub min_version: u8,
    /// Highest wire version this side speaks.
    pub max_version: u8,
    /// Hash of the cluster's name.
    pub cluster: u64,
    /// Digest of the voters' names, 0 without voters.
    pub voters: u64,
    /// The node this side claims to be; must match what the transport authenticated, if it did.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The node's name, for logs; `hash::node_id(name)` must equal `node`.
    pub name: &'a str,
    /// Address under which others can dial this side.
    pub address: &'a str,
    /// Roles of this side.
    pub roles: crate::membership::Roles,
    /// Lanes this side uses; the lower of both is used.
    pub lanes: u8,
    /// Largest frame body this side accepts, in bytes.
    pub max_frame: u32,
    /// Largest message this side accepts, id and payload, in bytes; the lower of both counts.
    pub max_message: u32,
    /// Whether this side dialed.
    pub dialer: bool,
}

/// See [`Control::Welcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome<'a> {
    /// The version both sides use from here on.
    pub version: u8,
    /// Life of the receiver of this frame that its sender knows; a resumed link has the same pair.
    pub incarnation: Incarnation,
    /// Next expected sequence number per lane, as little-endian `u64`s.
    #[serde(borrow, serialize_with = "as_bytes")]
    pub expected: &'a [u8],
}

impl Welcome<'_> {
    /// Next expected sequence number of a lane; `None` if the list is shorter.
    #[must_use]
    pub fn expected_on(&self, lane: u8) -> Option<u64> {
        let (numbers, _) = self.expected.as_chunks::<8>();
        numbers
            .get(usize::from(lane))
            .map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// Why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// No common wire version; carries the refusing side's range.
    Version {
        /// Lowest version of the refusing side.
        min: u8,
        /// Highest version of the refusing side.
        max: u8,
    },
    /// Another cluster's name.
    Cluster,
    /// Another list of voters, by their digests: nodes that count different votes could follow two leaders.
    Voters {
        /// Of the refusing side.
        ours: u64,
        /// Of the side that is refused.
        theirs: u64,
    },
    /// The claimed name, node and authenticated identity do not belong together.
    Identity,
    /// A node of this name with a newer incarnation is, or was, a member; or this incarnation was removed.
    Incarnation {
        /// The newest incarnation the refusing side knows.
        newest: Incarnation,
    },
    /// The node dialed itself.
    Myself,
    /// Another link of the same pair survives.
    Duplicate,
    /// Limit of links reached.
    Full,
    /// A frame other than the handshake came first, or the handshake took too long.
    Handshake,
    /// What the transport authenticated is a client, and said that it is a node.
    Client,
    /// That life of the node began in the future: one that is over could not be followed by another.
    Future {
        /// The highest incarnation that the refusing side takes now.
        limit: Incarnation,
    },
}

/// See [`Control::KeepAlive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// The sender is leaving.
    pub leaving: bool,
}

/// See [`Control::Ack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The lane.
    pub lane: u8,
    /// First sequence number not yet accepted.
    pub next: u64,
}

/// See [`Control::LeaderBeat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderBeat {
    /// Number of this beat; never restarts in a process.
    pub seq: u64,
    /// Newest beat of the receiver that this leader grants a lease on; 0 for none.
    pub echo: u64,
    /// Microseconds, counted from when the receiver sent the echoed beat, for which the lease may last; 0 for none.
    pub valid: u64,
}

/// See [`Control::NodeBeat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBeat {
    /// Number of this beat; never restarts in a process.
    pub seq: u64,
    /// Newest beat of the leader's current term that this node received; 0 for none.
    pub echo: u64,
    /// How often the node's lease lapsed.
    pub lapses: u32,
    /// Wrapping sum of the ids of the node's types whose registration its lease waits for.
    pub types: u32,
    /// The node is leaving.
    pub leaving: bool,
}

/// See [`Control::TermRefused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermRefused {
    /// The highest term the refusing node knows.
    pub highest: crate::Term,
}

/// See [`Control::Register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register<'a> {
    /// This part, from 0.
    pub part: u32,
    /// How many parts there are, at least 1.
    pub parts: u32,
    /// The region's session.
    pub session: Session,
    /// Name of the entity type.
    #[serde(borrow)]
    pub type_name: &'a str,
    /// The region's shard count.
    pub shard_count: u32,
    /// How the region turns ids into shards: [`crate::hash::ShardHash::id`].
    pub shard_hash: u16,
    /// The region has no whole map of this term yet: it is to be sent.
    pub wants_map: bool,
    /// The region hosts nothing.
    pub proxy: bool,
    /// Microseconds since the newest beat of a lower term; since the process started, if there was none.
    pub last_beat_age: u64,
    /// The store this region opened; 0 for none.
    pub storage_id: u64,
    /// It has a store remember which entities live.
    pub remembers: bool,
    /// The newest size of the type that it knows.
    pub size: Size,
    /// What it hosts. Check it with [`Claims::validate`] before use.
    #[serde(borrow)]
    pub claims: Claims<'a>,
}

/// See [`Control::RegisterAck`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterAck {
    /// The registered session.
    pub session: Session,
    /// The newest size of the type that the coordinator knows.
    pub size: Size,
}

/// See [`Control::RegisterRefused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRefused {
    /// The session this is about.
    pub session: Session,
    /// Why.
    pub reason: RegisterRefusal,
}

/// Why a region was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RegisterRefusal {
    /// The leader has no such entity type; start it there, as a proxy at least.
    UnknownType,
    /// Shard counts differ.
    ShardCount {
        /// The coordinator's own setting, which is the authority.
        coordinator: u32,
        /// The region's.
        region: u32,
    },
    /// Ways to turn ids into shards differ: an entity would have two homes.
    ShardHash {
        /// The coordinator's own setting, which is the authority.
        coordinator: u16,
        /// The region's.
        region: u16,
    },
    /// The session ended; raise it and register again.
    SessionEnded,
    /// Another store than the other regions of the type.
    Storage {
        /// The store the type uses.
        expected: u64,
        /// The region's.
        found: u64,
    },
    /// A proxy claimed shards, or a claim was out of range.
    Claims,
    /// More regions than the coordinator has room for.
    Full,
    /// The other regions that host the type do not do the same about remembering which entities live.
    Remember {
        /// Whether this one remembers.
        region: bool,
    },
}

/// See [`Control::Deregister`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deregister {
    /// The session that ends.
    pub session: Session,
}

/// See [`Control::GetShardHome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetShardHome {
    /// The shard.
    pub shard: ShardId,
}

/// See [`Control::ShardHome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardHome {
    /// The shard.
    pub shard: ShardId,
    /// Its allocation.
    pub epoch: Epoch,
    /// The node that hosts it.
    pub node: NodeId,
    /// The session of that node's region to which it was granted.
    pub session: Session,
    /// How the allocation before this one ended.
    pub previous: Previous,
}

/// How an allocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an end nobody handles must not compile"
)]
pub enum Previous {
    /// The owner said that nothing runs any more, or there was none.
    Completed,
    /// The owner's lease ran out, or its session ended: its `Flushed` may never come.
    Lapsed,
}

/// A shard and its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEpoch {
    /// The shard.
    pub shard: ShardId,
    /// Its allocation.
    pub epoch: Epoch,
}

/// See [`Control::HandOff`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOff {
    /// The shard.
    pub shard: ShardId,
    /// The allocation that ends.
    pub epoch: Epoch,
    /// Microseconds the entities have to stop.
    pub drain: u64,
}

/// See [`Control::HandOffComplete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffComplete {
    /// The shard.
    pub shard: ShardId,
    /// The allocation that ended.
    pub epoch: Epoch,
    /// Something did not stop in time and was aborted.
    pub forced: bool,
}

/// See [`Control::ShardMapUpdate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMapUpdate<'a> {
    /// Grows with every change of the map within a term.
    pub version: u64,
    /// The whole map follows in frames of this version; `last` ends it.
    pub last: bool,
    /// The homes that changed. Check them with [`Homes::validate`] before use.
    #[serde(borrow)]
    pub homes: Homes<'a>,
}

/// See [`Control::RememberedEntities`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedEntities<'a> {
    /// The shard.
    pub shard: ShardId,
    /// Its allocation.
    pub epoch: Epoch,
    /// More frames follow.
    pub more: bool,
    /// The entities. Check them with [`EntityIds::validate`] before use.
    #[serde(borrow)]
    pub ids: EntityIds<'a>,
}

/// See [`Control::EntityStarted`] and [`Control::EntityStopped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityNote<'a> {
    /// The shard.
    pub shard: ShardId,
    /// Its allocation.
    pub epoch: Epoch,
    /// The entity, at most [`super::MAX_ID_LEN`] bytes.
    #[serde(borrow, serialize_with = "as_bytes")]
    pub id: &'a [u8],
}

/// See [`Control::StatsQuery`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsQuery {
    /// Names the answer.
    pub token: crate::Token,
}

/// See [`Control::Stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Of the query.
    pub token: crate::Token,
    /// Shards hosted.
    pub shards: u32,
    /// Entities running.
    pub entities: u64,
    /// Messages buffered.
    pub buffered: u64,
    /// Messages delivered to entities since the region started.
    pub delivered: u64,
}

/// How many of its shards a type uses, the first ones, and which decision that was: the higher version holds, whoever
/// says it. Means nothing for types that use all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// An epoch of the reign that decided it; [`Epoch::NONE`]: nobody did, it is as configured.
    pub version: Epoch,
    /// How many.
    pub count: u32,
}

/// See [`Control::Resize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// The version that the sender knows. Another one has come since: nothing changes, and the sender is told. So a late
    /// or doubled frame undoes nothing.
    pub after: Epoch,
    /// How many shards to use.
    pub count: u32,
}
