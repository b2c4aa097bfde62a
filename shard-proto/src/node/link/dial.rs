//! Whom to dial, and when.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::{LinkEvent, Links};
use crate::hash::SplitMix64;
use crate::node::{DialId, LinkId};
use crate::{Instant, NodeId, micros};

/// A link that stood this long is dialed again at once.
const STABLE: Duration = Duration::from_secs(1);

/// An address to dial.
#[derive(Debug)]
pub(super) struct Target {
    address: String,
    /// The member that is to be found there; otherwise it is a seed.
    member: Option<NodeId>,
    /// The node that was found there.
    found: Option<NodeId>,
    /// This node listens there itself.
    myself: bool,
    /// The adapter is dialing, until then at the latest.
    dial: Option<(DialId, Instant)>,
    /// The connection that came of it.
    link: Option<LinkId>,
    failures: u32,
    /// Not to be dialed before.
    at: Instant,
}

impl Target {
    fn new(address: &str, member: Option<NodeId>, now: Instant) -> Self {
        Self {
            address: address.to_owned(),
            member,
            found: None,
            myself: false,
            dial: None,
            link: None,
            failures: 0,
            at: now,
        }
    }

    const fn is_idle(&self) -> bool {
        self.dial.is_none() && self.link.is_none()
    }

    fn is_about(&self, node: NodeId) -> bool {
        self.member == Some(node) || self.found == Some(node)
    }
}

/// The addresses to dial.
#[derive(Debug)]
pub(super) struct Dialer {
    targets: Vec<Target>,
    last: u32,
    rng: SplitMix64,
    retry: u64,
    max_retry: u64,
}

impl Dialer {
    pub(super) const fn new(seed: u64, retry: Duration, max_retry: Duration) -> Self {
        Self {
            targets: Vec::new(),
            last: 0,
            rng: SplitMix64::new(seed),
            retry: micros(retry),
            max_retry: micros(max_retry),
        }
    }

    /// Between half of the pause and all of it; the pause doubles with each failure.
    fn pause(&mut self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(32);
        let pause = self
            .retry
            .saturating_mul(1u64 << doublings)
            .min(self.max_retry);
        let half = pause / 2;
        let jitter = self.rng.below(half.saturating_add(1));
        Duration::from_micros(pause.saturating_sub(jitter))
    }

    pub(super) fn add_seed(&mut self, now: Instant, address: &str) {
        let known = self
            .targets
            .iter()
            .any(|target| target.member.is_none() && target.address == address);
        if !known {
            self.targets.push(Target::new(address, None, now));
        }
    }

    pub(super) fn add_member(&mut self, now: Instant, node: NodeId, address: &str) {
        let known = self
            .targets
            .iter_mut()
            .find(|target| target.member == Some(node));
        match known {
            Some(target) if target.address == address => {}
            Some(target) => {
                address.clone_into(&mut target.address);
                target.failures = 0;
                target.at = now;
            }
            None => self.targets.push(Target::new(address, Some(node), now)),
        }
    }

    pub(super) fn remove_member(&mut self, node: NodeId) {
        self.targets.retain(|target| target.member != Some(node));
    }

    /// The adapter has an answer to a dial. `None`: the dial is not known any more.
    pub(super) fn answer(&mut self, dial: DialId) -> Option<usize> {
        let index = self
            .targets
            .iter()
            .position(|target| target.dial.is_some_and(|(known, _)| known == dial))?;
        self.targets.get_mut(index)?.dial = None;
        Some(index)
    }

    pub(super) fn set_link(&mut self, index: usize, link: LinkId) {
        if let Some(target) = self.targets.get_mut(index) {
            target.link = Some(link);
        }
    }

    pub(super) fn fail(&mut self, now: Instant, index: usize) {
        let Some(target) = self.targets.get_mut(index) else {
            return;
        };
        target.failures = target.failures.saturating_add(1);
        let failures = target.failures;
        let at = now.after(self.pause(failures));
        if let Some(target) = self.targets.get_mut(index) {
            target.at = at;
        }
    }

