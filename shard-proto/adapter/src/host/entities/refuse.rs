//! Messages that are not taken, and why.

use shard_proto::entity::Refusal;
use shard_proto::node::Message;

use super::{Crowded, From, Refused, TypeHost, from_item};
use crate::body::Body;
use crate::entity::Entity;
use crate::report::Reason;
use crate::shared::Item;

impl<E: Entity> TypeHost<E> {
    #[cold]
    pub(super) fn reason(&mut self, refusal: Refusal) -> Reason {
        match refusal {
            Refusal::NotHosted => Reason::Stopped,
            Refusal::KeepFull => Reason::BufferFull,
            Refusal::Parked => Reason::Parked,
            Refusal::TooMany => {
                self.too_many += 1;
                if self.too_many.is_power_of_two() {
                    tracing::warn!(
                        entity_type = E::TYPE,
                        running = self.core.running(),
                        key_bytes = self.core.key_bytes(),
                        refused = self.too_many,
                        "no room for another entity, and those that shall go for it have not stopped yet: raise the \
                         setting `max_entities`, or `max_key_bytes` if it is the ids that take up the room"
                    );
                }
                Reason::TooManyEntities
            }
            _ => Reason::Other,
        }
    }

    #[cold]
    pub(super) fn refuse(
        reason: Reason,
        from: From,
        message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        Err(Box::new(Refused {
            reason,
            from,
            message,
        }))
    }

    #[cold]
    pub(super) fn refuse_item(
        reason: Reason,
        item: Item<E>,
        mut message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        let (body, weight, from) = from_item(item);
        message.body = body;
        message.weight = weight;
        Self::refuse(reason, from, message)
    }
}
