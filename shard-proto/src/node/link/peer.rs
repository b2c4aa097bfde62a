//! The other nodes: a slot for each, and the pair of this life and its life.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};

use bytes::BytesMut;
use hashbrown::HashMap;

use super::lane::{Lane, Limits};
use super::{
    Flow, FrameSlot, LinkConfig, LinkFault, PeerIdentity, PeerSlot, Unacked, UnackedFrame,
};
use crate::node::LinkId;
use crate::{Incarnation, Instant, NodeId};

/// A node, and the pair with its present life.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    /// The membership service names this life.
    pub(super) member: bool,
    /// It said that it leaves.
    pub(super) leaving: bool,
    /// The attached connection.
    pub(super) link: Option<LinkId>,
    /// The newest order that was given out when this side last committed.
    pub(super) committed: u64,
    /// When the attached connection came up.
    pub(super) up_at: Instant,
    pub(super) identity: Option<Box<PeerIdentity>>,
    /// At least one. As many as this side has until the first handshake, then as many as both have, for good.
    pub(super) lanes: Vec<Lane>,
    /// They are what both sides agreed on.
    pub(super) agreed: bool,
    /// The lane whose turn it is on a connection with one stream.
    pub(super) turn: usize,
    /// When what was accepted must be acknowledged; the far future if nothing is owed.
    pub(super) ack_at: Instant,
    /// It must be now.
    pub(super) ack_due: bool,
    pub(super) limits: Limits,
    pub(super) congested: bool,
    /// What the caller knows of `congested`.
    pub(super) congestion_told: bool,
    /// It is in the list of those whose congestion changed.
    pub(super) congestion_listed: bool,
}

impl Peer {
    pub(super) fn new(node: NodeId, incarnation: Incarnation, config: &LinkConfig) -> Self {
        Self {
            node,
            incarnation,
            member: false,
            leaving: false,
            link: None,
            committed: 0,
            up_at: Instant::ZERO,
            identity: None,
            lanes: new_lanes(config.lanes()),
            agreed: false,
            turn: 0,
            ack_at: Instant::FAR_FUTURE,
            ack_due: false,
            limits: config.limits(),
            congested: false,
            congestion_told: false,
            congestion_listed: false,
        }
    }

    /// Where it said it listens.
    pub(super) fn address(&self) -> Option<&String> {
        self.identity.as_ref().map(|identity| &identity.address)
    }

    /// Nothing would be lost if the pair were forgotten.
    pub(super) fn is_unused(&self) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.all(|lane| lane.send.is_unused() && lane.recv.expected == 0)
    }

    /// Whether the peer has acknowledged everything.
    pub(super) fn is_flushed(&self) -> bool {
        self.lanes.iter().all(|lane| lane.send.is_flushed())
    }

    /// Whether the peer does not know of something that was accepted.
    pub(super) fn owes(&self) -> bool {
        self.lanes.iter().any(|lane| lane.recv.owes())
    }

    /// Whether data waits to be given to a connection.
    pub(super) fn has_more(&self) -> bool {
        let fragment = self.limits.fragment;
        self.lanes.iter().any(|lane| lane.send.has_more(fragment))
    }

    /// The first handshake agrees on lanes and limits: what waits moves to where it belongs. Nothing was sent so far.
    pub(super) fn agree(&mut self, lanes: u8, limits: Limits) -> Result<(), LinkFault> {
        if self.agreed {
            return if self.lanes.len() == usize::from(lanes) {
                Ok(())
            } else {
                Err(LinkFault::Handshake)
            };
        }
        if limits != self.limits || self.lanes.len() != usize::from(lanes) {
            self.lanes = self.moved(lanes, limits)?;
        }
        self.agreed = true;
        Ok(())
    }

    #[cold]
    fn moved(&mut self, lanes: u8, limits: Limits) -> Result<Vec<Lane>, LinkFault> {
        let mut new = new_lanes(lanes);
        for UnackedFrame {
            mut header, body, ..
        } in Unacked::new(&mut self.lanes)
        {
            let Some(flow) = Flow::of(&header, &body) else {
                continue;
            };
            let at = flow.lane(new.len());
            let Some(lane) = new.get_mut(usize::from(at)) else {
                continue;
            };
            header.flags = header.flags.on_lane(at);
            header.version = limits.version;
            let write = |out: &mut BytesMut, slot: FrameSlot| {
                out.extend_from_slice(&header.to_bytes());
                out.extend_from_slice(&slot.seq.to_le_bytes());
                out.extend_from_slice(body.get(8..).unwrap_or_default());
                Ok::<_, core::convert::Infallible>(())
            };
            lane.send
                .push(at, flow, body.len(), limits, write)
                .map_err(|_| LinkFault::FrameLimit)?;
        }
        Ok(new)
    }
}

