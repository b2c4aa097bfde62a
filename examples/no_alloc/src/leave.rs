//! Leaving in good order.

use shard_proto::Instant;
use shard_proto::wire::Control;

use crate::Times;
use crate::device::{Device, State};

/// How far a leave is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    deadline: Instant,
    /// Since when nothing is hosted and nothing arrives, and how much had arrived by then.
    quiet: Option<(Instant, u32)>,
    /// Nothing more is taken from the application; what was taken is brought to its end.
    closing: bool,
    look_at: Instant,
}

impl Leaving {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            deadline: now.after(Times::LEAVE),
            quiet: None,
            closing: false,
            look_at: now,
        }
    }

    pub(crate) const fn is_closing(self) -> bool {
        self.closing
    }

    pub(crate) const fn poll_timeout(self) -> Instant {
        self.look_at
    }
}

impl Device<'_> {
    /// Takes the next step towards the end, if it is time. Whether there was one.
    pub(crate) fn step_leave(&mut self) -> bool {
        let (State::Leaving, Some(mut leaving)) = (self.state, self.leaving) else {
            return false;
        };
        let now = self.now;
        leaving.look_at = now.after(Times::ACK_DELAY);
        let step = if now >= leaving.deadline {
            self.part();
            true
        } else if self.region.hosted() > 0 {
            leaving.quiet = None;
            false
        } else if leaving.closing {
            let flushed = self
                .links
                .iter()
                .all(|link| link.peer.is_none() || link.is_flushed());
            let done = self.region.is_settled() && self.asks.is_empty() && flushed;
            if done {
                self.part();
            }
            done
        } else {
            // What others had sent before they heard of the new home still comes, and goes back.
            match leaving.quiet {
                Some((since, arrived)) if arrived == self.arrived => {
                    if now >= since.after(Times::LINGER) {
                        leaving.closing = true;
                        self.region.flush_paths(now);
                    }
                }
                _ => leaving.quiet = Some((now, self.arrived)),
            }
            leaving.closing
        };
        self.leaving = Some(leaving);
        step
    }

    fn part(&mut self) {
        self.state = State::Left;
        self.asks.fail_all(crate::Failure::PerhapsDelivered);
        for link in self.links.iter_mut().filter(|link| link.is_up()) {
            link.say(&Control::Goodbye);
        }
    }
}
