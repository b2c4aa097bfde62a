//! Who coordinates, under which term.

mod command;

pub use command::LeadershipCommand;
