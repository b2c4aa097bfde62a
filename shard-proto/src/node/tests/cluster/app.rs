//! The application on each host: entities that record what they handle.

use super::*;

impl Cluster {
    /// Sends a tell from a host, numbered per sender and entity. Whether it was taken.
    pub(in super::super) fn tell(&mut self, host: usize, ty: TypeIndex, id: &str) -> bool {
        self.send(host, ty, id, None)
    }

    /// Sends an ask; its key.
    pub(in super::super) fn ask(
        &mut self,
        host: usize,
        ty: TypeIndex,
        id: &str,
        timeout: u64,
    ) -> Option<u64> {
        let key = self.next_key;
        self.next_key += 1;
        let ask = Ask {
            key: AskKey(key),
            deadline: self.local(host).after(Duration::from_micros(timeout)),
        };
        self.send(host, ty, id, Some(ask)).then_some(key)
    }

    pub(super) fn send(&mut self, host: usize, ty: TypeIndex, id: &str, ask: Option<Ask>) -> bool {
        let now = self.local(host);
        let shards = 32;
        let shard = entity_shard(id.as_bytes(), shards);
        let number = self
            .numbers
            .entry((host as u32, id.to_string()))
            .or_insert(0);
        let tell = Tell {
            sender: host as u32,
            number: *number,
        };
        let app = &mut self.hosts[host].app;
        let pending = app.pending.entry((ty, shard)).or_insert(0);
        if self.world.fast_path
            && *pending == 0
            && app.lease.is_some_and(|until| now < until)
            && let Some(serving) = app.serving.get(&(ty, shard))
            && serving.open
            && !serving.stopping
        {
            *number += 1;
            let epoch = serving.epoch;
            let mut message = Message::new(EntityKey::from(id), tell.encode(), ask);
            message.tracked = tell.is_tracked();
            self.post(host, ty, shard, epoch, Origin::Local, message, None);
            return true;
        }
        let (node, key) = (&mut self.hosts[host].node, EntityKey::from(id));
        let sent = if tell.is_tracked() {
            node.send_tracked(now, ty, shard, key, tell.encode(), ask)
        } else {
            node.send(now, ty, shard, key, tell.encode(), ask)
        };
        let taken = match sent {
            Ok(Sent::Local { epoch, message }) => {
                self.post(host, ty, shard, epoch, Origin::Local, message, None);
                true
            }
            Ok(Sent::Remote) => true,
            Ok(Sent::Queued) => {
                let app = &mut self.hosts[host].app;
                *app.pending.get_mut(&(ty, shard)).unwrap() += 1;
                true
            }
            Err(SendError::BufferFull(_) | SendError::Stopped(_)) => false,
            Err(error) => panic!("{error}"),
        };
        if taken {
            *self
                .numbers
                .get_mut(&(host as u32, id.to_string()))
                .unwrap() += 1;
        }
        self.pump(host);
        taken
    }

    #[expect(clippy::too_many_arguments)]
    pub(super) fn post(
        &mut self,
        host: usize,
        ty: TypeIndex,
        shard: ShardId,
        epoch: Epoch,
        origin: Origin,
        message: Message<Bytes>,
        reply: Option<ReplyTo>,
    ) {
        let now = self.local(host);
        let app = &mut self.hosts[host].app;
        assert!(
            app.lease.is_some_and(|until| now < until),
            "delivered without a lease: {:?} at {now:?}",
            app.lease
        );
        let serving = app.serving.get_mut(&(ty, shard));
        let serving =
            serving.unwrap_or_else(|| panic!("a message for shard {shard} that does not run"));
        assert!(
            serving.started && !serving.stopping,
            "shard {shard} does not run: {serving:?}"
        );
        assert_eq!(serving.epoch, epoch);
        serving.mailbox.push_back(Waiting {
            epoch,
            origin,
            message,
            reply,
        });
        let at = self.now + self.range(self.world.service);
        self.schedule(
            at,
            Event::Handle {
                host,
                ty,
                shard,
                epoch,
            },
        );
    }

    /// An entity handles the first message of its shard.
    pub(super) fn handle(&mut self, host: usize, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        let (at, now) = (self.now, self.local(host));
        let Host { app, .. } = &mut self.hosts[host];
        let Some(serving) = app.serving.get_mut(&(ty, shard)) else {
            return;
        };
        if serving.epoch != epoch || serving.stopping || serving.lapsed {
            return;
        }
        // Without a lease nothing is handled; the shard is about to be stopped.
        if app.lease.is_none_or(|until| until <= now) {
            return;
        }
        let Some(waiting) = serving.mailbox.pop_front() else {
            return;
        };
        let Waiting {
            message,
            reply,
            epoch,
            ..
        } = waiting;
        let tell = Tell::decode(&message.body);
        // The mark is still there, whatever way the message came.
        assert_eq!(message.tracked, tell.is_tracked(), "{tell:?}");
        let id = String::from_utf8(message.id.as_bytes().to_vec()).unwrap();
        if self.trace {
            println!(
                "{at} {} handles {id} {tell:?} {shard} {epoch}",
                self.hosts[host].name
            );
        }
        self.handled.push(Handled {
            at,
            host,
            epoch,
            id,
            tell,
        });
        let app = &mut self.hosts[host].app;
        if let Some(ask) = message.ask {
            app.answers.insert(ask.key.0, REPLY_ANSWER);
        }
        if let Some(reply) = reply {
            let node = &mut self.hosts[host].node;
            node.reply(now, reply, REPLY_ANSWER, |out| {
                out.put_slice(b"answer");
                Ok(())
            });
        }
        self.pump(host);
    }

