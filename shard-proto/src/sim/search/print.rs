//! A number for a state, from what it would write about itself.

use core::fmt;

use crate::hash::mix;

/// Takes text, gives a number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Print(u64);

impl Print {
    pub(super) fn add(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word).wrapping_add(word.rotate_left(29));
    }

    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = rest.len() as u64;
        for byte in rest {
            last = last << 8 | u64::from(*byte);
        }
        self.add(last);
    }

    pub(super) const fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Write for Print {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add_bytes(text.as_bytes());
        Ok(())
    }
}
