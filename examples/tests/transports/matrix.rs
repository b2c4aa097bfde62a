//! Certificates: who is let in, and who is not.

use rustls::version::TLS13;
use shard_adapter::proto::wire::control::Refusal;
use shard_adapter::{StartError, Tls};

use crate::certs::{Authority, Certified, When, bad, strict};
use crate::combination::{Combination, Way};
use crate::lab::Lab;
use crate::log;
use crate::scribe::Say;
use crate::secure::{Impostor, knock};
use crate::trusting::client;

/// Certificates, and why each is refused.
struct Matrix {
    cases: Vec<(Certified, &'static str)>,
    /// Of a node that refuses them all.
    tls: Tls,
}

impl Matrix {
    fn new(ca: &Authority) -> Self {
        let cases = bad(ca).into_iter();
        let cases: Vec<_> = cases.map(|it| (it.0.unwrap(), it.1)).collect();
        let revoked = cases.iter().find(|it| it.1 == "was revoked").unwrap();
        let tls = strict(ca, "a", &[&revoked.0]).build().unwrap();
        Self { cases, tls }
    }
}

/// Those that dial show who they are.
pub async fn dialing<C: Combination>(lab: Lab<C>) {
    log::keep();
    let Matrix { cases, tls } = Matrix::new(&lab.authority);
    let mut setup = lab.setup("a", &[]);
    setup.trusting = true;
    setup.tls = tls;
    let a = lab.start(setup).await;
    let cases = cases.into_iter().map(|it| (Some(it.0), it.1));
    let cases = cases.chain([(None, "showed no certificate")]);
    let mut reasons = Vec::new();
    for (n, (certified, reason)) in (1..).zip(cases) {
        let config = client(certified.as_ref(), &TLS13, b"shard/1");
        let told = knock(&lab, a.node.address(), config).await;
        // Nothing but that it is refused: only this side's log says why.
        let refused = match C::WAY {
            Way::Quic => told.starts_with("aborted by peer"),
            _ => told.contains("alert"),
        };
        assert!(refused, "{reason}: {told}");
        lab.until(|| a.node.stats().connections.refused == n).await;
        reasons.push(reason);
        // Of one host and for one reason a line is written at doublings.
        let same = reasons.iter().filter(|it| **it == reason).count();
        if same.is_power_of_two() {
            let peer = a.probe.last_arrived();
            lab.until(|| log::has(&["WARN", &peer, reason])).await;
        }
    }
    assert_eq!(a.node.members().len(), 1);
    let good = lab.speaker("x", &a, (1, 1)).await;
    assert!(good.is_ok());
    lab.until(|| a.node.members().len() == 2).await;
}

/// Those that are dialed show who they are.
pub async fn dialed<C: Combination>(lab: Lab<C>) {
    log::keep();
    let Matrix { mut cases, tls } = Matrix::new(&lab.authority);
    let client = lab.authority.sign(&["shard-client://test/x"], When::Now);
    cases.push((client, "is a client's"));
    let mut impostors = Vec::new();
    for (certified, reason) in &cases {
        impostors.push((Impostor::start(&lab, certified).await, reason));
    }
    let mut setup = lab.setup("a", &[]);
    setup.trusting = true;
    setup.tls = tls;
    setup.seeds = impostors.iter().map(|it| it.0.address.clone()).collect();
    let a = lab.start(setup).await;
    for (impostor, reason) in &impostors {
        lab.until(|| log::has(&["WARN", &impostor.address, reason]))
            .await;
    }
    assert!(a.node.stats().connections.refused >= cases.len() as u64);
    assert_eq!(a.node.members().len(), 1);
}

/// What is said must be what was shown.
pub async fn names<C: Combination>(lab: Lab<C>) {
    let [a, b] = lab.cluster(["a", "b"], |setup| setup.trusting = true).await;
    // Clients may connect, and are no nodes.
    let transport = lab.transport(&lab.authority.sign(&["shard-client://test/x"], When::Now));
    let refused = lab.greet(&*transport, "x", &a).await;
    assert_eq!(refused, Err(Refusal::Client));
    // The name of another node, and of one that there is.
    let transport = lab.transport(&lab.authority.node("x"));
    for name in ["y", "b", "a"] {
        let refused = lab.greet(&*transport, name, &a).await;
        assert_eq!(refused, Err(Refusal::Identity), "{name}");
    }
    lab.until(|| a.node.stats().core.links_refused == 4).await;
    // A node does not start in another name.
    let mut setup = lab.setup("c", &[&a]);
    setup.tls = lab.authority.tls("x");
    let error = lab.try_start(setup).await.err();
    assert!(
        matches!(error, Some(StartError::Identity { .. })),
        "{error:?}"
    );
    let answer = a.scribes.entity("1").ask(Say::Who).await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(b.node.members().len(), 2);
}
