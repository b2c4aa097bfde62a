//! Setting up a node.

use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::Arc;

use shard_proto::Incarnation;
use shard_proto::hash::node_id;
use shard_proto::leadership::{Ownership, Voters};
use shard_proto::node::{Identity, MembershipMode, Node as Core, NodeConfig};

use crate::arrivals::{ArrivalLimits, Arrivals, accept};
use crate::clock;
use crate::driver::Driver;
use crate::error::StartError;
use crate::lease::Lease;
use crate::node::{Node, Running};
use crate::runtime::{Handle, Runtime};
use crate::shared::NodeShared;
use crate::transport::{Peer, Tls, TlsTransport, Transport};

/// A set of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Preset {
    /// For networks with round trips up to 50 ms. A node that is killed, hangs or is cut off loses its shards after
    /// 2 s, and they have a new home within 2.9 s.
    #[default]
    Default,
    /// For networks with round trips below 10 ms and machines that do not stall: a pause of 500 ms costs a node its
    /// shards, which have a new home within 1 s.
    Lan,
}

/// How nodes learn of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Membership {
    /// Every node has the addresses of all others as seeds; who is linked is a member.
    Links,
    /// By gossip (SWIM), starting at the seeds.
    #[cfg(feature = "swim")]
    Swim,
    /// The application tells, with [`Node::member_changed`].
    External,
}

/// Sets up a node; made by [`Node::builder`].
pub struct NodeBuilder<R> {
    name: String,
    listen: Option<String>,
    advertise: Option<String>,
    seeds: Vec<String>,
    roles: Vec<String>,
    cluster: String,
    preset: Preset,
    membership: Option<Membership>,
    ownership: Option<Ownership>,
    voters: Vec<String>,
    bootstrap: Option<bool>,
    may_lead: bool,
    incarnation: Option<Incarnation>,
    transport: Option<Arc<dyn Transport>>,
    security: Option<Tls>,
    down_after: Duration,
    leave_deadline: Option<Duration>,
    max_frame: u32,
    max_message: u32,
    fragment: u32,
    max_nodes: Option<u16>,
    window: Option<(u32, u32)>,
    arrivals: ArrivalLimits,
    runtime: R,
    max_clock_ahead: Duration,
}

