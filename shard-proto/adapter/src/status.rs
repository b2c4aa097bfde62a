//! What people ask about an entity type: is it ready, and where are its shards.

use core::future::poll_fn;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::Stream;
use shard_proto::wire::control::RegisterRefusal;
use shard_proto::{Epoch, Home, ShardId};

use crate::error::NotReady;

/// Written by the driver, read by handles.
#[derive(Debug)]
pub(crate) struct Status {
    name: &'static str,
    place: String,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    registered: bool,
    refused: Option<RegisterRefusal>,
    stopped: bool,
    homes: Vec<Option<Home>>,
    hosted: Vec<Option<Epoch>>,
    version: u64,
    wakers: Vec<Waker>,
}

impl Inner {
    fn wait(&mut self, cx: &Context<'_>) {
        if !self.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.wakers.push(cx.waker().clone());
        }
    }
}

impl Status {
    /// `place`: of the store that was opened for the type, or nothing.
    pub(crate) fn new(name: &'static str, shards: u32, place: String) -> Self {
        Self {
            name,
            place,
            inner: Mutex::new(Inner {
                homes: vec![None; shards as usize],
                hosted: vec![None; shards as usize],
                ..Inner::default()
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        inner.version += 1;
        let wakers = mem::take(&mut inner.wakers);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn set_home(&self, shard: ShardId, home: Option<Home>) {
        self.change(|inner| {
            if let Some(slot) = inner.homes.get_mut(shard.0 as usize) {
                *slot = home;
            }
        });
    }

    pub(crate) fn set_hosted(&self, shard: ShardId, epoch: Option<Epoch>) {
        self.change(|inner| {
            if let Some(slot) = inner.hosted.get_mut(shard.0 as usize) {
                *slot = epoch;
            }
        });
    }

    pub(crate) fn registered(&self) {
        self.change(|inner| {
            inner.registered = true;
            inner.refused = None;
        });
    }

    /// Says why.
    pub(crate) fn refused(&self, reason: RegisterRefusal) -> NotReady {
        self.change(|inner| {
            inner.registered = false;
            inner.refused = Some(reason);
        });
        self.not_ready(reason)
    }

    fn not_ready(&self, reason: RegisterRefusal) -> NotReady {
        NotReady::new(self.name, reason, &self.place)
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn stopped(&self) {
        self.change(|inner| {
            inner.registered = false;
            inner.stopped = true;
            inner.hosted.fill(None);
        });
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.lock().stopped
    }

    pub(crate) async fn ready(&self) -> Result<(), NotReady> {
        poll_fn(|cx| {
            let mut inner = self.lock();
            if inner.stopped {
                return Poll::Ready(Err(NotReady::Stopped));
            }
            if inner.registered {
                return Poll::Ready(Ok(()));
            }
            match inner.refused {
                // These pass: the leading node may be about to start the type, and sessions are renewed.
                None | Some(RegisterRefusal::UnknownType | RegisterRefusal::SessionEnded) => {}
                Some(reason) => return Poll::Ready(Err(self.not_ready(reason))),
            }
            inner.wait(cx);
            Poll::Pending
        })
        .await
    }

    pub(crate) fn hosted(&self) -> Vec<ShardId> {
        let inner = self.lock();
        (0..)
            .zip(&inner.hosted)
            .filter_map(|(shard, epoch)| epoch.map(|_| ShardId(shard)))
            .collect()
    }

    pub(crate) fn homes(&self) -> ShardMap {
        ShardMap {
            homes: self.lock().homes.clone(),
        }
    }
}

/// Where the shards of an entity type live, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    homes: Vec<Option<Home>>,
}

impl ShardMap {
    /// The home of a shard. `None`: not known here, or it has none.
    #[must_use]
    pub fn home(&self, shard: ShardId) -> Option<Home> {
        *self.homes.get(shard.0 as usize)?
    }

    /// All shards in order, with their homes.
    pub fn iter(&self) -> impl Iterator<Item = (ShardId, Option<Home>)> + '_ {
        (0..)
            .map(ShardId)
            .zip(&self.homes)
            .map(|(s, home)| (s, *home))
    }

    /// How many shards there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.homes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// How many shards have a known home.
    #[must_use]
    pub fn known(&self) -> usize {
        self.homes.iter().flatten().count()
    }
}

/// A shard whose home changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardMapChange {
    /// The shard.
    pub shard: ShardId,
    /// Its home now.
    pub home: Option<Home>,
}

/// A stream of shard map changes, beginning with the homes that are known when it is made. Changes of one shard that
/// nobody read in between coalesce. Ends with the entity type.
#[derive(Debug)]
pub struct ShardMapChanges {
    status: Arc<Status>,
    seen: Vec<Option<Home>>,
    version: Option<u64>,
    unread: VecDeque<ShardMapChange>,
}

impl ShardMapChanges {
    pub(crate) fn new(status: Arc<Status>) -> Self {
        let shards = status.lock().homes.len();
        Self {
            status,
            seen: vec![None; shards],
            version: None,
            unread: VecDeque::new(),
        }
    }

    /// The next change; `None` when the entity type has stopped.
    pub async fn next(&mut self) -> Option<ShardMapChange> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ShardMapChanges {
    type Item = ShardMapChange;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ShardMapChange>> {
        let this = self.get_mut();
        if let Some(change) = this.unread.pop_front() {
            return Poll::Ready(Some(change));
        }
        let mut inner = this.status.lock();
        if this.version != Some(inner.version) {
            this.version = Some(inner.version);
            for (shard, (seen, home)) in (0..).zip(this.seen.iter_mut().zip(&inner.homes)) {
                if seen != home {
                    *seen = *home;
                    this.unread.push_back(ShardMapChange {
                        shard: ShardId(shard),
                        home: *home,
                    });
                }
            }
        }
        if let Some(change) = this.unread.pop_front() {
            return Poll::Ready(Some(change));
        }
        if inner.stopped {
            return Poll::Ready(None);
        }
        inner.wait(cx);
        Poll::Pending
    }
}
