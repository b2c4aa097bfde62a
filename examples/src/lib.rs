//! Programs a person runs, and what they share.
//!
//! - `cluster`: the main job: flight records, accounted for by sharded entities while nodes join, leave and fail.
//! - `takeover`: how long shards are without service when their node hangs, over many runs.
//! - `node` and `send`: the same node as a program of its own, and a client that talks to it; `asyncstd_node` is the same
//!   on async-std.
//! - `certs`: makes a cluster's authority and certificates, for nodes that believe nothing else.
//! - `threads`: such a node without an async runtime: the core on std threads and blocking sockets.
//! - `device`: a node without an allocator, as on a microcontroller (`no_alloc` beside this crate has it), on TCP.
//! - `in_memory`: two regions and a coordinator without any I/O, printed step by step.
//! - `mutants`: deliberate faults of the protocol, planted in a copy: the simulator must find each.
//! - `bench`: what this machine can do, and what the sharded entities make of it.
//! - `policies`: load balancing policies of many simulated clients, side by side.
//! - `chaos`: simulated clusters in which everything goes wrong, and what the protocol promises is checked.

pub mod bench;
pub mod certs;
pub mod chaos;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod echo;
pub mod failure;
pub mod feed;
pub mod figures;
pub mod fleet;
pub mod floor;
pub mod input;
pub mod latency;
pub mod ledger;
pub mod log;
pub mod map;
pub mod mutants;
pub mod policies;
pub mod process;
pub mod progress;
pub mod runtimes;
pub mod service;
pub mod shape;
pub mod stop;
pub mod takeover;
pub mod terminal;
pub mod totals;
pub mod verdict;
pub mod visitor;

/// The program in the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