impl<R: Runtime> NodeBuilder<R> {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            listen: None,
            advertise: None,
            seeds: Vec::new(),
            roles: Vec::new(),
            cluster: String::new(),
            preset: Preset::Default,
            membership: None,
            ownership: None,
            voters: Vec::new(),
            bootstrap: None,
            may_lead: true,
            incarnation: None,
            transport: None,
            security: None,
            down_after: Duration::from_secs(10),
            leave_deadline: None,
            max_frame: 1 << 20,
            max_message: 64 << 20,
            fragment: 64 << 10,
            max_nodes: None,
            window: None,
            arrivals: ArrivalLimits::new(),
            runtime: R::default(),
            max_clock_ahead: Duration::from_secs(600),
        }
    }

    pub(crate) fn standalone() -> Self {
        Self::new("standalone".to_owned())
    }

    /// Listens on an address, like `127.0.0.1:7700`; port 0 takes a free one. Without it the node is alone.
    #[must_use]
    pub fn listen(mut self, address: impl fmt::Display) -> Self {
        self.listen = Some(address.to_string());
        self
    }

    /// The address under which the others dial this node. Default: the one it listens on.
    #[must_use]
    pub fn advertise(mut self, address: impl fmt::Display) -> Self {
        self.advertise = Some(address.to_string());
        self
    }

    /// The names of 1, 3 or 5 nodes, the same on every node: a majority of them carries whoever leads, and only they
    /// lead. Needed with [`Ownership::Lease`], the default; nodes with another list are refused.
    ///
    /// While a majority is up and connected, every shard is served by exactly one node; without one, nobody leads, and
    /// within the lease every entity stops: one of three voters may fail, or two of five. One voter is enough where
    /// it may be the single point of failure. All other nodes come and go as they like. Changing the list
    /// means stopping the cluster.
    #[must_use]
    pub fn voters<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.voters = names.into_iter().map(Into::into).collect();
        self
    }

    /// What entitles a node to serve its shards; the same on every node. Default: [`Ownership::Lease`], which needs
    /// [`NodeBuilder::voters`]; for a node that does not listen, and so is alone, [`Ownership::Trust`].
    ///
    /// With [`Ownership::External`] somebody else decides who leads, and the application says so with
    /// [`Node::lead_externally`].
    #[must_use]
    pub const fn ownership(mut self, ownership: Ownership) -> Self {
        self.ownership = Some(ownership);
        self
    }

    /// Addresses of nodes to start at. With [`Ownership::Trust`] a node whose own address is the first of them, or that
    /// has none, founds the cluster; see [`NodeBuilder::bootstrap`].
    #[must_use]
    pub fn seeds<A: fmt::Display>(mut self, seeds: impl IntoIterator<Item = A>) -> Self {
        self.seeds = seeds.into_iter().map(|seed| seed.to_string()).collect();
        self
    }

    /// Whether this node may lead before it heard of any other, with [`Ownership::Trust`]. True for one node of a new
    /// cluster only: two that do not know each other are two clusters. Default: whether the first seed is this node, or
    /// there is none.
    #[must_use]
    pub const fn bootstrap(mut self, bootstrap: bool) -> Self {
        self.bootstrap = Some(bootstrap);
        self
    }

    /// Whether this node leads at all. Default: true.
    #[must_use]
    pub const fn may_lead(mut self, may_lead: bool) -> Self {
        self.may_lead = may_lead;
        self
    }

    /// Name of the cluster; nodes of another one are refused. Default: empty.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Roles of this node, at most four; entity types can be limited to one.
    #[must_use]
    pub fn roles<N: Into<String>>(mut self, roles: impl IntoIterator<Item = N>) -> Self {
        self.roles = roles.into_iter().map(Into::into).collect();
        self
    }

    /// Times that fit the network and the machines. Must be the same on all nodes. Default: [`Preset::Default`].
    #[must_use]
    pub const fn preset(mut self, preset: Preset) -> Self {
        self.preset = preset;
        self
    }

    /// How nodes learn of each other. Default: SWIM if the feature is on, else [`Membership::Links`].
    #[must_use]
    pub const fn membership(mut self, membership: Membership) -> Self {
        self.membership = Some(membership);
        self
    }

    /// How long a member may be unreachable before it is down for good ([`Membership::Links`]). Default: 10 s.
    #[must_use]
    pub const fn down_after(mut self, down_after: Duration) -> Self {
        self.down_after = down_after;
        self
    }

    /// The number of this life of the node: higher than every earlier one. Default: the wall clock in microseconds.
    #[must_use]
    pub const fn incarnation(mut self, incarnation: u64) -> Self {
        self.incarnation = Some(Incarnation(incarnation));
        self
    }

    /// How nodes reach each other. Default: the adapter's `TcpTransport::new`, which takes loopback addresses
    /// only.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Mutual TLS over the [transport](NodeBuilder::transport): nodes are who their certificates say, on any network; see
    /// [`transport::tls`](crate::transport::tls). Takes the name of the cluster from this node's certificate, unless
    /// [`NodeBuilder::cluster`] says one; names that differ keep the node from starting. Default: none.
    #[must_use]
    pub fn security(mut self, tls: Tls) -> Self {
        self.security = Some(tls);
        self
    }

    /// How long [`Node::leave`] may take. Default: 20 s.
    #[must_use]
    pub const fn leave_deadline(mut self, deadline: Duration) -> Self {
        self.leave_deadline = Some(deadline);
        self
    }

    /// Largest frame that this node takes, in bytes; at least 64 KiB. A longer message travels in several. Default: 1 MiB.
    #[must_use]
    pub const fn max_frame(mut self, bytes: u32) -> Self {
        self.max_frame = bytes;
        self
    }

    /// Largest message, id included, in bytes; the same on every node, or the receiver's limit counts and the message is
    /// rejected on the way. Both sides have all of it in memory. Of those longer than 64 KiB that are sent to other nodes,
    /// each entity type has as many bytes under way at once; callers with more wait in line. Default: 64 MiB.
    #[must_use]
    pub const fn max_message(mut self, bytes: u32) -> Self {
        self.max_message = bytes;
        self
    }

    /// Longest frame that this node sends, in bytes; at most the largest frame. A longer message travels in fragments,
    /// and messages to other shards between them; four of them, or 256 KiB, are under way at a time. Default: 64 KiB.
    #[must_use]
    pub const fn fragment(mut self, bytes: u32) -> Self {
        self.fragment = bytes;
        self
    }

    /// Nodes there is room for. Default: 256.
    #[must_use]
    pub const fn max_nodes(mut self, nodes: u16) -> Self {
        self.max_nodes = Some(nodes);
        self
    }

    /// What a peer may leave unacknowledged before senders to it wait: bytes and frames. Default: 4 MiB, 16 384.
    #[must_use]
    pub const fn window(mut self, bytes: u32, frames: u32) -> Self {
        self.window = Some((bytes, frames));
        self
    }

    /// Connections to this node at once that have not completed their handshakes, the transport's and the link's: in all,
    /// and of one host (of IPv6, of one /64). More are dropped as they come, counted
    /// ([`ConnectionStats::crowded`](crate::ConnectionStats::crowded)) and logged now and then; nodes dial again. Default: 256, 64.
    ///
    /// Each takes a file descriptor and up to 100 KiB for at most [`NodeBuilder::arrival_timeout`], and as long again. Fewer
    /// than the nodes that start at once make them wait for each other; nodes on one machine are of one host. Zero refuses
    /// everybody.
    #[must_use]
    pub const fn max_arrivals(mut self, in_all: u16, per_host: u16) -> Self {
        self.arrivals.in_all = in_all;
        self.arrivals.per_host = per_host;
        self
    }

    /// How long the transport's handshake of a connection to this node may take, and after it the link's. Default: 5 s.
    #[must_use]
    pub const fn arrival_timeout(mut self, timeout: Duration) -> Self {
        self.arrivals.within = timeout;
        self
    }

    /// How far the wall clock of another node may be ahead of this one's: a node whose [incarnation](NodeBuilder::incarnation)
    /// is further in the future is refused. A life can only be followed by one with a higher number, so one of the far
    /// future would be the last under its name. Nodes that number their lives by anything that is higher than the wall
    /// clock in microseconds need more. Default: 10 minutes.
    #[must_use]
    pub const fn max_clock_ahead(mut self, ahead: Duration) -> Self {
        self.max_clock_ahead = ahead;
        self
    }

    fn mode(&self) -> MembershipMode {
        let links = MembershipMode::Links {
            down_after: self.down_after,
        };
        match self.membership {
            Some(Membership::External) => MembershipMode::External,
            Some(Membership::Links) => links,
            #[cfg(feature = "swim")]
            Some(Membership::Swim) => MembershipMode::Swim,
            None => {
                #[cfg(feature = "swim")]
                let links = MembershipMode::Swim;
                links
            }
        }
    }

    /// What holds after the defaults.
    fn entitled_by(&self) -> Result<Ownership, StartError> {
        let alone = self.listen.is_none() && self.voters.is_empty();
        let ownership = self.ownership.unwrap_or(if alone {
            Ownership::Trust
        } else {
            Ownership::Lease
        });
        match ownership {
            Ownership::Lease if self.voters.is_empty() => return Err(StartError::NoVoters),
            Ownership::Lease => {
                let nodes: Vec<_> = self.voters.iter().map(|name| node_id(name)).collect();
                Voters::new(&nodes).map_err(StartError::Voters)?;
            }
            _ if !self.voters.is_empty() => return Err(StartError::VotersUnused(ownership)),
            _ => {}
        }
        Ok(ownership)
    }

    fn config(&self, address: &str, ownership: Ownership) -> NodeConfig {
        let mut config = if self.listen.is_some() {
            NodeConfig::new(self.mode())
        } else {
            NodeConfig::standalone()
        };
        if self.preset == Preset::Lan {
            config = config.lan();
        }
        if self.listen.is_some() {
            let founder = self.seeds.first().is_none_or(|seed| seed == address);
            config = config.with_bootstrap(self.bootstrap.unwrap_or(founder));
        }
        if let Some(deadline) = self.leave_deadline {
            config = config.with_leave_deadline(deadline);
        }
        if let Some(nodes) = self.max_nodes {
            config = config.with_max_nodes(nodes);
        }
        if let Some((bytes, frames)) = self.window {
            config = config.with_window_bytes(bytes).with_window_frames(frames);
        }
        config
            .with_ownership(ownership)
            .with_voters(self.voters.clone())
            .with_cluster(self.cluster.clone())
            .with_seeds(self.seeds.clone())
            .with_may_lead(self.may_lead)
            .with_max_frame(self.max_frame)
            .with_max_message(self.max_message)
            .with_max_partial(self.max_message.max(512 << 20))
            .with_fragment(self.fragment)
            .with_max_handshakes(self.arrivals.in_all.max(1))
            .with_handshake_timeout(self.arrivals.within)
            .with_seed(clock::random_seed())
    }

    /// The transport, under whose name this node starts.
    fn proven(&mut self) -> Result<Arc<dyn Transport>, StartError> {
        let transport = self.transport.clone();
        let mut transport = transport.unwrap_or_else(|| self.runtime.transport());
        if let Some(tls) = &self.security {
            transport = Arc::new(TlsTransport::over(transport, tls.clone()));
        }
        if let Some(identity) = transport.identity() {
            if self.cluster.is_empty() {
                identity.cluster().clone_into(&mut self.cluster);
            }
            let same = identity.name() == self.name && identity.cluster() == self.cluster;
            if !same || identity.kind() != Peer::Node {
                return Err(StartError::Identity {
                    name: self.name.clone(),
                    cluster: self.cluster.clone(),
                    proven: identity,
                });
            }
        }
        Ok(transport)
    }

    /// Starts the node in the background of the runtime.
    ///
    /// # Errors
    /// [`StartError`]: the address is in use or not allowed, or a setting cannot work. Seeds that cannot be reached are
    /// no error: they are dialled again and again, with warnings in the log.
    pub async fn start(mut self) -> Result<Node<R>, StartError> {
        let ownership = self.entitled_by()?;
        let transport = self.proven()?;
        let listener = match &self.listen {
            None => None,
            Some(address) => {
                let listening = transport.listen(address).await;
                Some(listening.map_err(|error| listen_error(address, error))?)
            }
        };
        let bound = listener.as_ref().map(|listener| listener.address());
        let address = self.advertise.clone().or(bound).unwrap_or_default();
        let identity = Identity {
            name: self.name.clone(),
            incarnation: self.incarnation.unwrap_or_else(clock::incarnation),
            address: address.clone(),
            roles: self.roles.clone(),
        };
        let max_message = self.max_message as usize;
        let me = node_id(&self.name);
        let config = self
            .config(&address, ownership)
            .with_lanes(transport.lanes().clamp(1, 64));
        let shared = Arc::new(NodeShared::new(
            Handle::new(self.runtime.executor()),
            me,
            self.name.clone(),
            address.clone(),
            max_message,
            if ownership == Ownership::Trust {
                Lease::trust()
            } else {
                Lease::new()
            },
            Arrivals::new(self.arrivals),
        ));
        let now = shared.clock.now();
        let mut core = Core::new(now, identity, config).map_err(StartError::Config)?;
        core.handle_term_floor(now, clock::term_floor());
        shared.runtime.spawn(Arc::clone(&shared).tick());
        if let Some(listener) = listener {
            tracing::info!(node = self.name, address, "listening");
            let arrivals = Arc::clone(&shared.arrivals);
            let accept = accept(listener, arrivals, Arc::clone(&shared));
            shared.runtime.spawn(accept);
        }
        let driver = Driver::new(core, Arc::clone(&shared), transport, self.max_clock_ahead);
        shared.runtime.spawn(driver.run());
        Ok(Node::of(Arc::new(Running {
            shared,
            preset: self.preset,
        })))
    }
}

impl<R> fmt::Debug for NodeBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeBuilder")
            .field("name", &self.name)
            .field("listen", &self.listen)
            .field("seeds", &self.seeds)
            .finish_non_exhaustive()
    }
}

fn listen_error(address: &str, error: io::Error) -> StartError {
    let address = address.to_owned();
    if error.kind() == io::ErrorKind::AddrInUse {
        StartError::AddressInUse { address }
    } else {
        StartError::Listen { address, error }
    }
}
