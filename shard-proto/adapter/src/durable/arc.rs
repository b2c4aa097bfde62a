//! Stores behind an `Arc`, for those who choose the backend at run time.

use std::sync::Arc;

use shard_proto::Epoch;

use crate::store::{
    Append, EntityId, Journal, Loaded, Opened, Recorded, Save, Storage, Store, StoreFuture,
    StoreStats,
};

impl<S: Storage + ?Sized> Storage for Arc<S> {
    fn id(&self) -> u64 {
        (**self).id()
    }

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn stats(&self) -> StoreStats {
        (**self).stats()
    }
}

impl<J: Journal + ?Sized> Journal for Arc<J> {
    fn open(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Opened> {
        (**self).open(entity, epoch)
    }

    fn read(&self, entity: EntityId, after: u64, limit: usize) -> StoreFuture<'_, Vec<Recorded>> {
        (**self).read(entity, after, limit)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        (**self).append(append)
    }

    fn snapshot(
        &self,
        entity: EntityId,
        epoch: Epoch,
        seq: u64,
        state: Vec<u8>,
    ) -> StoreFuture<'_, ()> {
        (**self).snapshot(entity, epoch, seq, state)
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn load(&self, entity: EntityId, epoch: Epoch) -> StoreFuture<'_, Loaded> {
        (**self).load(entity, epoch)
    }

    fn save(&self, save: Save) -> StoreFuture<'_, ()> {
        (**self).save(save)
    }
}
