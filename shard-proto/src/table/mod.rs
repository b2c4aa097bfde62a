//! Storage of the tables.
