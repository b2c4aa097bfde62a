//! Handshakes, and which of two connections survives.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

use super::connection::Phase;
use super::peer::Peer;
use super::{CloseReason, LinkEvent, LinkFault, Links, PeerIdentity, PeerSlot};
use crate::hash;
use crate::node::{Authenticated, LinkId};
use crate::wire::control::{Hello, Refusal, Welcome};
use crate::wire::header::{MAX_VERSION, MIN_VERSION};
use crate::wire::{Control, Header, VersionMismatch, negotiate};
use crate::{Incarnation, NodeId};

/// What a side does with a connection whose handshake is complete but for its consent.
enum Verdict {
    Attach,
    Drop,
}

impl Links {
    /// Says `Hello`.
    pub(super) fn greet(&mut self, link: LinkId) {
        let dialer = self
            .connections
            .get(link)
            .is_some_and(|connection| connection.dialed);
        let me = self.me.clone();
        let hello = Hello {
            min_version: MIN_VERSION,
            max_version: MAX_VERSION,
            cluster: self.config.cluster,
            voters: self.config.voters,
            node: me.node,
            incarnation: me.incarnation,
            name: &me.name,
            address: &me.address,
            roles: me.roles,
            lanes: self.config.lanes(),
            max_frame: self.config.max_frame,
            max_message: self.config.max_message,
            dialer,
        };
        self.write(link, &Control::Hello(hello));
    }

    /// Says `Welcome`: what this side expects next, per lane.
    fn welcome(&mut self, link: LinkId, version: u8, incarnation: Incarnation, expected: &[u64]) {
        let expected: Vec<u8> = expected
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        let welcome = Welcome {
            version,
            incarnation,
            expected: &expected,
        };
        self.write(link, &Control::Welcome(welcome));
    }

    /// A frame on a connection that is attached to no pair yet.
    pub(super) fn handshake_frame(
        &mut self,
        link: LinkId,
        header: Header,
        body: &[u8],
    ) -> Result<(), LinkFault> {
        let Some(connection) = self.connections.get(link) else {
            return Err(LinkFault::Unknown);
        };
        let phase = connection.phase;
        let control = Control::decode(header.kind, body).map_err(|_| LinkFault::Handshake)?;
        match (phase, control) {
            (Phase::Accepted, Control::Hello(hello)) if hello.dialer => {
                self.read_hello(link, &hello)?;
                self.offer(link)
            }
            (Phase::Dialed, Control::Hello(hello)) if !hello.dialer => {
                self.read_hello(link, &hello)?;
                if let Some(connection) = self.connections.get_mut(link) {
                    connection.phase = Phase::Greeted;
                }
                Ok(())
            }
            (Phase::Greeted | Phase::Offered, Control::Welcome(welcome)) => {
                self.read_welcome(link, &welcome)
            }
            (Phase::Dialed | Phase::Greeted | Phase::Offered, Control::Refused(refusal)) => {
                Err(self.refused_by_peer(link, refusal))
            }
            _ => Err(LinkFault::Handshake),
        }
    }

    pub(super) fn refused_by_peer(&mut self, link: LinkId, refusal: Refusal) -> LinkFault {
        if refusal == Refusal::Myself {
            self.dialer.myself(link);
        }
        // That another connection survives is nothing to report.
        if refusal != Refusal::Duplicate {
            self.stats.refused_by_peers = self.stats.refused_by_peers.saturating_add(1);
            let node = self.connections.get(link).and_then(|c| c.node());
            self.events.push_back(LinkEvent::Refused {
                by_peer: true,
                node,
                refusal,
            });
        }
        LinkFault::RefusedByPeer(refusal)
    }

    /// Says `Refused`; the caller closes the connection.
    fn refuse(&mut self, link: LinkId, node: Option<NodeId>, refusal: Refusal) -> LinkFault {
        self.blame = node;
        self.write(link, &Control::Refused(refusal));
        self.stats.refused = self.stats.refused.saturating_add(1);
        if refusal != Refusal::Myself {
            self.events.push_back(LinkEvent::Refused {
                by_peer: false,
                node,
                refusal,
            });
        }
        LinkFault::Refused(refusal)
    }

