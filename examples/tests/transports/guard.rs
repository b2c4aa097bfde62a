//! Peers that do not keep to the rules, by mistake or otherwise.

use core::time::Duration;
use std::net::UdpSocket;
use std::time::Instant;

use shard_adapter::proto::wire::Kind;
use shard_adapter::proto::wire::control::Refusal;
use shard_adapter::{AskError, TellError};

use crate::combination::{Combination, Way};
use crate::lab::Lab;
use crate::scribe::Say;
use crate::speaker::{MAX_FRAME, Speaker};

/// A frame that says it is longer than frames may be: the end of its connection, and of no other.
pub async fn oversized_frames<C: Combination>(lab: Lab<C>) {
    let peers = lab.cluster(["a", "b"], |setup| setup.trusting = true).await;
    let [a, b] = &peers;
    let traffic = lab.traffic(&[a, b]);
    let mut good = lab.speaker("x", a, (1, 1)).await.unwrap();
    let control = Kind::KEEP_ALIVE.to_u8();
    let data = Kind::ENVELOPE.to_u8();
    for (n, (kind, len)) in (1..).zip([
        (data, MAX_FRAME + 1),
        (data, u32::MAX),
        (control, 64 * 1024 + 1),
        (control, u32::MAX),
    ]) {
        let mut bad = lab.speaker(&format!("y{n}"), a, (1, 1)).await.unwrap();
        bad.frame(kind, len, &[]).await;
        bad.closed().await;
        lab.until(|| a.node.stats().core.link_faults == n).await;
    }
    assert_eq!(b.node.stats().core.link_faults, 0);
    // This one is still listened to.
    good.frame(63, 0, &[]).await;
    lab.until(|| a.node.stats().core.unknown_kinds == 1).await;
    lab.finish(traffic, &[a, b]).await;
}

/// What is longer than a frame arrives; what is longer than messages may be is refused where it is sent.
pub async fn long_messages<C: Combination>(lab: Lab<C>) {
    const MAX: usize = 4 << 20;
    let peers = lab
        .cluster(["a", "b"], |setup| {
            setup.trusting = true;
            setup.max_message = Some(MAX as u32);
        })
        .await;
    lab.spread(&peers).await;
    let [a, b] = &peers;
    let entity = a.scribes.entity(lab.id_on(a, b));
    let answer = entity.ask(Say::long(1, 3 << 20)).await.unwrap();
    assert_eq!((&*answer.node, answer.bytes), (b.node.name(), 3 << 20));
    let told = entity.tell(Say::long(2, MAX)).await;
    let Err(TellError::TooLarge { size, limit: MAX }) = told else {
        panic!("{told:?}");
    };
    assert!(size > MAX);
    let asked = entity.ask(Say::long(2, MAX)).await;
    assert!(
        matches!(asked, Err(AskError::TooLarge { limit: MAX, .. })),
        "{asked:?}"
    );
    entity.ask(Say::Who).await.unwrap();
    assert!(lab.world.told(entity.id(), 2).is_empty());
}

/// Connections that say nothing, or stop half-way, are cut off in time.
pub async fn half_open<C: Combination>(lab: Lab<C>) {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let peers = lab
        .cluster(["a", "b"], |setup| {
            setup.trusting = true;
            setup.arrival_timeout = TIMEOUT;
        })
        .await;
    let [a, b] = &peers;
    let traffic = lab.traffic(&[a, b]);
    let address = a.node.address();
    let mut stalled = Vec::new();
    // Below whatever encrypts, the second with the beginning of a TLS handshake.
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00"] {
        if C::WAY == Way::Quic {
            // What is no packet of QUIC makes no connection.
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(bytes, address).unwrap();
            continue;
        }
        let mut peer = Speaker::silent(lab.plain().dial(address).await.unwrap());
        peer.write(0, bytes).await;
        stalled.push(peer);
    }
    // As somebody who may connect.
    for half in [false, true] {
        let transport = lab.transport(&lab.authority.node("x"));
        let mut peer = Speaker::silent(transport.dial(address).await.unwrap());
        if half {
            let hello = peer.hello("x", (1, 1));
            peer.write(0, &hello[..hello.len() / 2]).await;
        }
        stalled.push(peer);
    }
    let began = Instant::now();
    for peer in &mut stalled {
        peer.closed().await;
    }
    let took = began.elapsed();
    assert!(took > TIMEOUT / 2 && took < 5 * TIMEOUT, "{took:?}");
    // By the transport, and by the link.
    let counted = match C::WAY {
        Way::Tcp => [0, 4],
        Way::Tls => [2, 2],
        Way::Quic => [0, 2],
    };
    lab.until(|| {
        let stats = a.node.stats();
        [stats.connections.timed_out, stats.core.handshakes_timed_out] == counted
    })
    .await;
    lab.progress(&traffic, 20).await;
    lab.finish(traffic, &[a, b]).await;
}

/// Whoever speaks only other versions is told which ones there are; what is unknown within a version is skipped.
pub async fn versions<C: Combination>(lab: Lab<C>) {
    let [a] = lab.cluster(["a"], |setup| setup.trusting = true).await;
    let refused = lab.speaker("x", &a, (2, 3)).await.err();
    assert_eq!(refused, Some(Refusal::Version { min: 1, max: 1 }));
    lab.until(|| a.node.stats().core.links_refused == 1).await;
    assert_eq!(a.node.members().len(), 1);
    // Of a range the highest version counts that both speak.
    let mut x = lab.speaker("x", &a, (1, 3)).await.unwrap();
    lab.until(|| a.node.members().len() == 2).await;
    x.frame(63, 5, b"hello").await;
    for number in 0..3_u64 {
        x.frame(200, 8, &number.to_le_bytes()).await;
    }
    lab.until(|| a.node.stats().core.unknown_kinds == 4).await;
    assert_eq!(a.node.stats().core.link_faults, 0);
    assert_eq!(a.node.members().len(), 2);
}
