//! The part of a node that routes messages and hosts shards of one entity type.

mod command;

pub use command::{Arrival, Command, Origin, RejectReason, Route};
