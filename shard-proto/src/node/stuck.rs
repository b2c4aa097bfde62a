//! Data that its link has no room for.
//!
//! Messages to a node whose link is full wait in the regions, which are told of it at once. What goes back and what
//! marks a path cannot wait there; it waits here, so that a full link holds back nothing but what goes over it.

use alloc::collections::{BTreeMap, VecDeque};

use super::send::Put;
use super::types::Outgoing;
use super::{Body, Node, NodeCommand, TypeIndex};
use crate::region::{Origin, RejectReason};
use crate::{Instant, NodeId};

/// Data of one type that waits for room, in the order in which it goes to each node.
///
/// It was in the region's buffer before, or arrived and goes back: then [`Stuck::has_room`] is the bound.
pub(super) struct Stuck<B> {
    waiting: BTreeMap<NodeId, VecDeque<Outgoing<B>>>,
}

impl<B> Stuck<B> {
    pub(super) const fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether something waits for room on the link to that node: what goes there must wait behind it.
    pub(super) fn holds(&self, node: NodeId) -> bool {
        self.waiting.contains_key(&node)
    }

    fn has_room(&self, node: NodeId, limit: u32) -> bool {
        let queue = self.waiting.get(&node);
        queue.is_none_or(|queue| queue.len() < limit as usize)
    }

    fn push_back(&mut self, outgoing: Outgoing<B>) {
        let queue = self.waiting.entry(outgoing.to()).or_default();
        queue.push_back(outgoing);
    }

    fn push_front(&mut self, outgoing: Outgoing<B>) {
        let queue = self.waiting.entry(outgoing.to()).or_default();
        queue.push_front(outgoing);
    }

    fn pop_front(&mut self, node: NodeId) -> Option<Outgoing<B>> {
        let queue = self.waiting.get_mut(&node)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&node);
        }
        first
    }
}

impl<B: Body> Node<B> {
    /// Writes data behind what waits for the same node, or lets it wait.
    pub(super) fn put_or_wait(
        &mut self,
        now: Instant,
        ty: TypeIndex,
        outgoing: Outgoing<B>,
    ) -> Option<NodeCommand<B>> {
        let waits = match self.types.get(ty) {
            Some(kind) if kind.stuck.holds(outgoing.to()) => Put::Wait(outgoing),
            _ => self.put(now, ty, outgoing),
        };
        let command = match waits {
            Put::Done(command) => command,
            Put::Wait(outgoing) => {
                if let Some(kind) = self.types.get_mut(ty) {
                    kind.stuck.push_back(outgoing);
                }
                None
            }
        };
        // The regions hear of a full link before they are asked for more.
        self.pump_links();
        command
    }

    /// Sends what just arrived back to where it came from.
    pub(super) fn put_back(&mut self, now: Instant, ty: TypeIndex, outgoing: Outgoing<B>) {
        // All that the region may have had to send back, and what arrives from a peer that is not told yet. Who sends more
        // acknowledges nothing.
        let arriving = self.config.window_frames.saturating_mul(8);
        let bytes = self.config.window_bytes.saturating_mul(8) as usize;
        let has_room = self.types.get(ty).is_none_or(|kind| {
            let limit = kind.config.buffer.saturating_add(arriving);
            kind.stuck.has_room(outgoing.to(), limit) && !kind.scales.is_over_by(bytes)
        });
        let command = if has_room {
            self.put_or_wait(now, ty, outgoing)
        } else {
            self.report(ty, outgoing)
        };
        self.out.extend(command);
    }

    /// The link to a node has room again, or none: writes what waited for it. What is new may follow once that is gone.
    pub(super) fn handle_congestion(&mut self, node: NodeId, congested: bool) {
        let now = self.now;
        for ty in self.types.indices() {
            while !congested
                && let Some(kind) = self.types.get_mut(ty)
                && let Some(outgoing) = kind.stuck.pop_front(node)
            {
                match self.put(now, ty, outgoing) {
                    Put::Done(command) => self.out.extend(command),
                    Put::Wait(outgoing) => {
                        if let Some(kind) = self.types.get_mut(ty) {
                            kind.stuck.push_front(outgoing);
                        }
                        break;
                    }
                }
            }
            if let Some(kind) = self.types.touch(ty) {
                let congested = congested || kind.stuck.holds(node);
                kind.region.handle_congestion(now, node, congested);
            }
        }
    }

    /// A life of a node ended: nothing waits for it any more.
    pub(super) fn drop_stuck(&mut self, node: NodeId) {
        let now = self.now;
        for ty in self.types.indices() {
            while let Some(kind) = self.types.get_mut(ty)
                && let Some(outgoing) = kind.stuck.pop_front(node)
            {
                let command = match outgoing {
                    Outgoing::Envelope {
                        to,
                        shard,
                        epoch,
                        message,
                    } => match kind.region.take_back(now, to, shard, epoch, message) {
                        Ok(()) => None,
                        Err(error) => self.report(
                            ty,
                            Outgoing::Envelope {
                                to,
                                shard,
                                epoch,
                                message: error.into_payload(),
                            },
                        ),
                    },
                    outgoing => self.report(ty, outgoing),
                };
                self.out.extend(command);
            }
        }
    }

    /// Reports a message that is not sent any more.
    fn report(&mut self, ty: TypeIndex, outgoing: Outgoing<B>) -> Option<NodeCommand<B>> {
        let (shard, origin, reason, message) = match outgoing {
            Outgoing::Envelope { shard, message, .. } => {
                (shard, Origin::Local, RejectReason::PathGivenUp, message)
            }
            Outgoing::Return {
                to, shard, message, ..
            } => (
                shard,
                Origin::Remote(to),
                RejectReason::OriginEnded,
                message,
            ),
            Outgoing::Flush { .. } | Outgoing::Flushed { .. } => return None,
        };
        match self.reject(ty, shard, origin, reason, message) {
            Put::Done(command) => command,
            Put::Wait(_) => None,
        }
    }
}
