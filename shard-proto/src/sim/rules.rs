//! Rules that can be seen in what a process says, takes and follows, each on its own: a fault that the promises would
//! show only by a rare coincidence is found where it is made.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Checker, Violation};
use crate::{Epoch, Leader, NodeId, Session, Term, Token};

/// Something that a process does, in which a rule may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Deed {
    /// Its coordinators begin under a term.
    Begins,
    /// A coordinator takes a registration that was said for another term than its own.
    TakesOther {
        /// For this one.
        term: Term,
    },
    /// A coordinator tells a region that it is registered.
    Acknowledges {
        /// The type's number.
        ty: u8,
        /// The region's node.
        to: NodeId,
        /// The region's session.
        session: Session,
    },
    /// A coordinator has heard that a region's session is over: this one, or whichever is registered.
    EndsSession {
        /// The type's number.
        ty: u8,
        /// The region's node.
        of: NodeId,
        /// The session, if it was named.
        session: Option<Session>,
    },
    /// A coordinator tells an owner to give a shard up.
    HandsOff {
        /// The shard, among those of all types.
        shard: u32,
        /// The allocation.
        epoch: Epoch,
    },
    /// A coordinator tells a node where a shard lives.
    Names {
        /// The shard, among those of all types.
        shard: u32,
        /// The allocation.
        epoch: Epoch,
        /// Who is told.
        to: NodeId,
    },
    /// A coordinator whose barrier is over believes a claim of a former reign.
    BelievesLate {
        /// The shard, among those of all types.
        shard: u32,
        /// The allocation.
        epoch: Epoch,
        /// Who claims it.
        of: NodeId,
    },
    /// A region says that it hosts a shard, and serves it.
    Claims {
        /// The shard, among those of all types.
        shard: u32,
        /// The allocation.
        epoch: Epoch,
        /// It is being stopped, as everybody can see.
        stops: bool,
    },
    /// The marker at the end of a path is back.
    PathFlushed {
        /// The shard, among those of all types.
        shard: u32,
    },
}

/// A region, as a coordinator knows it in one reign.
#[derive(Clone, Copy, Debug, Default)]
struct Registered {
    session: Option<Session>,
    ended: Option<Session>,
}

/// A path that was marked.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The life at its other end.
    to: u32,
    epoch: Epoch,
    token: Token,
    flushed: bool,
}

/// A process.
#[derive(Clone, Debug, Default)]
struct Process {
    followed: Option<Leader>,
    /// How many terms it took, and the last of them.
    taken: u64,
    term: Term,
    /// By type and node, in this reign.
    registered: Vec<(u8, NodeId, Registered)>,
    /// By shard: the epoch that its coordinator handed off last, in this reign.
    handed_off: Vec<Epoch>,
    /// By shard: the path that it marked last.
    paths: Vec<Option<Path>>,
}

/// What is known of all processes. O(1), or O(nodes) per registration.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    processes: Vec<Process>,
    shards: usize,
}

impl Rules {
    pub(super) fn new(hosts: usize, shards: usize) -> Self {
        Self {
            processes: vec![Process::default(); hosts],
            shards,
        }
    }

    /// A process starts. O(shards).
    pub(super) fn began(&mut self, host: u8) {
        self.processes[usize::from(host)] = Process {
            handed_off: vec![Epoch::NONE; self.shards],
            paths: vec![None; self.shards],
            ..Process::default()
        };
    }

    /// A type starts again in its process, and knows nothing of the paths it used.
    pub(super) fn type_started(&mut self, host: u8, shards: Range<usize>) {
        if let Some(paths) = self.processes[usize::from(host)].paths.get_mut(shards) {
            paths.fill(None);
        }
    }

    /// Terms that are followed never go down, and of equal ones only that of the same node is followed.
    pub(super) fn follows(&mut self, host: u8, leader: Option<Leader>) -> Result<(), Violation> {
        let followed = &mut self.processes[usize::from(host)].followed;
        let (Some(leader), before) = (leader, *followed) else {
            return Ok(());
        };
        if before == Some(leader) {
            return Ok(());
        }
        *followed = Some(leader);
        match before {
            Some(before) if leader.term <= before.term => Err(Violation::FollowsLower {
                host,
                before,
                leader,
            }),
            _ => Ok(()),
        }
    }

    /// A process takes no term twice. `taken`: how many it took so far.
    pub(super) fn takes(
        &mut self,
        host: u8,
        taken: u64,
        term: Option<Term>,
    ) -> Result<(), Violation> {
        let process = &mut self.processes[usize::from(host)];
        if process.taken == taken {
            return Ok(());
        }
        process.taken = taken;
        let Some(term) = term else { return Ok(()) };
        let before = core::mem::replace(&mut process.term, term);
        if term <= before {
            return Err(Violation::TermTwice { host, term, before });
        }
        Ok(())
    }

