//! Registering with the coordinator.

use super::machine::Machine;
use super::slot::{State, flag};
use super::stats::count;
use super::{Command, ShardSlot};
use crate::table::RegionTables;
use crate::wire::control::{Register, RegisterAck, RegisterRefusal, RegisterRefused};
use crate::wire::list::{Claim, ClaimsBuilder};
use crate::{Instant, Leader, ShardId, micros};

/// Scratch for the claims of one part.
pub(super) type Scratch = [u8; 1024];

/// Shards that one part covers: their claims fit [`Scratch`] however they are spread. A claim takes at most 14 bytes
/// (5 for the first gap), and the builder keeps room for two runs of 30.
pub(super) const SHARDS_PER_PART: u32 = 64;

/// A confirmed registration is repeated after so many retry intervals, for a coordinator that lost it.
const REPEAT: u32 = 20;

/// How far the registration with the adopted leader is.
#[derive(Clone, Debug, Default)]
pub(super) struct Registration {
    pub(super) confirmed: bool,
    /// `Registered` is due, once the map is known.
    announce: bool,
    /// Next part to send.
    part: u32,
    /// How many parts this round has.
    parts: u32,
    /// When the next round begins.
    due: Option<Instant>,
    /// Why the coordinator refuses.
    refused: Option<RegisterRefusal>,
    /// `Refused` is due.
    complain: bool,
}

impl Registration {
    /// Refused until the next term.
    pub(super) const fn is_refused(&self) -> bool {
        match self.refused {
            Some(reason) => is_final(reason),
            None => false,
        }
    }

    /// Refused by the coordinator, for now or for the whole term.
    pub(super) const fn is_unwanted(&self) -> bool {
        self.refused.is_some()
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

/// Whether the reason stays for the whole term.
const fn is_final(reason: RegisterRefusal) -> bool {
    matches!(
        reason,
        RegisterRefusal::ShardCount { .. }
            | RegisterRefusal::ShardHash { .. }
            | RegisterRefusal::Storage { .. }
            | RegisterRefusal::Remember { .. }
            | RegisterRefusal::Claims
    )
}

impl Machine {
    /// Another leader, or none: what was confirmed is no longer.
    pub(super) fn restart_registration(&mut self) {
        self.registration = Registration::default();
        if self.leader.is_some() && self.registers() {
            self.begin_registration();
        }
    }

    /// A region that stops says under the next term, too, what still runs.
    const fn registers(&self) -> bool {
        !self.halting && (!self.stopping || self.hosted > 0)
    }

    /// Begins to send all parts.
    pub(super) fn begin_registration(&mut self) {
        let registration = &mut self.registration;
        registration.part = 0;
        // What is granted while a round is under way need not be claimed: this leader knows it.
        registration.parts = if self.hosted == 0 {
            1
        } else {
            let shards = self.config.shards_per_part();
            self.config.shard_count.div_ceil(shards)
        };
        self.rearm_registration();
    }

    fn rearm_registration(&mut self) {
        let interval = self.config.retry_interval;
        let intervals = if self.registration.confirmed && self.map_version.is_some() {
            REPEAT
        } else {
            1
        };
        let after = interval.saturating_mul(intervals);
        self.registration.due = Some(self.now.after(after));
    }

    /// The whole map is there: there is no hurry to register again.
    pub(super) fn has_map(&mut self) {
        if self.registration.confirmed {
            self.rearm_registration();
        }
    }

    /// The registration's timer.
    pub(super) fn tick_registration(&mut self) {
        if self.registration.due.is_none_or(|due| due > self.now) {
            return;
        }
        if !self.registers() {
            self.stop_registration();
        } else if self.registration.part < self.registration.parts {
            self.rearm_registration();
        } else {
            self.begin_registration();
        }
    }

    pub(super) fn stop_registration(&mut self) {
        self.registration.part = self.registration.parts;
        self.registration.due = None;
    }

    pub(super) fn acknowledged(&mut self, ack: RegisterAck) {
        if ack.session != self.session {
            return;
        }
        let registration = &mut self.registration;
        registration.refused = None;
        registration.complain = false;
        if !registration.confirmed {
            registration.confirmed = true;
            registration.announce = !self.stopping;
            // A round that was under way is not needed any more.
            registration.part = registration.parts;
            self.rearm_registration();
            self.retry_now = self.retry.len();
        }
    }

    pub(super) fn refused<P>(&mut self, t: &mut RegionTables<'_, P>, refused: RegisterRefused) {
        if refused.session != self.session || self.stopping {
            return;
        }
        let reason = refused.reason;
        if reason == RegisterRefusal::SessionEnded {
            self.end_session(t);
            return;
        }
        let registration = &mut self.registration;
        registration.confirmed = false;
        registration.announce = false;
        if registration.refused != Some(reason) {
            registration.refused = Some(reason);
            registration.complain = true;
        }
        if is_final(reason) {
            self.stop_registration();
            self.refuse_all(t);
        }
    }

    /// What the region says of itself, if something is due.
    pub(super) fn registration_news<P>(&mut self) -> Option<Command<'static, P>> {
        let registration = &mut self.registration;
        if registration.announce && self.map_version.is_some() {
            registration.announce = false;
            let term = self.leader?.term;
            return Some(Command::Registered { term });
        }
        if core::mem::take(&mut registration.complain) {
            let reason = registration.refused?;
            return Some(Command::Refused { reason });
        }
        None
    }

    /// To whom the next part is to be sent.
    pub(super) fn register_due(&self) -> Option<Leader> {
        let registration = &self.registration;
        self.leader
            .filter(|_| registration.part < registration.parts && self.registers())
    }

    /// The next part.
    pub(super) fn register_part<'a>(
        &mut self,
        shards: &[ShardSlot],
        scratch: &'a mut Scratch,
    ) -> Register<'a> {
        let (part, parts) = (self.registration.part, self.registration.parts);
        self.registration.part = part.saturating_add(1);
        let mut claims = ClaimsBuilder::new(scratch);
        if self.hosted > 0 {
            let count = self.config.shards_per_part();
            let start = part.saturating_mul(count);
            self.collect_claims(shards, start..start.saturating_add(count), &mut claims);
        }
        count(&mut self.stats.registers);
        Register {
            part,
            parts,
            session: self.session,
            type_name: self.config.type_name,
            shard_count: self.config.shard_count,
            shard_hash: self.config.shard_hash,
            wants_map: self.map_version.is_none(),
            proxy: self.config.proxy,
            last_beat_age: micros(self.now.since(self.last_beat)),
            storage_id: self.config.storage_id,
            remembers: self.config.remembers && !self.config.proxy,
            size: self.sizing.known,
            claims: claims.finish(),
        }
    }

    fn collect_claims(
        &self,
        shards: &[ShardSlot],
        range: core::ops::Range<u32>,
        claims: &mut ClaimsBuilder<'_>,
    ) {
        for shard in range.start..range.end.min(self.config.shard_count) {
            let Some(slot) = shards.get(shard as usize) else {
                return;
            };
            if !slot.state.is_owned() || slot.has(flag::VOID) {
                continue;
            }
            let claim = Claim {
                shard: ShardId(shard),
                epoch: slot.epoch,
                draining: slot.state == State::Draining,
            };
            // Cannot fail, see SHARDS_PER_PART.
            if claims.push(claim).is_err() {
                return;
            }
        }
    }
}