    /// It is this node that listens where the connection leads to.
    pub(super) fn myself(&mut self, link: LinkId) {
        for target in &mut self.targets {
            target.myself |= target.link == Some(link);
        }
    }

    /// The node at the other end of a connection came to light.
    pub(super) fn found(&mut self, link: LinkId, node: NodeId) {
        for target in &mut self.targets {
            if target.link == Some(link) {
                target.found = Some(node);
            }
        }
    }

    /// A connection that was attached to no pair ended.
    pub(super) fn handshake_ended(&mut self, now: Instant, link: LinkId) {
        let position = self
            .targets
            .iter()
            .position(|target| target.link == Some(link));
        if let Some(index) = position {
            if let Some(target) = self.targets.get_mut(index) {
                target.link = None;
            }
            self.fail(now, index);
        }
    }

    /// A link with a node stands.
    pub(super) fn up(&mut self, node: NodeId) {
        for target in &mut self.targets {
            if target.is_about(node) {
                target.failures = 0;
            }
        }
    }

    /// The link with a node ended after `lasted`.
    pub(super) fn down(&mut self, now: Instant, link: LinkId, node: NodeId, lasted: Duration) {
        for index in 0..self.targets.len() {
            let Some(target) = self.targets.get_mut(index) else {
                continue;
            };
            if target.link == Some(link) {
                target.link = None;
            }
            if !target.is_about(node) {
                continue;
            }
            if lasted >= STABLE {
                target.at = now;
            } else {
                self.fail(now, index);
            }
        }
    }

    /// A connection was replaced by another of the same pair.
    pub(super) fn replaced(&mut self, link: LinkId) {
        for target in &mut self.targets {
            if target.link == Some(link) {
                target.link = None;
            }
        }
    }
}

impl Links {
    /// Dials what is due.
    pub(super) fn schedule(&mut self) {
        let now = self.now;
        for index in 0..self.dialer.targets.len() {
            let expired = self.dialer.targets.get_mut(index).is_some_and(|target| {
                let expired = target.dial.is_some_and(|(_, until)| until <= now);
                if expired {
                    target.dial = None;
                }
                expired
            });
            if expired {
                self.dialer.fail(now, index);
            }
            if !self.is_wanted(index) {
                if let Some((_, until)) = self.dialer.targets.get(index).and_then(|t| t.dial) {
                    self.arm(until);
                }
                continue;
            }
            let until = now.after(self.config.dial_timeout);
            let dial = DialId(self.dialer.last.wrapping_add(1));
            let Some(target) = self.dialer.targets.get_mut(index) else {
                continue;
            };
            if target.at > now {
                let at = target.at;
                self.arm(at);
                continue;
            }
            target.dial = Some((dial, until));
            self.dialer.last = dial.0;
            let address = target.address.clone();
            self.events.push_back(LinkEvent::Dial { dial, address });
            self.arm(until);
        }
    }

    /// Whether an address is to be dialed, now or later.
    fn is_wanted(&mut self, index: usize) -> bool {
        let Some(target) = self.dialer.targets.get(index) else {
            return false;
        };
        if self.left || target.myself || !target.is_idle() {
            return false;
        }
        if let Some(node) = target.member {
            let member = self
                .slot(node)
                .and_then(|slot| self.peers.get(slot))
                .is_some_and(|peer| peer.member && peer.link.is_none());
            let busy = |other: &Target| other.is_about(node) && !other.is_idle();
            return member && self.me.node < node && !self.dialer.targets.iter().any(busy);
        }
        if let Some(node) = target.found
            && self.slot(node).is_some_and(|slot| self.is_up(slot))
        {
            return false;
        }
        let listening = self.peers.iter().find(|(_, peer)| {
            peer.link.is_some()
                && peer
                    .address()
                    .is_some_and(|address| *address == target.address)
        });
        let Some((_, peer)) = listening else {
            return true;
        };
        let node = peer.node;
        if let Some(target) = self.dialer.targets.get_mut(index) {
            target.found = Some(node);
        }
        false
    }
}
