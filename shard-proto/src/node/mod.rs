//! A whole process as one state machine.
//!
//! [`Node`] composes links, leadership, membership and, per entity type, a region and a coordinator. It has no I/O:
//! the adapter feeds it bytes, time and the application's messages, and does what its commands say.
//!
//! The adapter's loop, with the time taken once per wake-up: [`Node::handle_timeout`] if [`Node::poll_timeout`] is
//! due; inputs; [`Node::poll_command`] until `None`; [`Node::links_to_flush`] until `None`, writing what
//! [`Node::poll_transmit`] has for each.
//!
//! Commands are derived from the state of the parts, so they do not pile up; what is queued here is bounded by the
//! number of links and members, and by the windows and buffers of a life of a node that ended.

mod api;
mod asks;
mod config;
mod control;
pub(crate) mod departure;
mod error;
#[cfg(feature = "swim")]
mod gossip;
#[cfg(not(feature = "swim"))]
#[path = "gossip_none.rs"]
mod gossip;
mod key;
mod leave;
pub(crate) mod link;
mod members;
mod membership;
mod ownership;
mod poll;
mod receive;
mod send;
mod serve;
mod stats;
pub(crate) mod stuck;
#[cfg(feature = "swim")]
pub mod swim;
#[cfg(test)]
mod tests;
mod types;
mod warn;
mod weight;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

pub use api::{
    Ask, AskFailure, AskKey, Body, BodyError, Delivery, DialId, LinkId, Message, NodeCommand,
    REPLY_ANSWER, REPLY_FAILED, REPLY_NONE, REPLY_REFUSED, ReplyTo, SendError, Sent, StreamIndex,
    TypeIndex, Warning,
};
use asks::Asks;
pub use config::{Authenticated, Identity, MembershipMode, NodeConfig, TypeConfig};
use departure::Phase;
pub use error::{AddTypeError, ConfigError, LeaveError, LinkError, LinksFull};
use gossip::Gossip;
pub use key::EntityKey;
use link::{LinkConfig, Links, PeerIdentity, UnackedFrame};
use members::{Entry, Members};
use ownership::Reign;
pub use stats::NodeStats;
use types::Types;
use warn::Warned;
pub use weight::Weight;

use crate::allocation::AllocationStrategy;
use crate::leadership::{
    ConfigError as LeadError, Leadership, LeadershipConfig, Ownership, PeerSlot as LeadershipSlot,
    Voters,
};
use crate::membership::{Member, MemberState, Roles};
use crate::{Home, Incarnation, Instant, Leader, NodeId, ShardId, Term, earliest, hash};

/// A strategy, as a node keeps it.
pub type Strategy = Box<dyn AllocationStrategy + Send>;

/// A process of the cluster, without its I/O. See the [module's docs](self).
pub struct Node<B> {
    now: Instant,
    me: Member,
    config: NodeConfig,
    links: Links,
    leadership: Leadership<Box<[LeadershipSlot]>>,
    /// Leadership may have commands.
    lead_dirty: bool,
    /// What the regions were told last.
    leader: Option<Leader>,
    lease: Option<Instant>,
    /// What the coordinators were told last: the reign of this node.
    reign: Option<Reign>,
    /// When something that this node may do ends, if nothing extends it.
    guard: Instant,
    /// The application has not heard of `lease`.
    lease_news: bool,
    /// It was lost, and the application has not heard of that.
    lease_lost: bool,
    /// The application has not heard of `leader`.
    leader_news: bool,
    members: Members,
    gossip: Option<Gossip>,
    types: Types<B>,
    asks: Asks,
    /// Data of lives that ended, to be reported as perhaps delivered.
    lost: VecDeque<(NodeId, UnackedFrame)>,
    /// Single events; bounded by links and members.
    out: VecDeque<NodeCommand<B>>,
    warned: Warned,
    phase: Phase,
    stats: NodeStats,
}

