//! How a program ends that cannot go on: one line on stderr, and an exit code.

use core::fmt;
use std::{io::Write, process::ExitCode};

use shard_tokio::StartError;

/// Why a program ends early. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// What the person asked for cannot be done: a bad file, column or number. Exit code 2.
    Usage(String),
    /// It was tried and went wrong. Exit code 1.
    Run(String),
}

impl Failure {
    /// A bad file, column or number.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::Usage(one_line(text))
    }

    /// Something that went wrong.
    pub fn run(text: impl fmt::Display) -> Self {
        Self::Run(one_line(text))
    }

    /// The exit code that says so.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Run(_) => 1,
        }
    }
}

fn one_line(text: impl fmt::Display) -> String {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.join(" ")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Run(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for Failure {}

/// A name that is too long, voters that cannot work and an address that is not allowed are the person's mistakes; that
/// it is in use is not.
impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Config(_)
            | StartError::NoVoters
            | StartError::Voters(_)
            | StartError::VotersUnused(_)
            | StartError::Identity { .. } => Self::usage(error),
            StartError::Listen {
                error: ref cause, ..
            } if cause.kind() == std::io::ErrorKind::PermissionDenied => Self::usage(error),
            error => Self::run(error),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::run(error)
    }
}

/// Prints on stdout. That nobody reads it any more (`| head`) is not a failure: the job goes on.
///
/// # Errors
/// It cannot be written, to a full disk for example.
pub fn say(text: impl fmt::Display) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The end of `main`: reports a failure and gives the exit code.
pub fn exit(result: Result<ExitCode, Failure>) -> ExitCode {
    result.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::from(failure.code())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let failure = Failure::usage("no such column\n  columns: a, b\n");
        assert_eq!(failure.to_string(), "no such column columns: a, b");
        assert_eq!(failure.code(), 2);
        assert_eq!(Failure::from(std::io::Error::other("gone")).code(), 1);
    }
}
