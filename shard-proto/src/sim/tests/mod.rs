//! Tests of the simulated cluster, and of the protocol in it.

mod checker;
mod schedules;
