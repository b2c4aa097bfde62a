//! Relays in front of nodes: what they forward can be held up in one direction, and connections be reset.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{
    TcpListener, TcpStream,
    tcp::{OwnedReadHalf, OwnedWriteHalf},
};
use tokio::sync::{oneshot, watch};

type Ways = BTreeSet<(&'static str, &'static str)>;

/// The ways between nodes of these names. Who dials is seen by the name in the first thing it says.
#[derive(Clone)]
pub struct Net {
    names: &'static [&'static str],
    cut: Arc<watch::Sender<Ways>>,
    resets: Arc<watch::Sender<u32>>,
}

impl Net {
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            cut: Arc::new(watch::Sender::new(Ways::new())),
            resets: Arc::new(watch::Sender::new(0)),
        }
    }

    /// From now on nothing of what `from` sends reaches `to`. It is late, not lost, as on a network that resends.
    pub fn cut(&self, from: &'static str, to: &'static str) {
        self.cut.send_modify(|cut| {
            cut.insert((from, to));
        });
    }

    pub fn heal(&self) {
        self.cut.send_modify(Ways::clear);
    }

    /// Breaks every connection; what is on its way in them is lost.
    pub fn reset(&self) {
        self.resets.send_modify(|resets| *resets += 1);
    }

    /// Relays what comes in for a node to where it listens. Returns where the others are to dial it.
    pub async fn relay(&self, to: &'static str, target: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let net = self.clone();
        tokio::spawn(async move {
            while let Ok((dialer, _)) = listener.accept().await {
                let (net, target) = (net.clone(), target.clone());
                tokio::spawn(async move {
                    let mut resets = net.resets.subscribe();
                    // Nobody listens yet, or no more: the dialer sees its connection end.
                    let Ok(node) = TcpStream::connect(target).await else {
                        return;
                    };
                    tokio::select! {
                        () = net.forward(dialer, node, to) => {}
                        _ = resets.changed() => {}
                    }
                });
            }
        });
        address
    }

    async fn forward(&self, dialer: TcpStream, node: TcpStream, to: &'static str) {
        let (mut dialer_says, dialer_hears) = dialer.into_split();
        let (node_says, node_hears) = node.into_split();
        let mut first = vec![0; 4096];
        let (who, dialed_by) = oneshot::channel();
        let there = async {
            let Ok(read @ 1..) = dialer_says.read(&mut first).await else {
                return;
            };
            first.truncate(read);
            let says = |name: &&&str| first.windows(name.len()).any(|it| it == name.as_bytes());
            let from = self.names.iter().find(says).expect("it says who it is");
            let _ = who.send(*from);
            self.pump(dialer_says, node_hears, (from, to), first).await;
        };
        let back = async {
            if let Ok(from) = dialed_by.await {
                let way = (to, from);
                self.pump(node_says, dialer_hears, way, Vec::new()).await;
            }
        };
        // The end of one direction ends the connection.
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }

    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        way: (&'static str, &'static str),
        mut bytes: Vec<u8>,
    ) {
        let mut cut = self.cut.subscribe();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let ended = cut.wait_for(|cut| !cut.contains(&way)).await.is_err();
            if ended || to.write_all(&bytes).await.is_err() {
                return;
            }
            match from.read(&mut buffer).await {
                Ok(read @ 1..) => bytes = buffer[..read].to_vec(),
                _ => return,
            }
        }
    }
}

/// An address of this machine that nobody else is given. On Linux all of 127.0.0.0/8 is this machine: there each process
/// has a host of its own, whose ports no connection of anybody else comes from.
pub fn free_address() -> String {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let host = if cfg!(target_os = "linux") {
        let [_, a, b, c] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 64 | (a & 63), b, c)
    } else {
        Ipv4Addr::LOCALHOST
    };
    loop {
        let listener = std::net::TcpListener::bind((host, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        if GIVEN.lock().unwrap().insert(address.port()) {
            return address.to_string();
        }
    }
}
