//! A node in a terminal, on any runtime.

use core::time::Duration;
use std::{collections::BTreeMap, process::ExitCode, thread};

use shard_adapter::{EntityType, LeaveError, Member, Membership, Node};
use tokio::sync::oneshot;

use crate::{
    cli,
    failure::{Failure, say},
    log,
    runtimes::Carries,
    stop,
    visitor::Visitor,
};

/// Runs a node until somebody tells it to stop.
///
/// # Errors
/// It cannot start, or has stopped by itself.
pub async fn run<R: Carries>(options: cli::Node) -> Result<ExitCode, Failure> {
    log::to_stderr();
    let seeds = options.seed.iter().map(ToString::to_string);
    let node = options
        .shape()
        .node_on::<R>(&options.name, seeds.collect())?;
    let mut node = node.listen(options.listen);
    if let Some(address) = options.advertise {
        node = node.advertise(address);
    }
    if options.links {
        node = node.membership(Membership::Links);
    }
    let node = node.start().await?;
    let name = options.name.clone();
    let visitors = node
        .entity_type::<Visitor>()
        .shards(options.shards)
        .factory(move |_id| Visitor::new(name.clone()));
    let visitors = if options.proxy {
        visitors.proxy()
    } else {
        visitors
    };
    let visitors = visitors.start().await.map_err(Failure::run)?;
    say(format_args!(
        "{} listens on {}; Ctrl-C leaves the cluster\n",
        node.name(),
        node.address()
    ))?;

    let mut told = told_to_stop();
    let runtime = R::default().executor();
    let ready = visitors.ready();
    tokio::select! {
        ready = ready => ready.map_err(Failure::run)?,
        _ = &mut told => return leave(&node).await,
    }
    say(format_args!(
        "{} takes part, as {}\n",
        node.name(),
        node.id()
    ))?;
    let mut shown = Shown::default();
    loop {
        tokio::select! {
            _ = &mut told => return leave(&node).await,
            () = node.stopped() => return Err(Failure::run(
                "the node has stopped: it was declared down, or another one has its name; start it again",
            )),
            () = runtime.sleep(Duration::from_millis(200)) => shown.show(&node, &visitors)?,
        }
    }
}

async fn leave<R>(node: &Node<R>) -> Result<ExitCode, Failure> {
    say(format_args!(
        "{} leaves: hands its shards over\n",
        node.name()
    ))?;
    if let Err(error) = node.leave().await {
        let LeaveError::EndsQuorum { voters_up, quorum } = error else {
            return Err(Failure::run(error));
        };
        // Whoever tells a process to end wants it to end.
        say(format_args!(
            "{} leaves although {voters_up} voters remain and {quorum} are needed: nobody serves until one more starts\n",
            node.name()
        ))?;
        node.leave_forced().await.map_err(Failure::run)?;
    }
    say(format_args!("{} has left\n", node.name()))?;
    Ok(ExitCode::SUCCESS)
}

/// What was printed last; only changes are printed.
#[derive(Default)]
struct Shown {
    members: BTreeMap<u64, String>,
    hosted: usize,
    running: usize,
}

impl Shown {
    fn show<R>(&mut self, node: &Node<R>, visitors: &EntityType<Visitor>) -> Result<(), Failure> {
        let others = node
            .members()
            .into_iter()
            .filter(|member| member.node != node.id());
        let members: BTreeMap<_, _> = others.map(|member| describe(&member)).collect();
        for (id, text) in &members {
            if self.members.get(id) != Some(text) {
                say(format_args!("member {id} {text}\n"))?;
            }
        }
        for id in self.members.keys().filter(|id| !members.contains_key(id)) {
            say(format_args!("member {id} is gone\n"))?;
        }
        self.members = members;
        let (hosted, running) = (visitors.shards().len(), visitors.running());
        if (hosted, running) != (self.hosted, self.running) {
            say(format_args!(
                "hosts {hosted} shards, {running} entities run\n"
            ))?;
            (self.hosted, self.running) = (hosted, running);
        }
        Ok(())
    }
}

fn describe(member: &Member) -> (u64, String) {
    let at = member.address.as_deref().unwrap_or("an unknown address");
    (member.node.0, format!("at {at} is {:?}", member.state))
}

/// Waits in a thread of its own, which has tokio's signals whatever the node runs on.
fn told_to_stop() -> oneshot::Receiver<()> {
    let (sender, told) = oneshot::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            // If there are no signals here, it is told nothing.
            let told = runtime.block_on(stop::told_to_stop());
            let _ = told.map(|()| sender.send(()));
        }
    });
    told
}
