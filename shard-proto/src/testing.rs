//! What tests share.

/// How many cases of a property are tried: so many, or what `PROPTEST_CASES` says.
pub(crate) fn cases(default: u32) -> u32 {
    let set = std::env::var("PROPTEST_CASES").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(default)
}
