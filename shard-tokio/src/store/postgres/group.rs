//! Groups of requests, as the columns of one statement.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use shard_proto::{Epoch, ShardId};
use tokio_postgres::types::ToSql;

use crate::store::{Append, MAX_SENDERS, Save, Sequence, StoreError};
use shard_adapter::backend as check;
use shard_adapter::backend::{Queued, Request};

/// A group ends at so many requests or bytes, whichever comes first. It has one request at least.
const MOST_REQUESTS: usize = 1024;
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Whose fence a request is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Journal(Arc<str>, Arc<str>),
    Value(Arc<str>, Arc<str>),
    Shard(Arc<str>, ShardId),
}

impl Name {
    fn of(request: &Request) -> Self {
        match request {
            Request::Open { entity, .. }
            | Request::Snapshot { entity, .. }
            | Request::Append(Append { entity, .. }) => {
                Self::Journal(Arc::clone(&entity.entity_type), Arc::clone(&entity.id))
            }
            Request::Load { entity, .. } | Request::Save(Save { entity, .. }) => {
                Self::Value(Arc::clone(&entity.entity_type), Arc::clone(&entity.id))
            }
            Request::Ids {
                entity_type, shard, ..
            }
            | Request::Record {
                entity_type, shard, ..
            } => Self::Shard(Arc::clone(entity_type), *shard),
        }
    }
}

/// How the server judged a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// 0: done, 1: fenced, 2: out of sequence.
    pub(super) code: i32,
    /// The row of the fence.
    pub(super) key: i64,
    /// The highest epoch before.
    pub(super) seen: u64,
    /// The number that would have been right.
    pub(super) expected: u64,
}

impl Verdict {
    /// The row of the fence, or why it was refused.
    pub(super) fn of(self, request: &Request) -> Result<i64, StoreError> {
        match self.code {
            0 => Ok(self.key),
            1 => Err(StoreError::Fenced {
                seen: Epoch::from_bits(self.seen),
                given: epoch(request),
            }),
            _ => Err(StoreError::Sequence {
                expected: self.expected,
                given: match request {
                    Request::Append(append) => append.first_seq,
                    Request::Save(save) => save.revision,
                    Request::Snapshot { seq, .. } => *seq,
                    Request::Open { .. }
                    | Request::Load { .. }
                    | Request::Ids { .. }
                    | Request::Record { .. } => 0,
                },
            }),
        }
    }
}

const fn epoch(request: &Request) -> Epoch {
    match request {
        Request::Append(append) => append.epoch,
        Request::Save(save) => save.epoch,
        Request::Open { epoch, .. }
        | Request::Load { epoch, .. }
        | Request::Snapshot { epoch, .. }
        | Request::Ids { epoch, .. }
        | Request::Record { epoch, .. } => *epoch,
    }
}

/// Doing it twice is the same as doing it once: it is no harm not to know whether it was done, because it is done before
/// anything that is asked for later, or never (`Session::take_turn`).
pub(super) const fn is_repeatable(request: &Request) -> bool {
    !matches!(request, Request::Append(_) | Request::Save(_))
}

fn size(request: &Request) -> usize {
    match request {
        Request::Append(append) => check::append_size(append),
        Request::Save(save) => check::save_size(save),
        Request::Snapshot { state, .. } => state.len(),
        Request::Record {
            entity_type,
            changes,
            ..
        } => check::changes_size(entity_type, changes),
        Request::Open { .. } | Request::Load { .. } | Request::Ids { .. } => 0,
    }
}

/// Takes the next group off the queue: no two requests about the same, because the second may depend on the first.
pub(super) fn take(queue: &mut VecDeque<Queued>) -> Vec<Queued> {
    let mut names = HashSet::new();
    let mut group = Vec::new();
    let mut left = VecDeque::new();
    let mut bytes = 0_usize;
    while let Some(queued) = queue.pop_front() {
        let with = bytes.saturating_add(size(&queued.request));
        if group.len() >= MOST_REQUESTS || (with > MOST_BYTES && !group.is_empty()) {
            queue.push_front(queued);
            break;
        }
        if names.insert(Name::of(&queued.request)) {
            bytes = with;
            group.push(queued);
        } else {
            left.push_back(queued);
        }
    }
    left.append(queue);
    *queue = left;
    group
}

