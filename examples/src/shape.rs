//! What all nodes of a cluster agree on.

use core::time::Duration;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use shard_tokio::{NodeBuilder, Ownership, Peer, Preset};

use crate::{
    certs::{Authority, load},
    failure::Failure,
    runtimes::Carries,
};

/// What all nodes of a cluster agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// How many shards there are.
    pub shards: u32,
    /// Names of the nodes that vote; nobody: homes are trusted to membership.
    pub voters: Vec<String>,
    /// Times for networks with round trips below 10 ms.
    pub lan: bool,
    /// Mutual TLS; without it plain TCP.
    pub tls: Option<Secured>,
}

/// Mutual TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secured {
    /// A folder with certificates.
    pub folder: PathBuf,
    /// Over QUIC, not TCP.
    pub quic: bool,
}

/// The cluster whose certificates a program makes for its own run.
const CLUSTER: &str = "here";
/// How long they are good, in days.
const DAYS: u32 = 1;

impl Shape {
    /// A cluster whose homes are trusted to membership, with short times.
    #[must_use]
    pub const fn trusting(shards: u32) -> Self {
        Self {
            shards,
            voters: Vec::new(),
            lan: true,
            tls: None,
        }
    }

    /// The same over mutual TLS, with certificates in this folder.
    #[must_use]
    pub fn with_tls(mut self, folder: PathBuf) -> Self {
        let quic = false;
        self.tls = Some(Secured { folder, quic });
        self
    }

    /// The same over QUIC, with certificates in this folder.
    #[must_use]
    pub fn with_quic(mut self, folder: PathBuf) -> Self {
        let quic = true;
        self.tls = Some(Secured { folder, quic });
        self
    }

    /// Makes a certificate for a node of the name, if that is how nodes know each other, by an authority for this run.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn certify(&self, name: &str) -> Result<(), Failure> {
        let Some(secured) = &self.tls else {
            return Ok(());
        };
        let authority = Authority::open(&secured.folder, CLUSTER)?;
        authority.sign(Peer::Node, name, DAYS).map(|_| ())
    }

    /// How many voters must support a leader; 0 if there are none.
    #[must_use]
    pub fn quorum(&self) -> usize {
        match self.voters.len() {
            0 => 0,
            voters => voters / 2 + 1,
        }
    }

    /// Sets up a node on this machine, on tokio. One without seeds is the first one.
    ///
    /// # Errors
    /// There is no good certificate for it.
    pub fn node(&self, name: &str, seeds: Vec<String>) -> Result<NodeBuilder, Failure> {
        self.node_on(name, seeds)
    }

    /// The same on any runtime.
    ///
    /// # Errors
    /// There is no good certificate for it.
    pub fn node_on<R: Carries>(
        &self,
        name: &str,
        seeds: Vec<String>,
    ) -> Result<shard_adapter::NodeBuilder<R>, Failure> {
        let mut node = shard_adapter::Node::<R>::builder(name)
            .listen("127.0.0.1:0")
            .bootstrap(seeds.is_empty())
            .seeds(seeds)
            .preset(if self.lan {
                Preset::Lan
            } else {
                Preset::Default
            });
        if let Some(Secured { folder, quic }) = &self.tls {
            let tls = load(folder, name)?;
            node = if *quic {
                node.transport(R::quic(tls))
            } else {
                node.security(tls)
            };
        }
        Ok(if self.voters.is_empty() {
            node.ownership(Ownership::Trust)
        } else {
            node.voters(&self.voters)
        })
    }

    /// How long a node may serve without hearing from its leader.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        Duration::from_millis(if self.lan { 500 } else { 2000 })
    }

    /// How long shards may be without service after their node was killed or froze. Without leases they wait until
    /// membership declares it down, for which nothing is promised.
    #[must_use]
    pub const fn takeover_bound(&self) -> Duration {
        Duration::from_millis(match (self.voters.is_empty(), self.lan) {
            (true, _) => 30_000,
            (false, true) => 1000,
            (false, false) => 2900,
        })
    }

    /// The same for a shard that moves as planned: two round trips, of the length that the times are made for.
    #[must_use]
    pub const fn move_bound(&self) -> Duration {
        Duration::from_millis(if self.lan { 20 } else { 100 })
    }
}
