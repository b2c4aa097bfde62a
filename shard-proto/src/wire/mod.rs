//! What travels between nodes: frames of a hand-written header and a body.
//!
//! Control bodies are postcard; data bodies are hand-written, so that no serde is on the hot path.

pub mod control;
pub mod data;
mod error;
pub mod header;
pub mod list;

pub use control::Control;
pub use data::{Data, Envelope, Flush, Flushed, Reply, Return, ReturnReason};
pub use error::DecodeError;
pub use header::HEADER_LEN;
pub use list::{Claim, Claims, ClaimsBuilder, EntityIds, HomeEntry, Homes, HomesBuilder};
