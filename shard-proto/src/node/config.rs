//! Settings of a node and of its entity types.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::Incarnation;
use crate::coordinator::{KeepShards, StorageMismatch};
use crate::hash::ShardHash;
use crate::leadership::Ownership;

/// Who a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, unique in the cluster. The `NodeId` is [`crate::hash::node_id`] of it.
    pub name: String,
    /// This life: must be higher than every earlier one. The start time in microseconds of the wall clock.
    pub incarnation: Incarnation,
    /// Address under which the others can dial it.
    pub address: String,
    /// Role names, at most four.
    pub roles: Vec<String>,
}

impl Identity {
    /// A node without roles.
    pub fn new(
        name: impl Into<String>,
        incarnation: Incarnation,
        address: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            incarnation,
            address: address.into(),
            roles: Vec::new(),
        }
    }
}

/// Whom the transport of a connection proved the peer to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    /// [`cluster_id`](crate::hash::cluster_id) of its cluster.
    pub cluster: u64,
    /// Its name; a node may take no other one.
    pub name: String,
    /// It is no node but a client, which never makes a link like one.
    pub client: bool,
}

/// Where a node learns who is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MembershipMode {
    /// There is only this node; it dials nobody and refuses links.
    Alone,
    /// Members are the nodes that are linked: every node lists the others' addresses as seeds. A member whose link is
    /// down is unreachable, and down for good after `down_after`.
    Links {
        /// Default 10 s.
        down_after: Duration,
    },
    /// The adapter says it, with [`Node::handle_member`](super::Node::handle_member).
    External,
    /// The node finds out by SWIM, over its links, starting at the seeds.
    #[cfg(feature = "swim")]
    Swim,
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub(crate) cluster: String,
    pub(crate) membership: MembershipMode,
    #[cfg(feature = "swim")]
    pub(crate) swim: super::swim::SwimConfig,
    pub(crate) seeds: Vec<String>,
    pub(crate) ownership: Ownership,
    pub(crate) voters: Vec<String>,
    pub(crate) bootstrap: bool,
    pub(crate) may_lead: bool,
    pub(crate) seed: u64,
    pub(crate) beat: Duration,
    pub(crate) support_lease: Duration,
    pub(crate) lease: Duration,
    pub(crate) drift: Duration,
    pub(crate) round_trip: Duration,
    pub(crate) dial_retry: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) link_timeout: Duration,
    pub(crate) leave_deadline: Duration,
    pub(crate) max_nodes: u16,
    pub(crate) max_links: u16,
    pub(crate) max_handshakes: u16,
    pub(crate) handshake_timeout: Duration,
    pub(crate) max_types: u16,
    pub(crate) max_asks: u32,
    pub(crate) max_frame: u32,
    pub(crate) max_message: u32,
    pub(crate) fragment: u32,
    pub(crate) max_partial: u32,
    pub(crate) lanes: u8,
    pub(crate) window_bytes: u32,
    pub(crate) window_frames: u32,
}

macro_rules! with {
    ($($(#[$doc:meta])* $name:ident: $field:ident: $ty:ty),* $(,)?) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub const fn $name(mut self, $field: $ty) -> Self {
                self.$field = $field;
                self
            }
        )*
    };
}

impl NodeConfig {
    /// Defaults for a cluster whose members are `membership`.
    #[must_use]
    pub const fn new(membership: MembershipMode) -> Self {
        Self {
            cluster: String::new(),
            membership,
            #[cfg(feature = "swim")]
            swim: super::swim::SwimConfig::new(),
            seeds: Vec::new(),
            ownership: Ownership::Lease,
            voters: Vec::new(),
            bootstrap: false,
            may_lead: true,
            seed: 0,
            beat: Duration::from_millis(200),
            support_lease: Duration::from_millis(800),
            lease: Duration::from_secs(2),
            drift: Duration::from_millis(100),
            round_trip: Duration::from_millis(50),
            dial_retry: Duration::from_millis(250),
            keep_alive: Duration::from_millis(500),
            link_timeout: Duration::from_secs(5),
            leave_deadline: Duration::from_secs(20),
            max_nodes: 256,
            max_links: 1024,
            max_handshakes: 128,
            handshake_timeout: Duration::from_secs(5),
            max_types: 256,
            max_asks: 65_536,
            max_frame: 1 << 20,
            max_message: 64 << 20,
            fragment: 64 << 10,
            max_partial: 512 << 20,
            lanes: 1,
            window_bytes: 4 << 20,
            window_frames: 16_384,
        }
    }

    /// One node, no cluster: it leads at once and needs no links.
    #[must_use]
    pub const fn standalone() -> Self {
        let mut config = Self::new(MembershipMode::Alone);
        config.ownership = Ownership::Trust;
        config.bootstrap = true;
        config
    }

