#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod asks;
mod authority;
mod chaos;
mod cluster;
mod control;
mod departure;
mod faults;
mod forming;
mod full;
mod leases;
mod limits;
mod moving;
mod storm;
#[cfg(feature = "swim")]
mod swim;
