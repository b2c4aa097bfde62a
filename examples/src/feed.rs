//! Feeds rows into the cluster: in order, so many at a time.

use core::{num::NonZeroU32, pin::pin, time::Duration};
use std::sync::Arc;

use shard_tokio::{AskError, EntityRef, EntityType};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::Instant,
};

use crate::{
    failure::Failure,
    input::{Input, Row},
    latency::Latency,
    ledger::{Account, Accounts, Entered, Entry},
    progress::Progress,
    totals::Totals,
    verdict::{Failed, Fate},
};

/// The rows that were fed, and what became of them.
#[derive(Clone, Debug, Default)]
pub struct Fed {
    /// Rows with an answer.
    pub answered: u64,
    /// Rows without, and what is known of them.
    pub failed: Vec<Failed>,
    /// Why the first of them has none.
    pub first_error: Option<String>,
    /// How long the answers took.
    pub latency: Latency,
    /// How long it took from the first row to the last answer.
    pub took: Duration,
    /// Rows fed at full speed.
    pub fast: u64,
    /// How long that took.
    pub fast_took: Duration,
}

/// An answer, or why there is none.
type Answer = (Instant, Result<Entered, AskError>, u32);

/// Feeds the rows of a file.
pub struct Feed<'a, E: Accounts> {
    rows: Vec<Row<'a>>,
    next: usize,
    entities: Vec<EntityRef<E>>,
    room: Arc<Semaphore>,
    concurrency: u32,
    tolerated: usize,
    sender: mpsc::UnboundedSender<Answer>,
    answers: mpsc::UnboundedReceiver<Answer>,
    progress: Progress,
    begun: Instant,
    fed: Fed,
}

impl<'a, E: Accounts> Feed<'a, E> {
    /// Over the rows of a file, `concurrency` of them at a time. `prefix` and a key make the id of its entity.
    #[must_use]
    pub fn new(
        input: &'a Input,
        ledgers: &EntityType<E>,
        prefix: &str,
        progress: Progress,
        concurrency: NonZeroU32,
    ) -> Self {
        let (sender, answers) = mpsc::unbounded_channel();
        Self {
            rows: input.rows().collect(),
            next: 0,
            entities: input
                .keys()
                .iter()
                .map(|key| ledgers.entity(format!("{prefix}{key}")))
                .collect(),
            room: Arc::new(Semaphore::new(concurrency.get() as usize)),
            concurrency: concurrency.get(),
            tolerated: (concurrency.get() as usize).max(100),
            sender,
            answers,
            progress,
            begun: Instant::now(),
            fed: Fed::default(),
        }
    }

    /// Expects that many nodes will fail, and the rows that were asked for at the time with them.
    #[must_use]
    pub fn with_failures(mut self, failures: usize) -> Self {
        self.tolerated += failures * self.concurrency as usize;
        self
    }

    /// Feeds rows up to this one as fast as they are answered.
    ///
    /// # Errors
    /// Too many rows have no answer.
    pub async fn at_full_speed(&mut self, up_to: usize) -> Result<(), Failure> {
        self.progress.say("feeding rows");
        let (begun, first) = (Instant::now(), self.next);
        while self.next < up_to {
            self.row().await?;
        }
        if self.next > first {
            self.all_answered().await?;
            self.fed.fast += (self.next - first) as u64;
            self.fed.fast_took += begun.elapsed();
        }
        Ok(())
    }

    /// Feeds rows up to this one, spread over about the time that a change takes; then waits until it is over.
    ///
    /// # Errors
    /// Those of the change, and as [`Feed::at_full_speed`].
    pub async fn while_changing<T>(
        &mut self,
        up_to: usize,
        takes: Duration,
        change: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut change = pin!(change);
        let rows = u32::try_from(up_to - self.next).unwrap_or(u32::MAX);
        let pause = takes / rows.max(1);
        let mut at = Instant::now();
        while self.next < up_to {
            tokio::select! {
                biased;
                over = &mut change => return over,
                () = tokio::time::sleep_until(at) => {}
            }
            // As many as are due: pauses may be shorter than what a timer can do.
            while at <= Instant::now() && self.next < up_to {
                self.row().await?;
                at += pause;
            }
        }
        change.await
    }

