//! What the nodes of all tests warn of.

use std::io;
use std::sync::{LazyLock, Mutex};

use tracing_subscriber::filter::LevelFilter;

static WARNINGS: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(|| {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(|| Writer)
        .init();
    Mutex::default()
});

struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        WARNINGS.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Begins to keep them.
pub fn keep() {
    LazyLock::force(&WARNINGS);
}

/// Whether there is a line that has all of it.
pub fn has(what: &[&str]) -> bool {
    let log = String::from_utf8_lossy(&WARNINGS.lock().unwrap()).into_owned();
    log.lines()
        .any(|line| what.iter().all(|what| line.contains(what)))
}
