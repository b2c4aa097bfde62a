//! How a call, or an attempt of one, ended.

use core::{fmt, time::Duration};

/// Whether the provider carried a call out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a status nobody handles must not compile"
)]
pub enum CompletionStatus {
    /// Surely not: it may be tried again.
    No,
    /// Perhaps: it may be tried again only if doing it twice is doing it once.
    Maybe,
    /// Surely: it must not be tried again.
    Yes,
}

impl fmt::Display for CompletionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "it was not carried out",
            Self::Maybe => "it may have been carried out",
            Self::Yes => "it was carried out",
        })
    }
}

/// What went wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The connection was refused, or the node did not prove who it is.
    Refused,
    /// There is no way to the node, or connecting took too long.
    Unreachable,
    /// The connection broke.
    Reset,
    /// No answer in time.
    TimedOut,
    /// The node has too much to do.
    Busy,
    /// The node takes no more calls: it leaves, or does not provide the service any more.
    Leaving,
    /// The answer cannot be decoded.
    Undecodable,
    /// The provider answered that a call of its own, to somebody else, failed.
    Nested,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "the connection was refused",
            Self::Unreachable => "there was no way to the node",
            Self::Reset => "the connection broke",
            Self::TimedOut => "no answer came in time",
            Self::Busy => "the node had too much to do",
            Self::Leaving => "the node took no more calls",
            Self::Undecodable => "the answer could not be decoded",
            Self::Nested => "a call of the provider's own failed",
        })
    }
}

/// An attempt that failed: what went wrong, and whether the call was carried out nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    cause: Cause,
    completed: CompletionStatus,
}

impl Failure {
    /// A cause and a status, where the adapter knows better than the constructors below: a connection that broke
    /// before anything of the request was written, for one.
    #[must_use]
    pub const fn new(cause: Cause, completed: CompletionStatus) -> Self {
        Self { cause, completed }
    }

    /// The connection was refused: not carried out.
    #[must_use]
    pub const fn refused() -> Self {
        Self::new(Cause::Refused, CompletionStatus::No)
    }

    /// There is no way to the node: not carried out.
    #[must_use]
    pub const fn unreachable() -> Self {
        Self::new(Cause::Unreachable, CompletionStatus::No)
    }

    /// The connection broke after something of the request was written: perhaps carried out.
    #[must_use]
    pub const fn reset() -> Self {
        Self::new(Cause::Reset, CompletionStatus::Maybe)
    }

    /// No answer in time: perhaps carried out.
    #[must_use]
    pub const fn timed_out() -> Self {
        Self::new(Cause::TimedOut, CompletionStatus::Maybe)
    }

    /// The node said that it has too much to do: not carried out.
    #[must_use]
    pub const fn busy() -> Self {
        Self::new(Cause::Busy, CompletionStatus::No)
    }

    /// The node said that it takes no more calls: not carried out.
    #[must_use]
    pub const fn leaving() -> Self {
        Self::new(Cause::Leaving, CompletionStatus::No)
    }

    /// The answer cannot be decoded: carried out.
    #[must_use]
    pub const fn undecodable() -> Self {
        Self::new(Cause::Undecodable, CompletionStatus::Yes)
    }

    /// The provider failed because a call of its own ended with this status.
    ///
    /// That its call was not carried out does not say so of ours, of which it had done what came before: `No` becomes
    /// `Maybe`.
    #[must_use]
    pub const fn nested(completed: CompletionStatus) -> Self {
        let completed = match completed {
            CompletionStatus::No | CompletionStatus::Maybe => CompletionStatus::Maybe,
            CompletionStatus::Yes => CompletionStatus::Yes,
        };
        Self::new(Cause::Nested, completed)
    }

    /// What went wrong.
    #[must_use]
    pub const fn cause(self) -> Cause {
        self.cause
    }

    /// Whether the call was carried out nevertheless.
    #[must_use]
    pub const fn completed(self) -> CompletionStatus {
        self.completed
    }

    /// Whether the way to the node is broken, so that it is suspected at once.
    pub(super) const fn suspicious(self) -> bool {
        matches!(
            self.cause,
            Cause::Refused | Cause::Unreachable | Cause::Reset | Cause::Leaving
        )
    }

    /// Whether it counts against the node's health.
    pub(super) const fn unhealthy(self) -> bool {
        matches!(
            self.cause,
            Cause::Refused
                | Cause::Unreachable
                | Cause::Reset
                | Cause::TimedOut
                | Cause::Undecodable
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.cause, self.completed)
    }
}

impl core::error::Error for Failure {}

/// How an attempt ended, as policies are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// How long it took.
    pub latency: Duration,
    /// Why it failed; `None` if the node answered, with an error of the application too.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// From its parts.
    #[must_use]
    pub const fn new(latency: Duration, failure: Option<Failure>) -> Self {
        Self { latency, failure }
    }
}