impl<B> fmt::Debug for Node<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("me", &self.me)
            .field("leader", &self.leader)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl<B: Body> Node<B> {
    /// A node that knows nobody yet. Polling says whom to dial.
    ///
    /// # Errors
    /// If a name, an address or a setting cannot work.
    pub fn new(now: Instant, identity: Identity, config: NodeConfig) -> Result<Self, ConfigError> {
        let Identity {
            name,
            incarnation,
            address,
            roles: role_names,
        } = identity;
        if name.is_empty() || name.len() > 255 {
            return Err(ConfigError::new("name", "must have 1 to 255 bytes"));
        }
        if address.len() > 1024 {
            return Err(ConfigError::new("address", "must have at most 1024 bytes"));
        }
        let mut roles = Roles::NONE;
        for role in &role_names {
            roles = roles
                .with(hash::role_id(role))
                .ok_or(ConfigError::new("roles", "must be at most four"))?;
        }
        let node = hash::node_id(&name);
        let me = Member {
            node,
            incarnation,
            state: MemberState::Up,
            roles,
        };
        let lead = config.leadership()?;
        let voters = config.digest(&lead);
        let slots = usize::from(config.max_nodes).saturating_mul(2).max(2);
        let slots = vec![LeadershipSlot::EMPTY; slots];
        let leadership = Leadership::new(now, node, incarnation, lead, slots.into_boxed_slice())
            .map_err(lead_error)?;
        let who = PeerIdentity {
            node,
            incarnation,
            name,
            address,
            roles,
        };
        let gossip = Gossip::new(now, &config, &who)?;
        let mut links = Links::new(now, config.links(voters), who)?;
        if config.membership != MembershipMode::Alone {
            for seed in &config.seeds {
                links.add_seed(now, seed);
            }
        }
        let mut members = Members::new(config.max_nodes);
        members.put(Entry::new(me, None));
        Ok(Self {
            now,
            me,
            links,
            leadership,
            lead_dirty: true,
            leader: None,
            lease: None,
            reign: None,
            guard: Instant::FAR_FUTURE,
            lease_news: false,
            lease_lost: false,
            leader_news: false,
            members,
            gossip,
            types: Types::new(),
            asks: Asks::new(now, config.seed, config.max_asks),
            lost: VecDeque::new(),
            out: VecDeque::new(),
            warned: Warned::new(now),
            phase: Phase::Running,
            stats: NodeStats::default(),
            config,
        })
    }

    /// Who this node is.
    pub const fn me(&self) -> NodeId {
        self.me.node
    }

    /// Its life.
    pub const fn incarnation(&self) -> Incarnation {
        self.me.incarnation
    }

    /// The wall clock in 1/16 s, or a persisted number: terms are taken above it. Say it once before anything else
    /// and whenever it is at hand.
    pub fn handle_term_floor(&mut self, now: Instant, floor: Term) {
        let now = self.advance(now);
        self.leadership.handle_term_floor(now, floor);
        self.lead_dirty = true;
    }

    /// No life of a node above it is taken in, whoever says that it is there: one of the far future would be the node's last.
    /// Lives are numbered by the wall clock, so the limit is that clock and what clocks may differ by; say it whenever
    /// the clock is at hand. Without a limit every number is taken.
    pub fn handle_incarnation_limit(&mut self, now: Instant, limit: Incarnation) {
        self.advance(now);
        self.links.set_incarnation_limit(limit);
        if let Some(gossip) = &mut self.gossip {
            gossip.set_incarnation_limit(limit);
        }
    }

    /// Expires what is due, a bounded batch; call again while [`Node::poll_timeout`] is still due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        if is_due(self.leadership.poll_timeout(), now) {
            self.leadership.handle_timeout(now);
            self.lead_dirty = true;
        }
        self.types.handle_timeout(now);
        if is_due(self.asks.poll_timeout(), now) {
            self.asks.expire(now);
        }
        if is_due(self.links.poll_timeout(), now) {
            self.links.handle_timeout(now);
        }
        self.pump_links();
        if let Some(gossip) = &mut self.gossip
            && is_due(gossip.poll_timeout(), now)
        {
            gossip.handle_timeout(now);
        }
        self.expire_members();
        self.pump_gossip();
        self.check_leave();
    }

    /// When to call [`Node::handle_timeout`]. O(types).
    pub fn poll_timeout(&self) -> Option<Instant> {
        let mut at = earliest(self.leadership.poll_timeout(), self.links.poll_timeout());
        at = earliest(at, self.types.poll_timeout());
        at = earliest(at, self.asks.poll_timeout());
        at = earliest(at, self.members.poll_timeout());
        at = earliest(at, self.gossip.as_ref().and_then(Gossip::poll_timeout));
        earliest(at, self.phase.poll_timeout())
    }

    /// Where a shard lives, as far as this node knows.
    pub fn home(&self, ty: TypeIndex, shard: ShardId) -> Option<Home> {
        self.types.get(ty)?.region.home(shard)
    }

    /// How many shards of a type are hosted here.
    pub fn hosted(&self, ty: TypeIndex) -> u32 {
        self.types.get(ty).map_or(0, |kind| kind.region.hosted())
    }

    /// How many messages of a type are buffered here.
    pub fn buffered(&self, ty: TypeIndex) -> u32 {
        self.types.get(ty).map_or(0, |kind| kind.region.buffered())
    }

    /// Whether the type is registered with its coordinator.
    pub fn is_registered(&self, ty: TypeIndex) -> bool {
        let kind = self.types.get(ty);
        kind.is_some_and(|kind| kind.region.is_registered())
    }

    /// The reign this node follows.
    pub fn leader(&self) -> Option<Leader> {
        self.leadership.leader()
    }

    /// The members this node knows, itself included.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().map(|entry| entry.member)
    }

    /// Where a member can be dialed, as it or the membership service said.
    pub fn member_address(&self, node: NodeId) -> Option<&str> {
        self.members.get(node)?.address.as_deref()
    }

    /// What was counted.
    pub const fn stats(&self) -> &NodeStats {
        &self.stats
    }
}

