//! A node that is made by hand, frame by frame.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use std::time::SystemTime;

use bytes::BytesMut;
use shard_adapter::proto::hash::{cluster_id, node_id};
use shard_adapter::proto::membership::Roles;
use shard_adapter::proto::wire::control::{Hello, Refusal, Welcome};
use shard_adapter::proto::wire::{Control, Decoded, Flags, Frame, Header, Kind};
use shard_adapter::proto::{EntityTypeId, Incarnation, Term};
use shard_adapter::transport::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

/// What it takes.
pub const MAX_FRAME: u32 = 1 << 20;

/// A connection that is spoken on by hand.
pub struct Speaker {
    connection: Connection,
    unread: BytesMut,
}

impl Speaker {
    /// Shakes hands in that name, as somebody who speaks these versions.
    pub async fn greet(
        connection: Connection,
        name: &str,
        (min_version, max_version): (u8, u8),
    ) -> Result<Self, Refusal> {
        let mut speaker = Self::silent(connection);
        let hello = speaker.hello(name, (min_version, max_version));
        speaker.write(0, &hello).await;
        let mut theirs = Incarnation(0);
        loop {
            let frame = speaker.next().await.expect("an answer");
            let Ok(Decoded::Frame(frame)) = Frame::decode(&frame, MAX_FRAME) else {
                unreachable!("it is a frame");
            };
            match frame.control().unwrap() {
                Control::Hello(hello) => theirs = hello.incarnation,
                Control::Welcome(_) => break,
                Control::Refused(refusal) => return Err(refusal),
                other => panic!("{other:?}"),
            }
        }
        let expected = vec![0; 8 * usize::from(speaker.lanes())];
        let welcome = Control::Welcome(Welcome {
            version: 1,
            incarnation: theirs,
            expected: &expected,
        });
        let welcome = encoded(&welcome);
        speaker.write(0, &welcome).await;
        Ok(speaker)
    }

    /// Says nothing yet.
    pub fn silent(connection: Connection) -> Self {
        Self {
            connection,
            unread: BytesMut::new(),
        }
    }

    fn lanes(&self) -> u8 {
        let streams = u8::try_from(self.connection.streams.len()).unwrap();
        streams.max(2) - 1
    }

    /// The bytes it begins with.
    pub fn hello(&self, name: &str, (min_version, max_version): (u8, u8)) -> Vec<u8> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        encoded(&Control::Hello(Hello {
            min_version,
            max_version,
            cluster: cluster_id("test"),
            voters: 0,
            node: node_id(name),
            incarnation: Incarnation(now.unwrap().as_micros().try_into().unwrap()),
            name,
            address: "127.0.0.1:1",
            roles: Roles::NONE,
            lanes: self.lanes(),
            max_frame: MAX_FRAME,
            max_message: MAX_FRAME,
            dialer: true,
        }))
    }

    /// The stream that data of shard 0 travels on.
    pub fn data(&self) -> usize {
        usize::from(self.connection.streams.len() > 1)
    }

    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Ok(Decoded::Frame(frame)) = Frame::decode(&self.unread, MAX_FRAME) {
                let len = frame.encoded_len();
                return Some(self.unread.split_to(len).to_vec());
            }
            let reader = &mut self.connection.streams[0].reader;
            if !matches!(reader.read_buf(&mut self.unread).await, Ok(1..)) {
                return None;
            }
        }
    }

    pub async fn write(&mut self, stream: usize, bytes: &[u8]) {
        let writer = &mut self.connection.streams[stream].writer;
        // Whoever is cut off learns of it by reading.
        let _ = writer.write_all(bytes).await;
        let _ = writer.flush().await;
    }

    /// A frame of any kind, with the header that is asked for.
    pub async fn frame(&mut self, kind: u8, len: u32, body: &[u8]) {
        let header = header(kind, len);
        let stream = if header.kind.is_data() {
            self.data()
        } else {
            0
        };
        self.write(stream, &header.to_bytes()).await;
        self.write(stream, body).await;
    }

    /// Waits until the other side ends the connection.
    pub async fn closed(&mut self) {
        let mut buffer = [0; 4096];
        poll_fn(|cx| {
            // Of several streams none ends before all are read.
            for stream in &mut self.connection.streams {
                let reader = &mut stream.reader;
                loop {
                    let mut buffer = ReadBuf::new(&mut buffer);
                    match Pin::new(&mut *reader).poll_read(cx, &mut buffer) {
                        Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                        Poll::Ready(_) => return Poll::Ready(()),
                        Poll::Pending => break,
                    }
                }
            }
            Poll::Pending
        })
        .await;
    }
}

fn header(kind: u8, len: u32) -> Header {
    Header {
        version: 1,
        kind: Kind::from_u8(kind),
        flags: Flags::NONE,
        entity_type: EntityTypeId(0),
        number: 0,
        len,
    }
}

fn encoded(control: &Control<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    let none = EntityTypeId(0);
    control.encode_into(none, Term(0), 1, &mut out).unwrap();
    out.to_vec()
}
