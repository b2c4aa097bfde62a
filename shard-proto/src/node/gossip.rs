//! Membership by SWIM, inside a node: its packets are frames of the links, its changes are the node's.

use super::link::PeerSlot;
use super::swim::{Swim, SwimEvent, SwimIdentity};
use super::{Body, ConfigError, MembershipMode, Node, NodeConfig, PeerIdentity, count};
use crate::wire::Control;
use crate::{EntityTypeId, Instant, NodeId, Term};

impl NodeConfig {
    /// The membership protocol of `who`, if it is wanted.
    pub(super) fn swim(
        &self,
        now: Instant,
        who: &PeerIdentity,
    ) -> Result<Option<Swim>, ConfigError> {
        if self.membership != MembershipMode::Swim {
            return Ok(None);
        }
        let config = self.swim.with_max_members(self.max_nodes.saturating_mul(2));
        Swim::new(now, identity_of(who)?, config, self.seed.rotate_left(31)).map(Some)
    }
}

fn identity_of(who: &PeerIdentity) -> Result<SwimIdentity, ConfigError> {
    SwimIdentity::new(&who.name, who.incarnation, &who.address, who.roles)
}

impl<B: Body> Node<B> {
    /// A link stands: its peer is asked who is in the cluster.
    pub(super) fn swim_link_up(&mut self, who: &PeerIdentity) {
        let now = self.now;
        if let Some(swim) = &mut self.swim
            && let Ok(peer) = identity_of(who)
        {
            swim.handle_silence(now, peer.node(), false);
            swim.announce(now, peer);
            self.pump_swim();
        }
    }

    /// A link broke: until it stands again its peer counts as unreachable.
    pub(super) fn swim_link_down(&mut self, node: NodeId) {
        if let Some(swim) = &mut self.swim {
            swim.handle_silence(self.now, node, true);
            self.pump_swim();
        }
    }

    /// A packet of a link's peer. Whether it could be one.
    pub(super) fn swim_packet(&mut self, peer: PeerSlot, from: NodeId, packet: &[u8]) -> bool {
        let incarnation = self.links.incarnation(peer);
        let (Some(swim), Some(incarnation)) = (&mut self.swim, incarnation) else {
            return false;
        };
        let taken = swim.handle_packet(self.now, from, incarnation, packet);
        self.pump_swim();
        taken.is_ok()
    }

    /// Expires what is due.
    pub(super) fn swim_timeout(&mut self) {
        let now = self.now;
        if let Some(swim) = &mut self.swim
            && super::is_due(swim.poll_timeout(), now)
        {
            swim.handle_timeout(now);
            self.pump_swim();
        }
    }

    /// Tells the others that this node is leaving.
    pub(super) fn swim_leaving(&mut self) {
        if let Some(swim) = &mut self.swim {
            swim.begin_leave(self.now);
            self.pump_swim();
        }
    }

    /// Tells the others that this node has left, before its links close.
    pub(super) fn swim_left(&mut self) {
        if let Some(swim) = &mut self.swim {
            swim.leave(self.now);
            self.pump_swim();
        }
    }

    /// Does what the protocol wants.
    fn pump_swim(&mut self) {
        let now = self.now;
        while let Some(event) = self.swim.as_mut().and_then(Swim::poll_event) {
            match event {
                SwimEvent::Send {
                    to,
                    incarnation,
                    packet,
                    ..
                } => {
                    // Links to members are dialed as members come; seeds find lost halves again.
                    let control = Control::Swim(&packet);
                    let sent = self.links.slot(to).is_some_and(|peer| {
                        self.links.incarnation(peer) == Some(incarnation)
                            && self
                                .links
                                .control(now, peer, EntityTypeId(0), Term::NONE, &control)
                    });
                    if !sent {
                        count(&mut self.stats.control_dropped);
                    }
                }
                SwimEvent::Change { change, identity } => {
                    let address = identity.as_ref().map(SwimIdentity::address);
                    self.handle_change(change, address);
                    self.pump_links();
                }
                SwimEvent::Defunct => self.be_removed(),
            }
        }
    }
}
