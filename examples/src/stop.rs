//! When a person, or whoever supervises the process, wants it to stop.

use std::io;

/// Waits for Ctrl-C, or where there is such a thing for SIGTERM.
///
/// # Errors
/// The system does not let this process listen for them.
pub async fn told_to_stop() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            told = tokio::signal::ctrl_c() => told,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}
