//! The way of a process's data to the links, and what waits there for room, by the rules of the node.

use alloc::vec::Vec;

use super::{Body, DataFrame, Kind, Machine, Outlet, Sink, Stuck, Unsent};
use crate::region::{Origin, RejectReason, ReturnError};
use crate::sim::{Message, Store};
use crate::wire::ReturnReason;
use crate::{Epoch, Instant, NodeId, ShardId};

/// One type of a process, and the world around it.
pub(super) struct KindOutlet<'a, St: Store, S> {
    kind: &'a mut Kind<St>,
    now: Instant,
    me: NodeId,
    sink: &'a mut S,
}

impl<St: Store> Kind<St> {
    pub(super) fn outlet<'a, S: Sink>(
        &'a mut self,
        now: Instant,
        me: NodeId,
        sink: &'a mut S,
    ) -> KindOutlet<'a, St, S> {
        KindOutlet {
            kind: self,
            now,
            me,
            sink,
        }
    }
}

impl<St: Store> Machine<St> {
    /// Whoever keeps the links ends that to a life that is over: what waited for room on it is not its successor's.
    pub fn drop_stuck(&mut self, now: Instant, node: NodeId, sink: &mut impl Sink) {
        let now = self.enter(now, sink);
        for kind in &mut self.kinds {
            kind.outlet(now, self.me.node, sink).drop_stuck(node);
        }
    }

    pub(super) fn drop_all_stuck(&mut self, sink: &mut impl Sink) {
        for kind in &mut self.kinds {
            let nodes: Vec<_> = kind.stuck.nodes().collect();
            for node in nodes {
                kind.outlet(self.now, self.me.node, sink).drop_stuck(node);
            }
        }
    }
}

impl<St: Store, S: Sink> KindOutlet<'_, St, S> {
    /// Gives a message to an entity here; its caller is told if that has no room.
    pub(super) fn deliver(
        &mut self,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
    ) {
        if matches!(origin, Origin::Remote(_)) {
            self.kind.arrived += 1;
        }
        if !self.sink.deliver(ty, shard, epoch, origin, message) {
            self.refuse(ty, shard, epoch, origin, message);
        }
    }

    /// Tells the caller of a message, where it is, that there is no room for it.
    pub(super) fn refuse(
        &mut self,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
    ) {
        match origin {
            Origin::Local => {
                let reason = RejectReason::BufferFull;
                self.sink.reject(ty, shard, origin, reason, message);
            }
            Origin::Remote(node) => {
                let body = Body::Return(ReturnReason::Full, message);
                let back = DataFrame {
                    ty,
                    shard,
                    epoch,
                    body,
                };
                self.send_back((node, back));
            }
        }
    }

    /// What a region sends to its own process. Its own messages never take this way: a region delivers them.
    fn loop_back(&mut self, frame: DataFrame) {
        let DataFrame { shard, epoch, .. } = frame;
        let (now, me) = (self.now, self.me);
        self.kind.dirty = true;
        match frame.body {
            Body::Envelope(message) | Body::Return(_, message) => {
                let (origin, reason) = (Origin::Local, RejectReason::PathGivenUp);
                self.sink.reject(frame.ty, shard, origin, reason, message);
            }
            Body::Flush(token) => self.kind.region.handle_flush(now, me, shard, epoch, token),
            Body::Flushed(token) => {
                self.kind.region.handle_flushed(now, me, shard, token);
            }
        }
    }
}

impl<St: Store, S: Sink> Outlet for KindOutlet<'_, St, S> {
    type Data = (NodeId, DataFrame);

    fn receiver((to, _): &Self::Data) -> NodeId {
        *to
    }

    fn stuck(&mut self) -> Option<&mut Stuck<Self::Data>> {
        Some(&mut self.kind.stuck)
    }

    fn has_room(&mut self, node: NodeId) -> bool {
        self.kind.stuck.count(node) < self.kind.most_waiting
    }

    fn write(&mut self, (to, frame): Self::Data) -> Option<Self::Data> {
        if to == self.me {
            self.loop_back(frame);
            return None;
        }
        match (self.sink.data(to, frame), frame.body) {
            (Ok(()), Body::Envelope(_)) => self.kind.sent += 1,
            (Ok(()), Body::Return(..)) => self.kind.arrived += 1,
            (Ok(()), _) => {}
            (Err(Unsent::Full), _) => return Some((to, frame)),
            (Err(Unsent::NoPeer), _) => self.report((to, frame)),
        }
        None
    }

    fn take_back(&mut self, (to, frame): Self::Data) {
        let DataFrame {
            ty, shard, epoch, ..
        } = frame;
        let Body::Envelope(message) = frame.body else {
            return self.report((to, frame));
        };
        self.kind.dirty = true;
        let taken = (self.kind.region).take_back(self.now, to, shard, epoch, message);
        let reason = match taken {
            Ok(()) => return,
            Err(ReturnError::Full(_)) => RejectReason::BufferFull,
            Err(ReturnError::Stopped(_)) => RejectReason::Stopped,
            Err(_) => RejectReason::PathGivenUp,
        };
        self.sink.reject(ty, shard, Origin::Local, reason, message);
    }

    fn report(&mut self, (to, frame): Self::Data) {
        let (origin, reason, message) = match frame.body {
            Body::Envelope(message) => (Origin::Local, RejectReason::PathGivenUp, message),
            Body::Return(_, message) => (Origin::Remote(to), RejectReason::OriginEnded, message),
            Body::Flush(_) | Body::Flushed(_) => return,
        };
        self.sink
            .reject(frame.ty, frame.shard, origin, reason, message);
    }

    fn tell_congestion(&mut self, node: NodeId, congested: bool) {
        self.kind.dirty = true;
        self.kind
            .region
            .handle_congestion(self.now, node, congested);
    }
}