    /// Feeds rows as fast as they are answered until a change is over.
    ///
    /// # Errors
    /// Those of the change, and as [`Feed::at_full_speed`].
    pub async fn at_full_speed_until(
        &mut self,
        change: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let mut change = pin!(change);
        while self.next < self.rows.len() {
            tokio::select! {
                biased;
                over = &mut change => return over,
                fed = self.row() => fed?,
            }
        }
        change.await
    }

    /// Waits for room and feeds a row.
    async fn row(&mut self) -> Result<(), Failure> {
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room: OwnedSemaphorePermit = room.map_err(Failure::run)?;
        self.take_answers()?;
        let Some(&Row {
            number,
            key,
            values,
        }) = self.rows.get(self.next)
        else {
            return Ok(());
        };
        self.next += 1;
        let asked = Instant::now();
        let account = Entry::Row(Account {
            row: number,
            values: values.to_vec(),
        });
        // Accepted before the next one is sent: that is what makes their order.
        let answer = self.entities[key].begin_ask(account).await;
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let answer = match answer {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            // Nobody listens any more after a failure.
            let _ = sender.send((asked, answer, number));
            drop(room);
        });
        Ok(())
    }

    fn take_answers(&mut self) -> Result<(), Failure> {
        while let Ok(answer) = self.answers.try_recv() {
            self.count(answer);
        }
        // A cluster that does not answer at all would take for ever.
        if self.fed.failed.len() > self.tolerated {
            let why = self.fed.first_error.as_deref().unwrap_or("");
            return Err(Failure::run(format!(
                "{} rows have no answer; the first one: {why}",
                self.fed.failed.len()
            )));
        }
        Ok(())
    }

    fn count(&mut self, (asked, answer, row): Answer) {
        let (fate, why) = match answer {
            Ok(Entered::Row(answered)) if answered == row => {
                self.fed.answered += 1;
                self.fed.latency.record(asked.elapsed());
                self.progress.advance(1);
                return;
            }
            Ok(other) => (Fate::Perhaps, format!("answered {other:?}")),
            Err(error) => (fate(&error), error.to_string()),
        };
        self.fed.failed.push(Failed { row, fate });
        let first = &mut self.fed.first_error;
        first.get_or_insert_with(|| format!("row {row}: {why}"));
        self.progress.advance(1);
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// As [`Feed::at_full_speed`].
    pub async fn all_answered(&mut self) -> Result<(), Failure> {
        let all = self.room.acquire_many(self.concurrency).await;
        drop(all.map_err(Failure::run)?);
        self.fed.took = self.begun.elapsed();
        self.take_answers()
    }

    /// Asks every entity of the file for its totals, in the order of [`Input::keys`].
    ///
    /// # Errors
    /// One does not answer.
    pub async fn totals(&self) -> Result<Vec<Totals>, Failure> {
        let mut totals = Vec::new();
        for entity in &self.entities {
            let told = entity.ask(Entry::Totals).await;
            match told.map_err(|error| Failure::run(format!("{}: {error}", entity.id())))? {
                Entered::Totals(told) => totals.push(told),
                other => return Err(Failure::run(format!("answered {other:?}"))),
            }
        }
        Ok(totals)
    }

    /// What became of the rows that were answered by now.
    #[must_use]
    pub fn finish(self) -> Fed {
        self.fed
    }
}

/// What an error says of the message.
const fn fate(error: &AskError) -> Fate {
    match error {
        AskError::Refused
        | AskError::BufferFull
        | AskError::Undelivered(_)
        | AskError::TooManyAsks
        | AskError::Stopped
        | AskError::TooLarge { .. } => Fate::Not,
        _ => Fate::Perhaps,
    }
}
