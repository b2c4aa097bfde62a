//! The task that sends an entity's messages. It lives as long as one is kept.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use shard_proto::hash;

use super::put::put;
use super::state::{More, Sending};
use crate::ask::{Pool, Waiting};
use crate::entity::Entity;
use crate::entity_ref::EntityRef;
use crate::error::AskError;

/// The pause after a failure; it doubles until something is acknowledged.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

type Flight = VecDeque<Waiting<Arc<Pool<u64>>, u64>>;

/// Starts it.
pub(super) fn start<E: Entity>(sending: &Arc<Sending>, entity: &EntityRef<E>) {
    let lane = Lane {
        sending: Arc::clone(sending),
        entity: entity.clone(),
        flight: Flight::new(),
        width: sending.window(),
        pause: FIRST_PAUSE,
    };
    // The caller's runtime may end before the messages are acknowledged.
    let runtime = &entity.shared.node.runtime;
    let task = runtime.spawn(lane.run());
    sending.started(&entity.key, task);
}

struct Lane<E: Entity> {
    sending: Arc<Sending>,
    entity: EntityRef<E>,
    /// What is on its way, the first ones of those kept.
    flight: Flight,
    /// How many may be: one after a failure, until something is acknowledged.
    width: usize,
    pause: Duration,
}

/// What happened to a lane.
enum Event {
    Answer(Result<u64, AskError>),
    More(More),
}

impl<E: Entity> Lane<E> {
    async fn run(mut self) {
        loop {
            let event = match self.fill().await {
                Ok(()) => self.event().await,
                Err(error) => Event::Answer(Err(error)),
            };
            let failed = match event {
                Event::More(More::Send) => continue,
                Event::More(More::Over) => return,
                Event::Answer(Ok(next)) => {
                    let count = self.sending.acknowledge(&self.entity.key, next);
                    if count > 0 {
                        self.flight.drain(..count.min(self.flight.len()));
                        self.width = self.sending.window();
                        self.pause = FIRST_PAUSE;
                        continue;
                    }
                    // One before it did not get there, or the entity has another life.
                    AskError::Undelivered(shard_proto::region::RejectReason::PathGivenUp)
                }
                Event::Answer(Err(error)) => error,
            };
            if !self.go_back(failed).await {
                return;
            }
        }
    }

    /// Sends what may be sent.
    async fn fill(&mut self) -> Result<(), AskError> {
        while self.flight.len() < self.width {
            let next = self.sending.next(&self.entity.key, self.flight.len());
            let Some((tag, frame)) = next else {
                break;
            };
            let pool = Arc::clone(&self.sending.pool);
            let (waiting, responder) = Pool::wait(pool, self.sending.timeout);
            if let Err(error) = put(&self.entity, tag, frame, responder).await {
                if self.flight.is_empty() {
                    return Err(error);
                }
                // There is no room for more than this now.
                self.width = self.flight.len();
                break;
            }
            self.flight.push_back(waiting);
        }
        Ok(())
    }

    /// Waits for the first acknowledgement, and for more to send. An entity answers in order.
    async fn event(&mut self) -> Event {
        poll_fn(|cx| {
            if let Some(first) = self.flight.front_mut()
                && let Poll::Ready(answer) = Pin::new(first).poll(cx)
            {
                return Poll::Ready(Event::Answer(answer));
            }
            if self.flight.len() >= self.width {
                return Poll::Pending;
            }
            self.sending
                .poll_more(cx, &self.entity.key, self.flight.len())
                .map(Event::More)
        })
        .await
    }

    /// The first message failed. `false`: all are given up.
    async fn go_back(&mut self, error: AskError) -> bool {
        let (sending, key) = (&self.sending, &self.entity.key);
        // What is on its way behind it is perhaps not taken: it is sent again, and answered if it was.
        self.flight.clear();
        self.width = 1;
        if self.entity.shared.has_stopped() {
            sending.give_up_all(key, &AskError::Stopped);
            return false;
        }
        if is_final(&error) {
            sending.give_up(key, None, &error);
            tracing::warn!(
                entity_type = E::TYPE,
                id = self.entity.id(),
                %error,
                "a message is given up: it would be refused again"
            );
            return true;
        }
        if let Some(older) = sending
            .deadline
            .and_then(|deadline| self.entity.shared.node.runtime.now().checked_sub(deadline))
            && sending.give_up(key, Some(older), &error) > 0
        {
            return true;
        }
        // Half of it at random: many lanes fail together when a node does.
        let random = hash::mix(sending.id() ^ u64::from(self.entity.shard.0) ^ nanos(self.pause));
        let jitter = (random & 0xFFFF) as f64 / f64::from(0x2_0000_u32);
        let runtime = &self.entity.shared.node.runtime;
        runtime.sleep(self.pause.mul_f64(0.5 + jitter)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

const fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// Whether sending it again is useless.
const fn is_final(error: &AskError) -> bool {
    matches!(
        error,
        AskError::Refused | AskError::TooLarge { .. } | AskError::Codec(_)
    )
}
