//! SWIM inside a node: fed from links, speaks over links.

use alloc::collections::BTreeMap;
use alloc::string::String;

use bytes::Bytes;

use super::link::PeerIdentity;
use super::swim::{Swim, SwimEvent, SwimIdentity};
use super::{ConfigError, MembershipMode, NodeConfig};
use crate::membership::{MemberChange, RemovalCause};
use crate::{Incarnation, Instant, NodeId, earliest};

/// What the membership protocol wants of its node.
pub(super) enum GossipEvent {
    /// Send a packet to a linked node; it may be lost.
    Send {
        to: NodeId,
        incarnation: Incarnation,
        packet: Bytes,
    },
    /// The view changed.
    Change(MemberChange, Option<String>),
    /// This life of this node is over.
    Over(RemovalCause),
}

/// The membership protocol of a node.
#[derive(Debug)]
pub(super) struct Gossip {
    swim: Swim,
    config: NodeConfig,
    /// Linked nodes that are not members yet: they are asked for the cluster again and again.
    strangers: BTreeMap<NodeId, SwimIdentity>,
    announce_at: Instant,
}

impl Gossip {
    /// `None`: the node does not find out by itself who is in the cluster.
    pub(super) fn new(
        now: Instant,
        config: &NodeConfig,
        who: &PeerIdentity,
    ) -> Result<Option<Self>, ConfigError> {
        if config.membership != MembershipMode::Swim {
            return Ok(None);
        }
        let swim = Swim::new(
            now,
            identity(who)?,
            config.swim,
            config.seed.rotate_left(29),
        )?;
        Ok(Some(Self {
            swim,
            config: config.clone(),
            strangers: BTreeMap::new(),
            announce_at: Instant::FAR_FUTURE,
        }))
    }

    pub(super) fn set_incarnation_limit(&mut self, limit: Incarnation) {
        self.swim.set_incarnation_limit(limit);
    }

    pub(super) fn link_up(&mut self, now: Instant, peer: &PeerIdentity) {
        self.swim.handle_silence(now, peer.node, false);
        let known = self
            .swim
            .members()
            .any(|(id, _)| id.node() == peer.node && id.incarnation() == peer.incarnation);
        // A link's names are no longer than an identity's, or nobody could ever be told of the node.
        if let Ok(id) = identity(peer)
            && !known
        {
            self.swim.announce(now, id.clone());
            self.strangers.insert(peer.node, id);
            self.announce_at = now.after(self.config.dial_retry);
        }
    }

    pub(super) fn link_silent(&mut self, now: Instant, node: NodeId) {
        self.strangers.remove(&node);
        self.swim.handle_silence(now, node, true);
    }

    /// Whether the packet was one.
    pub(super) fn handle_packet(
        &mut self,
        now: Instant,
        from: NodeId,
        incarnation: Incarnation,
        packet: &[u8],
    ) -> bool {
        self.swim
            .handle_packet(now, from, incarnation, packet)
            .is_ok()
    }

    pub(super) fn begin_leave(&mut self, now: Instant) {
        self.swim.begin_leave(now);
    }

    pub(super) fn leave(&mut self, now: Instant) {
        self.swim.leave(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.announce_at <= now {
            for id in self.strangers.values() {
                self.swim.announce(now, id.clone());
            }
            self.announce_at = if self.strangers.is_empty() {
                Instant::FAR_FUTURE
            } else {
                now.after(self.config.dial_retry.saturating_mul(4))
            };
        }
        self.swim.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let announce = (!self.strangers.is_empty()).then_some(self.announce_at);
        earliest(self.swim.poll_timeout(), announce)
    }

    pub(super) fn poll(&mut self) -> Option<GossipEvent> {
        let event = match self.swim.poll_event()? {
            SwimEvent::Send {
                to,
                incarnation,
                packet,
                ..
            } => GossipEvent::Send {
                to,
                incarnation,
                packet,
            },
            SwimEvent::Change { change, identity } => {
                if let MemberChange::Member(member) = change {
                    self.strangers.remove(&member.node);
                }
                GossipEvent::Change(change, identity.map(|id| String::from(id.address())))
            }
            SwimEvent::Defunct(cause) => GossipEvent::Over(cause),
        };
        Some(event)
    }
}

fn identity(peer: &PeerIdentity) -> Result<SwimIdentity, ConfigError> {
    SwimIdentity::new(&peer.name, peer.incarnation, &peer.address, peer.roles)
}
