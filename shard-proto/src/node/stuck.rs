//! Data that its link has no room for.
//!
//! Messages to a node whose link is full wait in the regions, which are told of it at once. What goes back and what
//! marks a path cannot wait there; it waits here, so that a full link holds back nothing but what goes over it.

use alloc::collections::{BTreeMap, VecDeque};

use super::send::Put;
use super::types::{Kind, Outgoing};
use super::{Body, Message, Node, TypeIndex};
use crate::region::{Origin, RejectReason, ReturnError};
use crate::{Instant, NodeId, ShardId};

/// Data of one type that waits for room, in the order in which it goes to each node.
///
/// It was in the region's buffer before, or arrived and goes back: then [`Outlet::has_room`] is the bound.
#[derive(Clone, Debug)]
pub(crate) struct Stuck<T> {
    waiting: BTreeMap<NodeId, VecDeque<T>>,
}

impl<T> Stuck<T> {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether something waits for room on the link to that node: what goes there must wait behind it.
    pub(crate) fn holds(&self, node: NodeId) -> bool {
        self.waiting.contains_key(&node)
    }

    /// How much waits for room on the link to that node.
    pub(crate) fn count(&self, node: NodeId) -> usize {
        self.waiting.get(&node).map_or(0, VecDeque::len)
    }

    /// For which nodes something waits.
    #[cfg(feature = "sim")]
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.waiting.keys().copied()
    }

    #[cfg(feature = "sim")]
    pub(crate) fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn push_back(&mut self, node: NodeId, data: T) {
        self.waiting.entry(node).or_default().push_back(data);
    }

    fn push_front(&mut self, node: NodeId, data: T) {
        self.waiting.entry(node).or_default().push_front(data);
    }

    fn pop_front(&mut self, node: NodeId) -> Option<T> {
        let queue = self.waiting.get_mut(&node)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&node);
        }
        first
    }
}

/// The way of one type's data to the links: the node's, and that of the process of the simulator.
pub(crate) trait Outlet {
    type Data;

    fn receiver(data: &Self::Data) -> NodeId;

    /// `None`: there is no such type.
    fn stuck(&mut self) -> Option<&mut Stuck<Self::Data>>;

    /// Whether more may wait that arrived from that node, and goes back.
    fn has_room(&mut self, node: NodeId) -> bool;

    /// Writes data to its link, or reports it. What has to wait comes back.
    fn write(&mut self, data: Self::Data) -> Option<Self::Data>;

    /// Its receiver's life is over: takes data back into the buffer, or reports it.
    fn take_back(&mut self, data: Self::Data);

    /// Reports data that is not sent.
    fn report(&mut self, data: Self::Data);

    /// Tells the region whether it may send to that node.
    fn tell_congestion(&mut self, node: NodeId, congested: bool);

    fn next_for(&mut self, node: NodeId) -> Option<Self::Data> {
        self.stuck()?.pop_front(node)
    }

    fn holds(&mut self, node: NodeId) -> bool {
        self.stuck().is_some_and(|stuck| stuck.holds(node))
    }

    /// Writes data behind what waits for the same node, or lets it wait.
    fn write_or_wait(&mut self, data: Self::Data) {
        let node = Self::receiver(&data);
        let waits = if self.holds(node) {
            Some(data)
        } else {
            self.write(data)
        };
        if let Some(data) = waits
            && let Some(stuck) = self.stuck()
        {
            stuck.push_back(node, data);
        }
    }

    /// Sends what just arrived back to where it came from.
    fn send_back(&mut self, data: Self::Data) {
        if self.has_room(Self::receiver(&data)) {
            self.write_or_wait(data);
        } else {
            self.report(data);
        }
    }

    /// The link to a node has room again, or none: writes what waited for it. What is new may follow once that is gone.
    fn handle_congestion(&mut self, node: NodeId, congested: bool) {
        while !congested && let Some(data) = self.next_for(node) {
            if let Some(data) = self.write(data) {
                if let Some(stuck) = self.stuck() {
                    stuck.push_front(node, data);
                }
                break;
            }
        }
        let congested = congested || self.holds(node);
        self.tell_congestion(node, congested);
    }

    /// A life of a node ended: nothing waits for it any more.
    fn drop_stuck(&mut self, node: NodeId) {
        while let Some(data) = self.next_for(node) {
            self.take_back(data);
        }
    }
}

/// How much may wait to go back to a node: all that the region may have had to send back, what arrives from a peer that is
/// not told yet, and the markers of paths to it, which wait among it. Who sends more acknowledges nothing.
pub(crate) const fn most_waiting(buffer: u32, window: u32, shards: u32) -> usize {
    // A path that is left while it is flushed is marked again.
    let markers = shards.saturating_mul(2);
    let waiting = buffer.saturating_add(window.saturating_mul(8));
    waiting.saturating_add(markers) as usize
}

