//! Why bytes are not a frame, and why a frame does not become bytes.

use core::fmt;

/// Why bytes are not a frame. Nothing was consumed or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// A list of shards does not decode, does not ascend, or names a shard out of range.
    List,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => f.write_str("malformed list of shards"),
        }
    }
}

impl core::error::Error for DecodeError {}