    /// Takes note of who the other side is, or refuses it.
    fn read_hello(&mut self, link: LinkId, hello: &Hello<'_>) -> Result<(), LinkFault> {
        let Some(connection) = self.connections.get(link) else {
            return Err(LinkFault::Unknown);
        };
        let proven = connection.authenticated.as_ref();
        let named = hash::node_id(hello.name);
        let node = match proven {
            Some(proven) => (!proven.client).then(|| hash::node_id(&proven.name)),
            None => (named == hello.node).then_some(named),
        };
        let dialed = connection.dialed;
        let version = match self.examine(hello, proven, dialed) {
            Ok(version) => version,
            Err(refusal) => {
                // Who says that a life is over matters to the one that lives it.
                if !dialed && matches!(refusal, Refusal::Incarnation { .. }) {
                    self.greet(link);
                }
                let fault = self.refuse(link, node, refusal);
                let Refusal::Version { min, max } = refusal else {
                    return Err(fault);
                };
                return Err(LinkFault::Version(VersionMismatch {
                    ours: (min, max),
                    theirs: (hello.min_version, hello.max_version),
                }));
            }
        };
        let limits = self
            .config
            .limits_with(version, hello.max_frame, hello.max_message);
        let lanes = hello.lanes.min(self.config.lanes());
        if let Some(connection) = self.connections.get_mut(link) {
            connection.version = version;
            connection.limits = limits;
            connection.lanes = lanes;
            connection.who = Some((hello.node, hello.incarnation));
            connection.identity = Some(Box::new(PeerIdentity {
                node: hello.node,
                incarnation: hello.incarnation,
                name: hello.name.to_owned(),
                address: hello.address.to_owned(),
                roles: hello.roles,
            }));
        }
        self.dialer.found(link, hello.node);
        let streams = self
            .connections
            .get(link)
            .map_or(1, |connection| connection.streams);
        if streams > 1 && streams <= lanes {
            return Err(LinkFault::Lane);
        }
        Ok(())
    }

    fn examine(
        &self,
        hello: &Hello<'_>,
        proven: Option<&Authenticated>,
        dialed: bool,
    ) -> Result<u8, Refusal> {
        let ours = (MIN_VERSION, MAX_VERSION);
        let theirs = (hello.min_version, hello.max_version);
        let version = negotiate(ours, theirs).map_err(|_| Refusal::Version {
            min: MIN_VERSION,
            max: MAX_VERSION,
        })?;
        if proven.is_some_and(|proven| proven.client) {
            return Err(Refusal::Client);
        }
        let proven_cluster = proven.map_or(hello.cluster, |proven| proven.cluster);
        if [hello.cluster, proven_cluster] != [self.config.cluster; 2] {
            return Err(Refusal::Cluster);
        }
        if hello.voters != self.config.voters {
            return Err(Refusal::Voters {
                ours: self.config.voters,
                theirs: hello.voters,
            });
        }
        let named = hash::node_id(hello.name);
        let is_other = |name: &str| name != hello.name;
        if hello.node != named || proven.is_some_and(|proven| is_other(&proven.name)) {
            return Err(Refusal::Identity);
        }
        // Names are chosen by people, and two of them may have one id: the first keeps it.
        let known = self.peers.slot(named).and_then(|slot| self.peers.get(slot));
        let known = known.and_then(|peer| peer.identity.as_ref());
        if known.is_some_and(|known| is_other(&known.name)) {
            return Err(Refusal::Identity);
        }
        if hello.node == self.me.node {
            return Err(Refusal::Myself);
        }
        if hello.lanes == 0 {
            return Err(Refusal::Handshake);
        }
        if hello.incarnation > self.limit {
            return Err(Refusal::Future { limit: self.limit });
        }
        // A dialer lets the other side speak first, which may refuse it for the same reason.
        if !dialed {
            self.admits(hello.node, hello.incarnation)?;
        }
        let links = self
            .connections
            .iter()
            .filter(|other| {
                other.who == Some((hello.node, hello.incarnation)) && other.phase != Phase::Closing
            })
            .count();
        if links >= usize::from(self.config.max_links_per_peer) {
            return Err(Refusal::Full);
        }
        Ok(version)
    }

    /// Whether that life of a node is neither over nor older than the present one.
    fn admits(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        match self.peers.newer(node, incarnation) {
            Some(newest) => Err(Refusal::Incarnation { newest }),
            None => Ok(()),
        }
    }

    /// The pair with that life of a node, if there is one.
    fn pair(&self, who: (NodeId, Incarnation)) -> Option<(PeerSlot, &Peer)> {
        let slot = self.peers.slot(who.0)?;
        let peer = self.peers.get(slot)?;
        (peer.incarnation == who.1).then_some((slot, peer))
    }

