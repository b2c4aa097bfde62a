//! All that can be seen of a world, as a number that two worlds can be compared by.

use alloc::string::String;
use alloc::vec::Vec;

use crate::hash::mix;

/// A running hash of everything observable, and lines of text if they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    hash: u64,
    count: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// `text`: lines are kept.
    pub(super) fn new(text: bool) -> Self {
        Self {
            hash: 0,
            count: 0,
            lines: text.then(Vec::new),
        }
    }

    /// Adds something that happened.
    #[inline]
    pub(super) fn add(&mut self, parts: [u64; 3], line: impl FnOnce() -> String) {
        let [a, b, c] = parts;
        self.hash = mix(self.hash ^ a)
            .wrapping_add(mix(b))
            .wrapping_add(c.rotate_left(23));
        self.count += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    /// The hash of all that happened so far.
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many things happened.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// What happened, in words; empty unless text was asked for.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
