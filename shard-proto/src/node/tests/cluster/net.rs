//! Byte pipes between hosts.

use super::*;

impl Cluster {
    /// The process ends: nothing of it is left, its peers see closed connections.
    pub(in super::super) fn kill(&mut self, host: usize) {
        self.hosts[host].alive = false;
        for pipe in 0..self.pipes.len() {
            if self.pipes[pipe].open && self.pipes[pipe].ends.iter().any(|end| end.0 == host) {
                self.cut(pipe);
            }
        }
    }

    /// A network in which the two cannot talk, without either being told.
    pub(in super::super) fn block(&mut self, a: usize, b: usize) {
        self.cut_off(a, b);
        self.cut_off(b, a);
    }

    /// What one sends does not arrive at the other.
    pub(in super::super) fn cut_off(&mut self, from: usize, to: usize) {
        self.blocked.insert((from, to));
    }

    pub(in super::super) fn unblock(&mut self, a: usize, b: usize) {
        self.blocked.remove(&(a, b));
        self.blocked.remove(&(b, a));
        // What was on its way is lost: a stream with a hole is no stream.
        self.reset(a, b);
    }

    /// Resets every connection between two hosts; what is on its way is lost.
    pub(in super::super) fn reset(&mut self, a: usize, b: usize) {
        for pipe in 0..self.pipes.len() {
            let ends = [self.pipes[pipe].ends[0].0, self.pipes[pipe].ends[1].0];
            if self.pipes[pipe].open && (ends == [a, b] || ends == [b, a]) {
                self.cut(pipe);
            }
        }
    }

    pub(super) fn cut(&mut self, pipe: usize) {
        self.pipes[pipe].open = false;
        for end in 0..2 {
            let at = self.now + self.delay();
            self.schedule(at, Event::Closed { pipe, end });
        }
    }

    pub(super) fn flush(&mut self, host: usize) {
        while let Some(link) = self.hosts[host].node.links_to_flush() {
            self.write(host, link);
        }
    }

    pub(super) fn write(&mut self, host: usize, link: LinkId) {
        while let Some((stream, bytes)) = self.hosts[host].node.poll_transmit(link) {
            let Some(&(pipe, end)) = self.hosts[host].links.get(&link) else {
                continue;
            };
            let to = 1 - end;
            let peer = self.pipes[pipe].ends[to].0;
            if !self.pipes[pipe].open || self.blocked.contains(&(host, peer)) {
                continue;
            }
            // Split anywhere: frames do not arrive whole.
            let mut rest = match stream {
                StreamIndex::CONTROL => self.meddle(pipe, to, bytes),
                _ => bytes,
            };
            while !rest.is_empty() {
                let len = 1 + self.rng.below(rest.len() as u64) as usize;
                // Streams do not wait for one another.
                let at = self.now + self.delay();
                let arrives = self.pipes[pipe].arrives[to].entry(stream).or_default();
                *arrives = at.max(*arrives);
                let at = *arrives;
                let bytes = rest.split_to(len);
                self.schedule(
                    at,
                    Event::Bytes {
                        pipe,
                        stream,
                        end: to,
                        bytes,
                    },
                );
            }
        }
    }

    /// Loses, doubles or delays control frames.
    fn meddle(&mut self, pipe: usize, end: usize, mut bytes: Bytes) -> Bytes {
        if let Some(noise) = &mut self.noise {
            return noise.disturb(self.now, (pipe, end), bytes);
        }
        let Some(meddler) = &mut self.meddler else {
            return bytes;
        };
        let mut out = BytesMut::new();
        while let Ok(Decoded::Frame(frame)) = Frame::decode(&bytes, u32::MAX) {
            let (kind, len) = (frame.header.kind, frame.encoded_len());
            let frame = bytes.split_to(len);
            if kind != meddler.kind || !meddler.is_news((pipe, end), &frame) {
                out.extend_from_slice(&frame);
                continue;
            }
            match meddler.how {
                Meddling::Lose => {}
                Meddling::Double => {
                    out.extend_from_slice(&frame);
                    out.extend_from_slice(&frame);
                }
                Meddling::Delay(by) => meddler.held.push((self.now + by, pipe, end, frame)),
            }
        }
        let now = self.now;
        meddler.held.retain(|(at, pipe_of, end_of, frame)| {
            let due = *at <= now && (*pipe_of, *end_of) == (pipe, end);
            if due {
                out.extend_from_slice(frame);
            }
            !due
        });
        out.freeze()
    }

    pub(super) fn close(&mut self, host: usize, link: LinkId) {
        self.hosts[host].bufs.retain(|(of, _), _| *of != link);
        if let Some((pipe, end)) = self.hosts[host].links.remove(&link) {
            self.pipes[pipe].ends[end].1 = None;
            let to = 1 - end;
            let last = self.pipes[pipe].arrives[to].values().max();
            let last = last.copied().unwrap_or(0);
            let at = (self.now + self.delay()).max(last);
            self.schedule(at, Event::Closed { pipe, end: to });
        }
    }

    pub(super) fn dial(&mut self, host: usize, dial: DialId, address: &str) {
        let now = self.local(host);
        let listener = self
            .hosts
            .iter()
            .position(|host| host.alive && host.name == address);
        let reachable = listener.filter(|to| {
            let apart = self.blocked.contains(&(host, *to)) || self.blocked.contains(&(*to, host));
            self.hosts[host].alive && self.hosts[*to].paused.is_none() && !apart
        });
        let Some(to) = reachable else {
            self.hosts[host].node.handle_dial_failed(now, dial);
            return self.pump(host);
        };
        let streams = if self.streams { 1 + self.lanes } else { 1 };
        let ours = self.hosts[host]
            .node
            .handle_dialed(now, dial, streams, None);
        let Ok(ours) = ours else { return };
        let then = self.local(to);
        let theirs = self.hosts[to]
            .node
            .handle_accepted(then, streams, None)
            .ok();
        let pipe = self.pipes.len();
        self.pipes.push(Pipe {
            ends: [(host, Some(ours)), (to, theirs)],
            arrives: Default::default(),
            open: true,
        });
        self.hosts[host].links.insert(ours, (pipe, 0));
        match theirs {
            Some(theirs) => {
                self.hosts[to].links.insert(theirs, (pipe, 1));
            }
            None => self.cut(pipe),
        }
        self.pump(host);
        self.pump(to);
    }

    pub(super) fn read(&mut self, host: usize, link: LinkId, stream: StreamIndex) {
        let now = self.local(host);
        loop {
            let Some(mut buf) = self.hosts[host].bufs.remove(&(link, stream)) else {
                return;
            };
            let read = self.hosts[host].node.read(now, link, stream, &mut buf);
            self.hosts[host].bufs.insert((link, stream), buf);
            match read {
                Ok(None) => return,
                Ok(Some(Delivery::Message {
                    ty,
                    shard,
                    epoch,
                    origin,
                    message,
                    reply,
                })) => {
                    self.post(
                        host,
                        ty,
                        shard,
                        epoch,
                        Origin::Remote(origin),
                        message,
                        reply,
                    );
                }
                Ok(Some(Delivery::Answer { key, status, .. })) => {
                    let old = self.hosts[host].app.answers.insert(key.0, status);
                    assert_eq!(old, None, "answered twice");
                }
                Err(error) => {
                    if self.trace {
                        println!("{} {} {error}", self.now, self.hosts[host].name);
                    }
                    self.write(host, link);
                    return self.close(host, link);
                }
            }
            if self.rng.below(2) == 0 {
                self.pump(host);
            }
        }
    }
}
