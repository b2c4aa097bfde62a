//! Decides which node is the home of each shard of one entity type.

mod command;
mod config;
mod error;
mod machine;
#[allow(dead_code, reason = "used by what follows")]
mod slot;
#[allow(dead_code, reason = "used by what follows")]
mod stats;

pub use command::CoordinatorCommand;
pub use config::{ConfigError, CoordinatorConfig, StorageMismatch};
pub use error::ControlError;
pub use machine::Coordinator;
pub use slot::{CoordNodeSlot, CoordShardSlot};
pub use stats::{CoordPhase, CoordShardState, CoordinatorStats};
