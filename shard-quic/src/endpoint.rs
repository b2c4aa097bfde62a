//! Sockets: one that listens and dials, or one that dials only.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::AtomicU64;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use quinn::udp::{UdpSockRef, UdpSocketState};
use quinn::{
    ClientConfig, ConnectError, Connecting, Endpoint, EndpointConfig, Runtime, ServerConfig,
};
use tokio::sync::oneshot;

use crate::transport::Settings;

/// What a transport has open.
pub(crate) struct Endpoints {
    runtime: Arc<dyn Runtime>,
    open: Mutex<Open>,
    pub(crate) unvalidated: AtomicU64,
    pub(crate) retries: AtomicU64,
}

#[derive(Default)]
struct Open {
    listening: Option<Endpoint>,
    /// Made when they are needed: for IPv4, and for IPv6.
    dialing: [Option<Endpoint>; 2],
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoints {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self {
            runtime,
            open: Mutex::default(),
            unvalidated: AtomicU64::new(0),
            retries: AtomicU64::new(0),
        }
    }

    fn open(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
        settings: &Settings,
    ) -> io::Result<Endpoint> {
        let socket = UdpSocket::bind(address)?;
        widen(&socket, settings);
        let mut config = EndpointConfig::default();
        if let Some(bytes) = settings.max_datagram {
            let set = config.max_udp_payload_size(bytes);
            set.map_err(io::Error::other)?;
        }
        Endpoint::new(config, server, socket, Arc::clone(&self.runtime))
    }

    /// On the first of the addresses that is free.
    pub(crate) fn listen(
        &self,
        addresses: &[SocketAddr],
        server: &ServerConfig,
        settings: &Settings,
    ) -> io::Result<Endpoint> {
        let mut last = io::ErrorKind::InvalidInput.into();
        for address in addresses {
            match self.open(*address, Some(server.clone()), settings) {
                Ok(endpoint) => {
                    lock(&self.open).listening = Some(endpoint.clone());
                    return Ok(endpoint);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// To the first of the addresses that the socket reaches, from the one that listens if it can.
    pub(crate) fn connect(
        &self,
        addresses: &[SocketAddr],
        config: ClientConfig,
        settings: &Settings,
    ) -> io::Result<Connecting> {
        let mut open = lock(&self.open);
        if let Some(endpoint) = &open.listening {
            let local = endpoint.local_addr()?.ip();
            let reached = addresses.iter().find(|it| reaches(local, it.ip()));
            if let Some(address) = reached {
                return connect(endpoint, &config, *address).map_err(refused);
            }
        }
        let address = *addresses.first().ok_or(io::ErrorKind::InvalidInput)?;
        let (slot, any): (_, IpAddr) = match address {
            SocketAddr::V4(_) => (0, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (1, Ipv6Addr::UNSPECIFIED.into()),
        };
        if let Some(endpoint) = &open.dialing[slot] {
            match connect(endpoint, &config, address) {
                // The runtime that it was on has ended.
                Err(ConnectError::EndpointStopping) => {}
                other => return other.map_err(refused),
            }
        }
        let endpoint = self.open(SocketAddr::new(any, 0), None, settings)?;
        let connecting = connect(&endpoint, &config, address).map_err(refused);
        open.dialing[slot] = Some(endpoint);
        connecting
    }

    pub(crate) fn rebind(&self, socket: UdpSocket, settings: &Settings) -> io::Result<()> {
        widen(&socket, settings);
        let family = usize::from(socket.local_addr()?.is_ipv6());
        let open = lock(&self.open);
        let endpoint = open.listening.as_ref().or(open.dialing[family].as_ref());
        endpoint.ok_or(io::ErrorKind::NotConnected)?.rebind(socket)
    }
}

/// Certificates name nodes, not addresses: this name is neither sent nor looked at.
fn connect(
    endpoint: &Endpoint,
    config: &ClientConfig,
    address: SocketAddr,
) -> Result<Connecting, ConnectError> {
    endpoint.connect_with(config.clone(), address, "shard")
}

fn refused(error: ConnectError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Whether a socket bound to one address reaches another one.
fn reaches(local: IpAddr, remote: IpAddr) -> bool {
    let family = local.is_ipv4() == remote.is_ipv4();
    family && (local.is_unspecified() || !local.is_loopback() || remote.is_loopback())
}

/// More room in the system's buffers, as much as there is.
fn widen(socket: &UdpSocket, settings: &Settings) {
    let bytes = settings.socket_buffers as usize;
    let widened = UdpSocketState::new(UdpSockRef::from(socket)).and_then(|state| {
        state.set_recv_buffer_size(UdpSockRef::from(socket), bytes)?;
        state.set_send_buffer_size(UdpSockRef::from(socket), bytes)
    });
    if let Err(error) = widened {
        tracing::debug!("the socket's buffers stay as they are: {error}");
    }
}

/// The addresses behind `host:port`. Names are looked up by a thread of their own: what runtimes have for this differs,
/// and does the same.
pub(crate) async fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let (sender, found) = oneshot::channel();
    let name = address.to_owned();
    thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(move || {
            let _ = sender.send(name.to_socket_addrs().map(Vec::from_iter));
        })?;
    let found = found.await.map_err(io::Error::other)??;
    if found.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_reaches_its_family_and_from_loopback_only_loopback() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (local, remote, reached) in [
            ("127.0.0.1", "127.0.0.2", true),
            ("127.0.0.1", "192.0.2.1", false),
            ("0.0.0.0", "192.0.2.1", true),
            ("192.0.2.2", "127.0.0.1", true),
            ("0.0.0.0", "::1", false),
            ("::", "192.0.2.1", false),
            ("::1", "2001:db8::1", false),
        ] {
            assert_eq!(reaches(ip(local), ip(remote)), reached, "{local} {remote}");
        }
    }
}
