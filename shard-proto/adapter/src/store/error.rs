//! What can go wrong in a store.

use core::fmt;

use shard_proto::Epoch;

use crate::entity::BoxError;

/// Why a store did not do what it was asked.
///
/// Unless a variant says otherwise nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The store has seen a higher epoch: what is being written is no longer at home here. Trying again is useless.
    Fenced {
        /// The highest epoch that the store has seen.
        seen: Epoch,
        /// The one that was given.
        given: Epoch,
    },
    /// A gap or a duplicate: the number given is not the one that comes next. For a snapshot, `expected` is the bound
    /// that it broke: the last event there is, or the snapshot that is there already. Recover before going on.
    Sequence {
        /// What comes next.
        expected: u64,
        /// What was given.
        given: u64,
    },
    /// The store cannot be reached, is busy, full or read-only. It was surely not written: try again later.
    Unavailable(BoxError),
    /// Nobody knows whether it was written. Recover before going on.
    Unknown(BoxError),
    /// More than the store takes at once.
    TooLarge {
        /// How much it is, in bytes.
        size: usize,
        /// How much it may be, in bytes.
        limit: usize,
    },
    /// What is in the store makes no sense. For people to look at: trying again is useless.
    Corrupt(String),
    /// The store was made by a newer version of this crate.
    Version {
        /// The version of the store's tables.
        found: u32,
        /// The newest version that this crate knows.
        known: u32,
    },
    /// A setting of the store cannot work, such as where it is; the text says which, and what to do. Trying again is
    /// useless.
    Setting(String),
    /// The store was closed.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { seen, given } => write!(
                f,
                "epoch {given} is fenced: the store has seen {seen}, so its home is elsewhere by now"
            ),
            Self::Sequence { expected, given } => {
                write!(f, "number {given} is out of sequence: expected {expected}")
            }
            Self::Unavailable(error) => write!(f, "the store is unavailable: {error}"),
            Self::Unknown(error) => write!(f, "it is not known whether it was written: {error}"),
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes are more than the store takes: {limit}")
            }
            Self::Corrupt(what) => write!(f, "the store is corrupt: {what}"),
            Self::Version { found, known } => write!(
                f,
                "the store has version {found} of its tables, this program knows up to {known}: use a newer program"
            ),
            Self::Setting(what) => f.write_str(what),
            Self::Closed => f.write_str("the store is closed"),
        }
    }
}

impl core::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Unavailable(error) | Self::Unknown(error) => Some(&**error),
            _ => None,
        }
    }
}
