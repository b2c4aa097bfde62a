//! Why bytes are not a frame, and why a frame does not become bytes.

use core::fmt;

use super::Kind;

/// Why bytes are not a frame. Nothing was consumed or reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The buffer ends before the frame does.
    Incomplete {
        /// Bytes that the buffer must hold, counted from its beginning.
        need: usize,
    },
    /// The header announces a body above the limit. Nothing of it was read.
    TooLong {
        /// The announced length.
        len: u32,
        /// The limit for this kind.
        limit: u32,
    },
    /// A wire version that this crate does not speak.
    Version {
        /// The header's.
        found: u8,
    },
    /// A flag that this crate does not know, or knows as reserved.
    Flags {
        /// All flags of the header.
        found: u16,
    },
    /// The kind is not known here: skip the frame and count it.
    UnknownKind(Kind),
    /// The body ends too early.
    Truncated,
    /// Bytes are left over behind the body's last field, or behind the frame.
    Trailing,
    /// The body does not decode.
    Body,
    /// A field is out of its range.
    Range,
    /// A list of shards or ids does not decode, or names a shard out of range.
    List,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { need } => write!(f, "incomplete frame: {need} bytes are needed"),
            Self::TooLong { len, limit } => {
                write!(
                    f,
                    "frame body of {len} bytes is longer than the limit, {limit}"
                )
            }
            Self::Version { found } => write!(f, "wire version {found} is not spoken here"),
            Self::Flags { found } => write!(f, "frame flags {found:#06x} are not known here"),
            Self::UnknownKind(kind) => write!(f, "{kind} is not known here"),
            Self::Truncated => f.write_str("the body ends too early"),
            Self::Trailing => f.write_str("bytes are left over behind the body"),
            Self::Body => f.write_str("the body does not decode"),
            Self::Range => f.write_str("a field is out of range"),
            Self::List => f.write_str("malformed list"),
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why a frame was not written. The output holds nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The output slice is too short.
    OutputFull,
    /// The body would be longer than a frame may be.
    TooLong {
        /// The body's length, in bytes; of a control body, how much of it was seen.
        len: usize,
        /// The limit for it, in bytes.
        limit: u32,
    },
    /// A name, an address or an entity id is longer than its limit.
    FieldTooLong {
        /// The limit for the field, in bytes.
        limit: usize,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputFull => f.write_str("the output is too short for the frame"),
            Self::TooLong { len, limit } => {
                write!(
                    f,
                    "a body of {len} bytes is longer than a frame may be, {limit} bytes"
                )
            }
            Self::FieldTooLong { limit } => {
                write!(
                    f,
                    "a name, address or id is longer than its limit, {limit} bytes"
                )
            }
        }
    }
}

impl core::error::Error for EncodeError {}

/// Why a frame was not written whose payload its caller writes. The output holds nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the frame or the payload: there is no third"
)]
pub enum PutError<E> {
    /// The frame does not fit its limits.
    Encode(EncodeError),
    /// What the payload's writer answered.
    Payload(E),
}

impl<E> From<EncodeError> for PutError<E> {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error)
    }
}

impl<E: fmt::Display> fmt::Display for PutError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encode(error) => error.fmt(f),
            Self::Payload(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for PutError<E> {}
