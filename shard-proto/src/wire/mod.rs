//! What travels between nodes: frames of a hand-written header and a body.
//!
//! Control bodies are postcard; data bodies are hand-written, so that no serde is on the hot path. Integers of postcard
//! are varints with more than one encoding of the same value: never hash, sign or compare encoded bytes.
//!
//! A receiver takes whole frames off the beginning of its buffer:
//!
//! ```
//! use shard_proto::wire::{Control, Decoded, Frame, control::GetShardHome};
//! use shard_proto::{EntityTypeId, ShardId, Term};
//!
//! let mut buffer = [0; 64];
//! let ask = Control::GetShardHome(GetShardHome { shard: ShardId(7) });
//! let len = ask.encode(EntityTypeId(1), Term(5), 1, &mut buffer)?;
//!
//! // 20 bytes of header announce a body of one byte.
//! let max_frame = 1024 * 1024;
//! assert_eq!(Frame::decode(&buffer[..20], max_frame), Ok(Decoded::Incomplete { need: 21 }));
//! if let Decoded::Frame(frame) = Frame::decode(&buffer[..len], max_frame)? {
//!     assert_eq!(frame.header.term(), Term(5));
//!     assert_eq!(frame.control()?, ask);
//!     assert_eq!(frame.encoded_len(), len);
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

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
