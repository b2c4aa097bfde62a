//! The main job: rows accounted for by entities on node processes, while one joins and one leaves.

mod report;

use std::process::ExitCode;

use shard_tokio::{EntityType, Node, Preset};

use self::report::Report;
use crate::{
    cli::{Changes, Cluster},
    failure::{Failure, say},
    feed::Feed,
    input::Input,
    ledger::{Ledger, Shelf, read_books},
    map::{Homes, MapWatch},
    process::{Child, Hosts, Orders, within},
    progress::Progress,
    stop,
    verdict::Verdict,
};

/// Runs the job, on this thread: the processes share the machine's cores.
///
/// # Errors
/// What the person asked for cannot be done, or a process failed.
pub fn run_here(options: &Cluster) -> Result<ExitCode, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            tokio::select! {
                done = run(options) => done,
                // What was started and written is taken away again.
                told = stop::told_to_stop() => {
                    told?;
                    Err(Failure::run("interrupted"))
                }
            }
        })
}

/// Runs the job and prints what came of it.
async fn run(options: &Cluster) -> Result<ExitCode, Failure> {
    let input = Input::open(&options.path(), &options.columns())?;
    let changes = options.changes(&input)?;
    let shelf = Shelf::new()?;
    let job = Job::start(options, &input, &shelf).await?;
    let report = job.run(options, changes).await?;
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

/// The processes and this one's part in the cluster.
struct Job<'a> {
    input: &'a Input,
    shelf: &'a Shelf,
    shards: u32,
    children: Vec<Child>,
    proxy: Node,
    ledgers: EntityType<Ledger>,
    progress: Progress,
}

impl<'a> Job<'a> {
    async fn start(options: &Cluster, input: &'a Input, shelf: &'a Shelf) -> Result<Self, Failure> {
        let progress = Progress::new(input.len() as u64);
        progress.say("starting nodes");
        let mut children = Vec::new();
        for number in 0..options.nodes {
            children.push(spawn(shelf, number, &children, options.shards)?);
            // The others need the address of the first one; after that they can start together.
            if number == 0 {
                children[0].ready().await?;
            }
        }
        for child in &mut children {
            child.ready().await?;
        }
        let proxy = Node::builder("proxy")
            .listen("127.0.0.1:0")
            .seeds(addresses(&children))
            .bootstrap(false)
            .may_lead(false)
            .preset(Preset::Lan)
            .start()
            .await
            .map_err(Failure::run)?;
        let ledgers = proxy
            .entity_type::<Ledger>()
            .shards(options.shards)
            .proxy()
            .start()
            .await
            .map_err(Failure::run)?;
        within("the nodes know each other", ledgers.ready())
            .await?
            .map_err(Failure::run)?;
        Ok(Self {
            input,
            shelf,
            shards: options.shards,
            children,
            proxy,
            ledgers,
            progress,
        })
    }

    async fn run(mut self, options: &Cluster, changes: Changes) -> Result<Report, Failure> {
        let watch = MapWatch::start(self.ledgers.shard_map_changes());
        let mut feed = Feed::new(
            self.input,
            &self.ledgers,
            self.progress.clone(),
            options.concurrency,
        );
        let mut hosts = Vec::new();
        let mut steps = [
            (changes.join_at, Step::Join),
            (changes.leave_at, Step::Leave),
        ];
        steps.sort_by_key(|(row, _)| *row);
        let rows = self.input.len();
        for (index, (row, step)) in steps.into_iter().enumerate() {
            feed.at_full_speed(row as usize).await?;
            if index == 0 {
                hosts.push(("before".to_owned(), watch.hosts()));
            }
            let (done, change) = self.change(step, &watch)?;
            let next = steps.get(index + 1).map_or(rows, |(row, _)| *row as usize);
            feed.while_changing(next, change).await?;
            hosts.push((done, watch.hosts()));
        }
        feed.at_full_speed(rows).await?;
        let fed = feed.finish().await?;
        hosts.push(("at the end".to_owned(), watch.hosts()));

        self.progress.say("stopping nodes");
        let stats = self.proxy.stats();
        let names = self.names();
        for child in &mut self.children {
            child.stop();
        }
        for child in &mut self.children {
            child.ended().await?;
        }
        self.proxy.shutdown().await;
        self.progress.clear();
        let verdict = Verdict::new(self.input, read_books(self.shelf.path())?);
        Ok(Report {
            verdict,
            fed,
            hosts: Homes::table(&hosts, &names),
            moves: watch.moves(),
            buffered: stats.core.queued,
            returned: stats.core.came_back,
            nodes: options.nodes,
            shards: self.shards,
            keys: self.input.keys().len(),
            file: options.path(),
            key: options.key.clone(),
        })
    }

    /// Names of all nodes that were ever there.
    fn names(&self) -> Vec<String> {
        self.children
            .iter()
            .map(|child| child.name().to_owned())
            .collect()
    }

    /// Begins a change; the future ends when the cluster has come to rest after it.
    fn change(
        &mut self,
        step: Step,
        watch: &MapWatch,
    ) -> Result<(String, impl Future<Output = Result<(), Failure>> + use<>), Failure> {
        let watch = watch.clone();
        let (done, events) = match step {
            Step::Join => {
                let number = u16::try_from(self.children.len()).unwrap_or(u16::MAX);
                let child = spawn(self.shelf, number, &self.children, self.shards)?;
                let done = format!("after {} joined", child.name());
                self.progress.say(format!("{} joins", child.name()));
                self.children.push(child);
                (done, self.children.last())
            }
            Step::Leave => {
                // The oldest node, which leads: the hardest one to do without.
                let child = self.children.iter_mut().find(|child| !child.is_leaving());
                let child = child.ok_or_else(|| Failure::run("no node is left"))?;
                self.progress.say(format!("{} leaves", child.name()));
                child.leave();
                (format!("after {} left", child.name()), Some(&*child))
            }
        };
        let events = events.map(|child| child.events());
        Ok((done, async move {
            if let Some(events) = events {
                events.wait(step == Step::Join).await?;
            }
            watch.quiet().await;
            Ok(())
        }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Join,
    Leave,
}

fn addresses(children: &[Child]) -> Vec<String> {
    let addresses = children.iter().filter_map(Child::address);
    addresses.map(str::to_owned).collect()
}

fn spawn(shelf: &Shelf, number: u16, others: &[Child], shards: u32) -> Result<Child, Failure> {
    let name = format!("node-{}", letters(number));
    Child::spawn(&Orders {
        hosts: Hosts::Ledgers(shelf.book(&name)),
        name,
        seeds: addresses(others),
        shards,
    })
}

/// `a` to `z`, then `ba` and so on.
fn letters(number: u16) -> String {
    let letter = |number: u16| char::from(b'a' + (number % 26) as u8);
    match number / 26 {
        0 => letter(number).to_string(),
        more => format!("{}{}", letter(more), letter(number)),
    }
}
