//! Lists of shards, as runs that are decoded lazily from the slice they arrived in.
//!
//! A run is four varints: the gap from the end of the run before it; its length; how far the epoch of its first shard
//! lies from the epoch that would have continued the run before it, in zigzag (0, -1, 1, -2 travel as 0, 1, 2, 3) and
//! modulo 2^64; and a tail (flags of a claim, node of a home). The epochs within a run are consecutive, as shards that
//! were allocated together have them. The first run continues a run that ended at shard 0, epoch 0. Runs ascend and
//! cannot overlap, as only gaps travel. [`Claims::validate`] and [`Homes::validate`] check the rest; iterators end at
//! the first byte that does not decode.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::codec::as_bytes;
use super::{DecodeError, MAX_ID_LEN};
use crate::{Epoch, NodeId, ShardId};

#[cfg(test)]
mod tests;

/// The longest [`Claims`] or [`Homes`], in bytes, that fit a control frame beside its other fields.
pub const MAX_LIST_LEN: usize = 64 * 1024 - 512;

/// One run, see the module's docs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Run {
    start: u32,
    len: u32,
    epoch: u64,
    tail: u64,
}

impl Run {
    /// Whether `(shard, epoch, tail)` continues this run.
    fn takes(&self, shard: u32, epoch: u64, tail: u64) -> bool {
        self.tail == tail
            && self.start.checked_add(self.len) == Some(shard)
            && self.epoch.checked_add(u64::from(self.len)) == Some(epoch)
    }
}

// Bounded by the bytes of the list, whatever lengths its runs claim.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let epoch = Epoch::from_bits(self.epoch);
        write!(f, "{}+{} @{epoch} {:#x}", self.start, self.len, self.tail)
    }
}

fn put_varint(out: &mut [u8], at: &mut usize, mut value: u64) -> Option<()> {
    loop {
        let slot = out.get_mut(*at)?;
        let low = value.to_le_bytes()[0] & 0x7f;
        value >>= 7;
        *slot = if value == 0 { low } else { low | 0x80 };
        *at = at.checked_add(1)?;
        if value == 0 {
            return Some(());
        }
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64u32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if shift == 63 && low > 1 {
            return None;
        }
        value |= low.checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The distance from one epoch to another, modulo 2^64, as a number that is small if the distance is.
const fn zigzag(from: u64, to: u64) -> u64 {
    let distance = to.wrapping_sub(from).cast_signed();
    (distance.wrapping_shl(1) ^ (distance >> 63)).cast_unsigned()
}

/// Undoes [`zigzag`].
const fn unzigzag(from: u64, distance: u64) -> u64 {
    from.wrapping_add((distance >> 1) ^ (distance & 1).wrapping_neg())
}

/// Reads runs until the slice ends or does not decode.
#[derive(Clone, Debug)]
struct Runs<'a> {
    rest: &'a [u8],
    /// The shard and the epoch that would continue the last run.
    end: u32,
    end_epoch: u64,
    failed: bool,
}

impl<'a> Runs<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            end: 0,
            end_epoch: 0,
            failed: false,
        }
    }

    fn read(&mut self) -> Option<Run> {
        let gap = u32::try_from(take_varint(&mut self.rest)?).ok()?;
        let len = u32::try_from(take_varint(&mut self.rest)?).ok()?;
        let epoch = unzigzag(self.end_epoch, take_varint(&mut self.rest)?);
        let tail = take_varint(&mut self.rest)?;
        let start = self.end.checked_add(gap)?;
        self.end = start.checked_add(len)?;
        epoch.checked_add(u64::from(len.checked_sub(1)?))?;
        self.end_epoch = epoch.wrapping_add(u64::from(len));
        Some(Run {
            start,
            len,
            epoch,
            tail,
        })
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        let run = self.read();
        self.failed = run.is_none();
        run
    }
}

/// Reads the shards of runs one by one.
#[derive(Clone, Debug)]
struct Shards<'a> {
    runs: Runs<'a>,
    run: Option<Run>,
}

impl<'a> Shards<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self {
            runs: Runs::new(bytes),
            run: None,
        }
    }
}

impl Iterator for Shards<'_> {
    type Item = (ShardId, Epoch, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.runs.next()?,
        };
        let item = (ShardId(run.start), Epoch::from_bits(run.epoch), run.tail);
        if run.len > 1 {
            self.run = Some(Run {
                start: run.start.saturating_add(1),
                len: run.len.saturating_sub(1),
                epoch: run.epoch.saturating_add(1),
                tail: run.tail,
            });
        }
        Some(item)
    }
}

/// Writes shards, in ascending order, as runs into a caller's slice.
#[derive(Debug)]
struct RunWriter<'a> {
    out: &'a mut [u8],
    written: usize,
    end: u32,
    end_epoch: u64,
    run: Option<Run>,
}

