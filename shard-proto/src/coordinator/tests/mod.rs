#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod authority;
mod claims;
mod harness;
mod homes;
mod keep;
mod leases;
mod members;
mod model;
mod moves;
mod resize;
