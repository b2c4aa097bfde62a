//! What nodes log, for tests on one thread.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Keeps what is logged.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub fn lines_with(&self, what: &[&str]) -> usize {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let has = |line: &&str| what.iter().all(|what| line.contains(what));
        log.lines().filter(has).count()
    }

    /// Waits until a line has all of it. Logs are no observable one can await, hence the polling.
    pub async fn line(&self, what: &[&str]) {
        while self.lines_with(what) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Keeps what is logged on this thread until the guard is dropped.
pub fn log() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}
