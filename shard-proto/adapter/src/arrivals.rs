//! Connections that arrive, until it is known whose they are: few at once, in all and of one host, and not for long.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::driver::NetEvent;
use crate::faults::Faults;
use crate::lock::lock;
use crate::shared::{Input, NodeShared};
use crate::transport::{Arriving, Listener, Refused};

/// Bounds of what arrived and has not said who it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalLimits {
    /// At once.
    pub(crate) in_all: u16,
    /// At once, from one host.
    pub(crate) per_host: u16,
    /// For the transport's handshake.
    pub(crate) within: Duration,
}

impl ArrivalLimits {
    pub(crate) const fn new() -> Self {
        Self {
            in_all: 256,
            per_host: 64,
            within: Duration::from_secs(5),
        }
    }
}

/// What a node counted of connections before they are links. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Connections that arrived.
    pub arrived: u64,
    /// Of these, dropped at once: too many others had not said who they are, see
    /// [`NodeBuilder::max_arrivals`](crate::NodeBuilder::max_arrivals).
    pub crowded: u64,
    /// Of these, dropped because the transport's handshake took too long, see
    /// [`NodeBuilder::arrival_timeout`](crate::NodeBuilder::arrival_timeout).
    pub timed_out: u64,
    /// Of these, dropped because the transport's handshake failed, without those refused.
    pub failed: u64,
    /// Peers refused by the transport, those that were dialed included: they are not who may connect.
    pub refused: u64,
    /// Times another node's transport refused this node.
    pub refused_by_peers: u64,
}

/// What arrived and has not said who it is.
#[derive(Debug)]
pub(crate) struct Arrivals {
    limits: ArrivalLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// No more of them than `waiting`.
    hosts: HashMap<String, usize>,
    stats: ConnectionStats,
    faults: Faults,
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// A place among them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    arrivals: Arc<Arrivals>,
    host: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.arrivals.state);
        state.waiting -= 1;
        if let Some(count) = state.hosts.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                state.hosts.remove(&self.host);
            }
        }
    }
}

impl Arrivals {
    pub(crate) fn new(limits: ArrivalLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    pub(crate) fn stats(&self) -> ConnectionStats {
        lock(&self.state).stats
    }

    /// This node refused what it had dialed.
    pub(crate) fn count_refused(&self) {
        lock(&self.state).stats.refused += 1;
    }

    /// Another node refused this one, after this one had taken it for a connection.
    pub(crate) fn refused_by(&self, peer: &str, shared: &NodeShared, refused: &Refused) {
        lock(&self.state).stats.refused_by_peers += 1;
        self.failed(peer, shared, refused.reason(), &refused.to_string());
    }

    /// `Err`: there are too many, and it is counted.
    fn admit(self: &Arc<Self>, peer: &str) -> Result<Place, &'static str> {
        let host = host(peer);
        let mut state = lock(&self.state);
        state.stats.arrived += 1;
        let of_host = state.hosts.get(&host).copied().unwrap_or(0);
        let crowded = if state.waiting >= usize::from(self.limits.in_all) {
            "too many connections have not said who they are"
        } else if of_host >= usize::from(self.limits.per_host) {
            "too many connections of one host have not said who they are"
        } else {
            state.waiting += 1;
            *state.hosts.entry(host.clone()).or_default() += 1;
            drop(state);
            let arrivals = Arc::clone(self);
            return Ok(Place { arrivals, host });
        };
        state.stats.crowded += 1;
        Err(crowded)
    }

    /// Something went wrong with what arrived: a warning, now and then.
    fn failed(&self, peer: &str, shared: &NodeShared, reason: &'static str, error: &str) {
        let now = shared.clock.now();
        let so_far = lock(&self.state).faults.count(peer, None, reason, now);
        if so_far.is_power_of_two() {
            tracing::warn!(peer, so_far, "dropped a connection: {error}");
        }
    }

    async fn handshake(self: Arc<Self>, arriving: Arriving, place: Place, shared: Arc<NodeShared>) {
        let Arriving { peer, connection } = arriving;
        let result = tokio::select! {
            result = shared.runtime.timeout(self.limits.within, connection) => result,
            () = shared.ended() => return,
        };
        match result {
            Some(Ok(connection)) => {
                let accepted = Input::Net(NetEvent::Accepted(connection, place));
                let _ = shared.inbox.push(accepted, usize::MAX);
            }
            Some(Err(error)) => {
                drop(place);
                let is_refusal = Refused::of(&error).is_some();
                let mut state = lock(&self.state);
                if is_refusal {
                    state.stats.refused += 1;
                } else {
                    state.stats.failed += 1;
                }
                drop(state);
                self.failed(&peer, &shared, reason(&error), &error.to_string());
            }
            None => {
                drop(place);
                lock(&self.state).stats.timed_out += 1;
                let reason = "it has not said who it is in time";
                self.failed(&peer, &shared, reason, reason);
            }
        }
    }
}

/// In words that do not vary.
fn reason(error: &io::Error) -> &'static str {
    if let Some(refused) = Refused::of(error) {
        return refused.reason();
    }
    match error.kind() {
        io::ErrorKind::InvalidData => "malformed",
        _ => "broken",
    }
}

/// Whom what came from an address is put down to: without the port, which is another one each time, and of an IPv6 address
/// the first 64 bits, which is what one host has.
pub(crate) fn host(peer: &str) -> String {
    match peer
        .parse::<SocketAddr>()
        .map(|address| address.ip().to_canonical())
    {
        Ok(IpAddr::V4(ip)) => ip.to_string(),
        Ok(IpAddr::V6(ip)) if ip.is_loopback() => ip.to_string(),
        Ok(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
        }
        Err(_) => peer
            .rsplit_once(':')
            .map_or(peer, |(host, _)| host)
            .to_owned(),
    }
}

/// Accepts connections until the driver has ended.
pub(crate) async fn accept(
    mut listener: Box<dyn Listener>,
    arrivals: Arc<Arrivals>,
    shared: Arc<NodeShared>,
) {
    const PAUSE: Duration = Duration::from_millis(100);
    loop {
        let arriving = tokio::select! {
            arriving = listener.accept() => arriving,
            () = shared.ended() => return,
        };
        match arriving {
            Ok(arriving) => match arrivals.admit(&arriving.peer) {
                Ok(place) => {
                    let arrivals = Arc::clone(&arrivals);
                    let handshake = arrivals.handshake(arriving, place, Arc::clone(&shared));
                    shared.runtime.spawn(handshake);
                }
                Err(crowded) => arrivals.failed(&arriving.peer, &shared, crowded, crowded),
            },
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                shared.runtime.sleep(PAUSE).await;
            }
        }
    }
}