    pub(super) fn deed(&mut self, host: u8, deed: Deed) -> Result<(), Violation> {
        let process = &mut self.processes[usize::from(host)];
        match deed {
            Deed::Begins => {
                process.registered.clear();
                process.handed_off.fill(Epoch::NONE);
                Ok(())
            }
            Deed::TakesOther { term } => Err(Violation::OtherTerm { host, term }),
            Deed::Acknowledges { ty, to, session } => {
                let region = process.region(ty, to);
                if region.ended >= Some(session) {
                    return Err(Violation::SessionBack { host, to, session });
                }
                if region.session < Some(session) {
                    region.ended = region.ended.max(region.session);
                    region.session = Some(session);
                }
                Ok(())
            }
            Deed::EndsSession { ty, of, session } => {
                let region = process.region(ty, of);
                region.ended = region.ended.max(session.or(region.session));
                Ok(())
            }
            Deed::HandsOff { shard, epoch } => {
                process.handed_off[shard as usize] = epoch;
                Ok(())
            }
            Deed::Names { shard, epoch, to } => {
                if process.handed_off[shard as usize] == epoch {
                    return Err(Violation::OldHome {
                        shard,
                        host,
                        epoch,
                        to,
                    });
                }
                Ok(())
            }
            Deed::BelievesLate { shard, epoch, of } => Err(Violation::LateClaim {
                shard,
                host,
                epoch,
                of,
            }),
            Deed::PathFlushed { shard } => {
                if let Some(path) = &mut process.paths[shard as usize] {
                    path.flushed = true;
                }
                Ok(())
            }
            Deed::Claims {
                shard,
                epoch,
                stops: true,
            } => Err(Violation::PlainClaim { shard, host, epoch }),
            Deed::Claims { .. } => Ok(()),
        }
    }

    /// A process marks the end of what it sent to a life.
    pub(super) fn marks(&mut self, host: u8, shard: u32, to: u32, epoch: Epoch, token: Token) {
        let path = &mut self.processes[usize::from(host)].paths[shard as usize];
        // A marker that was repeated, and waited for room until it was answered, marks nothing.
        if path.is_some_and(|path| path.flushed && path.token == token) {
            return;
        }
        *path = Some(Path {
            to,
            epoch,
            token,
            flushed: false,
        });
    }

    /// A process sends a message: not down a path that it marked, before the marker is back.
    pub(super) fn sends(
        &mut self,
        host: u8,
        shard: u32,
        to: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        match self.processes[usize::from(host)].paths[shard as usize] {
            Some(path) if path.to == to && path.epoch == epoch && !path.flushed => {
                Err(Violation::PathAgain { shard, host, epoch })
            }
            _ => Ok(()),
        }
    }
}

impl Process {
    fn region(&mut self, ty: u8, node: NodeId) -> &mut Registered {
        let known = self.registered.iter();
        let at = known
            .enumerate()
            .find(|(_, (other, of, _))| *other == ty && *of == node)
            .map(|(at, _)| at);
        let at = at.unwrap_or_else(|| {
            self.registered.push((ty, node, Registered::default()));
            self.registered.len() - 1
        });
        &mut self.registered[at].2
    }
}

impl Checker {
    /// Whom a host follows, how many terms it took, and under which one it leads or wants to.
    ///
    /// # Errors
    /// [`Violation`]: a lower term, or one that it took before.
    pub fn led(
        &mut self,
        host: u8,
        leader: Option<Leader>,
        taken: u64,
        term: Option<Term>,
    ) -> Result<(), Violation> {
        self.rules.follows(host, leader)?;
        self.rules.takes(host, taken, term)
    }

    /// A host leads until then, and so many of `voters` keep to it as long.
    ///
    /// # Errors
    /// [`Violation`]: too few.
    pub fn promised(
        now: u64,
        host: u8,
        term: Term,
        until: u64,
        promised: u8,
        voters: u8,
    ) -> Result<(), Violation> {
        if promised > voters / 2 || until <= now {
            return Ok(());
        }
        Err(Violation::NoPromise {
            host,
            term,
            until,
            promised,
        })
    }

    /// A host does something in which a rule may be broken.
    ///
    /// # Errors
    /// [`Violation`]: it is.
    pub fn deed(&mut self, host: u8, deed: Deed) -> Result<(), Violation> {
        self.rules.deed(host, deed)
    }

    /// A host marks the end of what it sent to a shard on this life, under this epoch.
    pub fn marked(&mut self, host: u8, shard: u32, to: u32, epoch: Epoch, token: Token) {
        self.rules.marks(host, shard, to, epoch, token);
    }

    /// A host sends a message to a shard on this life, under this epoch.
    ///
    /// # Errors
    /// [`Violation`]: behind a marker that is not back.
    pub fn forwarded(
        &mut self,
        host: u8,
        shard: u32,
        to: u32,
        epoch: Epoch,
    ) -> Result<(), Violation> {
        self.rules.sends(host, shard, to, epoch)
    }

    /// A stopped type starts again; `shards` are its own among those of all types. O(shards).
    pub fn type_started(&mut self, host: u8, shards: Range<usize>) {
        self.rules.type_started(host, shards);
    }
}
