//! Choices, taken from bytes.

/// Reads choices off the front of some bytes; when they are used up, every choice is the first one.
pub(super) struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Below `limit`, which is at most 256.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        u32::from(self.byte()) % limit
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.byte() as usize % from.len()]
    }

    /// Any number; small ones, and those near a power of two, come often.
    pub(super) fn number(&mut self) -> u64 {
        let shape = self.byte();
        let low = u64::from(self.byte());
        match shape % 4 {
            0 => low,
            1 => (low << 8) | u64::from(self.byte()),
            2 => 1u64
                .rotate_left(u32::from(shape >> 2))
                .wrapping_sub(low & 3),
            _ => (0..8).fold(low, |number, _| (number << 8) | u64::from(self.byte())),
        }
    }

    /// At most `limit` bytes.
    pub(super) fn bytes(&mut self, limit: usize) -> &'a [u8] {
        let len = usize::from(self.byte()).min(limit).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }

    /// What is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}
