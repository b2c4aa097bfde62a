//! Nodes on async-std, which is unmaintained ([RUSTSEC-2025-0052](https://rustsec.org/advisories/RUSTSEC-2025-0052)):
//! for programs that have it anyway.

use std::sync::Arc;

use shard_adapter::runtime::{Executor, Runtime};
use shard_adapter::transport::Transport;

use crate::tasks::Tasks;
use crate::transport::TcpTransport;

/// Runs nodes on the global executor of async-std.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncStd;

impl Runtime for AsyncStd {
    fn executor(&self) -> Arc<dyn Executor> {
        Arc::new(Tasks(|task| drop(::async_std::task::spawn(task))))
    }

    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(TcpTransport::new())
    }
}

/// A node of a cluster, on async-std.
pub type Node = shard_adapter::Node<AsyncStd>;

/// Sets up a node on async-std; made by [`Node::builder`].
pub type NodeBuilder = shard_adapter::NodeBuilder<AsyncStd>;
