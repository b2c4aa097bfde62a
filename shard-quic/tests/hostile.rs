//! Peers that are not made of this code, or have no business here.
#![cfg(all(feature = "tokio", target_os = "linux"))]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

#[path = "../../shard-tokio/tests/common/mod.rs"]
mod common;

use std::net::{SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::certs::{Authority, Certified, When, bad, strict};
use common::log::log;
use common::way::client;
use common::{Answer, Peer, Say, World, builder_on, free_address, scribes, until, within};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ConnectionError, Endpoint, RecvStream, SendStream};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use shard_quic::QuicTransport;
use shard_tokio::{Membership, Node, NodeBuilder, Tls, Transport};

fn node(name: &str, address: &str, seeds: &[String], tls: Tls) -> NodeBuilder {
    builder_on(name, address, seeds, QuicTransport::tokio(tls))
}

/// Somebody who trusts everybody.
async fn connect(
    address: &str,
    certified: Option<&Certified>,
    alpn: &[u8],
) -> Result<quinn::Connection, ConnectionError> {
    let tls = QuicClientConfig::try_from(client(certified, &TLS13, alpn)).unwrap();
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = ClientConfig::new(Arc::new(tls));
    let connecting = endpoint.connect_with(config, address.parse().unwrap(), "x");
    connecting.unwrap().await
}

/// Why the other side ended it.
async fn end(connected: Result<quinn::Connection, ConnectionError>) -> ConnectionError {
    match connected {
        Ok(connection) => connection.closed().await,
        Err(error) => error,
    }
}

#[tokio::test]
async fn those_that_dial_show_who_they_are() {
    within(60, "the matrix of those that dial", async {
        let (log, _guard) = log();
        let ca = Authority::new();
        let mut cases = bad(&ca);
        let revoked = cases.iter().find(|case| case.1 == "was revoked");
        let tls = strict(&ca, "a", &[revoked.unwrap().0.as_ref().unwrap()]);
        cases.push((None, "showed no certificate"));
        let seeds = [free_address()];
        let a = node("a", &seeds[0], &seeds, tls.build().unwrap());
        let a = a.start().await.unwrap();
        for (n, (certified, reason)) in (1..).zip(&cases) {
            let told = end(connect(&seeds[0], certified.as_ref(), b"shard/1").await).await;
            assert!(
                matches!(told, ConnectionError::ConnectionClosed(_)),
                "{reason}: {told}"
            );
            until(|| a.stats().connections.refused == n).await;
            log.line(&["WARN", "peer=\"127.0.0.1:", reason]).await;
        }
        let good = ca.node("b");
        let told = end(connect(&seeds[0], Some(&good), b"http/1.1").await).await;
        assert!(
            told.to_string()
                .contains("cryptographic handshake failed: error 120"),
            "{told}"
        );
        log.line(&["WARN", "another protocol over TLS"]).await;
        let stats = a.stats().connections;
        assert_eq!(
            (stats.refused, stats.failed),
            (cases.len() as u64 + 1, 0),
            "{stats:?}"
        );
        assert_eq!(a.members().len(), 1);
        a.shutdown().await;
    })
    .await;
}

/// A node that is not made of this code, at an address, with any certificate.
fn impostor(certified: &Certified) -> String {
    let chain = CertificateDer::pem_slice_iter(certified.chain.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(certified.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    config.alpn_protocols = vec![b"shard/1".to_vec()];
    let tls = QuicServerConfig::try_from(config).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = endpoint.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let _ = incoming.await;
        }
    });
    address
}

#[tokio::test]
async fn those_that_are_dialed_show_who_they_are() {
    within(60, "the matrix of those that are dialed", async {
        let (log, _guard) = log();
        let ca = Authority::new();
        let mut cases = bad(&ca);
        let client = ca.sign(&["shard-client://test/x"], When::Now);
        cases.push((Some(client), "is a client's"));
        let certified: Vec<_> = cases.into_iter().map(|it| (it.0.unwrap(), it.1)).collect();
        let revoked = &certified.iter().find(|it| it.1 == "was revoked").unwrap().0;
        let tls = strict(&ca, "a", &[revoked]).build().unwrap();
        let mut seeds = vec![free_address()];
        for (certified, _) in &certified {
            seeds.push(impostor(certified));
        }
        let a = node("a", &seeds[0], &seeds, tls);
        let a = a.start().await.unwrap();
        for (address, (_, reason)) in seeds[1..].iter().zip(&certified) {
            log.line(&["WARN", address, reason]).await;
        }
        assert!(a.stats().connections.refused >= certified.len() as u64);
        assert_eq!(a.members().len(), 1);
        a.shutdown().await;
    })
    .await;
}

