//! Durable entities: what is answered is written, and is there after any failure of a store, a node or a cluster.
#![allow(
    unreachable_pub,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

mod faulty;
mod kept;
mod ledger;
#[cfg(feature = "sqlite")]
mod restart;
mod snapshots;
mod sourced;
mod storage;

#[path = "../common/mod.rs"]
mod common;
