//! Sans-IO protocol core for sharded entities.
#![no_std]
#[cfg(any(feature = "alloc", test))]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod allocation;
pub mod coordinator;
pub mod hash;
mod id;
pub mod leadership;
pub mod membership;
#[cfg(feature = "alloc")]
pub mod node;
pub mod region;
pub mod table;
mod time;
pub mod wire;

pub use id::{
    EntityTypeId, Epoch, Home, Incarnation, Leader, NodeId, Session, ShardId, Term, Token,
};
pub use time::{Instant, earliest, micros};
