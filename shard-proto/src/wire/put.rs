//! Frames written straight into a link's buffer: header and body once, no buffer in between.
//!
//! A payload can be written by a closure; its length is filled in afterwards. The closure gets a buffer of its own that
//! shares the link's memory, so it cannot touch the frames before it. On an error nothing of the frame stays behind.

use bytes::BytesMut;

use super::codec::{Body, MAX_BODY, TOO_LONG};
use super::data::{Data, DataHead, Fixed, ReturnReason, checked_len};
use super::header::{HEADER_LEN, Kind};
use super::{Control, EncodeError, PutError};
use crate::{EntityTypeId, ShardId, Term};

impl Control<'_> {
    /// Appends the whole frame, header included; the answer is its length.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is unchanged.
    pub fn encode_into(
        &self,
        entity_type: EntityTypeId,
        term: Term,
        version: u8,
        out: &mut BytesMut,
    ) -> Result<usize, EncodeError> {
        self.check()?;
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_LEN]);
        let mut sink = Sink {
            out,
            room: MAX_BODY,
        };
        let written = match self {
            Self::Swim(packet) => sink.extend(packet),
            other => postcard::serialize_with_flavor(&Body(other), &mut sink).map_err(|_| Overflow),
        };
        if written.is_err() {
            out.truncate(start);
            return Err(TOO_LONG);
        }
        let frame = out.get_mut(start..).unwrap_or_default();
        let len = frame.len();
        if let Some(head) = frame.first_chunk_mut::<HEADER_LEN>() {
            let body = len.saturating_sub(HEADER_LEN);
            *head = self.header(entity_type, term, version, body).to_bytes();
        }
        Ok(len)
    }
}

struct Overflow;

/// Appends at most `room` bytes.
struct Sink<'a> {
    out: &'a mut BytesMut,
    room: usize,
}

impl Sink<'_> {
    fn extend(&mut self, bytes: &[u8]) -> Result<(), Overflow> {
        self.room = self.room.checked_sub(bytes.len()).ok_or(Overflow)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

impl postcard::ser_flavors::Flavor for &mut Sink<'_> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.extend(bytes)
            .map_err(|Overflow| postcard::Error::SerializeBufferFull)
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

impl Data<'_> {
    /// Appends the whole frame, header included; the answer is its length.
    ///
    /// `max_frame`: the longest body that the peer takes.
    ///
    /// # Errors
    /// [`EncodeError`]; `out` is unchanged.
    pub fn encode_into(
        &self,
        head: &DataHead,
        max_frame: u32,
        out: &mut BytesMut,
    ) -> Result<usize, EncodeError> {
        let fixed = Fixed::of(self, head)?;
        let body = self.body_len();
        let len = checked_len(body, max_frame)?;
        let (id, payload) = self.parts();
        let whole = HEADER_LEN.saturating_add(body);
        out.reserve(whole);
        out.extend_from_slice(&head.header(self.kind(), len).to_bytes());
        out.extend_from_slice(fixed.as_slice());
        out.extend_from_slice(id);
        out.extend_from_slice(payload);
        Ok(whole)
    }
}

/// Appends an `Envelope`; the answer is the frame's length. `hint`: the payload's probable length.
///
/// # Errors
/// [`PutError`]; `out` is unchanged.
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of a frame, written once"
)]
pub fn envelope<E>(
    out: &mut BytesMut,
    head: &DataHead,
    max_frame: u32,
    shard: ShardId,
    correlation: u64,
    id: &[u8],
    hint: usize,
    payload: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<usize, PutError<E>> {
    let fixed = Fixed::envelope(head, shard, correlation, None, id)?;
    let place = Place {
        head,
        max_frame,
        kind: Kind::ENVELOPE,
    };
    place.put(out, &fixed, id, hint, payload)
}

/// Appends a `Return`; the answer is the frame's length. `hint`: the payload's probable length.
///
/// # Errors
/// [`PutError`]; `out` is unchanged.
#[expect(
    clippy::too_many_arguments,
    reason = "the fields of a frame, written once"
)]
pub fn back<E>(
    out: &mut BytesMut,
    head: &DataHead,
    max_frame: u32,
    reason: ReturnReason,
    shard: ShardId,
    correlation: u64,
    id: &[u8],
    hint: usize,
    payload: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<usize, PutError<E>> {
    let fixed = Fixed::envelope(head, shard, correlation, Some(reason), id)?;
    let place = Place {
        head,
        max_frame,
        kind: Kind::RETURN,
    };
    place.put(out, &fixed, id, hint, payload)
}

/// Appends a `Reply`; the answer is the frame's length. `hint`: the payload's probable length.
///
/// # Errors
/// [`PutError`]; `out` is unchanged.
pub fn reply<E>(
    out: &mut BytesMut,
    head: &DataHead,
    max_frame: u32,
    correlation: u64,
    status: u8,
    hint: usize,
    payload: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<usize, PutError<E>> {
    let fixed = Fixed::reply(head, correlation, status);
    let place = Place {
        head,
        max_frame,
        kind: Kind::REPLY,
    };
    place.put(out, &fixed, &[], hint, payload)
}

/// What surrounds a payload.
struct Place<'a> {
    head: &'a DataHead,
    max_frame: u32,
    kind: Kind,
}

impl Place<'_> {
    #[inline]
    fn put<E>(
        &self,
        out: &mut BytesMut,
        fixed: &Fixed,
        id: &[u8],
        hint: usize,
        payload: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<usize, PutError<E>> {
        let start = out.len();
        let fixed = fixed.as_slice();
        let before = fixed.len().saturating_add(id.len());
        checked_len(before, self.max_frame)?;
        out.reserve(HEADER_LEN.saturating_add(before).saturating_add(hint));
        out.extend_from_slice(&[0; HEADER_LEN]);
        out.extend_from_slice(fixed);
        out.extend_from_slice(id);

        let mut tail = out.split_off(out.len());
        let written = payload(&mut tail);
        let body = before.saturating_add(tail.len());
        let done = match written {
            Ok(()) => checked_len(body, self.max_frame).map_err(PutError::Encode),
            Err(error) => Err(PutError::Payload(error)),
        };
        let len = match done {
            Ok(len) => len,
            Err(error) => {
                tail.clear();
                out.unsplit(tail);
                out.truncate(start);
                return Err(error);
            }
        };
        // No copy as long as the payload fitted the reserved room.
        out.unsplit(tail);
        if let Some(head) = out
            .get_mut(start..)
            .and_then(<[u8]>::first_chunk_mut::<HEADER_LEN>)
        {
            *head = self.head.header(self.kind, len).to_bytes();
        }
        Ok(HEADER_LEN.saturating_add(body))
    }
}