    pub(super) fn begin_stop(&mut self, host: usize, ty: TypeIndex, shard: ShardId, epoch: Epoch) {
        let now = self.local(host);
        let Host { node, app, .. } = &mut self.hosts[host];
        app.moves += 1;
        let serving = app
            .serving
            .get_mut(&(ty, shard))
            .expect("a shard that runs");
        assert_eq!(serving.epoch, epoch);
        if serving.stopping {
            return;
        }
        serving.stopping = true;
        serving.open = false;
        for waiting in core::mem::take(&mut serving.mailbox) {
            let Waiting {
                epoch,
                origin,
                message,
                ..
            } = waiting;
            if let Err(message) = node.give_back(now, ty, shard, epoch, origin, message) {
                // The buffer is full, or its origin has ended: its caller is told where it is.
                if let Origin::Remote(from) = origin {
                    node.return_full(now, ty, shard, epoch, from, message);
                    continue;
                }
                if let Some(ask) = message.ask {
                    app.failures.insert(ask.key.0, AskFailure::Stopped);
                }
                let id = String::from_utf8(message.id.as_bytes().to_vec()).unwrap();
                let tell = Tell::decode(&message.body);
                let reason = RejectReason::BufferFull;
                app.rejects.push((id, tell, reason, origin));
            }
        }
        let at = self.now + self.range(self.world.stop);
        self.schedule(
            at,
            Event::Stopped {
                host,
                ty,
                shard,
                epoch,
            },
        );
    }

    pub(super) fn obey(&mut self, host: usize, command: NodeCommand<Bytes>) {
        if self.trace {
            println!("{} {} {command:?}", self.now, self.hosts[host].name);
        }
        let now = self.local(host);
        match command {
            NodeCommand::Dial { dial, address } => {
                let at = self.now + self.delay();
                self.schedule(
                    at,
                    Event::Dial {
                        host,
                        dial,
                        address,
                    },
                );
            }
            NodeCommand::Close { link, .. } => {
                self.write(host, link);
                self.close(host, link);
            }
            NodeCommand::Deliver {
                ty,
                shard,
                epoch,
                origin,
                message,
                reply,
                pending,
            } => {
                self.settle_pending(host, ty, shard, pending);
                self.post(host, ty, shard, epoch, origin, message, reply);
            }
            NodeCommand::Handed { ty, shard } => self.settle_pending(host, ty, shard, true),
            NodeCommand::Reject {
                ty,
                shard,
                origin,
                reason,
                message,
                pending,
            } => {
                self.settle_pending(host, ty, shard, pending);
                let app = &mut self.hosts[host].app;
                if let (Origin::Local, Some(ask)) = (origin, message.ask) {
                    let old = app.failures.insert(ask.key.0, AskFailure::Stopped);
                    assert_eq!(old, None, "failed twice");
                }
                let id = String::from_utf8(message.id.as_bytes().to_vec()).unwrap();
                let tell = Tell::decode(&message.body);
                app.rejects.push((id, tell, reason, origin));
            }
            NodeCommand::AskFailed { key, reason } => {
                let old = self.hosts[host].app.failures.insert(key.0, reason);
                assert_eq!(old, None, "failed twice");
            }
            NodeCommand::StartShard { ty, shard, epoch } => {
                let serving = Serving {
                    epoch,
                    started: false,
                    stopping: false,
                    open: false,
                    lapsed: false,
                    mailbox: VecDeque::new(),
                };
                let old = self.hosts[host].app.serving.insert((ty, shard), serving);
                assert!(old.is_none(), "started twice: {old:?}");
                self.check_start(host, ty, shard, epoch);
                let at = self.now + self.range(self.world.start);
                self.schedule(
                    at,
                    Event::Started {
                        host,
                        ty,
                        shard,
                        epoch,
                    },
                );
            }
            NodeCommand::Open { ty, shard, epoch } => {
                let serving = self.hosts[host].app.serving.get_mut(&(ty, shard)).unwrap();
                assert!(serving.epoch == epoch && serving.started && !serving.stopping);
                serving.open = true;
            }
            NodeCommand::StopShard {
                ty, shard, epoch, ..
            } => self.begin_stop(host, ty, shard, epoch),
            NodeCommand::HomeChanged { .. } | NodeCommand::Registered { .. } => {}
            NodeCommand::TypeRefused { reason, .. } => self.hosts[host].app.refused.push(reason),
            NodeCommand::MemberUp(member) => {
                self.hosts[host].app.members.insert(member.node, member);
            }
            NodeCommand::MemberGone { node, cause, .. } => {
                let app = &mut self.hosts[host].app;
                app.members.remove(&node);
                app.gone.push((node, cause));
            }
            NodeCommand::Leader(leader) => self.hosts[host].app.leader = leader,
            NodeCommand::Lease(until) => {
                let app = &mut self.hosts[host].app;
                let began = app.lease.is_none_or(|old| old <= now) && until.is_some();
                app.lease = until;
                if until.is_none() {
                    for serving in app.serving.values_mut() {
                        serving.lapsed = true;
                    }
                }
                if began {
                    self.check_lease(host);
                }
            }
            NodeCommand::Left => self.hosts[host].app.left = Some(self.now),
            NodeCommand::Removed { .. } => self.hosts[host].app.removed = true,
            NodeCommand::Warn(warning) => self.hosts[host].app.warnings.push(warning),
        }
    }

    pub(super) fn settle_pending(
        &mut self,
        host: usize,
        ty: TypeIndex,
        shard: ShardId,
        pending: bool,
    ) {
        if pending {
            let count = self.hosts[host].app.pending.get_mut(&(ty, shard)).unwrap();
            *count = count.checked_sub(1).expect("a message that is pending");
        }
    }
}