impl<'a> RunWriter<'a> {
    /// The longest a run can be, in bytes.
    const MAX_RUN: usize = 5 + 5 + 10 + 10;

    const fn new(out: &'a mut [u8]) -> Self {
        Self {
            out,
            written: 0,
            end: 0,
            end_epoch: 0,
            run: None,
        }
    }

    fn push(&mut self, shard: u32, epoch: u64, tail: u64) -> Result<(), ListFull> {
        if let Some(run) = &mut self.run
            && run.takes(shard, epoch, tail)
        {
            run.len = run.len.saturating_add(1);
            return Ok(());
        }
        // Room is kept for the run that is being collected, so that `finish` cannot fail.
        let pending = if self.run.is_some() { Self::MAX_RUN } else { 0 };
        let need = self
            .written
            .saturating_add(pending)
            .saturating_add(Self::MAX_RUN);
        if need > self.out.len() || shard < self.next_allowed() {
            return Err(ListFull);
        }
        self.flush();
        self.run = Some(Run {
            start: shard,
            len: 1,
            epoch,
            tail,
        });
        Ok(())
    }

    fn next_allowed(&self) -> u32 {
        self.run
            .map_or(self.end, |run| run.start.saturating_add(run.len))
    }

    fn flush(&mut self) {
        let Some(run) = self.run.take() else { return };
        let mut at = self.written;
        let gap = run.start.saturating_sub(self.end);
        let done = put_varint(self.out, &mut at, u64::from(gap))
            .and_then(|()| put_varint(self.out, &mut at, u64::from(run.len)))
            .and_then(|()| put_varint(self.out, &mut at, zigzag(self.end_epoch, run.epoch)))
            .and_then(|()| put_varint(self.out, &mut at, run.tail));
        if done.is_some() {
            self.written = at;
            self.end = run.start.saturating_add(run.len);
            self.end_epoch = run.epoch.wrapping_add(u64::from(run.len));
        }
    }

    fn finish(mut self) -> &'a [u8] {
        self.flush();
        self.out.get(..self.written).unwrap_or(&[])
    }
}

/// The list has no room for another shard, or shards did not ascend. Nothing was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListFull;

impl fmt::Display for ListFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for another shard in this list")
    }
}

impl core::error::Error for ListFull {}

/// A shard that a region says it hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The shard.
    pub shard: ShardId,
    /// Under which allocation.
    pub epoch: Epoch,
    /// It is being stopped.
    pub draining: bool,
}

/// What a region hosts: lazily decoded [`Claim`]s in ascending order of shards.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Claims<'a>(#[serde(borrow, serialize_with = "as_bytes")] &'a [u8]);

impl<'a> Claims<'a> {
    /// No claims.
    pub const EMPTY: Self = Self(&[]);

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The claims, until the first byte that does not decode.
    ///
    /// A run of a few bytes can stand for four billion shards: call [`Claims::validate`] first.
    pub fn iter(&self) -> impl Iterator<Item = Claim> + use<'a> {
        Shards::new(self.0).map(|(shard, epoch, tail)| Claim {
            shard,
            epoch,
            draining: tail & 1 != 0,
        })
    }

    /// Checks that everything decodes and lies below `shard_count`; the answer is the number of shards. O(runs).
    ///
    /// # Errors
    /// [`DecodeError::List`].
    pub fn validate(&self, shard_count: u32) -> Result<u32, DecodeError> {
        validate(self.0, shard_count, 1)
    }
}

impl fmt::Debug for Claims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Runs::new(self.0)).finish()
    }
}

/// Writes [`Claims`] into a slice.
#[derive(Debug)]
pub struct ClaimsBuilder<'a>(RunWriter<'a>);

impl<'a> ClaimsBuilder<'a> {
    /// Collects into `out`; one run takes at most 30 bytes.
    #[must_use]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self(RunWriter::new(out))
    }

    /// Adds a claim; shards must ascend.
    ///
    /// # Errors
    /// [`ListFull`]: nothing was added; put the claim into the next frame.
    pub fn push(&mut self, claim: Claim) -> Result<(), ListFull> {
        self.0.push(
            claim.shard.0,
            claim.epoch.to_bits(),
            u64::from(claim.draining),
        )
    }

    /// The list.
    #[must_use]
    pub fn finish(self) -> Claims<'a> {
        Claims(self.0.finish())
    }
}

/// A shard's home as the coordinator announces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HomeEntry {
    /// The shard.
    pub shard: ShardId,
    /// Its allocation.
    pub epoch: Epoch,
    /// Its node.
    pub node: NodeId,
}

/// Homes of shards: lazily decoded [`HomeEntry`]s in ascending order of shards.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Homes<'a>(#[serde(borrow, serialize_with = "as_bytes")] &'a [u8]);

