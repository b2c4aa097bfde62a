//! Entities come, fail, are passivated and come back: nothing is lost or reordered by that.
#![allow(
    unreachable_pub,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

mod dropping;
mod failing;
mod house;
mod load;
mod moving;
mod passivating;
mod waiting;

#[path = "../common/mod.rs"]
mod common;
