//! Ways to a node for what is not made of this code: TCP, and TLS with a certificate of one's choice.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use shard_tokio::NodeBuilder;
use shard_tokio::proto::wire::control::Refusal;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::builder;
use super::certs::{Authority, Certified};
pub use super::trusting::client;
use super::wire::Wire;

/// How nodes and others speak to each other in a test.
pub enum Way {
    Tcp,
    Tls(Box<Authority>),
}

impl Way {
    pub fn tls() -> Self {
        Self::Tls(Box::default())
    }

    pub fn builder(&self, name: &str, address: &str, seeds: &[String]) -> NodeBuilder {
        let builder = builder(name, address, seeds);
        match self {
            Self::Tcp => builder,
            Self::Tls(authority) => builder.security(authority.tls(name)),
        }
    }

    /// A way to a node for somebody who has a certificate of that name.
    pub async fn door(&self, target: &str, name: &str) -> Door {
        match self {
            Self::Tcp => Door {
                address: target.to_owned(),
                cluster: "",
            },
            Self::Tls(authority) => self.door_of(target, authority.node(name)).await,
        }
    }

    /// A way over TLS for somebody who has this certificate.
    pub async fn door_of(&self, target: &str, certified: Certified) -> Door {
        Door {
            address: tunnel(target.to_owned(), certified).await,
            cluster: "test",
        }
    }
}

/// Where a connection can be made by hand, frame by frame.
#[derive(Clone)]
pub struct Door {
    address: String,
    cluster: &'static str,
}

impl Door {
    pub fn open(&self, name: &str, incarnation: u64) -> Result<Wire, Refusal> {
        Wire::open_in(self.cluster, &self.address, name, incarnation)
    }

    /// Says to the node that its life is over.
    pub fn slander(&self, who: (&str, u64), newest: impl FnOnce(u64) -> u64) {
        Wire::slander(self.cluster, &self.address, who, newest);
    }
}

/// An address whose connections go on over TLS.
async fn tunnel(target: String, certified: Certified) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let config = client(Some(&certified), &rustls::version::TLS13, b"shard/1");
        while let Ok((mut near, _)) = listener.accept().await {
            let (config, target) = (Arc::clone(&config), target.clone());
            tokio::spawn(async move {
                let mut far = connect(&target, config).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    address
}

pub async fn connect(target: &str, config: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("x").unwrap();
    TlsConnector::from(config).connect(name, stream).await
}
