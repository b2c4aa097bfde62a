//! Registration of regions: what they are, and what they say they host.
//!
//! Claims are taken as the parts arrive, since a claim says what is true whether the other parts arrive or not; the
//! region *counts* (is given shards, is acknowledged, frees what a newer session does not claim) with the last part.
//! So nothing has to be reassembled, and a part that arrives twice changes nothing.

use super::{
    ControlError, CoordPhase, StorageMismatch,
    ledger::{Freed, Ledger},
    slot::{NOBODY, Phase, flag},
    stats::count,
};
use crate::{
    Epoch,
    wire::{
        Claim,
        control::{Deregister, Register, RegisterRefusal},
    },
};

impl Ledger<'_> {
    pub(super) fn register(&mut self, from: u16, part: &Register<'_>) -> Result<(), ControlError> {
        let member = self.incarnation(from).ok_or(ControlError::NotMember)?;
        if part.session.incarnation != member {
            return Err(ControlError::Incarnation {
                member,
                found: part.session.incarnation,
            });
        }
        if part.part >= part.parts || part.parts > self.config.shard_count.max(1) {
            return Err(ControlError::Malformed);
        }
        if let Some(reason) = self.refusal(from, part) {
            return Err(self.refuse(from, part, reason));
        }
        let node = self.node(from).ok_or(ControlError::NotMember)?;
        let newer = node.session < Some(part.session);
        let follows = node.session == Some(part.session)
            && part.part == node.next_part
            && part.parts == node.parts;
        if node.session > Some(part.session) || (part.part != 0 && !follows) {
            return Err(ControlError::OutOfOrder);
        }
        if newer {
            self.begin_session(from, part);
        }
        if part.storage_id != 0 && self.is_other_storage(from, part.storage_id) && part.part == 0 {
            count(&mut self.book.stats.storage_mismatches);
        }
        self.adopt_size(part.size);
        for claim in part.claims.iter() {
            self.claim(from, claim);
        }
        let Some(node) = self.node_mut(from) else {
            return Err(ControlError::NotMember);
        };
        node.parts = part.parts;
        node.next_part = part.part.saturating_add(1);
        if node.next_part == part.parts {
            self.complete_registration(from, part);
        }
        Ok(())
    }

    /// Why a region is refused. O(claims).
    fn refusal(&self, from: u16, part: &Register<'_>) -> Option<RegisterRefusal> {
        let node = self.node(from)?;
        if part.type_name != self.config.type_name {
            return Some(RegisterRefusal::UnknownType);
        }
        if part.shard_count != self.config.shard_count {
            return Some(RegisterRefusal::ShardCount {
                coordinator: self.config.shard_count,
                region: part.shard_count,
            });
        }
        if part.shard_hash != self.config.shard_hash {
            return Some(RegisterRefusal::ShardHash {
                coordinator: self.config.shard_hash,
                region: part.shard_hash,
            });
        }
        if node.ended >= Some(part.session) {
            return Some(RegisterRefusal::SessionEnded);
        }
        if self.config.storage_mismatch == StorageMismatch::Refuse
            && self.is_other_storage(from, part.storage_id)
        {
            return Some(RegisterRefusal::Storage {
                expected: self.book.storage_id,
                found: part.storage_id,
            });
        }
        if !part.proxy && self.remembers_otherwise(from, part.remembers) {
            return Some(RegisterRefusal::Remember {
                region: part.remembers,
            });
        }
        // An epoch of a later reign cannot be given up for one of this reign: what follows would be lower.
        let mut claims = part.claims.iter();
        let fits = part.claims.validate(self.config.shard_count).is_ok()
            && (!part.proxy || part.claims.is_empty())
            && part.size.version.term() <= self.book.term
            && part.size.count <= self.config.shard_count
            && claims.all(|claim| claim.epoch.term() <= self.book.term);
        (!fits).then_some(RegisterRefusal::Claims)
    }

    /// Whether registered regions of other nodes use another store than this one.
    fn is_other_storage(&self, from: u16, storage_id: u64) -> bool {
        let Some(node) = self.node(from) else {
            return false;
        };
        let own =
            node.registered && node.storage_id != 0 && node.storage_id == self.book.storage_id;
        storage_id != 0
            && storage_id != self.book.storage_id
            && self.book.storage_users > u32::from(own)
    }

    /// Whether registered hosts on other nodes remember who lives and this one does not, or the other way round: an entity
    /// would be forgotten, or be there again, by where its shard is.
    fn remembers_otherwise(&self, from: u16, remembers: bool) -> bool {
        let [plain, remembering] = self.book.hosts;
        let others = if remembers { plain } else { remembering };
        let own = self.node(from).and_then(|node| node.remembers);
        others > u32::from(own == Some(!remembers))
    }

    /// Counts a host by whether it remembers who lives; `None`: it is none any more.
    pub(super) fn count_host(&mut self, index: u16, remembers: Option<bool>) {
        let Some(node) = self.node_mut(index) else {
            return;
        };
        let before = core::mem::replace(&mut node.remembers, remembers);
        let [plain, remembering] = &mut self.book.hosts;
        if let Some(before) = before {
            let count = if before {
                &mut *remembering
            } else {
                &mut *plain
            };
            *count = count.saturating_sub(1);
        }
        if let Some(now) = remembers {
            let count = if now { remembering } else { plain };
            *count = count.saturating_add(1);
        }
    }

    fn refuse(&mut self, from: u16, part: &Register<'_>, reason: RegisterRefusal) -> ControlError {
        // A refused region hosts nothing: neither what earlier parts claimed, nor what an older session of it owned. As
        // long as it says that it hosts something, only the end of its node's lease proves that.
        let newer = self
            .node(from)
            .is_some_and(|node| node.session < Some(part.session));
        let void = newer
            || self
                .node(from)
                .is_some_and(|node| node.session == Some(part.session) && !node.registered);
        let its_own = !matches!(
            reason,
            RegisterRefusal::SessionEnded | RegisterRefusal::UnknownType
        );
        let hosts_nothing = newer && part.parts == 1 && part.claims.is_empty();
        if void && its_own && !self.config.trust && !hosts_nothing {
            self.unregister(from);
            if newer && let Some(node) = self.node_mut(from) {
                node.ended = node.ended.max(node.session);
            }
        } else if void && its_own {
            self.end_session(from, Freed::Lapsed);
            if let Some(node) = self.node_mut(from) {
                if node.session < Some(part.session) {
                    node.ended = node.ended.max(node.session);
                }
                node.session = None;
            }
        }
        if let Some(node) = self.node_mut(from) {
            node.say_refused = Some((part.session, reason));
            self.say_node(from);
        }
        count(&mut self.book.stats.refusals);
        ControlError::Refused(reason)
    }

    /// A newer session ends the one before it; what that owned is kept apart until the last part says what remains.
    fn begin_session(&mut self, from: u16, part: &Register<'_>) {
        self.end_session(from, Freed::Lapsed);
        self.book.vacating.remove(self.nodes, u32::from(from));
        if let Some(node) = self.node_mut(from) {
            node.ended = node.ended.max(node.session);
            node.session = Some(part.session);
            node.proxy = part.proxy;
            node.hold = true;
        }
    }

    fn complete_registration(&mut self, from: u16, part: &Register<'_>) {
        let Some(node) = self.node_mut(from) else {
            return;
        };
        node.say_ack = true;
        node.was_registered = true;
        let first = !core::mem::replace(&mut node.registered, true);
        let was_proxy = core::mem::replace(&mut node.proxy, part.proxy);
        if first {
            node.say_registered = Some(part.last_beat_age);
            node.hold = false;
            node.given_up = false;
            node.storage_id = part.storage_id;
            let vacate = !node.stale.is_empty();
            if vacate {
                self.book.vacating.push_back(self.nodes, u32::from(from));
            }
            if part.storage_id != 0 {
                if self.book.storage_users == 0 {
                    self.book.storage_id = part.storage_id;
                }
                let same = self.book.storage_id == part.storage_id;
                self.book.storage_users = self.book.storage_users.saturating_add(u32::from(same));
                if !same && let Some(node) = self.node_mut(from) {
                    node.say_other_storage = true;
                }
            }
            count(&mut self.book.stats.registrations);
        }
        if first || was_proxy != part.proxy {
            self.count_host(from, (!part.proxy).then_some(part.remembers));
            self.candidates_changed();
        }
        self.say_node(from);
        let begins =
            (first || part.wants_map) && self.book.mapping.push_back(self.nodes, u32::from(from));
        // One that is on its way to an older session starts over.
        if (begins || first)
            && let Some(node) = self.node_mut(from)
        {
            node.map_next = 0;
        }
    }

    /// A region says that it hosts a shard. Idempotent.
    fn claim(&mut self, from: u16, claim: Claim) {
        let shard = claim.shard.0;
        self.settle(shard);
        let Some(slot) = self.shard(shard) else {
            return;
        };
        let (owner, recorded, phase) = (slot.owner, slot.epoch, slot.phase());
        let owned = phase != Phase::Unallocated;
        if owned && owner == from && recorded == claim.epoch {
            self.confirm(from, claim, phase);
            return;
        }
        // What this reign allocated is on record; an epoch of it that is not, has ended.
        // After the barrier every lease of a predecessor is over.
        let late = self.book.phase == CoordPhase::Open && !self.config.trust;
        let believed = claim.epoch > recorded && claim.epoch.term() < self.book.term && !late;
        if believed {
            if owned && owner != from {
                self.lose(shard, owner, recorded);
                count(&mut self.book.stats.claims_lost);
            }
            if let Some(slot) = self.shard_mut(shard) {
                slot.clear(flag::LAPSED);
            }
            self.take(from, claim);
        } else if !(owned && owner == from && recorded > claim.epoch) {
            self.lose(shard, from, claim.epoch);
            count(&mut self.book.stats.claims_lost);
        }
    }

    /// The recorded owner claims the recorded allocation, perhaps in a newer session.
    fn confirm(&mut self, from: u16, claim: Claim, phase: Phase) {
        let shard = claim.shard.0;
        let stale = self.is_stale(shard);
        if !stale && (phase == Phase::HandingOff || !claim.draining) {
            if let Some(slot) = self.shard_mut(shard)
                && phase == Phase::Allocated
            {
                slot.clear(flag::SAY_GRANT);
                slot.set(flag::STARTED);
            }
            return;
        }
        let draining = claim.draining || phase == Phase::HandingOff;
        self.take(from, Claim { draining, ..claim });
    }

    /// Records a claim as the shard's home.
    fn take(&mut self, from: u16, claim: Claim) {
        let shard = claim.shard.0;
        self.detach(shard);
        let phase = if claim.draining {
            Phase::HandingOff
        } else {
            Phase::Allocated
        };
        self.attach(shard, from, claim.epoch, phase);
        if let Some(slot) = self.shard_mut(shard) {
            slot.set(flag::STARTED);
            if slot.evict == from {
                slot.evict = NOBODY;
                slot.clear(flag::SAY_EVICT);
            }
            if claim.draining {
                slot.set(flag::PLANNED);
            }
        }
        if claim.draining {
            self.say(shard, flag::SAY_HANDOFF);
            self.arm_retry(shard);
        } else {
            self.announce(shard);
            if shard >= self.book.used(self.config) {
                // It was looked at when nobody had it.
                self.keep_from_start();
            }
        }
        count(&mut self.book.stats.claims_taken);
    }

    /// A node is told, until it says so, to give up an allocation that is not the shard's home.
    pub(super) fn lose(&mut self, shard: u32, node: u16, epoch: Epoch) {
        if let Some(slot) = self.shard_mut(shard) {
            slot.evict = node;
            slot.evict_epoch = epoch;
        }
        self.say(shard, flag::SAY_EVICT);
        if self
            .shard(shard)
            .is_some_and(|slot| !slot.retry.is_linked())
        {
            self.arm_retry(shard);
        }
    }

    pub(super) fn deregister(&mut self, from: u16, what: Deregister) -> Result<(), ControlError> {
        let Some(node) = self.node_mut(from) else {
            return Err(ControlError::NotMember);
        };
        let session = Some(what.session);
        let is_its_own = what.session.incarnation == node.incarnation;
        if !is_its_own || node.session > session || node.ended >= session {
            return Err(ControlError::OutOfOrder);
        }
        // The registration of a newer session may be lost: nothing runs of that one any more, nor of any before it.
        node.session = session;
        node.ended = session;
        node.given_up = false;
        self.end_session(from, Freed::Released);
        Ok(())
    }
}
