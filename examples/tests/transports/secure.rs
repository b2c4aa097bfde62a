//! Peers that are not made of this code, with certificates of one's choice.

use std::net::UdpSocket;
use std::sync::Arc;

use quinn::EndpointConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, join};
use tokio::sync::oneshot;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::certs::Certified;
use crate::combination::{Combination, Way};
use crate::lab::Lab;
use crate::runtimes::On;
use crate::trusting::server;

/// Connects, and returns how it was refused.
pub async fn knock<C: Combination>(
    lab: &Lab<C>,
    address: &str,
    config: Arc<ClientConfig>,
) -> String {
    if C::WAY == Way::Quic {
        let tls = QuicClientConfig::try_from(config).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(tls));
        let connecting = endpoint::<C>(None).connect_with(config, address.parse().unwrap(), "x");
        let told = match connecting.unwrap().await {
            Ok(connection) => connection.closed().await,
            Err(error) => error,
        };
        return told.to_string();
    }
    let stream = lab.plain().dial(address).await.unwrap().streams.remove(0);
    let stream = join(stream.reader, stream.writer);
    let name = ServerName::try_from("x").unwrap();
    // Whether the own handshake is complete or not: nothing but an alert comes.
    let told = match TlsConnector::from(config).connect(name, stream).await {
        Ok(mut stream) => stream.read_u8().await.unwrap_err(),
        Err(error) => error,
    };
    told.to_string()
}

/// Somebody who can be dialed.
pub struct Impostor {
    pub address: String,
    _over: oneshot::Sender<()>,
}

impl Impostor {
    pub async fn start<C: Combination>(lab: &Lab<C>, certified: &Certified) -> Self {
        if C::WAY == Way::Quic {
            return Self::of_datagrams(lab, certified);
        }
        let acceptor = TlsAcceptor::from(server(certified));
        let mut listener = lab.plain().listen("127.0.0.1:0").await.unwrap();
        let address = listener.address();
        let (_over, mut over) = oneshot::channel();
        lab.spawn(async move {
            loop {
                let arriving = tokio::select! {
                    arriving = listener.accept() => arriving,
                    _ = &mut over => return,
                };
                let Ok(arriving) = arriving else { continue };
                if let Ok(mut connection) = arriving.connection.await {
                    let stream = connection.streams.remove(0);
                    let _ = acceptor.accept(join(stream.reader, stream.writer)).await;
                }
            }
        });
        Self { address, _over }
    }

    fn of_datagrams<C: Combination>(lab: &Lab<C>, certified: &Certified) -> Self {
        let tls = QuicServerConfig::try_from(server(certified)).unwrap();
        let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        let endpoint = endpoint::<C>(Some(config));
        let address = endpoint.local_addr().unwrap().to_string();
        let (_over, mut over) = oneshot::channel();
        lab.spawn(async move {
            loop {
                tokio::select! {
                    Some(incoming) = endpoint.accept() => drop(incoming.await),
                    _ = &mut over => return,
                }
            }
        });
        Self { address, _over }
    }
}

fn endpoint<C: Combination>(config: Option<quinn::ServerConfig>) -> quinn::Endpoint {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let runtime = C::Runtime::quinn();
    quinn::Endpoint::new(EndpointConfig::default(), config, socket, runtime).unwrap()
}
