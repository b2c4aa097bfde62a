//! Connections that arrive.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::sync::Arc;

use quinn::{Endpoint, ServerConfig};
use shard_adapter::transport::{Arriving, BoxFuture, Listener};

use crate::connection;
use crate::endpoint::Endpoints;
use crate::transport::QuicTransport;

pub(crate) struct Listening {
    endpoint: Endpoint,
    address: String,
    transport: QuicTransport,
    /// All but what is made for each connection. Tokens of a retry are by its key.
    server: ServerConfig,
}

/// A handshake with an address that has not shown that it receives what is sent there, until it is dropped.
struct Unvalidated(Arc<Endpoints>);

impl Unvalidated {
    fn new(endpoints: &Arc<Endpoints>) -> Self {
        endpoints.unvalidated.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(endpoints))
    }
}

impl Drop for Unvalidated {
    fn drop(&mut self) {
        self.0.unvalidated.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Listening {
    pub(crate) fn new(
        endpoint: Endpoint,
        transport: QuicTransport,
        server: ServerConfig,
    ) -> io::Result<Self> {
        Ok(Self {
            address: endpoint.local_addr()?.to_string(),
            endpoint,
            transport,
            server,
        })
    }

    fn is_crowded(&self, unvalidated: &AtomicU64) -> bool {
        unvalidated.load(Ordering::Relaxed) >= u64::from(self.transport.settings.retry_above)
    }
}

/// Nobody is told that there is nobody any more: the socket may go on for connections that stand.
impl Drop for Listening {
    fn drop(&mut self) {
        self.endpoint.set_server_config(None);
    }
}

impl Listener for Listening {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let endpoints = &self.transport.endpoints;
            let (incoming, unvalidated) = loop {
                let incoming = self.endpoint.accept().await;
                let incoming = incoming.ok_or(io::ErrorKind::ConnectionAborted)?;
                if incoming.remote_address_validated() {
                    break (incoming, None);
                }
                if !self.is_crowded(&endpoints.unvalidated) {
                    break (incoming, Some(Unvalidated::new(endpoints)));
                }
                if incoming.retry().is_ok() {
                    endpoints.retries.fetch_add(1, Ordering::Relaxed);
                }
            };
            let peer = incoming.remote_address().to_string();
            let (transport, mut server) = (self.transport.clone(), self.server.clone());
            Ok(Arriving {
                peer: peer.clone(),
                // Dropped before it began, it refuses, which costs a datagram.
                connection: Box::pin(async move {
                    let _unvalidated = unvalidated;
                    let (tls, handshake) = transport.accepting()?;
                    server.crypto = tls;
                    let connecting = incoming.accept_with(Arc::new(server));
                    connection::accept(connecting, handshake, peer).await
                }),
            })
        })
    }
}
