//! What is in front of a tracked message.

use crate::shared::Caller;
use crate::store::Sequence;

/// Which message it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) sender: u64,
    pub(crate) seq: u64,
    /// The sender's lowest number for the entity that is not acknowledged: none below it comes any more.
    pub(crate) base: u64,
}

impl Tag {
    /// Bytes in front of the message.
    pub(crate) const LEN: usize = 24;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        for (place, number) in
            bytes
                .as_chunks_mut::<8>()
                .0
                .iter_mut()
                .zip([self.sender, self.seq, self.base])
        {
            *place = number.to_le_bytes();
        }
        bytes
    }

    /// `None`: no sender of this crate wrote it.
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let head = message.first_chunk::<{ Self::LEN }>()?;
        let ([sender, seq, base], []) = head.as_chunks::<8>() else {
            return None;
        };
        let tag = Self {
            sender: u64::from_le_bytes(*sender),
            seq: u64::from_le_bytes(*seq),
            base: u64::from_le_bytes(*base),
        };
        (tag.base <= tag.seq && tag.seq < u64::MAX).then_some(tag)
    }

    pub(crate) const fn sequence(self) -> Sequence {
        Sequence {
            sender: self.sender,
            seq: self.seq,
        }
    }
}

/// Who sent a tracked message, and where the acknowledgement goes: the number that the entity takes next.
pub(crate) struct Tracked {
    pub(crate) tag: Tag,
    pub(crate) caller: Caller<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_written_and_nothing_else_is() {
        let tag = Tag {
            sender: 7,
            seq: 0x0102_0304_0506_0708,
            base: 3,
        };
        let bytes = tag.to_bytes();
        assert_eq!(
            bytes,
            [
                7, 0, 0, 0, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(Tag::read(&[&bytes[..], b"message"].concat()), Some(tag));
        for len in 0..Tag::LEN {
            assert_eq!(Tag::read(&bytes[..len]), None);
        }
        let base = Tag {
            base: 9,
            seq: 8,
            ..tag
        };
        assert_eq!(Tag::read(&base.to_bytes()), None);
        let last = Tag {
            seq: u64::MAX,
            ..tag
        };
        assert_eq!(Tag::read(&last.to_bytes()), None);
    }
}
