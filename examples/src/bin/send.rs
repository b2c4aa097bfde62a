//! Sends messages to an entity and prints the answers.

use core::time::Duration;
use std::process::ExitCode;

use examples::{
    cli,
    failure::{self, Failure, say},
    visitor::Visitor,
};

/// How long to look for a cluster.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match cli::parse::<cli::Send>() {
        Ok(options) => failure::exit(run(options).await),
        Err(code) => code,
    }
}

async fn run(options: cli::Send) -> Result<ExitCode, Failure> {
    examples::log::to_stderr();
    let seeds: Vec<_> = options.seed.iter().map(ToString::to_string).collect();
    let name = options.name();
    let node = options.shape().node(&name, seeds.clone())?;
    let node = node.bootstrap(false).may_lead(false).start().await?;
    let visitors = node
        .entity_type::<Visitor>()
        .shards(options.shards)
        .proxy()
        .start()
        .await
        .map_err(Failure::run)?;
    let ready = tokio::time::timeout(PATIENCE, visitors.ready()).await;
    ready
        .map_err(|_| Failure::run(format!("no cluster answers at {}", seeds.join(", "))))?
        .map_err(Failure::run)?;
    let entity = visitors.entity(&options.entity);
    let mut failed = false;
    for number in 0..options.repeat.get() {
        if number > 0 {
            tokio::time::sleep(Duration::from_millis(options.every)).await;
        }
        match entity.ask(options.message.clone()).await {
            Ok(heard) => say(format_args!(
                "{} on {} (shard {}, epoch {}.{}): message {}: {:?}\n",
                options.entity,
                heard.node,
                heard.shard,
                heard.epoch.0,
                heard.epoch.1,
                heard.count,
                heard.text
            ))?,
            Err(error) => {
                eprintln!("error: {error}");
                failed = true;
            }
        }
    }
    node.leave().await.map_err(Failure::run)?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
