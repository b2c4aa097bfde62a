//! Decides which node is the home of each shard of one entity type.

mod allocate;
mod announce;
mod command;
mod config;
mod error;
mod ledger;
mod machine;
mod members;
mod moves;
mod poll;
mod register;
mod slot;
mod stats;

pub use command::CoordinatorCommand;
pub use config::{ConfigError, CoordinatorConfig, StorageMismatch};
pub use error::ControlError;
pub use machine::Coordinator;
pub use slot::{CoordNodeSlot, CoordShardSlot};
pub use stats::{CoordPhase, CoordShardState, CoordinatorStats};
