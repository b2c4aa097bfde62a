//! When a person, or whoever supervises the process, wants it to stop.

use std::io;
use std::process::ExitCode;

use crate::failure::Failure;

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

/// Runs a program on this thread, until it is done or told to stop; what it had started and written is taken away then.
///
/// # Errors
/// Its own, or that it was told to stop.
pub fn run_here(
    program: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    crate::log::if_asked();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            tokio::select! {
                done = program => done,
                told = told_to_stop() => {
                    told?;
                    Err(Failure::run("interrupted"))
                }
            }
        })
}
