//! What was found to be wrong.

use alloc::string::String;
use core::fmt;

use super::Message;
use super::fault::At;
use crate::{Epoch, Leader, NodeId, Session, Term};

/// An invariant that did not hold: which, with whom, and about what. Hosts are numbers from 0, times are global.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Two nodes act as coordinators at the same time.
    TwoLeaders {
        /// Acted already.
        first: (u8, Term),
        /// Until when it may.
        until: u64,
        /// Acts, too.
        second: (u8, Term),
    },
    /// A reign acts under a term that is not above those that acted before.
    TermNotGrowing {
        /// Who acts.
        host: u8,
        /// Its term.
        term: Term,
        /// The highest that acted before.
        highest: Term,
    },
    /// Two nodes serve a shard at the same time.
    TwoHomes {
        /// The shard.
        shard: u32,
        /// Serves it already.
        first: (u8, Epoch),
        /// Until when it may, unless it stops earlier.
        until: u64,
        /// Serves it, too.
        second: (u8, Epoch),
    },
    /// A serving's epoch is not above that of every serving before it.
    EpochNotGrowing {
        /// The shard.
        shard: u32,
        /// Who serves it.
        host: u8,
        /// Under which epoch.
        epoch: Epoch,
        /// The highest before.
        highest: Epoch,
    },
    /// A node starts a shard before its own earlier serving of it has stopped.
    StartedBesideItself {
        /// The shard.
        shard: u32,
        /// The node.
        host: u8,
        /// What runs still.
        running: Epoch,
        /// What starts.
        epoch: Epoch,
    },
    /// A node starts a shard although its lease is over.
    StartedWithoutLease {
        /// The shard.
        shard: u32,
        /// The node.
        host: u8,
        /// Under which epoch.
        epoch: Epoch,
    },
    /// An entity handles a message where the shard is not served: it never started, has stopped, or the lease is over.
    NotServing {
        /// The shard.
        shard: u32,
        /// The node.
        host: u8,
        /// Under which epoch.
        epoch: Epoch,
        /// The message.
        message: Message,
    },
    /// A message was handled after a later one of the same origin to the same entity.
    OutOfOrder {
        /// The shard.
        shard: u32,
        /// Where.
        host: u8,
        /// The message.
        message: Message,
        /// The number that was due.
        due: u64,
    },
    /// A message was handled twice.
    DeliveredTwice {
        /// The shard.
        shard: u32,
        /// Where the second time.
        host: u8,
        /// The message.
        message: Message,
    },
    /// A caller was told that a message is not delivered, and it was.
    DeliveredAndReported {
        /// The shard.
        shard: u32,
        /// The message.
        message: Message,
    },
    /// A caller was told twice of one message.
    ReportedTwice {
        /// The shard.
        shard: u32,
        /// The message.
        message: Message,
    },
    /// A message that nobody sent.
    NeverSent {
        /// The shard.
        shard: u32,
        /// The message.
        message: Message,
    },
    /// A message of an origin that lives was neither handled nor reported, and did not die with a node that had
    /// accepted it.
    Lost {
        /// The shard.
        shard: u32,
        /// The message.
        message: Message,
        /// The origin's host.
        origin: u8,
        /// Who keeps it still, if somebody does.
        kept_by: Option<u8>,
    },
    /// No message of a living origin reached a shard, although the faults ended long ago.
    NoService {
        /// The shard.
        shard: u32,
        /// The origin's host.
        origin: u8,
        /// How long it waited, in microseconds.
        waited: u64,
    },
    /// A node follows a reign whose term is lower than one that it followed, or equal to that of another node.
    FollowsLower {
        /// The node.
        host: u8,
        /// What it followed.
        before: Leader,
        /// What it follows.
        leader: Leader,
    },
    /// A process takes a term that is not above the one it took before.
    TermTwice {
        /// The process.
        host: u8,
        /// The term.
        term: Term,
        /// The one before.
        before: Term,
    },
    /// A leader acts although not a quorum of the voters, its own node among them only if it follows, has promised to
    /// support nobody else as long.
    NoPromise {
        /// The leader.
        host: u8,
        /// Its term.
        term: Term,
        /// Until when it acts.
        until: u64,
        /// How many voters keep to it as long.
        promised: u8,
    },
    /// A coordinator takes a registration that was made for another term.
    OtherTerm {
        /// The leader.
        host: u8,
        /// That term.
        term: Term,
    },
    /// A session that has ended is registered again in the same reign.
    SessionBack {
        /// The leader.
        host: u8,
        /// Whose session.
        to: NodeId,
        /// The session.
        session: Session,
    },
    /// Somebody is told the old home of a shard that is being handed off.
    OldHome {
        /// The shard.
        shard: u32,
        /// The leader.
        host: u8,
        /// The old home's epoch.
        epoch: Epoch,
        /// Who is told.
        to: NodeId,
    },
    /// A claim of a former reign is believed after the barrier.
    LateClaim {
        /// The shard.
        shard: u32,
        /// The leader.
        host: u8,
        /// The claimed epoch.
        epoch: Epoch,
        /// Who claims it.
        of: NodeId,
    },
    /// A region claims a shard as if it served it, and has begun to stop it.
    PlainClaim {
        /// The shard.
        shard: u32,
        /// The node.
        host: u8,
        /// Under which epoch.
        epoch: Epoch,
    },
    /// A message is sent down a path that was marked, and whose marker has not come back.
    PathAgain {
        /// The shard.
        shard: u32,
        /// The origin.
        host: u8,
        /// The path's epoch.
        epoch: Epoch,
    },
    /// A table of a state machine contradicts itself, or something is left in it.
    Table {
        /// Whose.
        host: u8,
        /// What.
        what: String,
    },
    /// A timer is not set although there is work, or is due again and again without progress.
    Timer {
        /// Whose.
        host: u8,
        /// What.
        what: String,
    },
    /// Two kinds of storage behave differently.
    Storage {
        /// What differs.
        what: String,
    },
    /// Something panicked.
    Panic {
        /// What it said.
        what: String,
    },
}