/// One type of a node.
struct TypeOutlet<'a, B: Body> {
    node: &'a mut Node<B>,
    now: Instant,
    ty: TypeIndex,
}

impl<B: Body> TypeOutlet<'_, B> {
    fn kind(&mut self) -> Option<&mut Kind<B>> {
        self.node.types.get_mut(self.ty)
    }

    fn reject(
        &mut self,
        shard: ShardId,
        origin: Origin,
        reason: RejectReason,
        message: Message<B>,
    ) {
        let put = self.node.reject(self.ty, shard, origin, reason, message);
        if let Put::Done(command) = put {
            self.node.out.extend(command);
        }
    }
}

impl<B: Body> Outlet for TypeOutlet<'_, B> {
    type Data = Outgoing<B>;

    fn receiver(data: &Outgoing<B>) -> NodeId {
        data.to()
    }

    fn stuck(&mut self) -> Option<&mut Stuck<Outgoing<B>>> {
        Some(&mut self.kind()?.stuck)
    }

    fn has_room(&mut self, node: NodeId) -> bool {
        let config = &self.node.config;
        let frames = config.window_frames;
        // And the longest messages that it had under way.
        let longest = self.node.links.longest(node).saturating_mul(2);
        let bytes = config
            .window_bytes
            .saturating_mul(8)
            .saturating_add(longest);
        self.kind().is_none_or(|kind| {
            let most = most_waiting(kind.config.buffer, frames, kind.config.shard_count);
            kind.stuck.count(node) < most && !kind.scales.is_over_by(bytes as usize)
        })
    }

    fn write(&mut self, data: Outgoing<B>) -> Option<Outgoing<B>> {
        match self.node.put(self.now, self.ty, data) {
            Put::Done(command) => {
                self.node.out.extend(command);
                None
            }
            Put::Wait(data) => Some(data),
        }
    }

    fn take_back(&mut self, data: Outgoing<B>) {
        let Outgoing::Envelope {
            to,
            shard,
            epoch,
            message,
        } = data
        else {
            return self.report(data);
        };
        let now = self.now;
        let taken = match self.kind() {
            Some(kind) => kind.region.take_back(now, to, shard, epoch, message),
            None => Err(ReturnError::Stopped(message)),
        };
        if let Err(error) = taken {
            let message = error.into_payload();
            self.reject(shard, Origin::Local, RejectReason::PathGivenUp, message);
        }
    }

    fn report(&mut self, data: Outgoing<B>) {
        match data {
            Outgoing::Envelope { shard, message, .. } => {
                self.reject(shard, Origin::Local, RejectReason::PathGivenUp, message);
            }
            Outgoing::Return {
                to, shard, message, ..
            } => {
                let origin = Origin::Remote(to);
                self.reject(shard, origin, RejectReason::OriginEnded, message);
            }
            Outgoing::Flush { .. } | Outgoing::Flushed { .. } => {}
        }
    }

    fn tell_congestion(&mut self, node: NodeId, congested: bool) {
        let now = self.now;
        if let Some(kind) = self.node.types.touch(self.ty) {
            kind.region.handle_congestion(now, node, congested);
        }
    }
}

impl<B: Body> Node<B> {
    fn outlet(&mut self, now: Instant, ty: TypeIndex) -> TypeOutlet<'_, B> {
        TypeOutlet {
            node: self,
            now,
            ty,
        }
    }

    /// See [`Outlet::write_or_wait`].
    pub(super) fn put_or_wait(&mut self, now: Instant, ty: TypeIndex, outgoing: Outgoing<B>) {
        self.outlet(now, ty).write_or_wait(outgoing);
        // The regions hear of a full link before they are asked for more.
        self.pump_links();
    }

    /// See [`Outlet::send_back`].
    pub(super) fn put_back(&mut self, now: Instant, ty: TypeIndex, outgoing: Outgoing<B>) {
        self.outlet(now, ty).send_back(outgoing);
        self.pump_links();
    }

    /// See [`Outlet::handle_congestion`].
    pub(super) fn handle_congestion(&mut self, node: NodeId, congested: bool) {
        let now = self.now;
        for ty in self.types.indices() {
            self.outlet(now, ty).handle_congestion(node, congested);
        }
    }

    /// See [`Outlet::drop_stuck`].
    pub(super) fn drop_stuck(&mut self, node: NodeId) {
        let now = self.now;
        for ty in self.types.indices() {
            self.outlet(now, ty).drop_stuck(node);
        }
    }
}
