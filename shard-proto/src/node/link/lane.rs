//! One lane of a pair: numbers, chunks that wait for acknowledgement, the window.

use alloc::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::{DataError, LinkFault};
use crate::wire::{HEADER_LEN, Header, data};

/// Frames are gathered in chunks of this size. One larger frame is a chunk of its own.
const CHUNK: usize = 64 << 10;
/// What a frame needs beyond its caller's hint, at most, unless it has a long id.
const OVERHEAD: usize = HEADER_LEN + 44;

/// What the writer of a data frame needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSlot {
    /// The wire version to write.
    pub(crate) version: u8,
    /// The frame's number.
    pub(crate) seq: u64,
    /// Longest body, in bytes. A longer one is refused behind the writer too.
    pub(crate) max_frame: u32,
}

/// Whole frames in a row, given out or about to be.
#[derive(Clone, Debug)]
struct Chunk {
    /// Number of its first frame.
    first: u64,
    /// Number behind its last one.
    next: u64,
    bytes: Bytes,
}

impl Chunk {
    /// Drops the frames below `seq`; answers how many bytes they had.
    fn trim(&mut self, seq: u64) -> usize {
        let before = self.bytes.len();
        while self.first < seq && self.first < self.next {
            let Some(len) = frame_len(&self.bytes) else {
                break;
            };
            self.bytes.advance(len.min(self.bytes.len()));
            self.first = self.first.saturating_add(1);
        }
        before.saturating_sub(self.bytes.len())
    }
}

/// Length of the frame at the beginning of `bytes`, which this side wrote.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    Header::decode(bytes, u32::MAX)
        .ok()
        .map(|header| header.frame_len())
}

/// The sending side of a lane.
#[derive(Debug, Default)]
pub(super) struct SendLane {
    /// Frames from `sealed` to `next`, not given out yet.
    tail: BytesMut,
    chunks: VecDeque<Chunk>,
    /// The first of `chunks` that this connection was not given.
    unsent: usize,
    /// The first number that is in the tail.
    sealed: u64,
    /// Number of the next frame.
    next: u64,
    /// The first number that is not acknowledged.
    acked: u64,
    /// The first number that no connection was given.
    sent: u64,
    /// Bytes in the tail and in chunks.
    bytes: usize,
    /// Longest body since the lane was last empty.
    longest: usize,
}

impl SendLane {
    /// Appends a frame. State is unchanged by an error.
    #[inline]
    pub(super) fn push<E>(
        &mut self,
        hint: usize,
        version: u8,
        max_frame: u32,
        write: impl FnOnce(&mut BytesMut, FrameSlot) -> Result<(), E>,
    ) -> Result<(), DataError<E>> {
        let need = hint.saturating_add(OVERHEAD);
        let start = self.tail.len();
        if start >= CHUNK || self.tail.capacity().saturating_sub(start) < need {
            self.make_room(need);
        }
        let start = self.tail.len();
        let slot = FrameSlot {
            version,
            seq: self.next,
            max_frame,
        };
        if let Err(error) = write(&mut self.tail, slot) {
            self.tail.truncate(start);
            return Err(DataError::Write(error));
        }
        let len = self.tail.len().saturating_sub(start);
        let body = len.saturating_sub(HEADER_LEN);
        if body > max_frame as usize {
            self.tail.truncate(start);
            return Err(DataError::TooLarge {
                size: body,
                limit: max_frame as usize,
            });
        }
        debug_assert_eq!(
            self.tail.get(start..).and_then(frame_len),
            Some(len),
            "the writer appends exactly one frame"
        );
        self.next = self.next.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len);
        self.longest = self.longest.max(body);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self, need: usize) {
        self.seal();
        // Takes the old allocation again if nobody holds a part of it any more.
        self.tail.reserve(need.max(CHUNK));
    }

    fn seal(&mut self) {
        if self.tail.is_empty() {
            return;
        }
        self.chunks.push_back(Chunk {
            first: self.sealed,
            next: self.next,
            bytes: self.tail.split().freeze(),
        });
        self.sealed = self.next;
    }

    /// The next chunk for the connection, and how many of its frames were given to an earlier one.
    pub(super) fn poll(&mut self) -> Option<(Bytes, u64)> {
        if self.unsent >= self.chunks.len() {
            self.seal();
        }
        let chunk = self.chunks.get(self.unsent)?;
        self.unsent = self.unsent.saturating_add(1);
        let again = self.sent.min(chunk.next).saturating_sub(chunk.first);
        self.sent = self.sent.max(chunk.next);
        Some((chunk.bytes.clone(), again))
    }

    /// Whether [`SendLane::poll`] has something.
    pub(super) fn has_more(&self) -> bool {
        !self.tail.is_empty() || self.unsent < self.chunks.len()
    }

    /// Everything below `next` was accepted by the peer.
    pub(super) fn ack(&mut self, next: u64) -> Result<(), LinkFault> {
        if next > self.sent {
            return Err(LinkFault::Ack {
                next,
                sent: self.sent,
            });
        }
        self.acked = self.acked.max(next);
        while let Some(chunk) = self.chunks.front() {
            if chunk.next > self.acked {
                break;
            }
            self.bytes = self.bytes.saturating_sub(chunk.bytes.len());
            self.unsent = self.unsent.saturating_sub(1);
            self.chunks.pop_front();
        }
        if self.acked == self.next {
            self.longest = 0;
        }
        Ok(())
    }

    /// Whether a peer that expects `next` can be served.
    pub(super) const fn check(&self, next: u64, max_frame: u32) -> Result<(), LinkFault> {
        if next > self.sent {
            return Err(LinkFault::Ack {
                next,
                sent: self.sent,
            });
        }
        if self.longest > max_frame as usize {
            return Err(LinkFault::FrameLimit);
        }
        Ok(())
    }

    /// A new connection stands; its peer expects `next`. An acknowledgement on an earlier connection may be newer.
    pub(super) fn resume(&mut self, next: u64) -> Result<(), LinkFault> {
        self.ack(next)?;
        let acked = self.acked;
        if let Some(chunk) = self.chunks.front_mut() {
            let trimmed = chunk.trim(acked);
            self.bytes = self.bytes.saturating_sub(trimmed);
        }
        self.unsent = 0;
        Ok(())
    }

    /// Whether so much is unacknowledged: at least that many bytes or frames.
    #[inline]
    pub(super) const fn holds(&self, bytes: u64, frames: u64) -> bool {
        self.bytes as u64 >= bytes || self.next.saturating_sub(self.acked) >= frames
    }

    /// Whether everything is acknowledged.
    pub(super) const fn is_flushed(&self) -> bool {
        self.acked == self.next
    }

    /// Whether the lane was never used.
    pub(super) const fn is_unused(&self) -> bool {
        self.next == 0
    }
}

