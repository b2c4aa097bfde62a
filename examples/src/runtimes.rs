//! What node processes run on.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use shard_adapter::{Tls, runtime::Runtime};
use shard_asyncstd::{async_std::AsyncStd, smol::Smol};
use shard_quic::QuicTransport;
use shard_tokio::Tokio;

/// A runtime that QUIC runs on.
pub trait Carries: Runtime {
    /// The transport of a node on it.
    fn quic(tls: Tls) -> QuicTransport;
}

impl Carries for Tokio {
    fn quic(tls: Tls) -> QuicTransport {
        QuicTransport::tokio(tls)
    }
}

impl Carries for AsyncStd {
    fn quic(tls: Tls) -> QuicTransport {
        QuicTransport::async_std(tls)
    }
}

impl Carries for Smol {
    fn quic(tls: Tls) -> QuicTransport {
        QuicTransport::smol(tls)
    }
}

/// What a node process runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum On {
    /// Tokio, on one thread.
    #[default]
    Tokio,
    /// async-std.
    AsyncStd,
    /// smol, on one thread.
    Smol,
}

/// What the node processes of a cluster run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Runtimes {
    /// All on tokio.
    #[default]
    Tokio,
    /// All on async-std.
    AsyncStd,
    /// All on smol.
    Smol,
    /// By turns: node-a on tokio, node-b on async-std, node-c on smol, and so on.
    Mixed,
}

impl Runtimes {
    /// What the node of that name runs on.
    #[must_use]
    pub fn of(self, name: &str) -> On {
        match self {
            Self::Tokio => On::Tokio,
            Self::AsyncStd => On::AsyncStd,
            Self::Smol => On::Smol,
            Self::Mixed => {
                let letter = name.bytes().last().unwrap_or(b'a');
                match letter.wrapping_sub(b'a') % 3 {
                    0 => On::Tokio,
                    1 => On::AsyncStd,
                    _ => On::Smol,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::node_name;

    #[test]
    fn mixed_nodes_take_turns() {
        let on: Vec<_> = (0..4)
            .map(|number| Runtimes::Mixed.of(&node_name(number)))
            .collect();
        assert_eq!(on, [On::Tokio, On::AsyncStd, On::Smol, On::Tokio]);
        assert_eq!(Runtimes::Smol.of("node-a"), On::Smol);
    }
}
