//! Whom to ask for a newer view, and when.

use core::time::Duration;

use super::NodeRef;
use crate::Instant;

/// Whom to ask for a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// A node of the view there is.
    Node(NodeRef),
    /// The address of this number of those that the client was started with, from 0.
    Seed(u16),
}

/// The timer of views.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refresh {
    due: Instant,
    /// Asked so often since a view arrived, or since one was current.
    unanswered: u32,
    seed: u16,
}

impl Refresh {
    /// Due at once. The first seed to ask is any of them.
    pub(super) const fn new(seed: u16) -> Self {
        Self {
            due: Instant::ZERO,
            unanswered: 0,
            seed,
        }
    }

    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    pub(super) fn answered(&mut self, now: Instant, period: Duration) {
        self.unanswered = 0;
        self.due = now.after(at_least(period));
    }

    /// Brings the next question forward to `now`, unless one is under way.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.unanswered == 0 {
            self.due = self.due.min(now);
        }
    }

    /// Asks a node if there is a good one, and seeds in turns: every other time when nobody answers, and always when
    /// there is no such node.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        retry: Duration,
        seeds: u16,
        node: Option<NodeRef>,
    ) -> Option<Source> {
        let turn = self.unanswered;
        self.unanswered = self.unanswered.saturating_add(1);
        self.due = now.after(at_least(retry));
        match node {
            Some(node) if turn.is_multiple_of(2) || seeds == 0 => Some(Source::Node(node)),
            _ => {
                let seed = self.seed.checked_rem(seeds)?;
                self.seed = seed.wrapping_add(1);
                Some(Source::Seed(seed))
            }
        }
    }
}

fn at_least(period: Duration) -> Duration {
    period.max(Duration::from_millis(1))
}
