#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation
)]

mod authority;
mod buffers;
mod flushes;
mod handoff;
mod inputs;
mod lapses;
mod leased;
mod members;
mod order;
mod random;
mod registration;
mod resize;
mod run;
mod said;
mod tables;
mod world;
