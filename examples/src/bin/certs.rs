//! Makes a cluster's authority and certificates for its nodes and clients.

use std::process::ExitCode;

use examples::{
    certs::Authority,
    cli,
    failure::{self, Failure, say},
};
use shard_tokio::Peer;

fn main() -> ExitCode {
    match cli::parse::<cli::Certs>() {
        Ok(options) => failure::exit(run(&options)),
        Err(code) => code,
    }
}

fn run(options: &cli::Certs) -> Result<ExitCode, Failure> {
    let authority = Authority::open(&options.out, &options.cluster)?;
    let folder = options.out.display();
    say(format_args!(
        "{folder}/ca.pem: the authority of {}, {}\n",
        options.cluster,
        if authority.is_old {
            "as it was"
        } else {
            "new; whoever has ca.key is every node, so keep it elsewhere"
        }
    ))?;
    let nodes = options.nodes.iter().map(|name| (Peer::Node, name));
    let clients = options.client.iter().map(|name| (Peer::Client, name));
    for (kind, name) in nodes.chain(clients) {
        let identity = authority.sign(kind, name, options.days)?;
        say(format_args!("{folder}/{name}.pem: {identity}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
