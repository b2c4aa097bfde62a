//! Warnings, limited: one per peer, subject and minute.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::{Body, Node, NodeCommand, Warning};
use crate::{Instant, NodeId};

const PERIOD: Duration = Duration::from_secs(60);
/// Different warnings in a period; more are only counted by what they are about.
const LIMIT: usize = 256;

/// What was warned of in this period.
#[derive(Debug)]
pub(super) struct Warned {
    seen: BTreeSet<(NodeId, u32)>,
    until: Instant,
}

impl Warned {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            seen: BTreeSet::new(),
            until: now.after(PERIOD),
        }
    }

    fn is_news(&mut self, now: Instant, peer: NodeId, subject: u32) -> bool {
        if now >= self.until {
            *self = Self::new(now);
        }
        self.seen.len() < LIMIT && self.seen.insert((peer, subject))
    }
}

impl<B: Body> Node<B> {
    /// Warns, unless this peer was the reason for a warning of the subject a short while ago.
    pub(super) fn warn(&mut self, peer: NodeId, subject: u32, warning: impl FnOnce() -> Warning) {
        if self.warned.is_news(self.now, peer, subject) {
            self.out.push_back(NodeCommand::Warn(warning()));
        }
    }
}
