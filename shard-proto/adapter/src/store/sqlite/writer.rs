//! The thread that writes: everything that waits in one transaction.

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::SqliteConfig;
use super::apply::{Failure, apply};
use super::fault::Fault;
use super::schema;
use crate::store::StoreError;
use crate::store::check::Counters;
use crate::store::queue::{Outcome, Queued};

/// Ends when the queue is closed and empty.
pub(super) fn run(
    connection: Connection,
    mut queued: mpsc::Receiver<Queued>,
    config: &SqliteConfig,
    counters: &Counters,
) {
    let writer = Writer {
        connection,
        config,
        counters,
    };
    let mut group = Vec::new();
    while queued.blocking_recv_many(&mut group, config.limits.requests.max(1)) > 0 {
        writer.write(&mut group);
    }
}

struct Writer<'a> {
    connection: Connection,
    config: &'a SqliteConfig,
    counters: &'a Counters,
}

impl Writer<'_> {
    /// Does all of them and answers.
    fn write(&self, group: &mut Vec<Queued>) {
        while !group.is_empty() {
            self.write_some(group);
        }
    }

    /// Does the first ones and answers.
    fn write_some(&self, group: &mut Vec<Queued>) {
        match self.transaction(group) {
            Ok(results) => answer(group, results),
            // What is corrupt is corrupt for one of them, most likely: the others shall not suffer.
            Err(fault) if fault.is_corrupt() && group.len() > 1 => {
                for queued in group.drain(..) {
                    let alone = core::slice::from_ref(&queued);
                    let result = match self.transaction(alone) {
                        Ok(mut results) => results.pop(),
                        Err(fault) => Some(Err(fault.into())),
                    };
                    queued.answer(result.unwrap_or(Err(StoreError::Closed)));
                }
            }
            Err(fault) => {
                for queued in group.drain(..) {
                    queued.answer(Err(fault.clone().into()));
                }
            }
        }
    }

    /// The results of the first ones, at least of one, in order, when they are durable; or nothing was written, or nobody
    /// knows.
    fn transaction(&self, group: &[Queued]) -> Result<Vec<Result<Outcome, StoreError>>, Fault> {
        schema::begin(&self.connection, self.config.busy_timeout)
            .map_err(|error| Fault::before_commit(&error))?;
        let results = self.requests(group).inspect_err(|_| self.roll_back())?;
        let commit = || self.connection.prepare_cached("COMMIT")?.execute([]);
        if let Err(error) = commit() {
            self.roll_back();
            return Err(Fault::at_commit(&error));
        }
        self.counters
            .committed(results.iter().filter(|result| result.is_ok()).count());
        Ok(results)
    }

    fn requests(&self, group: &[Queued]) -> Result<Vec<Result<Outcome, StoreError>>, Fault> {
        let mut results = Vec::new();
        // What was read is held until the commit.
        let mut held = 0_usize;
        for queued in group {
            let result = match apply(&self.connection, &queued.request) {
                Ok(outcome) => Ok(outcome),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Sqlite(error)) => return Err(Fault::before_commit(&error)),
            };
            held = held.saturating_add(result.as_ref().map_or(0, Outcome::size));
            results.push(result);
            if held >= self.config.limits.bytes {
                break;
            }
        }
        Ok(results)
    }

    fn roll_back(&self) {
        // Some errors end the transaction by themselves.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "the store cannot end a failed transaction");
        }
    }
}

fn answer(group: &mut Vec<Queued>, results: Vec<Result<Outcome, StoreError>>) {
    for (queued, result) in group.drain(..results.len()).zip(results) {
        queued.answer(result);
    }
}
