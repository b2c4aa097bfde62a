//! A connection made by hand, frame by frame.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use shard_tokio::proto::hash::{cluster_id, entity_type_id, node_id};
use shard_tokio::proto::leadership::Voters;
use shard_tokio::proto::membership::Roles;
use shard_tokio::proto::wire::control::{Hello, Refusal, Welcome};
use shard_tokio::proto::wire::{Control, Data, DataHead, Decoded, Flags, Frame};
use shard_tokio::proto::{EntityTypeId, Epoch, Incarnation, Term};

const MAX: u32 = 1 << 20;

/// A connection made by hand.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Of the next data frame.
    pub seq: u64,
}

impl Wire {
    pub fn open(address: &str, name: &str, incarnation: u64) -> Result<Self, Refusal> {
        Self::open_in("", address, name, incarnation)
    }

    pub fn open_in(
        cluster: &str,
        address: &str,
        name: &str,
        incarnation: u64,
    ) -> Result<Self, Refusal> {
        let mut wire = Self::greet(cluster, address, name, incarnation);
        let mut theirs = Incarnation(0);
        loop {
            match wire.answer() {
                Ok(Some(incarnation)) => theirs = incarnation,
                Ok(None) => break,
                Err(refusal) => return Err(refusal),
            }
        }
        wire.say(
            Term(0),
            &Control::Welcome(Welcome {
                version: 1,
                incarnation: theirs,
                expected: &0_u64.to_le_bytes(),
            }),
        );
        Ok(wire)
    }

    /// Says to a node that its life is over: that the newest life of it is this one of those that `newest` makes of it.
    pub fn slander(
        cluster: &str,
        address: &str,
        (name, incarnation): (&str, u64),
        newest: impl FnOnce(u64) -> u64,
    ) {
        let mut wire = Self::greet(cluster, address, name, incarnation);
        let theirs = wire.answer().unwrap().expect("a hello");
        let newest = Incarnation(newest(theirs.0));
        let refusal = Refusal::Incarnation { newest };
        wire.say(Term(0), &Control::Refused(refusal));
        assert!(wire.closed());
    }

    fn greet(cluster: &str, address: &str, name: &str, incarnation: u64) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut wire = Self {
            stream,
            buffer: Vec::new(),
            seq: 0,
        };
        wire.say(
            Term(0),
            &Control::Hello(Hello {
                min_version: 1,
                max_version: 1,
                cluster: cluster_id(cluster),
                voters: Voters::new(&[node_id("a")]).unwrap().digest(),
                node: node_id(name),
                incarnation: Incarnation(incarnation),
                name,
                address: "127.0.0.1:1",
                roles: Roles::NONE,
                lanes: 1,
                max_frame: MAX,
                max_message: MAX,
                dialer: true,
            }),
        );
        wire
    }

    /// What comes next of a handshake: a life, or a welcome.
    fn answer(&mut self) -> Result<Option<Incarnation>, Refusal> {
        let bytes = self.next().expect("an answer");
        let Ok(Decoded::Frame(frame)) = Frame::decode(&bytes, MAX) else {
            panic!()
        };
        match frame.control().unwrap() {
            Control::Hello(hello) => Ok(Some(hello.incarnation)),
            Control::Welcome(_) => Ok(None),
            Control::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Ok(Decoded::Frame(frame)) = Frame::decode(&self.buffer, MAX) {
                let len = frame.encoded_len();
                return Some(self.buffer.drain(..len).collect());
            }
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
            }
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub fn say(&mut self, term: Term, control: &Control<'_>) -> bool {
        let mut out = BytesMut::new();
        control
            .encode_into(entity_type_id("scribe"), term, 1, &mut out)
            .unwrap();
        self.raw(&out)
    }

    pub fn data(&mut self, ty: EntityTypeId, epoch: Epoch, data: &Data<'_>) -> bool {
        self.flagged(Flags::NONE, ty, epoch, data)
    }

    pub fn flagged(
        &mut self,
        flags: Flags,
        ty: EntityTypeId,
        epoch: Epoch,
        data: &Data<'_>,
    ) -> bool {
        let mut out = vec![0; data.body_len() + 20];
        let head = DataHead {
            flags,
            version: 1,
            entity_type: ty,
            epoch,
            seq: self.seq,
        };
        self.seq += 1;
        let len = data.encode(&head, MAX, &mut out).unwrap();
        self.raw(&out[..len])
    }

    /// Reads what comes, in the background, so that nothing waits for this side.
    pub fn drain(&self) {
        let mut stream = self.stream.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut chunk = vec![0; 65536];
            while !matches!(stream.read(&mut chunk), Ok(0) | Err(_)) {}
        });
    }

    pub fn closed(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            if self.next().is_none() {
                return true;
            }
        }
        false
    }
}
