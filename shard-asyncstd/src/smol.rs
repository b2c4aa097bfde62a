//! Nodes on smol.

use std::sync::Arc;

use shard_adapter::runtime::{Executor, Runtime};
use shard_adapter::transport::Transport;

use crate::tasks::Tasks;
use crate::transport::TcpTransport;

/// Runs nodes on the global executor of smol: one thread, unless `SMOL_THREADS` says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smol;

impl Runtime for Smol {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Tasks(|task| ::smol::spawn(task).detach()))
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(TcpTransport::new())
    }
}

/// A node of a cluster, on smol.
pub type Node = shard_adapter::Node<Smol>;

/// Sets up a node on smol; made by [`Node::builder`].
pub type NodeBuilder = shard_adapter::NodeBuilder<Smol>;
