//! What comes in from other nodes: connections, and chunks of them.

use core::mem;
use core::time::Duration;
use std::sync::Arc;

use shard_proto::hash::cluster_id;
use shard_proto::node::{Authenticated, Delivery, DialId, REPLY_ANSWER, StreamIndex};

use crate::body::Body;
use crate::entity::status_error;
use crate::host::{Crowded, From};
use crate::shared::Input;
use crate::transport::{Connection, Identity, Peer, Refused, Stream};

use super::links::Channel;
use super::{ConnId, Driver, NetEvent};

/// How long a dial may take.
const DIAL: Duration = Duration::from_secs(5);
/// Bytes of a connection that the core is given at once.
const READ: usize = 32 * 1024;
/// Addresses whose failures are counted, at most.
const FAILED_DIALS: usize = 4096;

/// What the core needs of it.
fn authenticated(identity: Identity) -> Authenticated {
    Authenticated {
        cluster: cluster_id(identity.cluster()),
        name: identity.name().to_owned(),
        client: identity.kind() == Peer::Client,
    }
}

/// How many streams a connection has. `None`: none, or more than there can be lanes.
fn count(streams: &[Stream]) -> Option<u8> {
    u8::try_from(streams.len()).ok().filter(|count| *count > 0)
}

impl Driver {
    pub(super) fn net(&mut self, event: NetEvent) {
        match event {
            NetEvent::Accepted(connection, place) => {
                let peer = connection.peer;
                let authenticated = connection.identity.map(authenticated);
                let Some(count) = count(&connection.streams) else {
                    return;
                };
                match self.core.handle_accepted(self.now, count, authenticated) {
                    Ok(link) => {
                        let streams = connection.streams;
                        self.links.add(link, peer, streams, Some(place));
                    }
                    Err(error) => {
                        // Whoever connects must not fill the log as well.
                        self.refused_connections += 1;
                        if self.refused_connections.is_power_of_two() {
                            tracing::warn!(
                                peer,
                                so_far = self.refused_connections,
                                "refused a connection: {error}"
                            );
                        }
                    }
                }
            }
            NetEvent::Dialed(dial, address, Ok(connection)) => {
                if let Some(failures) = self.failed_dials.remove(&address) {
                    tracing::info!(address, failures, "reached an address again");
                }
                let authenticated = connection.identity.map(authenticated);
                let Some(count) = count(&connection.streams) else {
                    self.core.handle_dial_failed(self.now, dial);
                    return;
                };
                let link = self
                    .core
                    .handle_dialed(self.now, dial, count, authenticated);
                if let Ok(link) = link {
                    let streams = connection.streams;
                    self.links.add(link, connection.peer, streams, None);
                }
            }
            NetEvent::Dialed(dial, address, Err(error)) => {
                if Refused::of(&error).is_some() {
                    self.shared.arrivals.count_refused();
                }
                // Addresses come from other nodes: those that are gone must not add up.
                if self.failed_dials.len() >= FAILED_DIALS {
                    self.failed_dials.clear();
                }
                let failures = self.failed_dials.entry(address.clone()).or_default();
                *failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(
                        address,
                        failures = *failures,
                        %error,
                        "cannot reach a node; trying again with growing pauses"
                    );
                }
                self.core.handle_dial_failed(self.now, dial);
            }
            NetEvent::Read(conn, stream, chunk) => self.read(conn, stream, chunk),
            NetEvent::Closed(conn, error) => {
                if let Some(conn) = self.links.remove(conn) {
                    if let Some(refused) = error.as_ref().and_then(Refused::of) {
                        let arrivals = &self.shared.arrivals;
                        arrivals.refused_by(&conn.peer, &self.shared, refused);
                    }
                    tracing::debug!(peer = conn.peer, ?error, "a connection ended");
                    self.core.handle_closed(self.now, conn.link);
                }
            }
        }
    }

    fn read(&mut self, id: ConnId, stream: StreamIndex, chunk: bytes::BytesMut) {
        let Some(channel) = self.links.channel(id, stream) else {
            return;
        };
        channel.chunks += 1;
        if channel.unread.is_empty() {
            channel.unread = chunk;
        } else {
            // Without a copy, if the chunks follow each other in memory.
            channel.unread.unsplit(chunk);
        }
        if !channel.held_up {
            self.read_on(id, stream);
        }
        if stream != StreamIndex::CONTROL {
            return;
        }
        // Data that overtook the end of the handshake.
        let streams = self.links.get(id).map_or(0, |conn| conn.streams.len());
        for (stream, _) in (1..).map(StreamIndex).zip(1..streams) {
            let waits = |channel: &mut Channel| !channel.held_up && channel.chunks > 0;
            if self.links.channel(id, stream).is_some_and(waits) {
                self.read_on(id, stream);
            }
        }
    }

    /// Takes what a stream has, until all is taken or an entity cannot keep up.
    pub(super) fn read_on(&mut self, id: ConnId, stream: StreamIndex) {
        let Some(link) = self.links.get(id).map(|conn| conn.link) else {
            return;
        };
        let Some(channel) = self.links.channel(id, stream) else {
            return;
        };
        // What the core keeps or sends back is no delivery: it is given little enough at once to look at the clock.
        let mut rest = mem::take(&mut channel.unread);
        let mut buffer = rest.split_to(rest.len().min(READ));
        let held_up = loop {
            match self.core.read(self.now, link, stream, &mut buffer) {
                Ok(Some(delivery)) => {
                    if self.core.has_shard_commands() {
                        self.commands();
                    }
                    let crowded = self.delivery(delivery);
                    self.step();
                    if let Some(crowded) = crowded
                        && self.links.hold_up(id, stream, crowded, self.now)
                    {
                        break true;
                    }
                }
                Ok(None) if rest.is_empty() => break false,
                Ok(None) => {
                    buffer.unsplit(rest.split_to(rest.len().min(READ)));
                    self.look_up();
                }
                Err(error) => {
                    self.links.failed(link, error, self.now);
                    self.links.close(link, &mut self.core);
                    return;
                }
            }
        };
        buffer.unsplit(rest);
        if let Some(conn) = self.links.get(id) {
            conn.settle(&self.core);
        }
        let is_linked = stream == StreamIndex::CONTROL || self.core.is_linked(link);
        if let Some(channel) = self.links.channel(id, stream) {
            channel.unread = buffer;
            if !held_up && is_linked {
                channel.more();
            }
        }
    }

    fn delivery(&mut self, delivery: Delivery<Body>) -> Option<Crowded> {
        match delivery {
            Delivery::Message {
                ty,
                shard,
                epoch,
                origin,
                message,
                reply,
            } => self.deliver(
                ty,
                shard,
                epoch,
                From::Remote(origin, message.sender, reply),
                message,
            ),
            Delivery::Answer {
                key,
                status,
                payload,
            } => {
                let pending = self.asks.remove(key)?;
                pending.resolve(match payload {
                    Body::Encoded(payload) if status == REPLY_ANSWER => Ok(payload),
                    _ => Err(status_error(status)),
                });
                None
            }
        }
    }

    pub(super) fn dial(&self, dial: DialId, address: String) {
        let transport = Arc::clone(&self.transport);
        let shared = Arc::clone(&self.shared);
        self.shared.runtime.spawn(async move {
            let dialing = shared.runtime.timeout(DIAL, transport.dial(&address));
            let result: std::io::Result<Connection> = dialing
                .await
                .unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into()));
            let dialed = NetEvent::Dialed(dial, address, result);
            let _ = shared.inbox.push(Input::Net(dialed), usize::MAX);
        });
    }
}