impl NodeConfig {
    fn leadership(&self) -> Result<LeadershipConfig, ConfigError> {
        let mut voters = Voters::NONE;
        if self.ownership == Ownership::Lease {
            let nodes: Vec<_> = self.voters.iter().map(|name| hash::node_id(name)).collect();
            voters = Voters::new(&nodes).map_err(|_| {
                let problem = "must be 1, 3 or 5 different names of nodes, the same on every node; or set \
                               `ownership` to `Trust`, and do without leases";
                ConfigError::new("voters", problem)
            })?;
        }
        let config = LeadershipConfig::new()
            .with_ownership(self.ownership)
            .with_voters(voters)
            .with_beat(self.beat)
            .with_support_lease(self.support_lease)
            .with_lease(self.lease)
            .with_drift(self.drift)
            .with_round_trip(self.round_trip)
            .with_may_lead(self.may_lead)
            .with_bootstrap(self.bootstrap);
        Ok(config)
    }

    /// What two nodes must have in common to work together.
    fn digest(&self, lead: &LeadershipConfig) -> u64 {
        match self.ownership {
            Ownership::Lease => lead.voters().digest(),
            Ownership::External => hash::cluster_id("ownership = External"),
            Ownership::Trust => 0,
        }
    }

    fn links(&self, voters: u64) -> LinkConfig {
        LinkConfig {
            voters,
            cluster: hash::cluster_id(&self.cluster),
            max_frame: self.max_frame,
            max_message: self.max_message,
            fragment: self.fragment,
            max_partial: self.max_partial,
            lanes: self.lanes,
            window_bytes: self.window_bytes,
            window_frames: self.window_frames,
            keep_alive: self.keep_alive,
            idle_timeout: self.link_timeout,
            retry: self.dial_retry,
            max_retry: self
                .dial_retry
                .saturating_mul(16)
                .max(Duration::from_secs(1)),
            max_peers: self.max_nodes.saturating_mul(4),
            max_links: self.max_links,
            max_handshakes: self.max_handshakes,
            handshake: self.handshake_timeout,
            seed: self.seed.rotate_left(17),
            ..LinkConfig::default()
        }
    }
}

fn lead_error(error: LeadError) -> ConfigError {
    let problem = match error {
        LeadError::Lease { .. } => {
            "must be at least 1.02 × (support_lease / 0.98 + 3 × beat + 3 × round_trip)"
        }
        LeadError::Drift { .. } => "must be at least 4.1 % of the lease",
        LeadError::SupportLease => "must not be zero, and must be shorter than the lease",
        LeadError::Beat => "must not be zero",
        _ => "does not fit the other settings",
    };
    ConfigError::new(error.field(), problem)
}

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}

const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
