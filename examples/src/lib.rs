//! Programs a person runs, and what they share.
//!
//! - `cluster`: the main job: flight records, accounted for by sharded entities while nodes join and leave.
//! - `node` and `send`: the same node as a program of its own, and a client that talks to it.
//! - `bench`: what this machine can do, and what the sharded entities make of it.

#![allow(clippy::std_instead_of_alloc, reason = "programs have std")]

pub mod cli;
pub mod failure;
pub mod figures;
pub mod floor;
pub mod input;
pub mod latency;
pub mod progress;
pub mod totals;
pub mod verdict;
