//! Connections within one process, for tests.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{DuplexStream, duplex, split};
use tokio::sync::mpsc;

use super::{Arriving, BoxFuture, Connection, Listener, Stream, Transport};

/// Bytes that a direction holds.
const CAPACITY: usize = 256 * 1024;

type Listening = Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Connection>>>>;

/// A network within this process: nodes that share a clone of it reach each other under any address they listen on.
#[derive(Clone, Debug, Default)]
pub struct MemoryTransport {
    listening: Listening,
    /// Beside the one that everything shares.
    more_lanes: u8,
}

impl MemoryTransport {
    /// A network without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With lanes that have a stream each, 1 to 64; with 1, everything shares one stream. Default: 1.
    #[must_use]
    pub const fn with_lanes(mut self, lanes: u8) -> Self {
        self.more_lanes = lanes.saturating_sub(1);
        self
    }
}

fn connection(streams: Vec<DuplexStream>, peer: &str) -> Connection {
    let streams = streams.into_iter().map(|stream| {
        let (reader, writer) = split(stream);
        Stream::new(reader, writer)
    });
    Connection {
        peer: peer.to_owned(),
        identity: None,
        streams: streams.collect(),
    }
}

impl Transport for MemoryTransport {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        let (sender, accepted) = mpsc::unbounded_channel();
        let mut listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let result = match listening.get(address) {
            Some(other) if !other.is_closed() => Err(io::ErrorKind::AddrInUse.into()),
            _ => {
                listening.insert(address.to_owned(), sender);
                let listener: Box<dyn Listener> = Box::new(Memory {
                    address: address.to_owned(),
                    accepted,
                });
                Ok(listener)
            }
        };
        Box::pin(core::future::ready(result))
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        let streams = match self.more_lanes {
            0 => 1,
            more => usize::from(more) + 2,
        };
        let (here, there) = (0..streams).map(|_| duplex(CAPACITY)).unzip();
        let listening = self
            .listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let sent = listening
            .get(address)
            .is_some_and(|listener| listener.send(connection(there, "memory")).is_ok());
        let result = if sent {
            Ok(connection(here, address))
        } else {
            Err(io::ErrorKind::ConnectionRefused.into())
        };
        Box::pin(core::future::ready(result))
    }

    fn lanes(&self) -> u8 {
        self.more_lanes.saturating_add(1)
    }
}

struct Memory {
    address: String,
    accepted: mpsc::UnboundedReceiver<Connection>,
}

impl Listener for Memory {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Arriving>> {
        Box::pin(async {
            let accepted = self.accepted.recv().await;
            let connection = accepted.ok_or(io::ErrorKind::ConnectionAborted)?;
            let peer = connection.peer.clone();
            Ok(Arriving::ready(Ok(connection), peer))
        })
    }
}
