//! What the nodes log.

use tracing_subscriber::filter::LevelFilter;

/// Prints warnings to stderr, or what the environment variable `LOG` says: `off`, `error`, `warn`, `info`, `debug`,
/// `trace`.
pub fn to_stderr() {
    init(LevelFilter::WARN);
}

/// Prints to stderr only what `LOG` says.
pub fn if_asked() {
    init(LevelFilter::OFF);
}

fn init(otherwise: LevelFilter) {
    let asked = std::env::var("LOG").ok();
    let level = asked.and_then(|level| level.parse().ok());
    // An error means that it is set already.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(otherwise))
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
}
