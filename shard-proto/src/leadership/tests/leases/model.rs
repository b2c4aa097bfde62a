//! What leases are for: a coordinator and a region, reduced to grants and claims.

use std::collections::BTreeMap;
use std::vec::Vec;

use crate::{Epoch, Leader, NodeId, Term};

pub(super) const SHARDS: usize = 4;

/// `(incarnation, lapses or refusals)`.
pub(super) type Session = (u64, u32);

#[derive(Clone, Debug)]
pub(super) enum Note {
    Register {
        session: Session,
        claims: Vec<(usize, Epoch)>,
        age: u64,
    },
    Ack {
        session: Session,
    },
    Refused {
        session: Session,
    },
    Grant {
        shard: usize,
        epoch: Epoch,
        session: Session,
    },
    Complete {
        shard: usize,
        epoch: Epoch,
    },
}

/// What a region does with a grant.
pub(super) enum Taken {
    Serves,
    Refuses,
    Drops,
}

#[derive(Default)]
pub(super) struct Region {
    pub(super) session: Session,
    pub(super) leader: Option<Leader>,
    pub(super) acked: bool,
    pub(super) hosted: [Option<Epoch>; SHARDS],
    pub(super) floor: [Epoch; SHARDS],
}

impl Region {
    pub(super) fn adopt(&mut self, leader: Option<Leader>) {
        self.leader = leader;
        self.acked = false;
    }

    pub(super) fn lapse(&mut self) {
        self.session.1 += 1;
        self.acked = false;
        for (hosted, floor) in self.hosted.iter_mut().zip(&mut self.floor) {
            *floor = (*floor).max(hosted.take().unwrap_or(Epoch::NONE));
        }
    }

    pub(super) fn register(&self, age: u64) -> Note {
        let claims = self.hosted.iter().enumerate();
        Note::Register {
            session: self.session,
            claims: claims.filter_map(|(i, e)| Some((i, (*e)?))).collect(),
            age,
        }
    }

    pub(super) fn grant(
        &mut self,
        shard: usize,
        epoch: Epoch,
        session: Session,
        lease: bool,
    ) -> Taken {
        if session != self.session || !lease || self.hosted[shard] == Some(epoch) {
            return Taken::Drops;
        }
        if epoch <= self.floor[shard] {
            return Taken::Refuses;
        }
        if self.hosted[shard].is_some_and(|held| held > epoch) {
            self.floor[shard] = epoch;
            return Taken::Refuses;
        }
        self.floor[shard] = epoch;
        self.hosted[shard] = Some(epoch);
        Taken::Serves
    }
}

pub(super) struct Coordinator {
    pub(super) term: Term,
    pub(super) acts: bool,
    pub(super) open: bool,
    round: u32,
    pub(super) registered: BTreeMap<NodeId, Session>,
    ended: BTreeMap<NodeId, Session>,
    pub(super) hears: BTreeMap<NodeId, bool>,
    pub(super) homes: [Option<(NodeId, Epoch)>; SHARDS],
}

impl Coordinator {
    pub(super) fn new(term: Term) -> Self {
        Self {
            term,
            acts: false,
            open: false,
            round: 0,
            registered: BTreeMap::new(),
            ended: BTreeMap::new(),
            hears: BTreeMap::new(),
            homes: [None; SHARDS],
        }
    }

    /// Whether the session was taken.
    pub(super) fn register(
        &mut self,
        node: NodeId,
        session: Session,
        claims: &[(usize, Epoch)],
    ) -> Option<bool> {
        if self.ended.get(&node).is_some_and(|ended| session <= *ended) {
            return Some(false);
        }
        let before = self.registered.get(&node).copied();
        if before.is_some_and(|before| session < before) {
            return None;
        }
        self.registered.insert(node, session);
        if before.is_some_and(|before| session > before) {
            for (i, home) in self.homes.iter_mut().enumerate() {
                let claimed = claims.iter().find(|(shard, _)| *shard == i);
                if home.is_some_and(|(owner, epoch)| {
                    owner == node && claimed.is_none_or(|(_, claim)| *claim != epoch)
                }) {
                    *home = None;
                }
            }
        }
        if before == Some(session) {
            return Some(true);
        }
        for (shard, epoch) in claims {
            if self.homes[*shard].is_none_or(|(_, held)| held < *epoch) {
                self.homes[*shard] = Some((node, *epoch));
            }
        }
        Some(true)
    }

    pub(super) fn lapse(&mut self, node: NodeId) {
        if let Some(session) = self.registered.remove(&node) {
            self.ended.insert(node, session);
        }
        for home in &mut self.homes {
            if home.is_some_and(|(owner, _)| owner == node) {
                *home = None;
            }
        }
    }

    /// Frees what a move would.
    pub(super) fn complete(&mut self, node: NodeId, shard: usize, epoch: Epoch) {
        if self.homes[shard] == Some((node, epoch)) {
            self.homes[shard] = None;
        }
    }

    /// Allocates what is free, and says again what is granted.
    pub(super) fn grants(&mut self, salt: u64) -> Vec<(NodeId, Note)> {
        let fit: Vec<NodeId> = self
            .registered
            .keys()
            .copied()
            .filter(|node| self.hears.get(node) == Some(&true))
            .collect();
        if self.open && !fit.is_empty() {
            for (i, home) in self.homes.iter_mut().enumerate() {
                if home.is_none() {
                    self.round += 1;
                    let epoch = Epoch::new(self.term, self.round).unwrap();
                    *home = Some((fit[(salt as usize + i) % fit.len()], epoch));
                }
            }
        }
        let homes = self.homes.iter().enumerate();
        homes
            .filter_map(|(shard, home)| {
                let (node, epoch) = (*home)?;
                let session = *self.registered.get(&node)?;
                (epoch.term() == self.term).then_some((
                    node,
                    Note::Grant {
                        shard,
                        epoch,
                        session,
                    },
                ))
            })
            .collect()
    }
}
