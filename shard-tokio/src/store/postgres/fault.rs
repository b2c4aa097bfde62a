//! What an error of the server means for what was asked.

use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another transaction was in the way. Nothing was written; the same may work at once.
    Again(String),
    /// Nothing was written.
    Refused {
        /// For people.
        text: String,
        /// The connection is good. Otherwise a new one may find things as they should be.
        keep: bool,
        /// It may be the fault of one request of the group.
        alone: bool,
        /// Someone has to change a setting, here or there.
        setting: bool,
        /// The data itself cannot be read.
        corrupt: bool,
    },
    /// The connection was lost: nobody knows.
    Lost(String),
}

impl Fault {
    pub(super) fn text(self) -> String {
        match self {
            Self::Again(text) | Self::Refused { text, .. } | Self::Lost(text) => text,
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = text(&error);
        let Some(server) = error.as_db_error() else {
            return Self::Lost(text);
        };
        // An error of this severity undoes the statement. Whoever ends the whole connection may do so after the
        // commit and before it was told.
        if server.parsed_severity() != Some(Severity::Error) && !is_greeting(server) {
            return Self::Lost(text);
        }
        let code = server.code();
        if *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
        {
            return Self::Again(text);
        }
        let class = code.code().get(..2).unwrap_or("");
        Self::Refused {
            text,
            // Read-only, statements and tables that are not what they were, damage, another store.
            keep: !matches!(class, "0A" | "25" | "26" | "3D" | "3F" | "42" | "SH" | "XX"),
            // Where all wait or nothing fits, trying each by itself makes it worse.
            alone: !matches!(class, "53" | "55" | "57"),
            // Who one is, which database, what one may do.
            setting: matches!(class, "28" | "3D") || *code == SqlState::INSUFFICIENT_PRIVILEGE,
            corrupt: *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED,
        }
    }
}

/// Said before anything could have been asked.
fn is_greeting(error: &DbError) -> bool {
    let code = error.code();
    matches!(code.code().get(..2), Some("28" | "3D" | "53"))
        || *code == SqlState::CANNOT_CONNECT_NOW
}

/// The library's own text says no more than "db error"; what the server said is its source.
fn text(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        let code = server.code().code();
        // The server's words for these name the user.
        let unnamed = match code {
            "28P01" => Some("password authentication failed"),
            "53300" => Some("too many connections"),
            _ if code.starts_with("28") => Some(
                "the server does not let this user in from here; its log says more, and `pg_hba.conf` says who may",
            ),
            _ => None,
        };
        if let Some(text) = unnamed {
            return format!("{text} (SQLSTATE {code})");
        }
        let mut text = format!("{} (SQLSTATE {code})", server.message());
        if let Some(detail) = server.detail() {
            text = format!("{text}: {detail}");
        }
        return text;
    }
    core::error::Error::source(error)
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
