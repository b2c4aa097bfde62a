//! From a handshake to streams.
//!
//! The side that dialed opens all streams, each bidirectional, in the order of their numbers, and begins each with its number
//! as a byte: a stream of which nothing was sent does not exist for the other side. The first, which is control, says
//! in a second byte how many lanes follow. No more than that may be opened at any time.

use std::io;
use std::sync::Arc;

use quinn::crypto::rustls::HandshakeData;
use quinn::rustls::pki_types::CertificateDer;
use quinn::{Connecting, ConnectionError, RecvStream, SendStream, VarInt};
use shard_adapter::transport::tls::Handshake;
use shard_adapter::transport::{Connection, Identity};

use crate::error::{self, BROKEN};
use crate::stream::{Shared, streams};
use crate::transport::MAX_LANES;

/// The number of the control stream.
const CONTROL: u8 = 0;
/// Before lanes, which have 0.
const CONTROL_PRIORITY: i32 = 1;

type Pair = (SendStream, RecvStream);

/// The streams of a connection that this node dialed.
pub(crate) async fn dial(
    connecting: Connecting,
    handshake: Handshake,
    lanes: u8,
    address: &str,
) -> io::Result<Connection> {
    let lost = |error| error::lost(error, &handshake);
    let connection = connecting.await.map_err(lost)?;
    let identity = identity(&connection, &handshake)?;
    let mut pairs = Vec::with_capacity(usize::from(lanes) + 1);
    for number in CONTROL..=lanes {
        let (mut send, receive) = connection.open_bi().await.map_err(lost)?;
        if number == CONTROL {
            prefer(&send)?;
        }
        let preamble: &[u8] = match number {
            CONTROL => &[CONTROL, lanes],
            lane => &[lane],
        };
        let wrote = send.write_all(preamble).await;
        wrote.map_err(|error| error::write(error, &handshake))?;
        pairs.push((send, receive));
    }
    Ok(whole(
        connection,
        handshake,
        address.to_owned(),
        identity,
        pairs,
    ))
}

/// The streams of a connection that arrived. Takes as long as the other side takes: the caller bounds it.
pub(crate) async fn accept(
    connecting: Result<Connecting, ConnectionError>,
    handshake: Handshake,
    peer: String,
) -> io::Result<Connection> {
    let lost = |error| error::lost(error, &handshake);
    let connection = connecting.map_err(lost)?.await.map_err(lost)?;
    let identity = identity(&connection, &handshake)?;
    let opened = async |preamble: &mut [u8]| -> io::Result<Pair> {
        let (send, mut receive) = connection.accept_bi().await.map_err(lost)?;
        let read = receive.read_exact(preamble).await;
        read.map_err(|error| error::read_exact(error, &handshake))?;
        Ok((send, receive))
    };
    let mut first = [0; 2];
    let control = opened(&mut first).await?;
    let [number, lanes] = first;
    if number != CONTROL || !(1..=MAX_LANES).contains(&lanes) {
        return Err(refuse(
            &connection,
            "its streams are not numbered as they should be",
        ));
    }
    prefer(&control.0)?;
    let mut pairs = Vec::with_capacity(usize::from(lanes) + 1);
    pairs.push(control);
    connection.set_max_concurrent_bi_streams((u32::from(lanes) + 1).into());
    for lane in 1..=lanes {
        let mut number = [0];
        let pair = opened(&mut number).await?;
        if number != [lane] {
            return Err(refuse(
                &connection,
                "its streams are not numbered as they should be",
            ));
        }
        pairs.push(pair);
    }
    Ok(whole(connection, handshake, peer, identity, pairs))
}

fn prefer(control: &SendStream) -> io::Result<()> {
    let set = control.set_priority(CONTROL_PRIORITY);
    set.map_err(io::Error::other)
}

/// The other side reads why, too.
fn refuse(connection: &quinn::Connection, why: &'static str) -> io::Error {
    connection.close(VarInt::from_u32(BROKEN), why.as_bytes());
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whom the handshake proved the other side to be.
fn identity(connection: &quinn::Connection, handshake: &Handshake) -> io::Result<Identity> {
    let data = connection.handshake_data();
    let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
    let protocol = data.and_then(|data| data.protocol);
    let certificates = connection.peer_identity();
    let certificates =
        certificates.and_then(|it| it.downcast::<Vec<CertificateDer<'static>>>().ok());
    let certificates = certificates.as_deref().map_or(&[][..], Vec::as_slice);
    handshake.identity(protocol.as_deref(), certificates)
}

fn whole(
    connection: quinn::Connection,
    handshake: Handshake,
    peer: String,
    identity: Identity,
    pairs: Vec<Pair>,
) -> Connection {
    let shared = Arc::new(Shared::new(connection, handshake, pairs.len()));
    Connection {
        peer,
        identity: Some(identity),
        streams: streams(&shared, pairs),
    }
}
