//! A host and a connection of which the test is the other side, and the frames that it says there.

use super::*;
use crate::wire::Frame;
use crate::wire::control::{Hello, Welcome};
use crate::wire::header::{Kind, MAX_VERSION, MIN_VERSION};

/// A host and a connection that the test speaks for.
pub(super) struct Raw {
    pub(super) host: Host,
    pub(super) link: LinkId,
    pub(super) now: Instant,
    pub(super) name: &'static str,
    pub(super) answers: Vec<u8>,
}

impl Raw {
    pub(super) fn new(tune: impl Fn(LinkConfig) -> LinkConfig) -> Self {
        let now = Instant::from_micros(5);
        let mut host = Host::new(now, tune(config()), identity("a", 10));
        let link = host.links.accepted(now, 1, None).unwrap();
        Self {
            host,
            link,
            now,
            name: "b",
            answers: Vec::new(),
        }
    }

    /// Linked, as "b" in life 20.
    pub(super) fn up() -> Self {
        Self::up_with(|config| config)
    }

    pub(super) fn up_with(tune: impl Fn(LinkConfig) -> LinkConfig) -> Self {
        let mut raw = Self::new(tune);
        raw.say(&Control::Hello(hello(raw.name))).unwrap();
        raw.say(&welcome(&[0; 8])).unwrap();
        assert!(raw.host.links.is_up(raw.slot()));
        raw.answers.clear();
        raw
    }

    pub(super) fn slot(&self) -> PeerSlot {
        self.host.links.slot(hash::node_id(self.name)).unwrap()
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<Vec<Incoming>, LinkFault> {
        self.bytes_on(0, bytes)
    }

    pub(super) fn bytes_on(
        &mut self,
        stream: u8,
        bytes: &[u8],
    ) -> Result<Vec<Incoming>, LinkFault> {
        let stream = StreamIndex(stream);
        let mut buf = BytesMut::from(bytes);
        let mut got = Vec::new();
        let result = loop {
            match self.host.links.read(self.now, self.link, stream, &mut buf) {
                Ok(Some(incoming)) => got.push(incoming),
                Ok(None) => break Ok(got),
                Err(fault) => break Err(fault),
            }
        };
        self.flush();
        result
    }

    pub(super) fn flush(&mut self) {
        while self.host.links.poll_dirty().is_some() {}
        while let Some((_, bytes)) = self.host.links.poll_transmit(self.link) {
            self.answers.extend_from_slice(&bytes);
        }
    }

    pub(super) fn say(&mut self, control: &Control<'_>) -> Result<Vec<Incoming>, LinkFault> {
        let bytes = encoded(control);
        self.bytes(&bytes)
    }

    pub(super) fn data(&mut self, seq: u64) -> Result<Vec<Incoming>, LinkFault> {
        let bytes = data(seq, 8);
        self.bytes(&bytes)
    }

    /// Kinds of what the host said.
    pub(super) fn said(&mut self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        let mut rest = self.answers.as_slice();
        while let Ok(crate::wire::Decoded::Frame(frame)) = Frame::decode(rest, 1 << 20) {
            kinds.push(frame.header.kind);
            rest = &rest[frame.encoded_len()..];
        }
        self.answers.clear();
        kinds
    }
}

pub(super) fn encoded(control: &Control<'_>) -> BytesMut {
    let mut bytes = BytesMut::new();
    control
        .encode_into(TYPE, Term(3), MAX_VERSION, &mut bytes)
        .unwrap();
    bytes
}

pub(super) fn data(seq: u64, size: usize) -> BytesMut {
    let mut bytes = BytesMut::new();
    let slot = FrameSlot {
        version: MAX_VERSION,
        lane: 0,
        seq,
        max_body: 1 << 20,
    };
    let mut payload = vec![seq as u8; size.max(8)];
    payload[..8].copy_from_slice(&seq.to_le_bytes());
    put(&mut bytes, slot, &payload).unwrap();
    bytes
}

pub(super) fn hello(name: &str) -> Hello<'_> {
    Hello {
        min_version: MIN_VERSION,
        max_version: MAX_VERSION,
        cluster: 1,
        voters: 0,
        node: hash::node_id(name),
        incarnation: Incarnation(20),
        name,
        address: "b:1",
        roles: Roles::NONE,
        lanes: 1,
        max_frame: 1 << 20,
        max_message: 1 << 20,
        dialer: true,
    }
}

pub(super) fn welcome(expected: &[u8]) -> Control<'_> {
    Control::Welcome(Welcome {
        version: MAX_VERSION,
        incarnation: Incarnation(10),
        expected,
    })
}
