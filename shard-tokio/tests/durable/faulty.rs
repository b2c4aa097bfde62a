//! A store that fails when it is told to.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use shard_tokio::store::{
    Append, EntityId, Journal, Loaded, Opened, Recorded, Save, Storage, Store, StoreError,
    StoreFuture,
};
use shard_tokio::{Epoch, MemoryStore};
use tokio::sync::Notify;

use crate::common::until;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Open,
    Read,
    Append,
    Snapshot,
    Load,
    Save,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Unavailable,
    /// It was written, and nobody says so.
    UnknownWritten,
    UnknownLost,
    TooLarge,
}

/// As a store in memory, except for what it was told.
#[derive(Clone, Debug)]
pub struct Faulty {
    pub inner: MemoryStore,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    faults: Mutex<VecDeque<(Op, Fault)>>,
    held: Mutex<Vec<Op>>,
    began: Mutex<Vec<Op>>,
    done: Mutex<Vec<Op>>,
    notify: Notify,
}

impl Faulty {
    pub fn new() -> Self {
        Self {
            inner: MemoryStore::new(),
            plan: Arc::new(Plan {
                faults: Mutex::default(),
                held: Mutex::default(),
                began: Mutex::default(),
                done: Mutex::default(),
                notify: Notify::new(),
            }),
        }
    }

    /// The next such requests fail in this way.
    pub fn fail(&self, op: Op, fault: Fault, times: usize) {
        let mut faults = self.plan.faults.lock().unwrap();
        faults.extend((0..times).map(|_| (op, fault)));
    }

    pub fn well(&self) {
        self.plan.faults.lock().unwrap().clear();
    }

    /// From now on such requests wait until they are released.
    pub fn hold(&self, op: Op) {
        self.plan.held.lock().unwrap().push(op);
    }

    /// They do not wait any more.
    pub fn release(&self, op: Op) {
        self.plan.held.lock().unwrap().retain(|held| *held != op);
        self.plan.notify.notify_waiters();
    }

    pub fn began(&self, op: Op) -> usize {
        let began = self.plan.began.lock().unwrap();
        began.iter().filter(|it| **it == op).count()
    }

    pub fn done(&self, op: Op) -> usize {
        let done = self.plan.done.lock().unwrap();
        done.iter().filter(|it| **it == op).count()
    }

    /// Waits until so many such requests came in.
    pub async fn until_began(&self, op: Op, count: usize) {
        until(|| self.began(op) >= count).await;
    }

    /// The events of an entity.
    pub async fn events(&self, ty: &str, id: &str) -> Vec<Recorded> {
        let id = EntityId::new(ty, id);
        self.inner.read(id, 0, 100_000).await.unwrap()
    }

    async fn gate<T>(
        &self,
        op: Op,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.plan.began.lock().unwrap().push(op);
        loop {
            let released = self.plan.notify.notified();
            if !self.plan.held.lock().unwrap().contains(&op) {
                break;
            }
            released.await;
        }
        let fault = {
            let mut faults = self.plan.faults.lock().unwrap();
            let at = faults.iter().position(|(of, _)| *of == op);
            at.and_then(|at| faults.remove(at)).map(|(_, fault)| fault)
        };
        let done = match fault {
            None => request.await,
            Some(Fault::UnknownWritten) => {
                request.await?;
                Err(StoreError::Unknown("the answer was lost".into()))
            }
            Some(Fault::UnknownLost) => Err(StoreError::Unknown("the request was lost".into())),
            Some(Fault::Unavailable) => Err(StoreError::Unavailable("it is down".into())),
            Some(Fault::TooLarge) => Err(StoreError::TooLarge { size: 2, limit: 1 }),
        };
        self.plan.done.lock().unwrap().push(op);
        done
    }
}

impl Storage for Faulty {
    fn id(&self) -> u64 {
        self.inner.id()
    }

    fn describe(&self) -> String {
        "a store that fails".to_owned()
    }
}

impl Journal for Faulty {
    fn open(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Opened> {
        Box::pin(self.gate(Op::Open, self.inner.open(entity, epoch)))
    }

    fn read(&self, entity: EntityId, after: u64, limit: usize) -> StoreFuture<'_, Vec<Recorded>> {
        Box::pin(self.gate(Op::Read, self.inner.read(entity, after, limit)))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        let inner = async move { self.inner.append(append).await };
        Box::pin(self.gate(Op::Append, inner))
    }

    fn snapshot(
        &self,
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) -> StoreFuture<'_, ()> {
        let inner = async move { self.inner.snapshot(entity, epoch, seq, state).await };
        Box::pin(self.gate(Op::Snapshot, inner))
    }
}

impl Store for Faulty {
    fn load(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Loaded> {
        let inner = async move { Store::load(&self.inner, entity, epoch).await };
        Box::pin(self.gate(Op::Load, inner))
    }

    fn save(&self, save: Save) -> StoreFuture<'_, ()> {
        let inner = async move { self.inner.save(save).await };
        Box::pin(self.gate(Op::Save, inner))
    }
}
