//! Settings of the store.

use core::fmt;
use core::time::Duration;

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{NoTls, Socket};

use super::session::{Dial, With};
use crate::store::StoreError;
use shard_adapter::backend::Limits;

/// Settings of a [`PostgresStore`](super::PostgresStore), beyond its URL.
pub struct PostgresConfig {
    pub(super) schema: String,
    pub(super) plaintext: bool,
    pub(super) dial: Box<dyn Dial>,
    pub(super) encrypted: bool,
    pub(super) connect_timeout: Duration,
    pub(super) statement_timeout: Duration,
    pub(super) limits: Limits,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("schema", &self.schema)
            .field("plaintext", &self.plaintext)
            .field("encrypted", &self.encrypted)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl PostgresConfig {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "shard".to_owned(),
            plaintext: false,
            dial: Box::new(With(NoTls)),
            encrypted: false,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            limits: Limits::DEFAULT,
        }
    }

    /// The schema that holds the tables: a small letter or `_`, then small letters, digits and `_`, at most 63 bytes.
    /// Stores with different schemas have nothing in common. Default: `shard`.
    #[must_use]
    pub fn with_schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Encrypts. The server has to show what the connector takes for its certificate, and `sslmode` of the URL does not
    /// matter: it is always `require`. Default: none, which goes to this machine only.
    #[must_use]
    pub fn with_tls<T>(mut self, connector: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        self.dial = Box::new(With(connector));
        self.encrypted = true;
        self
    }

    /// Goes to other machines without [TLS](Self::with_tls). Whoever can read or change what the network carries can then
    /// read and change state, and some kinds of passwords: for networks that are protected otherwise. Default: `false`.
    #[must_use]
    pub const fn with_plaintext(mut self, allowed: bool) -> Self {
        self.plaintext = allowed;
        self
    }

    /// How long to wait for a connection, for each server that the URL names. Default: 5 s.
    #[must_use]
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the server may take for a statement, in whole milliseconds from 1; half of it for a lock. It then undoes
    /// it: [`Unavailable`](StoreError::Unavailable). If it does not answer at all, 2 s later that is
    /// [`Unknown`](StoreError::Unknown) and the connection is given up. Default: 10 s.
    #[must_use]
    pub const fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout = timeout;
        self
    }

    /// How many requests, and bytes in them, wait for the writer or are being written; beyond it whoever asks waits.
    /// A request that is larger than that has the queue for itself. Default: 4096, 64 MiB.
    #[must_use]
    pub const fn with_queue(mut self, requests: usize, bytes: usize) -> Self {
        self.limits.requests = requests;
        self.limits.bytes = bytes;
        self
    }

    /// What one request may write, in bytes: more is [`TooLarge`](StoreError::TooLarge). At most 512 MiB, because the
    /// server takes no statement of 1 GiB. Default: [`MAX_WRITE`](crate::store::MAX_WRITE).
    #[must_use]
    pub const fn with_max_write(mut self, bytes: usize) -> Self {
        self.limits.max_write = bytes;
        self
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        let setting = |what: &str| Err(StoreError::Setting(format!("setting {what}")));
        let mut letters = self.schema.bytes();
        let first = letters
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        let rest = letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !first || !rest || self.schema.len() > 63 {
            return setting(
                "`schema` has to be a small letter or `_`, then small letters, digits and `_`, at most 63 bytes",
            );
        }
        if self.connect_timeout.is_zero() {
            return setting("`connect_timeout` has to be more than 0");
        }
        // The server's limit is an i32.
        if !(1..=i32::MAX as u128).contains(&self.statement_timeout.as_millis()) {
            return setting("`statement_timeout` has to be from 1 ms to 24 days");
        }
        Ok(())
    }
}