/// A group as the parameters of the function `write`: one array per column.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    space: Vec<i16>,
    entity_type: Vec<&'a [u8]>,
    id: Vec<Cow<'a, [u8]>>,
    epoch: Vec<i64>,
    first: Vec<Option<i64>>,
    step: Vec<i64>,
    upto: Vec<Option<i64>>,
    event_of: Vec<i32>,
    event_seq: Vec<i64>,
    event: Vec<&'a [u8]>,
    state_of: Vec<i32>,
    state_seq: Vec<i64>,
    state: Vec<Option<&'a [u8]>>,
    sender_of: Vec<i32>,
    sender: Vec<i64>,
    sender_seq: Vec<i64>,
    change_of: Vec<i32>,
    change_id: Vec<&'a [u8]>,
    change_alive: Vec<bool>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(group: &'a [Queued]) -> Self {
        let mut columns = Self::default();
        for (queued, number) in group.iter().zip(1..) {
            columns.push(&queued.request, number);
        }
        columns
    }

    fn push(&mut self, request: &'a Request, number: i32) {
        let (mut first, mut step, mut upto) = (None, 0, None);
        let (space, entity_type, id) = match request {
            Request::Open { entity, .. } => (0, &entity.entity_type, Ok(&entity.id)),
            Request::Append(append) => {
                let seq = append.first_seq.cast_signed();
                first = Some(seq);
                step = append.events.len() as i64;
                for (event, seq) in append.events.iter().zip(seq..) {
                    self.event_of.push(number);
                    self.event_seq.push(seq);
                    self.event.push(event);
                }
                self.sequence(append.sequence, number);
                (0, &append.entity.entity_type, Ok(&append.entity.id))
            }
            Request::Snapshot {
                entity, seq, state, ..
            } => {
                // What the server cannot count to is not there either.
                let seq = i64::try_from(*seq).unwrap_or(i64::MAX);
                upto = Some(seq);
                self.state(seq, Some(state), number);
                (0, &entity.entity_type, Ok(&entity.id))
            }
            Request::Load { entity, .. } => (1, &entity.entity_type, Ok(&entity.id)),
            Request::Save(save) => {
                let revision = save.revision.cast_signed();
                first = Some(revision);
                step = 1;
                self.state(revision, save.state.as_deref(), number);
                self.sequence(save.sequence, number);
                (1, &save.entity.entity_type, Ok(&save.entity.id))
            }
            Request::Ids {
                entity_type, shard, ..
            } => (2, entity_type, Err(shard)),
            Request::Record {
                entity_type,
                shard,
                changes,
                ..
            } => {
                // The last word about an id counts.
                let last: HashMap<&str, bool> =
                    changes.iter().map(|(id, alive)| (&**id, *alive)).collect();
                for (id, alive) in last {
                    self.change_of.push(number);
                    self.change_id.push(id.as_bytes());
                    self.change_alive.push(alive);
                }
                (2, entity_type, Err(shard))
            }
        };
        self.space.push(space);
        self.entity_type.push(entity_type.as_bytes());
        self.id.push(match id {
            Ok(id) => Cow::Borrowed(id.as_bytes()),
            Err(shard) => Cow::Owned(shard.0.to_string().into_bytes()),
        });
        self.epoch.push(epoch(request).to_bits().cast_signed());
        self.first.push(first);
        self.step.push(step);
        self.upto.push(upto);
    }

    fn state(&mut self, seq: i64, state: Option<&'a [u8]>, number: i32) {
        self.state_of.push(number);
        self.state_seq.push(seq);
        self.state.push(state);
    }

    fn sequence(&mut self, sequence: Option<Sequence>, number: i32) {
        if let Some(Sequence { sender, seq }) = sequence {
            self.sender_of.push(number);
            self.sender.push(sender.cast_signed());
            self.sender_seq.push(seq.cast_signed());
        }
    }

    pub(super) fn parameters<'b>(&'b self, store: &'b i64) -> [&'b (dyn ToSql + Sync); 21] {
        [
            store,
            &self.space,
            &self.entity_type,
            &self.id,
            &self.epoch,
            &self.first,
            &self.step,
            &self.upto,
            &self.event_of,
            &self.event_seq,
            &self.event,
            &self.state_of,
            &self.state_seq,
            &self.state,
            &self.sender_of,
            &self.sender,
            &self.sender_seq,
            &const { MAX_SENDERS as i64 },
            &self.change_of,
            &self.change_id,
            &self.change_alive,
        ]
    }
}
