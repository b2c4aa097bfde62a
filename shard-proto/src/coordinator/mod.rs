//! Decides which node is the home of each shard of one entity type.

mod command;

pub use command::CoordinatorCommand;
