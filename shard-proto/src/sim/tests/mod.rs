//! Tests of the simulated cluster, and of the protocol in it.

#![allow(clippy::panic)]

mod checker;
mod failover;
mod leaves;
mod members;
mod moves;
mod outages;
mod rules;
mod schedules;
mod script;
mod search;
mod types;
mod worlds;
