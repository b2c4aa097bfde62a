//! Storage of the tables.

pub(crate) mod list;