    fn offer(&mut self, link: LinkId) -> Result<(), LinkFault> {
        let who = self.connections.get(link).and_then(|c| c.who);
        let Some(who) = who else {
            return Err(LinkFault::Handshake);
        };
        let pair = self.pair(who).map(|(_, peer)| peer);
        let attached = pair.and_then(|peer| peer.link);
        let lanes = self.connections.get(link).map_or(1, |c| c.lanes);
        let expected = expected(pair, lanes);
        let order = self.next_order();
        let mut version = MIN_VERSION;
        if let Some(connection) = self.connections.get_mut(link) {
            version = connection.version;
            connection.phase = Phase::Offered;
            connection.order = order;
            connection.offered.clone_from(&expected);
            connection.offered_over = attached;
        }
        self.greet(link);
        self.welcome(link, version, who.1, &expected);
        Ok(())
    }

    /// An offer, or a commit.
    fn read_welcome(&mut self, link: LinkId, welcome: &Welcome<'_>) -> Result<(), LinkFault> {
        let Some(connection) = self.connections.get(link) else {
            return Err(LinkFault::Unknown);
        };
        let (dialed, version) = (connection.dialed, connection.version);
        let (lanes, max_body) = (connection.lanes, connection.limits.max_body);
        let next: Option<Vec<u64>> = (0..lanes).map(|lane| welcome.expected_on(lane)).collect();
        let (Some(who), Some(next)) = (connection.who, next) else {
            return Err(LinkFault::Handshake);
        };
        if welcome.version != version || welcome.incarnation != self.me.incarnation {
            return Err(LinkFault::Handshake);
        }
        if let Err(refusal) = self.admits(who.0, who.1) {
            return Err(self.refuse(link, Some(who.0), refusal));
        }
        if let Verdict::Drop = self.judge(link, who) {
            self.write(link, &Control::Refused(Refusal::Duplicate));
            self.close(link, CloseReason::Superseded);
            return Ok(());
        }
        match self.pair(who) {
            Some((_, peer)) => {
                for (index, lane) in peer.lanes.iter().enumerate() {
                    let next = next.get(index).copied().unwrap_or(0);
                    lane.send.check(next, max_body)?;
                }
            }
            None => {
                if let Some(&next) = next.iter().find(|next| **next != 0) {
                    return Err(LinkFault::Ack { next, sent: 0 });
                }
            }
        }
        let Some(slot) = self.begin_pair(who.0, who.1) else {
            return Err(self.refuse(link, Some(who.0), Refusal::Full));
        };
        let newest = self.order;
        if dialed && let Some(peer) = self.peers.get_mut(slot) {
            peer.committed = newest;
            let expected = expected(Some(peer), lanes);
            if let Some(connection) = self.connections.get_mut(link) {
                connection.offered.clone_from(&expected);
            }
            self.welcome(link, version, who.1, &expected);
        }
        self.attach(link, slot, &next)
    }

    /// Whether a connection is attached to its pair; see the docs of the module above.
    fn judge(&self, link: LinkId, who: (NodeId, Incarnation)) -> Verdict {
        let (Some(connection), Some((_, peer))) = (self.connections.get(link), self.pair(who))
        else {
            return Verdict::Attach;
        };
        let lower = self.me.node < who.0;
        let attached = peer
            .link
            .and_then(|link| Some((link, self.connections.get(link)?)));
        let attach = match (connection.dialed, attached) {
            (true, _) if connection.order <= peer.committed => false,
            (true, Some((_, attached))) => lower && !attached.dialed,
            (true, None) => {
                lower
                    || !self
                        .connections
                        .iter()
                        .any(|other| other.phase == Phase::Offered && other.who == Some(who))
            }
            (false, None) => true,
            (false, Some((_, attached))) if !attached.dialed => connection.order > attached.order,
            (false, Some((attached, _))) => !lower || connection.offered_over == Some(attached),
        };
        if attach {
            Verdict::Attach
        } else {
            Verdict::Drop
        }
    }
}

/// What is expected next on each lane.
fn expected(pair: Option<&Peer>, lanes: u8) -> Vec<u64> {
    let number = |lane| {
        pair.and_then(|peer| peer.lanes.get(usize::from(lane)))
            .map_or(0, |lane| lane.recv.expected)
    };
    (0..lanes).map(number).collect()
}
