//! What lies between two nodes, and breaks.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use shard_adapter::Transport;
use shard_adapter::runtime::Executor;
use shard_adapter::transport::Connection;
use tokio::io::copy;
use tokio::sync::{oneshot, watch};

use crate::combination::QUIC_IDLE;

#[derive(Clone, Copy, Default)]
struct State {
    cuts: u32,
    down: bool,
}

/// Forwards connections to a node, cuts them when told to, and lets none through while it is down.
pub struct Relay {
    pub address: String,
    target: Arc<Mutex<String>>,
    state: watch::Sender<State>,
    _over: oneshot::Sender<()>,
}

impl Relay {
    /// Over a transport of bytes that it does not understand.
    pub async fn start(plain: Arc<dyn Transport>, time: &Arc<dyn Executor>) -> Self {
        let mut listener = plain.listen("127.0.0.1:0").await.unwrap();
        let (sender, mut over) = oneshot::channel();
        let relay = Self {
            address: listener.address(),
            target: Arc::default(),
            state: watch::Sender::default(),
            _over: sender,
        };
        let state = relay.state.subscribe();
        let target = Arc::clone(&relay.target);
        let on = Arc::clone(time);
        time.spawn(Box::pin(async move {
            loop {
                let arriving = tokio::select! {
                    arriving = listener.accept() => arriving,
                    _ = &mut over => return,
                };
                let Ok(arriving) = arriving else { continue };
                let state = state.clone();
                let target = target.lock().unwrap().clone();
                let plain = Arc::clone(&plain);
                on.spawn(Box::pin(async move {
                    if let Ok(near) = arriving.connection.await {
                        forward(near, plain, &target, state).await;
                    }
                }));
            }
        }));
        relay
    }

    /// Over UDP, for QUIC. It cannot tell connections apart: a cut lets nothing through until they are given up.
    pub fn of_datagrams() -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (sender, over) = oneshot::channel();
        let relay = Self {
            address: near.local_addr().unwrap().to_string(),
            target: Arc::default(),
            state: watch::Sender::default(),
            _over: sender,
        };
        let datagrams = Datagrams {
            near,
            target: Arc::clone(&relay.target),
            state: relay.state.subscribe(),
            over,
        };
        thread::spawn(|| datagrams.run());
        relay
    }

    /// Where its connections lead from now on.
    pub fn aim(&self, target: &str) {
        target.clone_into(&mut self.target.lock().unwrap());
    }

    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    pub fn set_down(&self, down: bool) {
        self.state.send_modify(|state| state.down = down);
    }
}

async fn forward(
    mut near: Connection,
    plain: Arc<dyn Transport>,
    target: &str,
    mut state: watch::Receiver<State>,
) {
    if state.borrow_and_update().down {
        return;
    }
    let Ok(mut far) = plain.dial(target).await else {
        return;
    };
    let (near, far) = (&mut near.streams[0], &mut far.streams[0]);
    tokio::select! {
        _ = copy(&mut near.reader, &mut far.writer) => {}
        _ = copy(&mut far.reader, &mut near.writer) => {}
        _ = state.changed() => {}
    }
}

/// A socket for each of those that dial, and one that they dial.
struct Datagrams {
    near: UdpSocket,
    target: Arc<Mutex<String>>,
    state: watch::Receiver<State>,
    over: oneshot::Receiver<()>,
}

impl Datagrams {
    fn run(mut self) {
        const TURN: Duration = Duration::from_millis(1);
        let mut far: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut buffer = vec![0; 65_536];
        let (mut cuts, mut cut_until) = (0, Instant::now());
        self.near.set_read_timeout(Some(TURN)).unwrap();
        while self.over.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
            let state = *self.state.borrow_and_update();
            if state.cuts != cuts {
                cuts = state.cuts;
                cut_until = Instant::now() + 2 * QUIC_IDLE;
            }
            let through = !state.down && Instant::now() >= cut_until;
            let target = self.target.lock().unwrap().clone();
            while let Some((len, from)) = received(&self.near, &mut buffer) {
                if target.is_empty() {
                    continue;
                }
                let far = far.entry(from).or_insert_with(|| {
                    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                    socket.connect(&target).unwrap();
                    socket.set_nonblocking(true).unwrap();
                    socket
                });
                if through {
                    let _ = far.send(&buffer[..len]);
                }
            }
            for (to, far) in &far {
                while let Some((len, _)) = received(far, &mut buffer) {
                    if through {
                        let _ = self.near.send_to(&buffer[..len], to);
                    }
                }
            }
        }
    }
}

/// `None`: nothing is there.
fn received(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Some(received),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return None;
            }
            // That an earlier one could not be delivered.
            Err(_) => {}
        }
    }
}
