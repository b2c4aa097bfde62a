//! The frame header.

/// Bytes of a header.
pub const HEADER_LEN: usize = 20;
