//! The way of a tracked message: into the mailbox of an entity of this node, or through the driver.

use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;

use super::{Tag, Tracked};
use crate::ask::Responder;
use crate::body::{Body, Encoded};
use crate::entity::Entity;
use crate::entity_ref::EntityRef;
use crate::error::AskError;
use crate::gate::Way;
use crate::queue::PushError;
use crate::shared::{Caller, INBOX, Inbound, Input, Item, Listed};

/// Sends it, when there is room. As plain messages go (`EntityRef::send`), so that none overtakes another one.
pub(super) async fn put<E: Entity>(
    entity: &EntityRef<E>,
    tag: Tag,
    frame: Encoded,
    responder: Responder<u64>,
) -> Result<(), AskError> {
    let shared = &*entity.shared;
    let gate = shared.gate(entity.shard);
    let mut held = Some((frame, responder));
    poll_fn(|cx| {
        loop {
            let Some((mut frame, mut responder)) = held.take() else {
                return Poll::Ready(Ok(()));
            };
            let mailbox = if gate.way() == Way::Open {
                let directory = shared.directory.pin();
                let listed = directory.get_key_value(&entity.key);
                listed.map(|(Listed(mailbox), ())| Arc::clone(mailbox))
            } else {
                None
            };
            if let Some(mailbox) = mailbox.filter(|mailbox| gate.is_free(mailbox.opening)) {
                let limit = shared.limits.mailbox;
                let item = Item {
                    message: Inbound::Encoded(frame),
                    caller: Caller::Tracked(Box::new(Tracked {
                        tag,
                        caller: Caller::Ask(responder),
                    })),
                };
                let (item, full) = match mailbox.queue.push(item, limit) {
                    Ok(_) => return Poll::Ready(Ok(())),
                    Err(PushError::Full(item)) => (item, true),
                    Err(PushError::Closed(item)) => (item, false),
                };
                let (Inbound::Encoded(back), Caller::Tracked(tracked)) =
                    (item.message, item.caller)
                else {
                    return Poll::Ready(Err(AskError::Refused));
                };
                let Caller::Ask(back_responder) = tracked.caller else {
                    return Poll::Ready(Err(AskError::Refused));
                };
                (frame, responder) = (back, back_responder);
                if full {
                    held = Some((frame, responder));
                    if mailbox.queue.poll_room(cx, limit).is_pending() {
                        return Poll::Pending;
                    }
                    continue;
                }
            }
            match gate.enter(|way| shared.pending_limit(way)) {
                Ok(_) => {}
                Err(Way::Closed) => return Poll::Ready(Err(AskError::BufferFull)),
                Err(_) => {
                    shared.waiters.register(cx);
                    if gate.pending() < shared.pending_limit(gate.way()) {
                        cx.waker().wake_by_ref();
                    }
                    held = Some((frame, responder));
                    return Poll::Pending;
                }
            }
            let input = Input::Send {
                ty: shared.index,
                shard: entity.shard,
                id: entity.key.clone(),
                body: Body::Encoded(frame),
                ask: responder.erase(),
                tracked: true,
            };
            let input = match shared.node.inbox.poll_push(cx, input, INBOX) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(PushError::Full(input)) => input,
                Err(PushError::Closed(_)) => {
                    gate.settle(1);
                    return Poll::Ready(Err(AskError::Stopped));
                }
            };
            gate.settle(1);
            if let Input::Send {
                body: Body::Encoded(frame),
                ask: Some(pending),
                ..
            } = input
                && let Some(responder) = pending.typed()
            {
                held = Some((frame, responder));
            }
            return Poll::Pending;
        }
    })
    .await
}
