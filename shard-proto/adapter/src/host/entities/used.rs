//! Which entities were used.

use core::mem;
use core::sync::atomic::Ordering;
use core::time::Duration;

use shard_proto::Instant;

use super::TypeHost;
use crate::entity::Entity;
use crate::lock::lock;

impl<E: Entity> TypeHost<E> {
    /// Tells the core which entities were used.
    pub(super) fn touch(&mut self, now: Instant) {
        self.ended = 0;
        self.looked = now;
        let mut used = mem::take(&mut *lock(&self.shared.used));
        for slot in used.drain(..) {
            if let Some(running) = self.running.get(slot) {
                running.mailbox.used.store(false, Ordering::Relaxed);
                self.core.touched(now, slot);
            }
        }
        // The room is used again, unless there is much of it.
        let mut list = lock(&self.shared.used);
        if list.capacity() < used.capacity() && used.capacity() <= 4096 {
            used.append(&mut list);
            *list = used;
        }
    }

    /// When to tell it next, whatever else happens: some of those that shall go for others go once they were used.
    pub(super) fn look_at(&self) -> Option<Instant> {
        const LOOK: Duration = Duration::from_millis(100);
        self.core.is_over().then(|| self.looked.after(LOOK))
    }
}
