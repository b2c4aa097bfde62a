//! The main job: rows accounted for by entities on node processes, while they come, go and fail.

mod report;

use core::time::Duration;
use std::process::ExitCode;

use shard_tokio::{durable::Sourced, store::Journal};

use self::report::{InJournal, Report};
use crate::{
    cli::{Carrying, Cluster, Plan, Step, Storing},
    failure::{Failure, say},
    feed::Feed,
    fleet::{Fleet, Keeping},
    input::Input,
    ledger::{Accounts, DurableLedger, Ledger, Place, Shelf, read_books, read_journal},
    map::Homes,
    progress::Progress,
    service::{Outage, Servings},
    stop,
    verdict::Verdict,
};

/// Runs the job, on this thread: the processes share the machine's cores.
///
/// # Errors
/// What the person asked for cannot be done, or a process failed.
pub fn run_here(options: &Cluster) -> Result<ExitCode, Failure> {
    stop::run_here(run(options))
}

/// Runs the job and prints what came of it.
async fn run(options: &Cluster) -> Result<ExitCode, Failure> {
    options.check()?;
    let input = Input::open(&options.path(), &options.columns())?;
    let plan = options.plan(&input)?;
    let shelf = Shelf::new()?;
    let report = work(options, &input, &plan, &shelf).await?;
    if options.json {
        say(format_args!("{}\n", report.to_json()))?;
    } else {
        say(&report)?;
    }
    Ok(if report.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn work(
    options: &Cluster,
    input: &Input,
    plan: &Plan,
    shelf: &Shelf,
) -> Result<Report, Failure> {
    let job = Job {
        options,
        input,
        plan,
        shelf,
    };
    let place = match options.store {
        // A process that fails does not get to write what it has.
        Storing::Memory => {
            let keeping = Keeping::Books {
                each_row: plan.failures() > 0,
            };
            return job.run::<Ledger>(keeping, None).await;
        }
        Storing::Sqlite => Place::Sqlite(shelf.store()),
        Storing::Postgres => Place::Postgres(options.postgres_url.clone().unwrap_or_default()),
    };
    let journal = place.open().await?;
    let prefix = place.prefix();
    let keeping = Keeping::Journal(place);
    job.run::<Sourced<DurableLedger>>(keeping, Some((&*journal, &prefix)))
        .await
}

/// What is to be done.
struct Job<'a> {
    options: &'a Cluster,
    input: &'a Input,
    plan: &'a Plan,
    shelf: &'a Shelf,
}

impl Job<'_> {
    async fn run<E: Accounts>(
        &self,
        keeping: Keeping,
        journal: Option<(&dyn Journal, &str)>,
    ) -> Result<Report, Failure> {
        let Self { options, input, .. } = *self;
        let prefix = journal.map_or("", |(_, prefix)| prefix);
        let progress = Progress::new(input.len() as u64);
        progress.say("starting nodes");
        let failures = self.plan.failures();
        let mut shape = options.shape();
        let certificates = self.shelf.path().join("certs");
        shape = match options.transport {
            Carrying::Tcp => shape,
            Carrying::Tls => shape.with_tls(certificates),
            Carrying::Quic => shape.with_quic(certificates),
        };
        let mut fleet =
            Fleet::<E>::start(shape, options.runtime, options.nodes, self.shelf, keeping).await?;
        let feed = Feed::new(
            input,
            fleet.ledgers(),
            prefix,
            progress.clone(),
            options.concurrency,
        );
        let mut feed = feed.with_failures(failures);
        let mut change = Change {
            options,
            progress: progress.clone(),
            hosts: Vec::new(),
            outages: Vec::new(),
            servings: Servings::default(),
        };
        let rows = input.len();
        let plan = &self.plan.0;
        for (index, (row, step)) in plan.iter().enumerate() {
            feed.at_full_speed(*row as usize).await?;
            let next = plan.get(index + 1).map_or(rows, |(row, _)| *row as usize);
            let takes = change.takes(step, &fleet);
            feed.while_changing(next, takes, change.run(step, &mut fleet))
                .await?;
        }
        feed.at_full_speed(rows).await?;
        feed.all_answered().await?;
        progress.say("asking for totals");
        let told = match journal {
            Some(_) => Some(feed.totals().await?),
            None => None,
        };
        let fed = feed.finish();
        let Change {
            mut hosts,
            outages,
            mut servings,
            ..
        } = change;
        hosts.push(("at the end".to_owned(), fleet.watch().hosts()));

        progress.say("stopping nodes");
        let stats = fleet.proxy().stats();
        let moves = fleet.watch().moves();
        let hosts = Homes::table(&hosts, &fleet.names());
        let ledgers = fleet.ledgers().clone();
        fleet.stop().await?;
        progress.clear();
        let (parts, journaled) = match journal {
            Some((journal, prefix)) => {
                let read = read_journal(journal, input, prefix).await?;
                let told = told.unwrap_or_default();
                let differ = read.totals.iter().zip(&told).filter(|(a, b)| a != b);
                let journaled = InJournal {
                    events: read.events,
                    overwritten: read.overwritten,
                    wrong_answers: differ.count() as u64,
                };
                (read.parts, Some(journaled))
            }
            None => (read_books(&self.shelf.books())?, None),
        };
        for part in &parts {
            let shard = ledgers.shard_of(&format!("{prefix}{}", part.key));
            servings.add(shard, part.epoch, part.from_us, part.to_us);
        }
        Ok(Report {
            verdict: Verdict::new(input, parts, &fed.failed),
            journaled,
            two_homes: servings.beside_a_newer_home(),
            fed,
            hosts,
            outages,
            judged: !options.no_bounds,
            failures,
            moves,
            buffered: stats.core.queued,
            returned: stats.core.came_back,
            nodes: options.nodes,
            shards: options.shards,
            keys: input.keys().len(),
            file: options.path(),
            store: journal.map_or_else(
                || "none, in memory".to_owned(),
                |(journal, _)| journal.describe(),
            ),
            key: options.key.clone(),
        })
    }
}

