//! The one that writes: takes everything that is asked for at the moment, and has it done in one transaction.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::fault::Fault;
use super::group::{self, Columns};
use super::reader::Reader;
use super::session::{Door, Session};
use crate::store::StoreError;
use shard_adapter::backend::Counters;
use shard_adapter::backend::{Limits, Outcome, Queued, Request};

/// So often a group that was in another one's way is tried.
const ATTEMPTS: usize = 8;
/// Pauses after an attempt to connect failed: from, up to.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

pub(super) struct Writer {
    pub(super) door: Arc<Door>,
    pub(super) reader: Arc<Reader>,
    pub(super) store: u64,
    pub(super) session: Option<Session>,
    pub(super) counters: Arc<Counters>,
    /// Dropped when all is written and answered.
    pub(super) running: Arc<watch::Sender<()>>,
}

impl Writer {
    /// Until nobody can ask for anything.
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Queued>) {
        let mut queue = VecDeque::new();
        let mut pause = PAUSE.0;
        loop {
            if queue.is_empty() {
                let Some(request) = requests.recv().await else {
                    return;
                };
                queue.push_back(request);
                // Whoever is about to ask in this moment does.
                tokio::task::yield_now().await;
            }
            drain(&mut requests, &mut queue);
            let session = match self.session.take().filter(|session| !session.is_closed()) {
                Some(session) => session,
                None => match self.door.open_to_write(Some(self.store)).await {
                    Ok(session) => session,
                    Err(error) => {
                        drain(&mut requests, &mut queue);
                        let text = match error {
                            StoreError::Unavailable(text) => text.to_string(),
                            error => error.to_string(),
                        };
                        tracing::warn!(error = text, "cannot connect to the store");
                        for queued in queue.drain(..) {
                            queued.answer(Err(StoreError::Unavailable(text.clone().into())));
                        }
                        sleep(pause).await;
                        pause = (pause * 2).min(PAUSE.1);
                        continue;
                    }
                },
            };
            pause = PAUSE.0;
            self.session = self.write(session, group::take(&mut queue)).await;
        }
    }

    /// Writes a group. One that is refused as a whole is taken apart: whose fault it is fails alone.
    async fn write(&self, session: Session, group: Vec<Queued>) -> Option<Session> {
        let fault = match self.attempt(&session, &group).await {
            Ok(answers) => {
                self.counters
                    .committed(answers.iter().filter(|answer| answer.is_ok()).count());
                for (queued, answer) in group.into_iter().zip(answers) {
                    self.answer(queued, answer);
                }
                return Some(session);
            }
            Err(fault) => fault,
        };
        if matches!(fault, Fault::Refused { alone: true, .. }) && group.len() > 1 {
            let mut session = Some(session);
            for queued in group {
                session = match session {
                    Some(session) => Box::pin(self.write(session, vec![queued])).await,
                    None => {
                        let text = "the connection was given up";
                        queued.answer(Err(StoreError::Unavailable(text.into())));
                        None
                    }
                };
            }
            return session;
        }
        let keep = match &fault {
            Fault::Again(_) => true,
            Fault::Refused { keep, .. } => *keep,
            Fault::Lost(_) => false,
        };
        let lost = matches!(fault, Fault::Lost(_));
        let corrupt = matches!(fault, Fault::Refused { corrupt: true, .. });
        let text = format!("{}: {}", self.door.address.place, fault.text());
        tracing::warn!(error = text, requests = group.len(), "the store failed");
        for queued in group {
            let unknown = lost && !group::is_repeatable(&queued.request);
            queued.answer(Err(if corrupt {
                StoreError::Corrupt(text.clone())
            } else if unknown {
                StoreError::Unknown(text.clone().into())
            } else {
                StoreError::Unavailable(text.clone().into())
            }));
        }
        keep.then_some(session)
    }

    async fn attempt(
        &self,
        session: &Session,
        group: &[Queued],
    ) -> Result<Vec<Result<i64, StoreError>>, Fault> {
        let columns = Columns::new(group);
        let mut attempts = 1..=ATTEMPTS;
        loop {
            attempts.next();
            match session.write(&columns).await {
                Err(Fault::Again(text)) if attempts.is_empty() => return Err(Fault::Again(text)),
                Err(Fault::Again(_)) => {}
                Err(fault) => return Err(fault),
                Ok(verdicts) if verdicts.len() != group.len() => {
                    return Err(Fault::Lost(format!(
                        "{} answers to {} requests",
                        verdicts.len(),
                        group.len()
                    )));
                }
                Ok(verdicts) => {
                    let judged = group.iter().zip(&verdicts);
                    return Ok(judged.map(|(q, verdict)| verdict.of(&q.request)).collect());
                }
            }
        }
    }

    /// Whoever also asked what there is gets it on the other connection, so that no write waits for that.
    fn answer(&self, queued: Queued, answer: Result<i64, StoreError>) {
        let key = match answer {
            Err(error) => return queued.answer(Err(error)),
            Ok(key) => key,
        };
        match &queued.request {
            Request::Open { .. } | Request::Load { .. } | Request::Ids { .. } => {
                let reader = Arc::clone(&self.reader);
                let running = Arc::clone(&self.running);
                tokio::spawn(async move {
                    let outcome = reader.outcome(&queued.request, key).await;
                    queued.answer(outcome);
                    drop(running);
                });
            }
            Request::Append(_)
            | Request::Save(_)
            | Request::Snapshot { .. }
            | Request::Record { .. } => queued.answer(Ok(Outcome::Done)),
        }
    }
}

fn drain(requests: &mut mpsc::Receiver<Queued>, queue: &mut VecDeque<Queued>) {
    while queue.len() < Limits::DEFAULT.requests
        && let Ok(request) = requests.try_recv()
    {
        queue.push_back(request);
    }
}
