#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod failing;
mod harness;
mod limits;
mod living;
mod random;
mod remembering;
mod stopping;
mod world;
