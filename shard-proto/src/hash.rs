//! Specified hashes.
