//! Who is let in over TLS, and who is not: what is not in the suite of all transports (`examples/tests/transports`).
#![cfg(target_os = "linux")]
#![allow(clippy::std_instead_of_alloc, clippy::std_instead_of_core)]

mod common;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{fs, io};

use common::certs::{Authority, Certified, When, strict};
use common::log::log;
use common::trusting::client;
use common::way::{Way, connect};
use common::{builder, builder_on, free_address, until, within};
use rustls::version::{TLS12, TLS13};
use shard_tokio::proto::hash::node_id;
use shard_tokio::proto::wire::control::Refusal;
use shard_tokio::transport::{BoxFuture, Connection, Listener, Refused, Stream, Transport};
use shard_tokio::{Incarnation, Membership, Node, StartError, TcpTransport, TlsConfig, TlsError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

#[tokio::test]
async fn another_protocol_is_none() {
    within(60, "protocols", async {
        let (log, _guard) = log();
        let ca = Authority::new();
        let seeds = [free_address()];
        let a = builder("a", &seeds[0], &seeds).security(ca.tls("a"));
        let a = a.start().await.unwrap();
        // Not TLS 1.3, another protocol over it, and nothing of that kind.
        let good = ca.node("b");
        for (version, alpn) in [(&TLS12, &b"shard/1"[..]), (&TLS13, b"http/1.1")] {
            let told = connect(&seeds[0], client(Some(&good), version, alpn)).await;
            assert!(told.unwrap_err().to_string().contains("alert"));
        }
        log.line(&["WARN", "speaks no TLS 1.3"]).await;
        log.line(&["WARN", "another protocol over TLS"]).await;
        io::Write::write_all(
            &mut std::net::TcpStream::connect(&seeds[0]).unwrap(),
            b"GET / HTTP/1.1\r\n\r\n",
        )
        .unwrap();
        log.line(&["WARN", "does not speak TLS"]).await;
        let stats = a.stats().connections;
        assert_eq!((stats.refused, stats.failed), (2, 1), "{stats:?}");
        assert_eq!(a.members().len(), 1);
        a.shutdown().await;
    })
    .await;
}

/// A good certificate, and something else in the link's handshake.
#[tokio::test]
async fn nobody_speaks_in_another_name() {
    within(60, "names", async {
        let way = Way::tls();
        let Way::Tls(ca) = &way else { unreachable!() };
        let seeds = common::all(2, |_| free_address());
        let mut nodes = Vec::new();
        for (name, address) in ["a", "b"].iter().zip(&seeds) {
            let node = way.builder(name, address, &seeds);
            nodes.push(node.membership(Membership::Links).start().await.unwrap());
        }
        until(|| nodes.iter().all(|node| node.members().len() == 2)).await;
        let door = way.door(&seeds[0], "x").await;
        let as_client = way.door_of(&seeds[0], ca.sign(&["shard-client://test/x"], When::Now));
        let as_client = as_client.await;
        let at_a = move |name: &str, life| door.open(name, life).err();
        let members = nodes[1].members();
        let me = members.iter().find(|it| it.node == nodes[1].id());
        let now = me.unwrap().incarnation.0;
        tokio::task::spawn_blocking(move || {
            // The name of a live node, in an older, a newer and its last life.
            for life in [1, now, now + 1, u64::MAX] {
                assert_eq!(at_a("b", life), Some(Refusal::Identity), "{life}");
                assert_eq!(at_a("a", life), Some(Refusal::Identity), "{life}");
            }
            assert!(matches!(at_a("x", u64::MAX), Some(Refusal::Future { .. })));
            assert_eq!(as_client.open("x", now).err(), Some(Refusal::Client));
            assert_eq!(at_a("x", now), None, "in its own");
            assert!(matches!(
                at_a("x", now - 1),
                Some(Refusal::Incarnation { .. })
            ));
        })
        .await
        .unwrap();
        let b = node_id("b");
        for node in &nodes {
            let members = node.members();
            let b = members.iter().find(|it| it.node == b).unwrap();
            assert_eq!(b.incarnation, Incarnation(now));
        }
        for node in nodes {
            node.shutdown().await;
        }
    })
    .await;
}

/// Whoever has a certificate can end a life, and nothing but that life: see the docs of `transport::tls`.
#[tokio::test]
async fn whoever_is_said_to_be_over_comes_back() {
    within(60, "slander", async {
        let way = Way::tls();
        let seeds = common::all(2, |_| free_address());
        let start = async |name, address| {
            let node = way.builder(name, address, &seeds);
            let node = node.membership(Membership::Links).start().await;
            node.unwrap()
        };
        let a = start("a", &seeds[0]).await;
        let mut life = Incarnation(0);
        // That it has ended, and that it was followed by another, of the far future.
        for ahead in [0, u64::MAX] {
            let b = start("b", &seeds[1]).await;
            let node = b.id();
            let known = || a.members().into_iter().find(|it| it.node == node);
            until(|| known().is_some_and(|it| it.incarnation > life)).await;
            life = known().unwrap().incarnation;
            let door = way.door(&seeds[1], "x").await;
            let lie = move || door.slander(("x", 1), |theirs| theirs.saturating_add(ahead));
            tokio::task::spawn_blocking(lie).await.unwrap();
            b.stopped().await;
        }
        let b = start("b", &seeds[1]).await;
        until(|| a.members().len() == 2 && b.members().len() == 2).await;
        b.shutdown().await;
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
        let tls = strict(&ca, "a", &[]).build().unwrap();
        let a = builder("a", &seeds[0], &seeds[..1]).security(tls);
        let a = a.start().await.unwrap();
        let tls = ca.tls("stranger");
        let b = builder("stranger", &seeds[1], &seeds).security(tls);
        let b = b.start().await.unwrap();
        let here = "it is not among those that this node admits: shard://test/stranger";
        log.line(&["WARN", "dropped a connection", here]).await;
        let there = "the other side does not let this node's certificate in; its log says why";
        log.line(&["WARN", &seeds[0], there]).await;
        assert!(a.stats().connections.refused > 0);
        until(|| b.stats().connections.refused_by_peers > 1).await;
        assert_eq!((a.members().len(), b.members().len()), (1, 1));
        b.shutdown().await;
        a.shutdown().await;
    })
    .await;
}

/// Dials connections that cannot be written to, and say why to whoever tried and goes on reading.
struct Slammed(TcpTransport);

#[derive(Clone, Default)]
struct Door(Arc<Mutex<(bool, Option<Waker>)>>);

impl Transport for Slammed {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        self.0.listen(address)
    }

    fn dial<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Connection>> {
        let (peer, door) = (address.to_owned(), Door::default());
        let streams = vec![Stream::new(door.clone(), door)];
        let identity = None;
        Box::pin(core::future::ready(Ok(Connection {
            peer,
            identity,
            streams,
        })))
    }
}

