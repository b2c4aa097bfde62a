//! The test-suite of transports: what a cluster has to do over every one of them, whatever its nodes run on.
//!
//! Nodes are used through the public API, all in one process, over the loopback; `suite!` below names the combinations,
//! each of which runs every case of its row. Mixed: the first node on tokio, the second on async-std, the third on smol.
//!
//! | case | TCP | TLS | QUIC |
//! |---|---|---|---|
//! | [`life`]: join, route, move, leave, kill | ✓ | ✓ | ✓ |
//! | [`links::reconnect`] | connections are cut | the same, below TLS | no datagram passes until connections are given up |
//! | [`links`]: crossing dials, slow readers, 32 MiB beside small asks | ✓ | ✓ | ✓ |
//! | [`guard`]: frame limits, long messages, version ranges | ✓ | ✓ | ✓ |
//! | [`guard::half_open`]: below what encrypts | nothing, half a header: cut off by the link | nothing, half a `ClientHello`: by the transport | what is no packet makes no connection |
//! | [`guard::half_open`]: as somebody with a certificate | nothing, half a `Hello`: by the link | by the link | by the link |
//! | [`matrix`]: certificates, of both sides | nobody proves anything | ✓ | ✓ |
//!
//! What only one transport has is tried beside it: other versions of TLS, protocols and reloading in `shard-tokio/tests/tls.rs`,
//! numbering of streams and floods of datagrams in `shard-quic/tests/`.
#![allow(
    unreachable_pub,
    missing_docs,
    clippy::std_instead_of_alloc,
    clippy::std_instead_of_core
)]

#[path = "../../../shard-tokio/tests/common/certs.rs"]
mod certs;
mod combination;
mod guard;
mod lab;
mod life;
mod links;
mod log;
mod matrix;
mod probe;
mod relay;
mod runtimes;
mod scribe;
mod secure;
mod speaker;
#[path = "../../../shard-tokio/tests/common/trusting.rs"]
mod trusting;

use combination::{All, Mixed, OverQuic, OverTcp, OverTls};
use shard_asyncstd::async_std::AsyncStd;
use shard_asyncstd::smol::Smol;
use shard_tokio::Tokio;

/// A test for each of the cases.
macro_rules! cases {
    ($combination:ty: $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                $crate::lab::run::<$combination, _>($crate::$module::$case);
            })*
        })*
    };
}

/// Cases for every combination, and more for those of transports that prove who is who.
macro_rules! suite {
    ($($name:ident: $combination:ty $(, $secure:ident)?;)*) => {
        $(mod $name {
            use super::*;

            type This = $combination;

            cases! { super::This:
                life { join route shards_move leave kill }
                links { reconnect crossing slow_reader long_beside_short }
                guard { oversized_frames long_messages half_open versions }
                $($secure { dialing dialed names })?
            }
        })*
    };
}

suite! {
    tokio_tcp: All<Tokio, OverTcp>;
    tokio_tls: All<Tokio, OverTls>, matrix;
    tokio_quic: All<Tokio, OverQuic>, matrix;
    async_std_tcp: All<AsyncStd, OverTcp>;
    async_std_tls: All<AsyncStd, OverTls>, matrix;
    async_std_quic: All<AsyncStd, OverQuic>, matrix;
    smol_tcp: All<Smol, OverTcp>;
    smol_tls: All<Smol, OverTls>, matrix;
    smol_quic: All<Smol, OverQuic>, matrix;
    mixed_tcp: Mixed<OverTcp>;
    mixed_tls: Mixed<OverTls>, matrix;
    mixed_quic: Mixed<OverQuic>, matrix;
}
