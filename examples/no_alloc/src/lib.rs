//! A node of a cluster without an allocator: the region of `shard-proto` on
//! [`ArrayStorage`](shard_proto::table::ArrayStorage), messages in [`heapless`] vectors, and a link that is simple enough.
//!
//! [`Device`] is the whole node as one state machine, without I/O. Whoever has a pipe for bytes, a clock and a place for it
//!
//! 1. makes a connection while [`Device::wants`] one, says [`Device::connected`] and [`Device::closed`];
//! 2. passes on what comes in ([`Device::receive`]), and writes what [`Device::transmit`] gives;
//! 3. calls [`Device::handle_timeout`] when [`Device::poll_timeout`] says.
//!
//! `firmware` beside this crate does so on a microcontroller with 32-bit registers and no operating system, the program
//! `device` of the examples on TCP. The other nodes are ordinary ones, with `Membership::Links`: whoever is linked is a
//! member, and the device is linked with the nodes whose addresses it has.
//!
//! # What its link lacks
//!
//! | of section 6 of the protocol | here |
//! |---|---|
//! | either side dials, crossing dials are settled | It dials, and is dialed by nobody: it says no address. Nodes that it does not dial do not reach its entities. |
//! | lanes | One. |
//! | messages of 64 MiB in fragments | Ids of [`ID`] and messages of [`BODY`] bytes. The handshake says so, longer ones are refused where they are sent, or come back from here as undeliverable. |
//! | a full window is back-pressure | Towards the application: [`AskError::Busy`]. Towards other nodes it is a broken connection (an *overrun*): what is not accepted is not acknowledged, and comes again over the next one. A window has 4 KiB. |
//! | windows are independent | While one is full nothing is accepted from anybody, until it moves, or its node is given up. |
//! | control of 64 KiB | Control frames above 1 KiB are skipped and counted: they may be lost. |
//! | membership by gossip | None. A node without a connection for 10 s is gone. |
//! | the node leads, votes, coordinates | Never: `Leadership` follows. Ownership by lease only. |
//! | reliable tells | Refused: a receiver would have to remember numbers. |
//! | authentication | None: the pipe must lead to whom it is believed to. |
//!
//! # What it keeps
//!
//! One home, fenced by lease and epoch, order, no duplicates and no silent loss, as all nodes do. A connection that breaks
//! loses nothing: numbers and window outlive it, and the next one resumes. Only a life that ends loses what was
//! under way, its own or another node's, and says so: [`Failure::PerhapsDelivered`]. If the others gave this life up, or
//! it gave up one of theirs that comes back, then numbers cannot go on, and it is over ([`State::Over`]): begin a new one,
//! with a higher incarnation.
//!
//! # What it takes
//!
//! The firmware for thumbv6m, release build: 100 KB of flash and 32 KB of static memory. Nothing in it grows; there is no
//! allocator, no formatting, and no panic that input could reach: its arithmetic saturates, and nothing is indexed.
//! `examples/tests/device.rs` looks at the program for all of that.
#![no_std]

mod asks;
mod data;
mod device;
mod leave;
mod link;
mod lives;
mod visitors;
mod window;

use core::time::Duration;

pub use asks::{AskError, AskKey, Event, Failure};
pub use device::{Config, Device, State, Stats};
pub use visitors::VISITOR;

/// Other nodes that it can be linked with. It dials each of them, and is dialed by nobody.
pub const LINKS: usize = 3;
/// The most shards that the type may have.
pub const SHARDS: usize = 16;
/// Entities that may live here at once; messages to more are refused.
pub const ENTITIES: usize = 32;
/// Asks that may wait at once.
pub const ASKS: usize = 8;
/// The longest id of an entity, in bytes; messages to others go back as undeliverable.
pub const ID: usize = 32;
/// The longest message or answer, in bytes; longer messages go back as undeliverable.
pub const BODY: usize = 160;
/// What [`Device::transmit`] fills at once.
pub const OUTBOX: usize = CONTROL;

/// The longest id and message together, as it says in the handshake.
const MESSAGE: u32 = (ID + BODY) as u32;
/// The longest body of a data frame. With what is around the longest message it fits one: nothing comes in fragments.
const FRAME: u32 = MESSAGE + 64;
/// The longest data frame that it sends: one that goes back is a byte longer than it came.
const LONGEST: usize = shard_proto::wire::HEADER_LEN + FRAME as usize + 1;
/// Bytes of data frames per link that wait for acknowledgement.
const WINDOW: usize = 4096;
/// Bytes of one frame that is being received. Longer control frames are skipped.
const INBOX: usize = 1024;
/// Bytes of control frames per link that wait to be written; what does not fit is dropped.
const CONTROL: usize = 1024;
/// Lives of other nodes, those that ended included.
const NODES: usize = 2 * LINKS + 1;
/// Messages that wait for a home.
const QUEUE: usize = 16;

/// Times, as in the other adapters' defaults.
struct Times;

impl Times {
    const ACK_DELAY: Duration = Duration::from_millis(10);
    const KEEP_ALIVE: Duration = Duration::from_millis(500);
    const SILENCE: Duration = Duration::from_secs(5);
    /// After which a node without a connection counts as gone: as long as the others wait (`down_after`).
    const GONE: Duration = Duration::from_secs(10);
    const RETRY: Duration = Duration::from_millis(100);
    const MAX_RETRY: Duration = Duration::from_secs(2);
    /// How long to wait, once nothing is hosted, for what is still under way.
    const LINGER: Duration = Duration::from_millis(200);
    const LEAVE: Duration = Duration::from_secs(20);
}
