//! Bodies of the fuzz targets: bytes in, a panic if an invariant breaks.
//!
//! Not part of the crate's interface. The targets under `fuzz/` call these, and so does a test that feeds them the
//! committed seeds and random bytes on any toolchain.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "a tool that reports by panicking"
)]

/// Calls both machines of a world, which answer alike.
macro_rules! both {
    ($world:ident, $machine:ident => $call:expr) => {{
        let first = {
            let $machine = &mut $world.heap;
            $call
        };
        let second = {
            let $machine = &mut $world.array;
            $call
        };
        assert_eq!(first, second, "the storages differ");
        first
    }};
}

mod balance;
mod coordinator;
mod feed;
mod handshake;
mod leadership;
mod region;
mod wire;
mod world;

pub use balance::balance_ops;
pub use coordinator::coordinator_ops;
pub use handshake::handshake;
pub use leadership::leadership_ops;
pub use region::region_ops;
pub use wire::{control_roundtrip, frame_decode};
pub use world::world;

/// A body of a fuzz target.
pub type Body = fn(&[u8]);

/// Every target, by name.
pub const TARGETS: &[(&str, Body)] = &[
    ("frame_decode", frame_decode),
    ("control_roundtrip", control_roundtrip),
    ("handshake", handshake),
    ("region_ops", region_ops),
    ("coordinator_ops", coordinator_ops),
    ("leadership_ops", leadership_ops),
    ("balance_ops", balance_ops),
    ("world", world),
];