/// Both sides say in their logs what was wrong.
#[tokio::test]
async fn whoever_is_refused_reads_why() {
    within(60, "reasons", async {
        let (log, _guard) = log();
        let ca = Authority::new();
        let seeds = common::all(2, |_| free_address());
        let a = node(
            "a",
            &seeds[0],
            &seeds[..1],
            strict(&ca, "a", &[]).build().unwrap(),
        );
        let a = a.start().await.unwrap();
        let b = node("stranger", &seeds[1], &seeds, ca.tls("stranger"));
        let b = b.start().await.unwrap();
        let here = "it is not among those that this node admits: shard://test/stranger";
        log.line(&["WARN", "dropped a connection", here]).await;
        let there = "the other side does not let this node's certificate in; its log says why";
        log.line(&["WARN", &seeds[0], there]).await;
        assert!(a.stats().connections.refused > 0);
        assert_eq!((a.members().len(), b.members().len()), (1, 1));
        b.shutdown().await;
        a.shutdown().await;
    })
    .await;
}

type Raw = (SendStream, RecvStream);

async fn opened(connection: &quinn::Connection, preamble: &[u8]) -> Raw {
    let mut stream = connection.open_bi().await.unwrap();
    stream.0.write_all(preamble).await.unwrap();
    stream
}

/// Whether the peer may open no more now.
fn is_full(connection: &quinn::Connection) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(pin!(connection.open_bi()).poll(&mut cx), Poll::Pending)
}

#[tokio::test]
async fn streams_are_as_many_as_were_said_and_numbered() {
    within(60, "streams", async {
        let ca = Authority::new();
        let acceptor = QuicTransport::tokio(ca.tls("a"));
        let mut listener = acceptor.listen("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let good = ca.node("b");
        let text = "its streams are not numbered as they should be";
        for preambles in [
            &[&[1, 2][..]][..],
            &[&[0, 0]],
            &[&[0, 65]],
            &[&[0, 2], &[2]],
        ] {
            let accept = async { listener.accept().await.unwrap().connection.await };
            let dial = async {
                let connection = connect(&address, Some(&good), b"shard/1").await.unwrap();
                // One at first, whatever is said then.
                let mut streams = Vec::new();
                for preamble in preambles {
                    streams.push(opened(&connection, preamble).await);
                }
                end(Ok(connection)).await
            };
            let (accepted, told) = tokio::join!(accept, dial);
            assert_eq!(accepted.unwrap_err().to_string(), text, "{preambles:?}");
            assert!(told.to_string().contains(text), "{told}");
        }
        // No more than that, of either kind.
        let accept = async { listener.accept().await.unwrap().connection.await };
        let dial = async {
            let connection = connect(&address, Some(&good), b"shard/1").await.unwrap();
            let control = opened(&connection, &[0, 2]).await;
            let lanes = [
                opened(&connection, &[1]).await,
                opened(&connection, &[2]).await,
            ];
            (connection, control, lanes)
        };
        let (accepted, (connection, _control, [mut first, _second])) = tokio::join!(accept, dial);
        let mut accepted = accepted.unwrap();
        assert_eq!(accepted.streams.len(), 3);
        assert!(is_full(&connection));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(connection.open_uni()).poll(&mut cx).is_pending());
        assert_eq!(connection.max_datagram_size(), None);
        // One that is given up takes the others along.
        first.0.reset(9_u8.into()).unwrap();
        let read = tokio::io::AsyncReadExt::read_u8(&mut accepted.streams[1].reader).await;
        assert_eq!(
            read.unwrap_err().to_string(),
            "the other side gave a stream up"
        );
        let read = tokio::io::AsyncReadExt::read_u8(&mut accepted.streams[0].reader).await;
        assert_eq!(
            read.unwrap_err().to_string(),
            "this side closed the connection"
        );
        let told = end(Ok(connection)).await.to_string();
        assert!(told.contains("a stream was given up"), "{told}");
    })
    .await;
}

