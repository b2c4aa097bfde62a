//! The lock outside the cluster that decides who leads, under [`Ownership::External`].

use super::event::What;
use super::life::{TERM_UNIT, WALL};
use super::{Store, World};
use crate::leadership::Ownership;
use crate::{Term, micros};

/// What outside the cluster decides who leads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lock {
    holder: Option<(u8, u32)>,
    until: u64,
    term: u64,
}

impl<St: Store> World<St> {
    /// A host looks for the lock that decides who leads, and takes or keeps it if it can.
    pub(super) fn look_for_lock(&mut self, host: usize, life: u32) {
        let now = self.core.now;
        let ttl = micros(self.core.config.leadership.lease());
        let state = &self.core.hosts[host];
        if !state.alive || state.life != life {
            return;
        }
        let what = What::Lock {
            host: host as u8,
            life,
        };
        if state.is_paused() {
            let until = state.paused_until.max(now);
            return self.core.events.push(until, what);
        }
        let reaches = state.lock_cut_until <= now && !state.leaving;
        let own = self.lock.holder == Some((host as u8, life)) && self.lock.until > now;
        // A holder that was not sure any more for a moment does not go on under the same token.
        let holds = own && state.lock_until > now;
        if reaches && (own || self.lock.until <= now) {
            if !holds {
                let term = (WALL + now) / TERM_UNIT;
                self.lock.term = term.max(self.lock.term + 1);
                self.lock.holder = Some((host as u8, life));
            }
            // The service counts from when it answers, the holder from when it asked.
            self.lock.until = now + ttl;
            self.core.hosts[host].lock_until = now + ttl * 9 / 10;
            let term = Term(self.lock.term);
            self.say_lock(host, Some(term));
        } else {
            self.check_lock(host);
        }
        let again = now + ttl / 5 + self.core.rng.below(ttl / 20 + 1);
        let mine = self.core.hosts[host].lock_until;
        let again = if mine > now { again.min(mine) } else { again };
        self.core.events.push(again, what);
    }

    /// A host whose lock may be over does not lead any more.
    pub(super) fn check_lock(&mut self, host: usize) {
        if self.core.config.ownership == Ownership::External
            && self.core.hosts[host].lock_until <= self.core.now
        {
            self.say_lock(host, None);
        }
    }

    fn say_lock(&mut self, host: usize, term: Option<Term>) {
        let local = self.core.local(host);
        if let Some(machine) = &mut self.machines[host] {
            machine.handle_external(local, term, &mut self.core.sink(host));
        }
        self.after(host);
    }
}
