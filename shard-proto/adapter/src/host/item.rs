//! What goes into a mailbox, and what the core's node carries: one made of the other, and back.

use shard_proto::Instant;
use shard_proto::node::{Ask, EntityKey, Message, Weight};
use shard_proto::region::Origin;

use super::From;
use crate::ask::Asks;
use crate::body::{Body, Encoded};
use crate::entity::Entity;
use crate::reliable::{Tag, Tracked};
use crate::shared::{Caller, Inbound, Item};

pub(super) fn to_item<E: Entity>(
    body: Body,
    weight: Option<Weight>,
    from: From,
    tracked: bool,
) -> Result<Item<E>, (Body, From)> {
    let tag = match &body {
        _ if !tracked => None,
        Body::Encoded(encoded) => Tag::read(encoded.as_slice()),
        Body::Value(_) => None,
    };
    if tracked && tag.is_none() {
        return Err((body, from));
    }
    let message = match body {
        Body::Encoded(encoded) => match weight {
            None => Inbound::Encoded(encoded),
            Some(weight) => Inbound::Long(Box::new((encoded, weight))),
        },
        value @ Body::Value(_) => match value.into_value() {
            Some(message) => Inbound::Value(message),
            // A value of another type than the entity's: nothing in this crate makes one.
            None => return Err((Body::Encoded(Encoded::EMPTY), from)),
        },
    };
    let caller = match tag {
        None => to_caller(from),
        Some(tag) => Caller::Tracked(Box::new(Tracked {
            tag,
            caller: to_caller(from),
        })),
    };
    Ok(Item { message, caller })
}

fn to_caller<R: Send + 'static>(from: From) -> Caller<R> {
    match from {
        From::Local(None) => Caller::Tell,
        From::Local(Some(pending)) => pending.typed().map_or(Caller::Tell, Caller::Ask),
        From::Remote(node, life, None) => Caller::Node(node, life),
        From::Remote(_, _, Some(reply)) => Caller::NodeAsk(reply),
    }
}

fn from_caller<R: Send + 'static>(caller: Caller<R>) -> From {
    match caller {
        Caller::Tell => From::Local(None),
        Caller::Ask(responder) => From::Local(responder.erase()),
        Caller::Node(node, life) => From::Remote(node, life, None),
        Caller::NodeAsk(reply) => From::Remote(reply.node, reply.incarnation, Some(reply)),
        Caller::Tracked(tracked) => from_caller(tracked.caller),
    }
}

pub(super) fn from_item<E: Entity>(item: Item<E>) -> (Body, Option<Weight>, From) {
    let (body, weight) = match item.message {
        Inbound::Value(message) => (Body::value(message), None),
        Inbound::Encoded(encoded) => (Body::Encoded(encoded), None),
        Inbound::Long(long) => (Body::Encoded(long.0), Some(long.1)),
    };
    (body, weight, from_caller(item.caller))
}

/// As the core wants it back. `now` is not earlier than the item.
pub(super) fn to_message<E: Entity>(
    key: &EntityKey,
    item: Item<E>,
    asks: &mut Asks,
    now: Instant,
) -> (Origin, Message<Body>) {
    let tracked = matches!(item.caller, Caller::Tracked(_));
    let (body, weight, from) = from_item(item);
    let mut message = Message::new(key.clone(), body, None);
    message.weight = weight;
    message.tracked = tracked;
    let origin = match from {
        From::Local(pending) => {
            message.ask = pending.map(|pending| Ask {
                deadline: pending.deadline(now),
                key: asks.insert(pending),
            });
            Origin::Local
        }
        From::Remote(node, life, reply) => {
            message.sender = life;
            message.correlation = reply.map_or(0, |reply| reply.correlation);
            Origin::Remote(node)
        }
    };
    (origin, message)
}