impl AsyncWrite for Door {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        if let Some(reader) = state.1.take() {
            reader.wake();
        }
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Door {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(Err(Refused::new("it is shut", String::new()).into()));
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// The other side's reason may be read only after writing has failed for it.
#[tokio::test]
async fn whoever_cannot_write_reads_why() {
    within(60, "the reason", async {
        let (log, _guard) = log();
        let seeds = common::all(2, |_| free_address());
        let slammed = Slammed(TcpTransport::new());
        let a = builder_on("a", &seeds[0], &seeds, slammed);
        let a = a.start().await.unwrap();
        until(|| a.stats().connections.refused_by_peers > 1).await;
        log.line(&["WARN", &seeds[1], "it is shut"]).await;
        a.shutdown().await;
    })
    .await;
}

#[tokio::test]
async fn a_node_starts_under_the_name_of_its_certificate() {
    let ca = Authority::new();
    let start = |name, cluster, tls| async move {
        let node = Node::builder(name).listen("127.0.0.1:0").voters(["a"]);
        node.cluster(cluster).security(tls).start().await
    };
    for (name, cluster, tls) in [
        ("b", "", ca.tls("a")),
        ("a", "other", ca.tls("a")),
        (
            "a",
            "test",
            ca.config(&ca.sign(&["shard-client://test/a"], When::Now))
                .build()
                .unwrap(),
        ),
    ] {
        let uri = tls.identity().to_string();
        let error = start(name, cluster, tls).await.unwrap_err();
        assert!(matches!(error, StartError::Identity { .. }));
        let text = error.to_string();
        for part in [name, cluster, &uri] {
            assert!(text.contains(part), "{text}");
        }
    }
    let node = start("a", "", ca.tls("a")).await.unwrap();
    node.shutdown().await;
}

#[tokio::test]
async fn what_would_be_refused_is_not_used() {
    let ca = Authority::new();
    let good = ca.node("a");
    let own = |certified: &Certified| match ca.config(certified).build().unwrap_err() {
        TlsError::Own(refused) => refused.to_string(),
        other => panic!("{other}"),
    };
    assert!(own(&ca.sign(&["shard://test/a"], When::Past)).contains("expired"));
    assert!(own(&Authority::new().node("a")).contains("authority"));
    assert!(own(&ca.sign(&[], When::Now)).contains("shard://<cluster>/<node>"));
    let revoked = ca.config(&good).revoked_pem(ca.revoke(&[&good])).build();
    assert!(revoked.unwrap_err().to_string().contains("revoked"));
    let key = ca.node("a").key;
    let error = TlsConfig::from_pem(&*ca.pem, &*good.chain, &*key).build();
    let error = error.unwrap_err();
    assert!(error.to_string().contains("this node's key"), "{error}");
    // Nothing of a key in what is written somewhere.
    let shown = format!("{:?} {error:?} {error}", ca.config(&good));
    let secret = key.lines().nth(1).unwrap();
    assert!(!shown.contains(secret) && !shown.contains("PRIVATE"));
    let error = TlsConfig::from_pem(&*ca.pem, &*good.chain, "nonsense").build();
    assert!(error.unwrap_err().to_string().contains("this node's key"));
    let missing = TlsConfig::from_dir("/nowhere", "a").build().unwrap_err();
    assert!(missing.to_string().contains("/nowhere/ca.pem"), "{missing}");
}

/// New connections use new certificates; bad ones change nothing.
#[tokio::test]
async fn certificates_are_read_again() {
    within(60, "reload", async {
        let (log, _guard) = log();
        let folder = std::env::temp_dir().join(format!("shard-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let put = |certified: &Certified, ca: &str| {
            fs::write(folder.join("ca.pem"), ca).unwrap();
            fs::write(folder.join("a.pem"), &certified.chain).unwrap();
            fs::write(folder.join("a.key"), &certified.key).unwrap();
        };
        let (old, new) = (Authority::new(), Authority::new());
        put(&old.node("a"), &old.pem);
        let config = TlsConfig::from_dir(&folder, "a").reload_every(Duration::ZERO);
        let tls = config.build().unwrap();
        let seeds = common::all(3, |_| free_address());
        let a = builder("a", &seeds[0], &seeds[..1]).security(tls.clone());
        let a = a.membership(Membership::Links).start().await.unwrap();
        let b = builder("b", &seeds[1], &seeds[..2]).security(old.tls("b"));
        let b = b.membership(Membership::Links).start().await.unwrap();
        until(|| a.members().len() == 2 && b.members().len() == 2).await;
        // Half of a new pair, and somebody else's: what was there stays.
        fs::write(folder.join("a.key"), new.node("a").key).unwrap();
        let good = client(Some(&old.node("x")), &TLS13, b"shard/1");
        drop(connect(&seeds[0], Arc::clone(&good)).await.unwrap());
        log.line(&["WARN", "stay in use"]).await;
        put(&old.node("somebody-else"), &old.pem);
        assert!(matches!(tls.reload(), Err(TlsError::Changed { .. })));
        drop(connect(&seeds[0], good).await.unwrap());
        // Another authority altogether: standing links go on, new ones are by its rules.
        put(&new.node("a"), &new.pem);
        let c = builder("c", &seeds[2], &seeds[..1]).security(new.tls("c"));
        let c = c.membership(Membership::Links).start().await.unwrap();
        until(|| c.members().len() == 2).await;
        assert_eq!(b.members().len(), 2);
        let config = client(Some(&old.node("x")), &TLS13, b"shard/1");
        let mut late = connect(&seeds[0], config).await.unwrap();
        assert!(late.read_u8().await.is_err());
        log.line(&["WARN", "is not from this cluster's authority"])
            .await;
        for node in [c, b, a] {
            node.shutdown().await;
        }
        fs::remove_dir_all(folder).unwrap();
    })
    .await;
}
