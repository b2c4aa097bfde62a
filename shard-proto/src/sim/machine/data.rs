//! Data: messages that callers send, that come in, go on, come back or are taken back, and what flushes their paths.

use super::{Body, DataFrame, Machine, Note, Outlet, Sink};
use crate::region::{Arrival, Origin, RejectReason, ReturnError, Route};
use crate::sim::{Deed, Message, Store};
use crate::wire::ReturnReason;
use crate::{Epoch, Instant, NodeId, ShardId};

impl<St: Store> Machine<St> {
    /// A data frame of another process.
    pub fn handle_data(
        &mut self,
        now: Instant,
        from: NodeId,
        frame: DataFrame,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        let me = self.me.node;
        let DataFrame {
            ty,
            shard,
            epoch,
            body,
        } = frame;
        let Some(kind) = self.kinds.get_mut(usize::from(ty)) else {
            return;
        };
        match body {
            Body::Envelope(message) => {
                let arrival = kind
                    .region
                    .handle_envelope(now, from, shard, epoch, message);
                let (reason, message) = match arrival {
                    Arrival::Deliver(message) => {
                        let origin = Origin::Remote(from);
                        return kind
                            .outlet(now, me, sink)
                            .deliver(ty, shard, epoch, origin, message);
                    }
                    Arrival::Queued => {
                        kind.dirty = true;
                        return;
                    }
                    Arrival::Return { reason, payload } => (reason, payload),
                    Arrival::Refused(message) => (ReturnReason::Full, message),
                };
                let back = DataFrame {
                    body: Body::Return(reason, message),
                    ..frame
                };
                kind.outlet(now, me, sink).send_back((from, back));
            }
            Body::Return(reason, message) => {
                kind.dirty = true;
                let taken = kind
                    .region
                    .handle_return(now, from, shard, epoch, reason, message);
                let reason = match taken {
                    Ok(()) => return,
                    Err(ReturnError::Full(_)) => RejectReason::BufferFull,
                    Err(ReturnError::PathGivenUp(_)) => RejectReason::PathGivenUp,
                    Err(ReturnError::Stopped(_)) => RejectReason::Stopped,
                    // What the type had sent before it was stopped and started again.
                    Err(ReturnError::Unexpected(_)) if kind.region.session().starts > 0 => {
                        RejectReason::Stopped
                    }
                    Err(ReturnError::Unexpected(_)) => return sink.note(Note::UnexpectedReturn),
                };
                sink.reject(ty, shard, Origin::Local, reason, message);
            }
            Body::Flush(token) => {
                kind.dirty = true;
                kind.region.handle_flush(now, from, shard, epoch, token);
            }
            Body::Flushed(token) => {
                kind.dirty = true;
                if kind.region.handle_flushed(now, from, shard, token) {
                    let shard = kind.base + shard.0;
                    sink.deed(Deed::PathFlushed { shard });
                }
            }
        }
    }

    /// A caller here sends a message. It is reported if it is not taken.
    pub fn route(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        message: Message,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        let (me, taken) = (self.me.node, self.life.takes_messages());
        let Some(kind) = self.kinds.get_mut(usize::from(ty)).filter(|_| taken) else {
            return sink.reject(ty, shard, Origin::Local, RejectReason::Stopped, message);
        };
        match kind.region.route(now, shard, message) {
            Ok(Route::Local { epoch, payload }) => {
                let origin = Origin::Local;
                kind.outlet(now, me, sink)
                    .deliver(ty, shard, epoch, origin, payload);
            }
            Ok(Route::Remote { to, epoch, payload }) => {
                let frame = DataFrame {
                    ty,
                    shard,
                    epoch,
                    body: Body::Envelope(payload),
                };
                match sink.data(to, frame) {
                    Ok(()) => kind.sent += 1,
                    Err(_) => {
                        let reason = RejectReason::BufferFull;
                        sink.reject(ty, shard, Origin::Local, reason, payload);
                    }
                }
            }
            Ok(Route::Queued) => kind.dirty = true,
            Err(_) => {
                let reason = RejectReason::BufferFull;
                sink.reject(ty, shard, Origin::Local, reason, message);
            }
        }
    }

    /// A message that never left this process, and whose receiver has ended. Whether it was taken back.
    pub fn take_back(
        &mut self,
        now: Instant,
        to: NodeId,
        frame: DataFrame,
        sink: &mut impl Sink,
    ) -> bool {
        let now = self.enter(now, sink);
        let (Body::Envelope(message), Some(kind)) =
            (frame.body, self.kinds.get_mut(usize::from(frame.ty)))
        else {
            return false;
        };
        kind.dirty = true;
        kind.region
            .take_back(now, to, frame.shard, frame.epoch, message)
            .is_ok()
    }

    /// The link to a node has no room, or has room again.
    pub fn handle_congestion(
        &mut self,
        now: Instant,
        node: NodeId,
        congested: bool,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        let me = self.me.node;
        for kind in &mut self.kinds {
            kind.outlet(now, me, sink)
                .handle_congestion(node, congested);
        }
    }

    /// A message that a stopping shard has not handled.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a region is told, and a sink"
    )]
    pub fn give_back(
        &mut self,
        now: Instant,
        ty: u8,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message,
        sink: &mut impl Sink,
    ) {
        let now = self.enter(now, sink);
        if let Some(kind) = self.kinds.get_mut(usize::from(ty)) {
            kind.dirty = true;
            if kind
                .region
                .give_back(now, shard, epoch, origin, message)
                .is_err()
            {
                kind.outlet(now, self.me.node, sink)
                    .refuse(ty, shard, epoch, origin, message);
            }
        }
    }
}