fn new_lanes(count: u8) -> Vec<Lane> {
    (0..count.max(1)).map(|_| Lane::default()).collect()
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    peer: Option<Peer>,
}

/// Ids of nodes are hashes of their names.
#[derive(Debug, Default)]
pub(super) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table takes its bits from both ends.
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}

type ByNode<T> = HashMap<NodeId, T, BuildHasherDefault<NodeHasher>>;

/// The table of peers, and the lives that ended.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: Vec<Slot>,
    free: Vec<u16>,
    by_node: ByNode<u16>,
    ended: ByNode<Incarnation>,
    max: u16,
}

/// Nodes whose ended lives are remembered.
const MAX_ENDED: usize = 65_536;

impl Peers {
    pub(super) fn new(max: u16) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn get(&self, slot: PeerSlot) -> Option<&Peer> {
        let entry = self.slots.get(usize::from(slot.index))?;
        if entry.generation != slot.generation {
            return None;
        }
        entry.peer.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: PeerSlot) -> Option<&mut Peer> {
        let entry = self.slots.get_mut(usize::from(slot.index))?;
        if entry.generation != slot.generation {
            return None;
        }
        entry.peer.as_mut()
    }

    #[inline]
    pub(super) fn slot(&self, node: NodeId) -> Option<PeerSlot> {
        let index = *self.by_node.get(&node)?;
        let entry = self.slots.get(usize::from(index))?;
        Some(PeerSlot {
            index,
            generation: entry.generation,
        })
    }

    /// Puts a peer in a free slot. `None` if there is none.
    pub(super) fn insert(&mut self, peer: Peer) -> Option<PeerSlot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u16::try_from(self.slots.len()).ok()?;
                if index >= self.max {
                    return None;
                }
                self.slots.push(Slot::default());
                index
            }
        };
        let entry = self.slots.get_mut(usize::from(index))?;
        self.by_node.insert(peer.node, index);
        entry.peer = Some(peer);
        Some(PeerSlot {
            index,
            generation: entry.generation,
        })
    }

    pub(super) fn remove(&mut self, slot: PeerSlot) -> Option<Peer> {
        let entry = self.slots.get_mut(usize::from(slot.index))?;
        if entry.generation != slot.generation {
            return None;
        }
        let peer = entry.peer.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.by_node.remove(&peer.node);
        self.free.push(slot.index);
        Some(peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerSlot, &Peer)> {
        self.slots.iter().enumerate().filter_map(|(index, entry)| {
            let slot = PeerSlot {
                index: u16::try_from(index).ok()?,
                generation: entry.generation,
            };
            Some((slot, entry.peer.as_ref()?))
        })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.slots
            .iter_mut()
            .filter_map(|entry| entry.peer.as_mut())
    }

    /// This life of the node, and every earlier one, is over for good.
    pub(super) fn end(&mut self, node: NodeId, incarnation: Incarnation) {
        if let Some(ended) = self.ended.get_mut(&node) {
            *ended = (*ended).max(incarnation);
            return;
        }
        if self.ended.len() >= MAX_ENDED {
            // The oldest starts are the least likely to come back. A sixteenth at a time, so that a flood of nodes
            // costs little for each.
            let mut starts: Vec<Incarnation> = self.ended.values().copied().collect();
            starts.sort_unstable();
            if let Some(&oldest) = starts.get(MAX_ENDED / 16) {
                self.ended.retain(|_, ended| *ended > oldest);
            }
        }
        self.ended.insert(node, incarnation);
    }

    /// The newest life that is known, if it is newer than `incarnation` or that life is over.
    pub(super) fn newer(&self, node: NodeId, incarnation: Incarnation) -> Option<Incarnation> {
        let ended = self.ended.get(&node).copied();
        let present = self
            .slot(node)
            .and_then(|slot| self.get(slot))
            .map(|peer| peer.incarnation);
        let over = ended.is_some_and(|ended| incarnation <= ended)
            || present.is_some_and(|present| incarnation < present);
        over.then(|| ended.max(present)).flatten()
    }
}
