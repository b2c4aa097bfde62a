//! Connections that break, cross and are not read from.

use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use shard_adapter::TellError;
use shard_adapter::proto::hash::node_id;
use tokio::sync::Barrier;

use crate::combination::{Combination, Way};
use crate::lab::{Lab, undelivered};
use crate::scribe::{Say, ids};

/// Connections are cut again and again, with messages on their way, and then none stands for a while: each message arrives
/// once, in order, and nodes dial with growing pauses.
pub async fn reconnect<C: Combination>(lab: Lab<C>) {
    let relays = [lab.relay().await, lab.relay().await];
    // Of two members the lower one dials: so each of these has one address to dial.
    let name = ["b", "c", "d", "e", "f", "g", "h"]
        .into_iter()
        .find(|name| node_id("a") < node_id(name))
        .unwrap();
    let mut peers = Vec::new();
    for (name, relay) in ["a", name].iter().zip(&relays) {
        let mut setup = lab.setup(name, &[]);
        setup.trusting = true;
        // Not so much on the way that it takes longer to send it again than a connection lasts.
        setup.window = Some((1 << 20, 1024));
        setup.advertise = Some(relay.address.clone());
        if !peers.is_empty() {
            setup.seeds = vec![relays[0].address.clone()];
        }
        let peer = lab.start(setup).await;
        relay.aim(&peer.bound);
        peers.push(peer);
    }
    let [a, b] = &peers[..] else { unreachable!() };
    a.scribes.ready().await.unwrap();
    b.scribes.ready().await.unwrap();
    let traffic = lab.traffic(&[a, b]);
    // A dial that nobody answers takes three seconds over QUIC.
    let (cuts, dials) = match C::WAY {
        Way::Quic => (2, 3),
        Way::Tcp | Way::Tls => (8, 5),
    };
    for _ in 0..cuts {
        lab.progress(&traffic, 5).await;
        relays.iter().for_each(|relay| relay.cut());
    }
    lab.progress(&traffic, 5).await;

    let before = [a, b].map(|peer| peer.probe.dials().len());
    relays.iter().for_each(|relay| relay.set_down(true));
    for (peer, before) in [a, b].into_iter().zip(before) {
        lab.until(|| peer.probe.dials().len() >= before + dials)
            .await;
        let made = peer.probe.dials();
        // The first is made at once, if the link had stood for a while.
        let mut shortest = Duration::from_millis(50);
        for pair in made[before..].windows(2).take(dials - 1) {
            let pause = pair[1] - pair[0];
            assert!(pause >= shortest, "{:?}", &made[before..]);
            shortest *= 2;
        }
    }
    relays.iter().for_each(|relay| relay.set_down(false));
    lab.progress(&traffic, 10).await;
    lab.finish(traffic, &[a, b]).await;
}

/// Two nodes dial each other at the same moment.
pub async fn crossing<C: Combination>(lab: Lab<C>) {
    let relays = [lab.relay().await, lab.relay().await];
    let both = Arc::new(Barrier::new(3));
    let mut peers = Vec::new();
    for (name, [own, other]) in [("a", [0, 1]), ("b", [1, 0])] {
        let mut setup = lab.setup(name, &[]);
        setup.trusting = true;
        setup.advertise = Some(relays[own].address.clone());
        setup.seeds = vec![relays[other].address.clone()];
        setup.probe.meet(&both);
        let peer = lab.start(setup).await;
        relays[own].aim(&peer.bound);
        peers.push(peer);
    }
    let [a, b] = &peers[..] else { unreachable!() };
    let traffic = lab.traffic(&[a, b]);
    // Both begin to dial, and both are connected.
    both.wait().await;
    both.wait().await;
    lab.progress(&traffic, 20).await;
    for peer in [a, b] {
        lab.until(|| peer.probe.open() == 1).await;
        assert_eq!(peer.node.members().len(), 2);
    }
    lab.progress(&traffic, 20).await;
    for peer in [a, b] {
        assert_eq!(peer.probe.dials().len(), 1);
        assert_eq!(peer.probe.open(), 1);
    }
    lab.finish(traffic, &[a, b]).await;
}

/// One node does not read: whoever sends to it has to wait, and nobody else.
pub async fn slow_reader<C: Combination>(lab: Lab<C>) {
    const WINDOW: u32 = 64;
    /// What callers may leave for the driver at a time as long as the link is not known to be full, and as much again
    /// that comes while it learns of that.
    const WAITING: u32 = 2 * 2048;
    let peers = lab
        .cluster(["a", "b", "c"], |setup| {
            setup.trusting = true;
            setup.window = Some((1 << 20, WINDOW));
        })
        .await;
    lab.spread(&peers).await;
    let [a, b, c] = &peers;
    let slow = a.scribes.entity(lab.id_on(a, b));
    let quick = a.scribes.entity(lab.id_on(a, c));
    b.probe.stick();
    let (mut told, mut since) = (0, Instant::now());
    // Until there has been no room for a while.
    while since.elapsed() < Duration::from_millis(300) {
        match slow.try_tell(Say::note(9, told)) {
            Ok(()) => (told, since) = (told + 1, Instant::now()),
            Err(TellError::Busy(_)) => lab.pause(Duration::from_millis(5)).await,
            Err(error) => panic!("{error}"),
        }
        assert!(told <= WINDOW + WAITING, "{told}");
    }
    assert!(told >= WINDOW, "{told}");
    let mut waits = pin!(slow.tell(Say::note(9, told)));
    for _ in 0..50 {
        quick
            .ask_for(Say::Who, Duration::from_secs(2))
            .await
            .unwrap();
    }
    tokio::select! {
        biased;
        told = &mut waits => panic!("{told:?}"),
        () = lab.pause(Duration::from_millis(20)) => {}
    }
    b.probe.free();
    waits.await.unwrap();
    slow.ask(Say::Who).await.unwrap();
    let all: Vec<_> = (0..=told).collect();
    assert_eq!(lab.world.told(slow.id(), 9), all);
    assert_eq!(undelivered(a), 0);
}

/// While a long message travels, others are answered.
pub async fn long_beside_short<C: Combination>(lab: Lab<C>) {
    const LONG: usize = 32 << 20;
    let peers = lab.cluster(["a", "b"], |setup| setup.trusting = true).await;
    lab.spread(&peers).await;
    let [a, b] = &peers;
    let mut on_b = ids(&a.scribes);
    let map = a.scribes.shard_map();
    on_b.retain(|id| {
        let home = map.home(a.scribes.shard_of(id));
        home.is_some_and(|home| home.node == b.node.id())
    });
    let long = a.scribes.entity(&on_b[0]);
    let short: Vec<_> = on_b[1..].iter().map(|id| a.scribes.entity(id)).collect();
    let mut travels = pin!(long.ask_for(Say::long(1, LONG), Duration::from_secs(90)));
    let mut answered = 0;
    let answer = 'travels: loop {
        for entity in &short {
            let mut ask = pin!(entity.ask(Say::Who));
            tokio::select! {
                biased;
                answer = &mut travels => break 'travels answer,
                short = &mut ask => drop(short.unwrap()),
            }
            answered += 1;
        }
    };
    assert_eq!(answer.unwrap().bytes, LONG);
    // It goes in pieces of 256 KiB, and each of the others waits for a few of these.
    assert!(answered >= 20, "{answered}");
}
