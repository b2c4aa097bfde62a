#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::std_instead_of_alloc
)]

mod failover;
mod floor;
mod hostile;
mod leases;
mod random;
mod rules;
mod world;
