//! What travels between nodes: frames of a hand-written header and a body.
//!
//! Control bodies are postcard; data bodies are hand-written, so that no serde is on the hot path. Integers of postcard
//! are varints with more than one encoding of the same value: never hash, sign or compare encoded bytes.

mod codec;
pub mod control;
pub mod data;
mod error;
mod frame;
pub mod header;
pub mod list;
#[cfg(feature = "alloc")]
pub mod put;
mod version;

#[cfg(test)]
mod tests;

pub use control::Control;
pub use data::{Data, DataHead, Envelope, Flush, Flushed, Reply, Return, ReturnReason};
pub use error::{DecodeError, EncodeError, PutError};
pub use frame::{Decoded, Frame};
pub use header::{
    DEFAULT_MAX_FRAME, Flags, HEADER_LEN, Header, Kind, MAX_CONTROL_FRAME, MAX_CONTROL_LEN,
    MAX_ID_LEN, MAX_VERSION, MIN_VERSION,
};
pub use list::{
    Claim, Claims, ClaimsBuilder, EntityIds, EntityIdsBuilder, HomeEntry, Homes, HomesBuilder,
};
pub use version::{VersionMismatch, negotiate};
