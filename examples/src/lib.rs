//! Programs a person runs.
