//! Messages that were not delivered: counted, logged and reported.

use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use futures_core::Stream;
use shard_proto::ShardId;
use shard_proto::node::EntityKey;
use shard_proto::region::RejectReason;

use crate::error::Delivery;
use crate::lock::lock;

/// A message that will not be handled, or perhaps was not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// The entity type.
    pub entity_type: &'static str,
    /// The shard.
    pub shard: ShardId,
    /// The entity.
    pub entity: EntityKey,
    /// Why.
    pub reason: Reason,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a message was not delivered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// A buffer of this node or of the home is full.
    BufferFull = "a buffer is full",
    /// The entity's mailbox is full.
    MailboxFull = "the entity's mailbox is full",
    /// It would have been the first message of one entity too many, and those that must go for it have not stopped yet,
    /// see [`EntityTypeBuilder::max_entities`](crate::EntityTypeBuilder::max_entities).
    TooManyEntities = "as many entities run on this node as may",
    /// The region stopped while it kept the message.
    Stopped = "the entity type or the node stopped",
    /// It came back after its path had been given up.
    PathGivenUp = "it came back after its path had been given up",
    /// The node that sent it has ended.
    OriginEnded = "the node that sent it has ended",
    /// The home ended before it acknowledged the message: perhaps it was handled.
    PerhapsDelivered = "the home ended; it was perhaps delivered",
    /// It is larger than the cluster takes.
    TooLarge = "it is too large",
    /// It has no encoding, or none that the entity understands.
    Codec = "it cannot be encoded or decoded",
    /// It cannot be encoded, or is too large; found out when its home became known.
    Unsendable = "it cannot be encoded or is too large",
    /// The entity panicked while it handled the message.
    Panicked = "the entity panicked on it",
    /// The entity failed while it handled the message, see [`Context::fail`](crate::Context::fail).
    Failed = "the entity failed on it",
    /// The entity failed too often, see [`EntityTypeBuilder::restarts`](crate::EntityTypeBuilder::restarts).
    Parked = "the entity failed too often and is not started again for a while",
    /// The store of the entity's state has seen a higher epoch than this home's: it lives elsewhere by now, see
    /// [`durable`](crate::durable#when-the-store-fails).
    Fenced = "the entity's store was taken over by a newer home",
    /// The entity was aborted while it handled the message.
    Aborted = "the entity was aborted while it handled it",
    /// Its entity cannot exist: the id is not UTF-8.
    BadId = "the entity id is not UTF-8",
    /// Another reason.
    Other = "it was refused",
}

impl Reason {
    /// Whether the entity got the message nevertheless.
    #[must_use]
    pub const fn delivery(self) -> Delivery {
        match self {
            Self::BufferFull
            | Self::MailboxFull
            | Self::TooManyEntities
            | Self::Stopped
            | Self::PathGivenUp
            | Self::OriginEnded
            | Self::TooLarge
            | Self::Codec
            | Self::Unsendable
            | Self::Parked
            | Self::Fenced
            | Self::BadId => Delivery::No,
            Self::PerhapsDelivered
            | Self::Panicked
            | Self::Failed
            | Self::Aborted
            | Self::Other => Delivery::Maybe,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl From<RejectReason> for Reason {
    fn from(reason: RejectReason) -> Self {
        match reason {
            RejectReason::BufferFull => Self::BufferFull,
            RejectReason::Stopped => Self::Stopped,
            RejectReason::PathGivenUp => Self::PathGivenUp,
            RejectReason::OriginEnded => Self::OriginEnded,
            RejectReason::PerhapsDelivered => Self::PerhapsDelivered,
            RejectReason::Unsendable => Self::Unsendable,
            _ => Self::Other,
        }
    }
}

/// Where reports go.
#[derive(Default)]
pub(crate) struct Reports {
    counts: [AtomicU64; Reason::ALL.len()],
    readers: Mutex<Vec<Weak<Reader>>>,
}

#[derive(Default)]
struct Reader(Mutex<Unread>);

#[derive(Default)]
struct Unread {
    reports: VecDeque<Undelivered>,
    missed: u64,
    waker: Option<Waker>,
    ended: bool,
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, Unread> {
        lock(&self.0)
    }
}

impl Reports {
    pub(crate) fn report(&self, report: Undelivered) {
        self.counts[report.reason as usize].fetch_add(1, Ordering::Relaxed);
        tracing::debug!(
            entity_type = report.entity_type,
            shard = report.shard.0,
            entity = %report.entity,
            "message not delivered: {}",
            report.reason
        );
        for reader in self.readers().iter().filter_map(Weak::upgrade) {
            let mut unread = reader.lock();
            if unread.reports.len() == UndeliveredReports::CAPACITY {
                unread.reports.pop_front();
                unread.missed += 1;
            }
            unread.reports.push_back(report.clone());
            if let Some(waker) = unread.waker.take() {
                waker.wake();
            }
        }
    }

    pub(crate) fn subscribe(&self) -> UndeliveredReports {
        let reader = Arc::new(Reader::default());
        let mut readers = self.readers();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        UndeliveredReports(reader)
    }

    pub(crate) fn end(&self) {
        for reader in self.readers().drain(..).filter_map(|it| it.upgrade()) {
            let mut unread = reader.lock();
            unread.ended = true;
            if let Some(waker) = unread.waker.take() {
                waker.wake();
            }
        }
    }

    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Weak<Reader>>> {
        lock(&self.readers)
    }
}

/// A stream of the messages that are not delivered, from the moment it was made. Ends with the node.
///
/// It keeps the newest [`UndeliveredReports::CAPACITY`] unread reports; [`UndeliveredReports::missed`] counts others.
pub struct UndeliveredReports(Arc<Reader>);

impl UndeliveredReports {
    /// How many unread reports are kept.
    pub const CAPACITY: usize = 4096;

    /// The next report; `None` when the node has ended.
    pub async fn next(&mut self) -> Option<Undelivered> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// How many reports were dropped because nobody read them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.0.lock().missed
    }
}

impl Stream for UndeliveredReports {
    type Item = Undelivered;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Undelivered>> {
        let mut unread = self.0.lock();
        if let Some(report) = unread.reports.pop_front() {
            return Poll::Ready(Some(report));
        }
        if unread.ended {
            return Poll::Ready(None);
        }
        unread.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for UndeliveredReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndeliveredReports").finish_non_exhaustive()
    }
}
