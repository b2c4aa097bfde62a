//! What SQLite's errors mean.

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// An error that several requests can be told of.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    Unavailable(String),
    Unknown(String),
    Corrupt(String),
}

impl Fault {
    /// From an error before anything was committed.
    pub(super) fn before_commit(error: &rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(code, _) = error else {
            // A value of another type than was written.
            return Self::Corrupt(error.to_string());
        };
        let hint = match code.code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown => {
                return Self::Corrupt(error.to_string());
            }
            ErrorCode::DiskFull => "the disk is full",
            ErrorCode::ReadOnly => "the file, its folder or the disk is read-only",
            ErrorCode::CannotOpen => {
                "the file, or those that SQLite makes beside it, cannot be opened"
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                "other processes have kept the file busy for too long"
            }
            ErrorCode::SystemIoFailure => "the disk or file system failed",
            _ => return Self::Unavailable(error.to_string()),
        };
        Self::Unavailable(format!("{hint} ({error})"))
    }

    /// From an error of the commit itself.
    pub(super) fn at_commit(error: &rusqlite::Error) -> Self {
        match (Self::before_commit(error), error.sqlite_error_code()) {
            // No lock, or no room for the frame that ends a transaction: there is none in the log.
            (fault, Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull)) => fault,
            (Self::Unavailable(what) | Self::Unknown(what) | Self::Corrupt(what), _) => {
                Self::Unknown(what)
            }
        }
    }

    pub(super) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt(_))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unavailable(what) => Self::Unavailable(what.into()),
            Fault::Unknown(what) => Self::Unknown(what.into()),
            Fault::Corrupt(what) => Self::Corrupt(what),
        }
    }
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}