/// The receiving side of a lane.
#[derive(Debug, Default)]
pub(super) struct RecvLane {
    /// The next number.
    pub(super) expected: u64,
    /// What the peer was told.
    pub(super) told: u64,
    /// Bytes accepted since.
    pub(super) owed: u64,
}

impl RecvLane {
    /// Whether the peer does not know what was accepted.
    pub(super) const fn owes(&self) -> bool {
        self.told != self.expected
    }
}

/// What a life of a node had not acknowledged when it ended, in order per lane.
#[derive(Debug, Default)]
pub(crate) struct Unacked {
    chunks: VecDeque<Chunk>,
    sent: u64,
}

/// One frame that was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnackedFrame {
    /// Its header.
    pub(crate) header: Header,
    /// Its body.
    pub(crate) body: Bytes,
    /// It was given to a connection: perhaps delivered. Otherwise certainly not.
    pub(crate) sent: bool,
}

impl Unacked {
    /// Of a lane that goes on.
    pub(super) fn copy(lane: &mut SendLane) -> Self {
        lane.seal();
        let mut chunks = lane.chunks.clone();
        if let Some(chunk) = chunks.front_mut() {
            chunk.trim(lane.acked);
        }
        let sent = lane.sent;
        Self { chunks, sent }
    }

    pub(super) fn new(mut lane: SendLane) -> Self {
        lane.seal();
        if let Some(chunk) = lane.chunks.front_mut() {
            chunk.trim(lane.acked);
        }
        Self {
            chunks: lane.chunks,
            sent: lane.sent,
        }
    }

    /// How many frames are left.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.next.saturating_sub(chunk.first))
            .fold(0, u64::saturating_add)
    }
}

impl Iterator for Unacked {
    type Item = UnackedFrame;

    fn next(&mut self) -> Option<UnackedFrame> {
        loop {
            let chunk = self.chunks.front_mut()?;
            let header = match Header::decode(&chunk.bytes, u32::MAX) {
                Ok(header) if header.frame_len() <= chunk.bytes.len() => header,
                _ => {
                    self.chunks.pop_front();
                    continue;
                }
            };
            let mut body = chunk.bytes.split_to(header.frame_len());
            body.advance(HEADER_LEN);
            chunk.first = chunk.first.saturating_add(1);
            let sent = data::seq(&body).is_ok_and(|seq| seq < self.sent);
            return Some(UnackedFrame { header, body, sent });
        }
    }
}
