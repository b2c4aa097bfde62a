//! The sending side of a lane: data frames that the peer has not acknowledged.

use heapless::Vec;
use shard_proto::wire::{Data, DataHead, Header, data};

use crate::{LONGEST, WINDOW};

/// The peer acknowledged what it was never sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NeverSent;

/// Whole frames in a row, oldest first.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: Vec<u8, WINDOW>,
    /// How many of the bytes the present connection was given.
    given: usize,
    /// Number of the first frame.
    first: u64,
    /// Number of the next one.
    next: u64,
    /// Behind the last number that any connection was given.
    sent: u64,
}

impl Window {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            given: 0,
            first: 0,
            next: 0,
            sent: 0,
        }
    }

    /// Whether so many frames of any length fit.
    pub(crate) fn has_room(&self, frames: usize) -> bool {
        WINDOW.saturating_sub(self.bytes.len()) >= LONGEST.saturating_mul(frames)
    }

    /// At least half of it is in use.
    pub(crate) fn is_half_full(&self) -> bool {
        self.bytes.len() >= WINDOW / 2
    }

    /// Whether everything was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether the connection can be given more.
    pub(crate) fn has_more(&self) -> bool {
        self.given < self.bytes.len()
    }

    /// Numbers a frame and appends it. `false`: it does not fit, and nothing changed.
    pub(crate) fn push(&mut self, mut head: DataHead, data: &Data<'_>) -> bool {
        head.seq = self.next;
        let mut frame = [0; LONGEST];
        let Ok(len) = data.encode(&head, u32::MAX, &mut frame) else {
            return false;
        };
        let taken = (frame.get(..len)).is_some_and(|it| self.bytes.extend_from_slice(it).is_ok());
        if taken {
            self.next = self.next.saturating_add(1);
        }
        taken
    }

    /// The peer has accepted every frame below `next`.
    pub(crate) fn ack(&mut self, next: u64) -> Result<(), NeverSent> {
        if next > self.sent {
            return Err(NeverSent);
        }
        let mut gone = 0_usize;
        while self.first < next {
            let Some(len) = self.bytes.get(gone..).and_then(frame_len) else {
                break;
            };
            gone = gone.saturating_add(len);
            self.first = self.first.saturating_add(1);
        }
        self.drop_front(gone);
        self.given = self.given.saturating_sub(gone);
        Ok(())
    }

    /// Another connection: it is given everything that the peer does not have.
    pub(crate) fn resume(&mut self, next: u64) -> Result<(), NeverSent> {
        self.ack(next)?;
        self.given = 0;
        Ok(())
    }

    /// Copies whole frames to the end of `out`, as many as fit.
    pub(crate) fn take<const N: usize>(&mut self, out: &mut Vec<u8, N>, limit: usize) {
        while let Some(rest) = self.bytes.get(self.given..)
            && let Some(len) = frame_len(rest)
            && out.len().saturating_add(len) <= limit
            && let Some(frame) = rest.get(..len)
            && out.extend_from_slice(frame).is_ok()
        {
            self.given = self.given.saturating_add(len);
            if let Ok(seq) = data::seq(frame.get(shard_proto::wire::HEADER_LEN..).unwrap_or(&[])) {
                self.sent = self.sent.max(seq.saturating_add(1));
            }
        }
    }

    /// Takes the oldest frame out, at the end of a life: its length, and whether any connection was given it.
    pub(crate) fn pop(&mut self, frame: &mut [u8; LONGEST]) -> Option<(usize, bool)> {
        let len = frame_len(&self.bytes)?;
        frame
            .get_mut(..len)?
            .copy_from_slice(self.bytes.get(..len)?);
        let sent = self.first < self.sent;
        self.first = self.first.saturating_add(1);
        self.drop_front(len);
        Some((len, sent))
    }

    fn drop_front(&mut self, len: usize) {
        let rest = self.bytes.len().saturating_sub(len);
        if len > 0 && len <= self.bytes.len() {
            self.bytes.copy_within(len.., 0);
            self.bytes.truncate(rest);
        }
    }
}

/// Length of the frame at the beginning, which this side wrote.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let header = Header::decode(bytes, u32::MAX).ok()?;
    Some(header.frame_len())
}
