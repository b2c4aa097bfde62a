//! What is called, and why it failed.

use core::{fmt, time::Duration};

use super::{CompletionStatus, Failure, NodeRef};
use crate::{Instant, NodeId};

/// What a call wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub(super) deadline: Instant,
    pub(super) idempotent: bool,
    pub(super) max_attempts: Option<u8>,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) wait: Option<Duration>,
    pub(super) key: Option<u64>,
    pub(super) hint: Option<NodeId>,
    pub(super) bound: Option<NodeRef>,
}

impl Call {
    /// A call that is not idempotent. The deadline is one for all attempts and all waiting.
    #[must_use]
    pub const fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            idempotent: false,
            max_attempts: None,
            attempt_timeout: None,
            wait: None,
            key: None,
            hint: None,
            bound: None,
        }
    }

    /// Whether carrying it out twice is the same as once, which the type of the message declares. Default `false`.
    #[must_use]
    pub const fn with_idempotent(self, idempotent: bool) -> Self {
        Self { idempotent, ..self }
    }

    /// How many attempts it has, the first one counted; from 1 to
    /// [`StubConfig::MAX_ATTEMPTS`](super::StubConfig::MAX_ATTEMPTS), to which it is clamped. Default: the stub's.
    #[must_use]
    pub const fn with_max_attempts(self, attempts: u8) -> Self {
        Self {
            max_attempts: Some(attempts),
            ..self
        }
    }

    /// How long an attempt waits for its answer. Default: until the deadline, so that a node that hangs takes all of it.
    /// Only an idempotent call is tried again afterwards.
    #[must_use]
    pub const fn with_attempt_timeout(self, timeout: Duration) -> Self {
        Self {
            attempt_timeout: Some(timeout),
            ..self
        }
    }

    /// How long it waits for a node while there is none. Default: until the deadline; zero fails at once.
    #[must_use]
    pub const fn with_wait(self, wait: Duration) -> Self {
        Self {
            wait: Some(wait),
            ..self
        }
    }

    /// What it is about: [`key`](super::key) of an entity's id, for one. Default: nothing. For
    /// [`Rendezvous`](super::Rendezvous).
    #[must_use]
    pub const fn with_key(self, key: u64) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// Whom to elect if somebody is to be elected. Default: nobody. For [`FirstAvailable`](super::FirstAvailable).
    #[must_use]
    pub const fn with_hint(self, hint: NodeId) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }

    /// The node, in its present life, that has the session or transaction which the call is part of. It is never sent
    /// elsewhere and no policy is asked. Default: none.
    #[must_use]
    pub const fn with_bound(self, node: NodeRef) -> Self {
        Self {
            bound: Some(node),
            ..self
        }
    }
}

/// Which limit a call has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Its attempts: [`Call::with_max_attempts`].
    Attempts,
    /// The service's tokens for retries: [`RetryBudget`](super::RetryBudget).
    Tokens,
}

/// Why a call failed. Each says what is known of whether it was carried out: [`CallError::completed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There was no node to send it to for as long as it could wait. Not carried out.
    NoNodes,
    /// Every node was tried that could be.
    Exhausted {
        /// How many attempts there were.
        attempts: u8,
        /// How the last one failed.
        last: Failure,
        /// Whether one of them was carried out.
        completed: CompletionStatus,
    },
    /// There are nodes left, but it must not be tried again.
    BudgetExhausted {
        /// What is used up.
        limit: Limit,
        /// How many attempts there were.
        attempts: u8,
        /// How the last one failed.
        last: Failure,
        /// Whether one of them was carried out.
        completed: CompletionStatus,
    },
    /// It was carried out, or may have been and is not idempotent: trying again could do it twice.
    NotRetried {
        /// How many attempts there were.
        attempts: u8,
        /// How the last one failed.
        last: Failure,
        /// Whether one of them was carried out.
        completed: CompletionStatus,
    },
    /// Its time is over.
    Deadline {
        /// How many attempts there were.
        attempts: u8,
        /// How the last one failed, if there was one.
        last: Option<Failure>,
        /// Whether one of them was carried out.
        completed: CompletionStatus,
    },
    /// The node that it is bound to is gone, and the session or transaction with it.
    BoundLost {
        /// The node.
        node: NodeRef,
        /// How the attempt failed, if there was one.
        last: Option<Failure>,
        /// Whether it was carried out.
        completed: CompletionStatus,
    },
    /// It was cancelled.
    Cancelled {
        /// Whether it was carried out.
        completed: CompletionStatus,
    },
}

impl CallError {
    /// Whether the call was carried out, over all its attempts.
    #[must_use]
    pub const fn completed(&self) -> CompletionStatus {
        match self {
            Self::NoNodes => CompletionStatus::No,
            Self::Exhausted { completed, .. }
            | Self::BudgetExhausted { completed, .. }
            | Self::NotRetried { completed, .. }
            | Self::Deadline { completed, .. }
            | Self::BoundLost { completed, .. }
            | Self::Cancelled { completed } => *completed,
        }
    }

    /// How the last attempt failed.
    #[must_use]
    pub const fn last(&self) -> Option<Failure> {
        match self {
            Self::NoNodes | Self::Cancelled { .. } => None,
            Self::Exhausted { last, .. }
            | Self::BudgetExhausted { last, .. }
            | Self::NotRetried { last, .. } => Some(*last),
            Self::Deadline { last, .. } | Self::BoundLost { last, .. } => *last,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("there is no node to call")?,
            Self::Exhausted { attempts, .. } => {
                write!(f, "all {attempts} nodes were tried")?;
            }
            Self::BudgetExhausted {
                limit: Limit::Attempts,
                attempts,
                ..
            } => write!(f, "no more than {attempts} attempts")?,
            Self::BudgetExhausted { attempts, .. } => {
                write!(
                    f,
                    "no more retries for the service, after {attempts} attempts"
                )?;
            }
            Self::NotRetried { .. } => f.write_str("it must not be tried again")?,
            Self::Deadline { attempts, .. } => {
                write!(f, "the deadline is over, after {attempts} attempts")?;
            }
            Self::BoundLost { node, .. } => {
                write!(f, "node {node}, which it is bound to, is gone")?;
            }
            Self::Cancelled { .. } => f.write_str("it was cancelled")?,
        }
        write!(f, "; {}", self.completed())?;
        match self.last() {
            Some(last) => write!(f, "; the last time {}", last.cause()),
            None => Ok(()),
        }
    }
}

impl core::error::Error for CallError {}
