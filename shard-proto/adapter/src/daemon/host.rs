//! The workers of one kind on this node, as the driver sees them. When they run and are made again decides the core's
//! [`Entities`], to which each is a remembered entity that nobody sends to.

use core::any::Any;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use shard_proto::entity::{End, Entities, EntityCommand, EntitySlot};
use shard_proto::node::{EntityKey, Message};
use shard_proto::wire::control::RegisterRefusal;
use shard_proto::{Epoch, Home, Instant, ShardId};
use tokio::sync::watch;

use super::{Daemon, DaemonContext, Group, Make, Size, index_of};
use crate::body::Body;
use crate::error::NotReady;
use crate::gate::Gate;
use crate::host::{Crowded, Desk, From, Host, Life, Refused, Shards, Tasks};
use crate::lease::Look;
use crate::remember::Told;
use crate::report::{Reason, Undelivered};
use crate::shared::Input;
use crate::supervise::AbortHandle;
use crate::supervise::{caught, poll_caught};

/// A worker that has a task.
struct Worker {
    slot: EntitySlot,
    stop: watch::Sender<bool>,
    task: AbortHandle,
}

impl Life for Worker {
    fn slot(&self) -> EntitySlot {
        self.slot
    }
}

/// The task of a worker ended.
struct Ended {
    slot: EntitySlot,
    end: End,
}

pub(super) struct DaemonHost<D: Daemon> {
    group: Arc<Group>,
    core: Entities<()>,
    make: Arc<Make<D>>,
    shards: Shards<()>,
    workers: Tasks<Worker>,
}

/// Says that a task has ended, however it does.
struct Ending {
    group: Arc<Group>,
    slot: EntitySlot,
    end: End,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let (slot, end) = (self.slot, self.end);
        let input = Input::Ended(self.group.index, Box::new(Ended { slot, end }));
        let _ = self.group.node.inbox.push(input, usize::MAX);
    }
}

impl<D: Daemon> DaemonHost<D> {
    pub(super) fn new(group: Arc<Group>, core: Entities<()>, max: u32, make: Make<D>) -> Self {
        Self {
            group,
            core,
            make: Arc::new(make),
            shards: Shards::new(max),
            workers: Tasks::new(),
        }
    }

    fn commands(&mut self, desk: &mut Desk<'_>) {
        while let Some(command) = self.core.poll_command() {
            match command {
                EntityCommand::Start {
                    slot, shard, epoch, ..
                } => self.launch(slot, shard, epoch),
                EntityCommand::Close { slot } => {
                    if let Some(worker) = self.workers.get(slot) {
                        worker.stop.send_replace(true);
                    }
                }
                EntityCommand::Abort { slot } => {
                    if let Some(worker) = self.workers.get(slot) {
                        worker.task.abort();
                    }
                }
                EntityCommand::ShardStopped {
                    shard,
                    epoch,
                    forced,
                } => {
                    let status = &self.group.status;
                    self.shards.stopped(status, desk, shard, epoch, forced);
                }
                // There are no messages, and nothing is recorded.
                EntityCommand::Deliver { .. }
                | EntityCommand::Publish { .. }
                | EntityCommand::GiveBack { .. }
                | EntityCommand::Reject { .. }
                | EntityCommand::Record { .. } => {}
            }
        }
    }

    fn launch(&mut self, slot: EntitySlot, shard: ShardId, epoch: Epoch) {
        let (stop, stopped) = watch::channel(false);
        let ending = Ending {
            group: Arc::clone(&self.group),
            slot,
            end: End::Aborted,
        };
        let cx = DaemonContext {
            index: index_of(shard),
            epoch,
            stop: stopped,
            node: Arc::clone(&self.group.node),
        };
        let make = Arc::clone(&self.make);
        let task = self.group.node.runtime.spawn(run(ending, make, cx));
        self.workers.insert(Worker { slot, stop, task });
    }
}

/// Runs a worker to its end.
async fn run<D: Daemon>(mut ending: Ending, make: Arc<Make<D>>, mut cx: DaemonContext) {
    let node = Arc::clone(&ending.group.node);
    let mut look = Look::default();
    let held = poll_fn(|task| node.lease.poll_held(task, &node.clock, &mut look));
    tokio::select! {
        biased;
        () = cx.stopping() => {
            ending.end = End::Stopped;
            return;
        }
        () = held => {}
    }
    let Some(mut daemon) = caught(|| make(cx.index)) else {
        ending.end = failed(&ending.group, cx.index, &"it panicked while it was made");
        return;
    };
    let started = Input::Started(ending.group.index, ending.slot);
    let _ = node.inbox.push(started, usize::MAX);
    let ran = {
        let mut running = pin!(async { daemon.run(&mut cx).await });
        poll_fn(|task| {
            // Whoever was paused for longer than the lease may have a successor, and is aborted before the next lease.
            if node
                .lease
                .poll_held(task, &node.clock, &mut look)
                .is_pending()
            {
                return Poll::Pending;
            }
            poll_caught(running.as_mut(), task)
        })
        .await
    };
    let stopping = *cx.stop.borrow();
    ending.end = match ran {
        Some(Ok(())) if stopping => End::Stopped,
        Some(Ok(())) => failed(&ending.group, cx.index, &"it returned"),
        Some(Err(error)) => failed(&ending.group, cx.index, &error),
        None => failed(&ending.group, cx.index, &"it panicked"),
    };
    let _ = caught(|| drop(daemon));
}