async fn two(ca: &Authority, world: &Arc<World>) -> (Peer, Peer) {
    let seeds = common::all(2, |_| free_address());
    let start = async |name: &str, address: &String| {
        let node = node(name, address, &seeds, ca.tls(name))
            .membership(Membership::Links)
            .arrival_timeout(Duration::from_millis(500));
        let node = node.start().await.unwrap();
        let scribes = scribes(&node, world, |it| it).await;
        Peer { node, scribes }
    };
    let a = start("a", &seeds[0]).await;
    let b = start("b", &seeds[1]).await;
    a.scribes.ready().await.unwrap();
    b.scribes.ready().await.unwrap();
    (a, b)
}

/// An answer of each of 50 entities, which are on both nodes.
async fn asks(peer: &Peer) {
    for n in 0..50 {
        let entity = peer.scribes.entity(format!("e{n}"));
        let answer = entity.ask(Say::Add(0)).await;
        assert!(matches!(answer, Ok(Answer::Sum(_))), "{answer:?}");
    }
}

fn is_over(node: &Node, timed_out: u64) -> bool {
    node.stats().connections.timed_out == timed_out
}

#[tokio::test]
async fn those_that_stall_half_way_are_cut_off() {
    within(60, "stalling", async {
        let (ca, world) = (Authority::new(), World::new());
        let (a, b) = two(&ca, &world).await;
        let address = a.node.address().to_owned();
        let good = ca.node("x");
        // Nothing after the handshake; control alone; some lanes.
        for (n, streams) in (1..).zip([0_u8, 1, 5]) {
            let connection = connect(&address, Some(&good), b"shard/1").await.unwrap();
            let mut held = Vec::new();
            for number in 0..streams {
                let preamble: &[u8] = if number == 0 { &[0, 8] } else { &[number] };
                held.push(opened(&connection, preamble).await);
            }
            end(Ok(connection)).await;
            until(|| is_over(&a.node, n)).await;
            asks(&b).await;
        }
        b.node.shutdown().await;
        a.node.shutdown().await;
    })
    .await;
}

/// Garbage, and what looks like the beginning of a handshake, with every version there is.
fn flood(target: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.3:0").unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..10_000_u64 {
        let mut datagram = [0; 1200];
        for byte in &mut datagram {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        let len = match n % 4 {
            // Whatever; a short header; an initial packet with what cannot be opened; another version.
            0 => (state >> 8) as usize % 1200,
            1 => {
                datagram[0] = 0x40 | (datagram[0] & 0x3f);
                100
            }
            kind => {
                datagram[0] = 0xc3;
                let version: u32 = if kind == 2 { 1 } else { 0x1a2a_3a4a };
                datagram[1..5].copy_from_slice(&version.to_be_bytes());
                datagram[5] = 8;
                datagram[14] = 0;
                datagram[15] = 0;
                datagram[16..18].copy_from_slice(&(0x4000_u16 | 1182).to_be_bytes());
                1200
            }
        };
        // It may not keep up.
        let _ = socket.send_to(&datagram[..len], target);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_datagrams_of_nobody_stop_nothing() {
    within(120, "the flood", async {
        let (ca, world) = (Authority::new(), World::new());
        let (a, b) = two(&ca, &world).await;
        let target = a.node.address().parse().unwrap();
        asks(&b).await;
        let links = a.node.stats();
        let flooding = tokio::task::spawn_blocking(move || flood(target));
        let mut rounds = 0;
        while !flooding.is_finished() {
            within(10, "answers", asks(&b)).await;
            rounds += 1;
        }
        flooding.await.unwrap();
        within(10, "answers", asks(&b)).await;
        assert!(rounds > 0);
        assert_eq!(a.node.members().len(), 2);
        assert_eq!(b.node.members().len(), 2);
        let core = a.node.stats().core;
        assert_eq!(core.lapses, links.core.lapses);
        b.node.shutdown().await;
        a.node.shutdown().await;
    })
    .await;
}