/// Changes the cluster, and keeps what it did to the shards.
struct Change<'a> {
    options: &'a Cluster,
    progress: Progress,
    hosts: Vec<(String, Homes)>,
    outages: Vec<Outage>,
    servings: Servings,
}

impl Change<'_> {
    /// About how long a change takes: rows that are spread over that time overlap with it.
    fn takes<E: Accounts>(&self, step: &Step, fleet: &Fleet<'_, E>) -> Duration {
        const PLANNED: Duration = Duration::from_secs(3);
        match step {
            Step::Join | Step::Leave(_) => PLANNED,
            Step::Kill(_) => PLANNED + fleet.shape().lease(),
            Step::Freeze(_) => PLANNED + self.options.freeze_for(),
        }
    }

    /// Returns when the cluster has come to rest after a change.
    async fn run<E: Accounts>(
        &mut self,
        step: &Step,
        fleet: &mut Fleet<'_, E>,
    ) -> Result<(), Failure> {
        let prober = fleet.probe().await?;
        if self.hosts.is_empty() {
            self.hosts
                .push(("before".to_owned(), fleet.watch().hosts()));
        }
        match step {
            Step::Join => {
                self.progress.say("a node joins");
                let outage = fleet.join(&prober).await?;
                self.done(outage, fleet);
            }
            Step::Leave(who) => {
                let index = fleet.find(who)?;
                self.progress.say(format!("{} leaves", fleet.name(index)));
                let outage = fleet.leave(index, &prober).await?;
                self.done(outage, fleet);
            }
            Step::Kill(who) => {
                let index = fleet.find(who)?;
                self.progress
                    .say(format!("{} is killed", fleet.name(index)));
                for outage in fleet.kill(index, &prober).await? {
                    self.done(outage, fleet);
                }
            }
            Step::Freeze(who) => {
                let index = fleet.find(who)?;
                self.progress.say(format!("{} freezes", fleet.name(index)));
                let time = self.options.freeze_for();
                for outage in fleet.freeze(index, time, &prober).await? {
                    self.done(outage, fleet);
                }
            }
        }
        self.servings.merge(&prober.servings());
        Ok(())
    }

    fn done<E: Accounts>(&mut self, outage: Outage, fleet: &Fleet<'_, E>) {
        self.hosts
            .push((outage.change.clone(), fleet.watch().hosts()));
        self.outages.push(outage);
    }
}