fn failed(group: &Group, index: u32, error: &dyn core::fmt::Display) -> End {
    tracing::warn!(
        daemon = group.name,
        index,
        "a worker ended that nobody had told to; it is made again after a pause: {error}"
    );
    End::Failed
}

impl<D: Daemon> Host for DaemonHost<D> {
    fn name(&self) -> &'static str {
        self.group.name
    }

    fn gate(&self, _shard: ShardId) -> Option<&Gate> {
        None
    }

    fn start(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool {
        if self.shards.start(&self.group.status, shard, epoch, ()) {
            let key = EntityKey::from(&*index_of(shard).to_string());
            self.core.remembered(desk.now, shard, epoch, key);
            self.core.start_shard(desk.now, shard, epoch);
            self.commands(desk);
        }
        true
    }

    fn remember(&mut self, _desk: &mut Desk<'_>, _shard: ShardId, _epoch: Epoch, _told: Told) {}

    fn open(&mut self, _shard: ShardId, _epoch: Epoch) {}

    fn deliver(
        &mut self,
        _desk: &mut Desk<'_>,
        _shard: ShardId,
        _epoch: Epoch,
        from: From,
        message: Message<Body>,
    ) -> Result<Option<Crowded>, Box<Refused>> {
        // Workers take no messages.
        Err(Box::new(Refused {
            reason: Reason::Other,
            from,
            message,
        }))
    }

    fn started(&mut self, desk: &mut Desk<'_>, slot: EntitySlot) {
        if self.workers.get(slot).is_some() {
            self.core.started(desk.now, slot);
            self.commands(desk);
        }
    }

    fn passivate(&mut self, _desk: &mut Desk<'_>, _slot: EntitySlot) {}

    fn passivate_key(&mut self, _desk: &mut Desk<'_>, _key: &EntityKey) -> bool {
        false
    }

    fn ended(&mut self, desk: &mut Desk<'_>, ended: Box<dyn Any + Send>) {
        let Ok(ended) = ended.downcast::<Ended>() else {
            return;
        };
        let (slot, end) = (ended.slot, ended.end);
        if self.workers.remove(slot).is_some() {
            let _ = self.core.ended(desk.now, slot, end, []);
            self.commands(desk);
        }
    }

    fn stop(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> bool {
        if let Some(hosted) = self.shards.get(shard, epoch) {
            hosted.stopping = true;
        }
        self.core.stop_shard(desk.now, shard, epoch);
        self.commands(desk);
        self.shards.get(shard, epoch).is_some()
    }

    fn abort(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) -> usize {
        if self.shards.stopping(shard, epoch).is_none() {
            return 0;
        }
        let count = self.core.abort_shard(desk.now, shard, epoch);
        self.commands(desk);
        count
    }

    fn abandon(&mut self, desk: &mut Desk<'_>, shard: ShardId, epoch: Epoch) {
        if self.shards.stopping(shard, epoch).is_some() {
            self.core.abandon_shard(desk.now, shard, epoch);
            self.commands(desk);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    fn expire(&mut self, desk: &mut Desk<'_>) {
        self.core.handle_timeout(desk.now);
        self.commands(desk);
    }

    fn home_changed(&mut self, shard: ShardId, home: Option<Home>) {
        self.group.status.set_home(shard, home);
    }

    fn registered(&self) {
        self.group.status.registered();
    }

    fn refused(&self, reason: RegisterRefusal) -> NotReady {
        self.group.status.refused(reason)
    }

    fn report(&self, shard: ShardId, entity: &EntityKey, reason: Reason) {
        self.group.node.reports.report(Undelivered {
            entity_type: self.group.name,
            shard,
            entity: entity.clone(),
            reason,
        });
    }

    fn turned(&self, _buffered: u32) {}

    fn sized(&self, count: u32, asking: bool) {
        let size = Size { count, asking };
        self.group
            .size
            .send_if_modified(|known| core::mem::replace(known, size) != size);
    }

    fn is_hosting(&self) -> bool {
        !self.shards.is_empty()
    }

    fn end(&mut self, _now: Instant) {
        self.core.end();
        for worker in self.workers.all() {
            worker.task.abort();
        }
        self.workers.clear();
        self.group.status.stopped();
    }
}
