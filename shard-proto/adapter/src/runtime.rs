//! What a runtime gives a node.

use std::sync::Arc;

use crate::transport::Transport;

/// What runs the tasks of a node.
pub trait Runtime: Default + Send + Sync + 'static {
    /// How nodes reach each other unless they are told.
    fn transport(&self) -> Arc<dyn Transport>;
}

/// What the unit tests run on.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Test;

#[cfg(test)]
impl Runtime for Test {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(crate::transport::MemoryTransport::new())
    }
}