impl Violation {
    /// The invariant's name, for statistics and for comparing two runs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TwoLeaders { .. } => "two leaders",
            Self::TermNotGrowing { .. } => "term not growing",
            Self::TwoHomes { .. } => "two homes",
            Self::EpochNotGrowing { .. } => "epoch not growing",
            Self::StartedBesideItself { .. } => "started beside itself",
            Self::StartedWithoutLease { .. } => "started without lease",
            Self::NotServing { .. } => "not serving",
            Self::OutOfOrder { .. } => "out of order",
            Self::DeliveredTwice { .. } => "delivered twice",
            Self::DeliveredAndReported { .. } => "delivered and reported",
            Self::ReportedTwice { .. } => "reported twice",
            Self::NeverSent { .. } => "never sent",
            Self::Lost { .. } => "lost",
            Self::NoService { .. } => "no service",
            Self::FollowsLower { .. } => "follows lower",
            Self::TermTwice { .. } => "term twice",
            Self::NoPromise { .. } => "no promise",
            Self::OtherTerm { .. } => "other term",
            Self::SessionBack { .. } => "session back",
            Self::OldHome { .. } => "old home",
            Self::LateClaim { .. } => "late claim",
            Self::PlainClaim { .. } => "plain claim",
            Self::PathAgain { .. } => "path again",
            Self::Table { .. } => "table",
            Self::Timer { .. } => "timer",
            Self::Storage { .. } => "storage",
            Self::Panic { .. } => "panic",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::TwoLeaders {
                first: (host, term),
                until,
                second: (other, later),
            } => write!(
                f,
                "host {host} acts under term {term} until {}, host {other} under term {later}",
                At(*until)
            ),
            Self::TermNotGrowing {
                host,
                term,
                highest,
            } => write!(
                f,
                "host {host} acts under term {term}, although {highest} acted before"
            ),
            Self::TwoHomes {
                shard,
                first: (host, epoch),
                until,
                second: (other, later),
            } => write!(
                f,
                "shard {shard} is served by host {host} under {epoch} until {}, and by host {other} under {later}",
                At(*until)
            ),
            Self::EpochNotGrowing {
                shard,
                host,
                epoch,
                highest,
            } => write!(
                f,
                "shard {shard} is served by host {host} under {epoch}, and was served under {highest} before"
            ),
            Self::StartedBesideItself {
                shard,
                host,
                running,
                epoch,
            } => write!(
                f,
                "host {host} starts shard {shard} under {epoch} while it runs under {running} there"
            ),
            Self::StartedWithoutLease { shard, host, epoch } => {
                write!(f, "host {host} starts shard {shard} under {epoch}")
            }
            Self::NotServing {
                shard,
                host,
                epoch,
                message,
            } => write!(
                f,
                "host {host} lets an entity of shard {shard} handle {message} under {epoch}"
            ),
            Self::OutOfOrder {
                shard,
                host,
                message,
                due,
            } => write!(
                f,
                "{message} to shard {shard} is handled on host {host} where {due} or a later one is due"
            ),
            Self::DeliveredTwice {
                shard,
                host,
                message,
            } => {
                write!(f, "{message} to shard {shard}, now on host {host}")
            }
            Self::DeliveredAndReported { shard, message }
            | Self::ReportedTwice { shard, message }
            | Self::NeverSent { shard, message } => write!(f, "{message} to shard {shard}"),
            Self::Lost {
                shard,
                message,
                origin,
                kept_by,
            } => {
                write!(
                    f,
                    "{message} to shard {shard} of host {origin}, which lives"
                )?;
                match kept_by {
                    Some(host) => write!(f, "; host {host} has accepted it"),
                    None => Ok(()),
                }
            }
            Self::NoService {
                shard,
                origin,
                waited,
            } => write!(
                f,
                "nothing that host {origin} sent reached shard {shard} within {}",
                At(*waited)
            ),
            Self::FollowsLower {
                host,
                before,
                leader,
            } => write!(f, "host {host} follows {leader:?} after {before:?}"),
            Self::TermTwice { host, term, before } => {
                write!(f, "host {host} takes term {term} after {before}")
            }
            Self::NoPromise {
                host,
                term,
                until,
                promised,
            } => write!(
                f,
                "host {host} acts under term {term} until {}, and {promised} voters keep to it as long",
                At(*until)
            ),
            Self::OtherTerm { host, term } => write!(
                f,
                "host {host} takes a registration for term {term}, which is not its own"
            ),
            Self::SessionBack { host, to, session } => {
                write!(f, "host {host} has {session:?} of {to} registered again")
            }
            Self::OldHome {
                shard,
                host,
                epoch,
                to,
            } => write!(
                f,
                "host {host} tells {to} of shard {shard} under {epoch}, which is being handed off"
            ),
            Self::LateClaim {
                shard,
                host,
                epoch,
                of,
            } => write!(
                f,
                "host {host} believes that {of} serves shard {shard} under {epoch}"
            ),
            Self::PlainClaim { shard, host, epoch } => write!(
                f,
                "host {host} stops shard {shard} under {epoch}, and claims to serve it"
            ),
            Self::PathAgain { shard, host, epoch } => write!(
                f,
                "host {host} sends to shard {shard} under {epoch} behind a marker"
            ),
            Self::Table { host, what } | Self::Timer { host, what } => {
                write!(f, "host {host}: {what}")
            }
            Self::Storage { what } | Self::Panic { what } => f.write_str(what),
        }
    }
}

impl core::error::Error for Violation {}