    /// Shorter times for networks with round trips below 10 ms.
    #[must_use]
    pub const fn lan(mut self) -> Self {
        self.beat = Duration::from_millis(50);
        self.support_lease = Duration::from_millis(200);
        self.lease = Duration::from_millis(500);
        self.drift = Duration::from_millis(25);
        self.round_trip = Duration::from_millis(10);
        self.dial_retry = Duration::from_millis(100);
        self.keep_alive = Duration::from_millis(200);
        self.link_timeout = Duration::from_secs(2);
        #[cfg(feature = "swim")]
        {
            self.swim = super::swim::SwimConfig::lan();
        }
        self
    }

    /// Name of the cluster; nodes of another one are refused. Default: empty.
    #[must_use]
    pub fn with_cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Addresses to start at. Its own address may be among them.
    #[must_use]
    pub fn with_seeds(mut self, seeds: Vec<String>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Settings of [`MembershipMode::Swim`]; room for nodes is twice the limit of nodes. Default:
    /// [`SwimConfig::new`](super::swim::SwimConfig::new), or its LAN preset.
    #[cfg(feature = "swim")]
    #[must_use]
    pub const fn with_swim(mut self, swim: super::swim::SwimConfig) -> Self {
        self.swim = swim;
        self
    }

    /// Names of the nodes whose majority decides who leads, under [`Ownership::Lease`] (unused otherwise): 1, 3 or 5
    /// of them, the same on every node; a node with another list is refused. With 3 the cluster works as long as 2 of
    /// them are up, with 5 as long as 3 are. Whether they host anything does not matter, and other nodes come and go
    /// as they like. A voter that left for good is not replaced: start another node under its name. Default: none.
    #[must_use]
    pub fn with_voters(mut self, voters: Vec<String>) -> Self {
        self.voters = voters;
        self
    }

    with! {
        /// What entitles the node to serve, and to lead; the same on every node. Default: [`Ownership::Lease`], which
        /// needs [`NodeConfig::with_voters`]; [`Ownership::Trust`] for [`NodeConfig::standalone`].
        with_ownership: ownership: Ownership,
        /// Under [`Ownership::Trust`]: whether the node may lead before it heard of any other: set it on the first
        /// node of a new cluster only. Two of them that do not know each other are two clusters. Default: false.
        with_bootstrap: bootstrap: bool,
        /// Whether the node leads at all. Default: true.
        with_may_lead: may_lead: bool,
        /// Seed of all that is random: correlations (give it 64 bits that nobody can guess), jitter. Default: 0.
        with_seed: seed: u64,
        /// Interval of beats between leader and nodes. Default: 200 ms (LAN 50 ms).
        with_beat: beat: Duration,
        /// How long a silent leader is followed. Default: 800 ms (LAN 200 ms).
        with_support_lease: support_lease: Duration,
        /// How long a region may serve without its leader, and the wait at a new leader's barrier for nodes that do
        /// not register. Default: 2 s (LAN 500 ms).
        with_lease: lease: Duration,
        /// Allowance for clock rates. Default: 100 ms (LAN 25 ms).
        with_drift: drift: Duration,
        /// The longest round trip that failover shall cope with. Default: 50 ms (LAN 10 ms).
        with_round_trip: round_trip: Duration,
        /// Pause between dials of one address; doubles up to 16 times it. Default: 250 ms (LAN 100 ms).
        with_dial_retry: dial_retry: Duration,
        /// A link says something at least this often. Default: 500 ms (LAN 200 ms).
        with_keep_alive: keep_alive: Duration,
        /// A link that hears nothing for this long is closed. Default: 5 s (LAN 2 s).
        with_link_timeout: link_timeout: Duration,
        /// How long `leave()` may take: 2 × the handoff timeout. Default: 20 s.
        with_leave_deadline: leave_deadline: Duration,
        /// Members the tables have room for, this node included. Default: 256.
        with_max_nodes: max_nodes: u16,
        /// Links, those in handshake included. Default: 1024.
        with_max_links: max_links: u16,
        /// Links that others began and that are still in handshake; more are refused. Default: 128.
        with_max_handshakes: max_handshakes: u16,
        /// How long a link's handshake may take before its connection is closed. Default: 5 s.
        with_handshake_timeout: handshake_timeout: Duration,
        /// Entity types. Default: 256.
        with_max_types: max_types: u16,
        /// Asks that wait for other nodes, at once. Default: 65 536.
        with_max_asks: max_asks: u32,
        /// Largest body of a frame that this node takes, in bytes; at least 64 KiB. Default: 1 MiB.
        with_max_frame: max_frame: u32,
        /// Largest message, id and body, in bytes; up to 1 GiB. Of two nodes the lower limit counts. Whoever sends one
        /// has it in memory until it has arrived, and so has the receiver what has come of it. Default: 64 MiB.
        with_max_message: max_message: u32,
        /// Longest body of a frame that this node sends, in bytes; at most the largest frame. A longer message travels in
        /// fragments, four or 256 KiB of which are under way on a lane at a time, and messages to other shards travel
        /// between them. Short: those wait less. Long: more of a large message gets through per round trip. Default:
        /// 64 KiB.
        with_fragment: fragment: u32,
        /// Bytes of messages of which some fragments have come and others not, per peer; at least the largest message.
        /// There are no more lanes than longest messages in it. Default: 512 MiB.
        with_max_partial: max_partial: u32,
        /// Lanes that the transport has, 1 to 64: data of different lanes does not wait for one another. A pair of nodes
        /// uses as many as both have. Default: 1.
        with_lanes: lanes: u8,
        /// Bytes a peer may leave unacknowledged per lane before its link counts as congested; besides, two messages of
        /// the largest size make it so, one does not. Default: 4 MiB.
        with_window_bytes: window_bytes: u32,
        /// Frames a peer may leave unacknowledged per lane before its link counts as congested. Default: 16 384.
        with_window_frames: window_frames: u32,
    }
}

/// Settings of an entity type on one node. Shard count, role and times must be the same on every node.
#[derive(Clone, Debug)]
pub struct TypeConfig {
    pub(crate) name: &'static str,
    pub(crate) shard_count: u32,
    pub(crate) shard_hash: ShardHash,
    pub(crate) proxy: bool,
    pub(crate) role: String,
    pub(crate) storage_id: u64,
    pub(crate) remembers: bool,
    pub(crate) storage_mismatch: StorageMismatch,
    pub(crate) buffer: u32,
    pub(crate) buffer_per_shard: u32,
    pub(crate) buffer_bytes: usize,
    pub(crate) retry_interval: Duration,
    pub(crate) rebalance_interval: Duration,
    pub(crate) handoff_timeout: Duration,
    pub(crate) drain: Duration,
    pub(crate) keep: KeepShards,
    #[cfg(test)]
    pub(crate) shards_per_part: u32,
}

impl TypeConfig {
    /// Defaults for the type of that name (at most 64 bytes).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            shard_count: 256,
            shard_hash: ShardHash::Default,
            proxy: false,
            role: String::new(),
            storage_id: 0,
            remembers: false,
            storage_mismatch: StorageMismatch::Refuse,
            buffer: 100_000,
            buffer_per_shard: 10_000,
            buffer_bytes: 64 << 20,
            retry_interval: Duration::from_millis(250),
            rebalance_interval: Duration::from_secs(2),
            handoff_timeout: Duration::from_secs(10),
            drain: Duration::from_secs(8),
            keep: KeepShards::Asked,
            #[cfg(test)]
            shards_per_part: 64,
        }
    }

    /// Shorter times for networks with round trips below 10 ms.
    #[must_use]
    pub const fn lan(mut self) -> Self {
        self.retry_interval = Duration::from_millis(100);
        self
    }

    /// Only nodes with this role host the type. Default: any node.
    #[must_use]
    pub fn with_role(mut self, role: impl Into<String>) -> Self {
        self.role = role.into();
        self
    }

    with! {
        /// Number of shards, a constant of the cluster; about ten per node. Default: 256.
        with_shards: shard_count: u32,
        /// How ids become shards, a constant of the cluster too. Default: [`ShardHash::Default`].
        with_shard_hash: shard_hash: ShardHash,
        /// Whether this node only sends to the type and hosts nothing of it. Default: false.
        with_proxy: proxy: bool,
        /// Identity of the store this node opened for the type; 0 for none. Default: 0.
        with_storage_id: storage_id: u64,
        /// Whether a store remembers which entities live; the same on every node that hosts the type: one that differs
        /// from those that are registered is [refused](crate::wire::control::RegisterRefusal::Remember). Default: no.
        with_remembers: remembers: bool,
        /// What this node does, when it leads, with one whose region opened another store than the others: without a
        /// common one, an entity recovers another history wherever it goes. Default: [`StorageMismatch::Refuse`].
        with_storage_mismatch: storage_mismatch: StorageMismatch,
        /// Messages this node buffers for the type. Memory for the slots is taken at the start. Default: 100 000.
        with_buffer: buffer: u32,
        /// Messages this node buffers for one shard. Default: 10 000.
        with_buffer_per_shard: buffer_per_shard: u32,
        /// Bytes of messages, with their ids, that are here for the type, beyond which the buffer takes no more: of all that
        /// are buffered, and of those longer than 1 KiB in mailboxes. One that is longer than that is taken if there is
        /// nothing else. Small ones, of up to an eighth of it, have an eighth of their own beside large ones: 9/8 of it
        /// at most, and the small message that is taken last. Default: 64 MiB.
        with_buffer_bytes: buffer_bytes: usize,
        /// Pause before something unanswered is said again. Default: 250 ms (LAN 100 ms).
        with_retry_interval: retry_interval: Duration,
        /// How often the strategy is asked for moves. Default: 2 s.
        with_rebalance_interval: rebalance_interval: Duration,
        /// When the coordinator gives up on a handoff. Default: 10 s.
        with_handoff_timeout: handoff_timeout: Duration,
        /// How long entities have to stop; less than the handoff timeout. Default: 8 s.
        with_drain: drain: Duration,
        /// Which shards have homes without a message for them; the same on every node. Default: [`KeepShards::Asked`].
        with_keep: keep: KeepShards,
    }

    /// Splits registrations into more parts than they need.
    #[cfg(test)]
    pub(crate) const fn with_shards_per_part(mut self, shards: u32) -> Self {
        self.shards_per_part = shards;
        self
    }
}