impl<'a> Homes<'a> {
    /// No homes.
    pub const EMPTY: Self = Self(&[]);

    /// From what [`Homes::as_bytes`] gave, or a part of a frame that is validated later.
    pub(crate) const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// As they travel.
    pub(crate) const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The homes, until the first byte that does not decode.
    ///
    /// A run of a few bytes can stand for four billion shards: call [`Homes::validate`] first.
    pub fn iter(&self) -> impl Iterator<Item = HomeEntry> + use<'a> {
        Shards::new(self.0).map(|(shard, epoch, tail)| HomeEntry {
            shard,
            epoch,
            node: NodeId(tail),
        })
    }

    /// Checks that everything decodes and lies below `shard_count`; the answer is the number of shards. O(runs).
    ///
    /// # Errors
    /// [`DecodeError::List`].
    pub fn validate(&self, shard_count: u32) -> Result<u32, DecodeError> {
        validate(self.0, shard_count, u64::MAX)
    }
}

impl fmt::Debug for Homes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Runs::new(self.0)).finish()
    }
}

/// Writes [`Homes`] into a slice.
#[derive(Debug)]
pub struct HomesBuilder<'a>(RunWriter<'a>);

impl<'a> HomesBuilder<'a> {
    /// Collects into `out`; one run takes at most 30 bytes.
    #[must_use]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self(RunWriter::new(out))
    }

    /// Adds a home; shards must ascend.
    ///
    /// # Errors
    /// [`ListFull`]: nothing was added; put the home into the next frame.
    pub fn push(&mut self, home: HomeEntry) -> Result<(), ListFull> {
        self.0.push(home.shard.0, home.epoch.to_bits(), home.node.0)
    }

    /// The list.
    #[must_use]
    pub fn finish(self) -> Homes<'a> {
        Homes(self.0.finish())
    }
}

fn validate(bytes: &[u8], shard_count: u32, max_tail: u64) -> Result<u32, DecodeError> {
    let mut runs = Runs::new(bytes);
    let mut shards = 0u32;
    for run in runs.by_ref() {
        if run.tail > max_tail {
            return Err(DecodeError::List);
        }
        shards = shards.saturating_add(run.len);
    }
    if runs.failed || runs.end > shard_count {
        Err(DecodeError::List)
    } else {
        Ok(shards)
    }
}

/// Entity ids: lazily decoded, each a little-endian `u16` length and the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EntityIds<'a>(#[serde(borrow, serialize_with = "as_bytes")] &'a [u8]);

impl<'a> EntityIds<'a> {
    /// No ids.
    pub const EMPTY: Self = Self(&[]);

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ids, until the first that does not decode.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || take_id(&mut rest))
    }

    /// Checks that everything decodes; the answer is the number of ids. O(ids).
    ///
    /// # Errors
    /// [`DecodeError::List`].
    pub fn validate(&self) -> Result<u32, DecodeError> {
        let mut rest = self.0;
        let mut ids = 0u32;
        while !rest.is_empty() {
            take_id(&mut rest).ok_or(DecodeError::List)?;
            ids = ids.saturating_add(1);
        }
        Ok(ids)
    }
}

fn take_id<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_le_bytes(*len));
    if len > MAX_ID_LEN {
        return None;
    }
    let (id, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(id)
}

impl fmt::Debug for EntityIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntityIds({} bytes)", self.0.len())
    }
}

/// Writes [`EntityIds`] into a slice.
#[derive(Debug)]
pub struct EntityIdsBuilder<'a> {
    out: &'a mut [u8],
    written: usize,
}

impl<'a> EntityIdsBuilder<'a> {
    /// Collects into `out`.
    #[must_use]
    pub const fn new(out: &'a mut [u8]) -> Self {
        Self { out, written: 0 }
    }

    /// Adds an id.
    ///
    /// # Errors
    /// [`ListFull`]: nothing was added. Put the id into the next frame; one above [`MAX_ID_LEN`] fits none.
    pub fn push(&mut self, id: &[u8]) -> Result<(), ListFull> {
        let len = u16::try_from(id.len()).map_err(|_| ListFull)?;
        let free = self.out.get_mut(self.written..).ok_or(ListFull)?;
        let (head, rest) = free.split_first_chunk_mut::<2>().ok_or(ListFull)?;
        let body = rest.get_mut(..id.len()).ok_or(ListFull)?;
        if id.len() > MAX_ID_LEN {
            return Err(ListFull);
        }
        *head = len.to_le_bytes();
        body.copy_from_slice(id);
        self.written = self.written.saturating_add(2).saturating_add(id.len());
        Ok(())
    }

    /// The list.
    #[must_use]
    pub fn finish(self) -> EntityIds<'a> {
        EntityIds(self.out.get(..self.written).unwrap_or(&[]))
    }
}
