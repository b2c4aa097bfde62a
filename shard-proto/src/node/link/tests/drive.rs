//! What happens between hosts: bytes arrive, connections break, time passes.

use super::*;

impl World {
    /// Up to `count` bytes arrive at an end, on the first stream; then what waited on others can be read.
    pub(super) fn arrive(&mut self, pipe: usize, end: usize, count: usize) {
        self.arrive_on(pipe, end, 0, count);
        let others: Vec<u8> = self.pipes[pipe].lanes[end].keys().copied().collect();
        for stream in others {
            self.arrive_on(pipe, end, stream, 0);
        }
    }

    /// Up to `count` bytes arrive at an end, on that stream.
    pub(super) fn arrive_on(&mut self, pipe: usize, end: usize, stream: u8, count: usize) {
        let Pipe {
            ends,
            flight,
            inbox,
            lanes,
            closed,
            ..
        } = &mut self.pipes[pipe];
        let (flight, inbox) = match stream {
            0 => (&mut flight[end], &mut inbox[end]),
            lane => {
                let (flight, inbox) = lanes[end].entry(lane).or_default();
                (flight, inbox)
            }
        };
        let count = count.min(flight.len());
        let bytes: Vec<u8> = flight.drain(..count).collect();
        if closed[end] {
            return;
        }
        let (index, link) = ends[end];
        inbox.extend_from_slice(&bytes);
        let mut buf = core::mem::take(inbox);
        let host = &mut self.hosts[index];
        loop {
            let read = host
                .links
                .read(self.now, link, StreamIndex(stream), &mut buf);
            match read {
                Ok(None) => break,
                Ok(Some(Incoming::Data { node, body, .. })) => {
                    let (shard, number, rest) = content(&body);
                    assert!(rest.iter().all(|byte| *byte == number as u8));
                    host.received.entry(node).or_default().push(number);
                    let shard = host.by_shard.entry((node, shard.0)).or_default();
                    shard.push(number);
                }
                Ok(Some(Incoming::Control { header, body, .. })) => {
                    let Ok(Control::StatsQuery(query)) = Control::decode(header.kind, &body) else {
                        panic!("unexpected {header:?}");
                    };
                    assert_eq!((header.entity_type, header.term()), (TYPE, Term(3)));
                    host.control.push(query.token.0);
                }
                Err(fault) => {
                    host.heard.push(Heard::Fault(fault));
                    self.flush(index, link);
                    self.pipes[pipe].closed[end] = true;
                    break;
                }
            }
        }
        match stream {
            0 => self.pipes[pipe].inbox[end] = buf,
            lane => self.pipes[pipe].lanes[end].entry(lane).or_default().1 = buf,
        }
    }

    /// Both ends learn that a connection broke; what is in flight is lost.
    pub(super) fn cut(&mut self, pipe: usize) {
        for end in [0, 1] {
            self.cut_end(pipe, end);
        }
    }

    /// One end learns that the connection broke.
    pub(super) fn cut_end(&mut self, pipe: usize, end: usize) {
        self.pipes[pipe].flight[end].clear();
        self.pipes[pipe].lanes[end].clear();
        if !core::mem::replace(&mut self.pipes[pipe].closed[end], true) {
            let (host, link) = self.pipes[pipe].ends[end];
            self.hosts[host].links.closed(self.now, link);
        }
    }

    /// What may happen next.
    pub(super) fn choices(&mut self) -> Vec<Choice> {
        for host in 0..self.hosts.len() {
            self.collect(host);
        }
        let mut choices: Vec<_> = (0..self.dials.len()).map(Choice::Connect).collect();
        for (index, pipe) in self.pipes.iter().enumerate() {
            for end in [0, 1] {
                if pipe.closed[end] {
                    continue;
                }
                let lanes = pipe.lanes[end].iter();
                let lanes = lanes.filter(|(_, (flight, _))| !flight.is_empty());
                let before = choices.len();
                choices.extend(lanes.map(|(stream, _)| Choice::Lane(index, end, *stream)));
                if !pipe.flight[end].is_empty() {
                    choices.push(Choice::Frame(index, end));
                } else if pipe.closed[1 - end] && choices.len() == before {
                    choices.push(Choice::Close(index, end));
                }
            }
        }
        choices
    }

    pub(super) fn choose(&mut self, choice: Choice) {
        let next = |flight: &VecDeque<u8>| {
            let at = |offset: usize| u32::from(*flight.get(offset).unwrap_or(&0));
            let len = at(16) | at(17) << 8 | at(18) << 16 | at(19) << 24;
            HEADER_LEN + len as usize
        };
        match choice {
            Choice::Connect(dial) => self.connect(dial),
            Choice::Frame(pipe, end) => {
                let len = next(&self.pipes[pipe].flight[end]);
                self.arrive(pipe, end, len);
            }
            Choice::Lane(pipe, end, stream) => {
                let len = next(&self.pipes[pipe].lanes[end][&stream].0);
                self.arrive_on(pipe, end, stream, len);
            }
            Choice::Close(pipe, end) => self.cut_end(pipe, end),
        }
    }

    /// Everything that can happen without time passing happens.
    pub(super) fn run(&mut self) {
        for _ in 0..100_000 {
            let choices = self.choices();
            let Some(choice) = choices.first().copied() else {
                return;
            };
            match choice {
                Choice::Frame(pipe, end) => self.arrive(pipe, end, usize::MAX),
                Choice::Lane(pipe, end, stream) => {
                    self.arrive_on(pipe, end, stream, usize::MAX);
                }
                choice => self.choose(choice),
            }
        }
        panic!("no rest");
    }

    /// Time passes, deadline by deadline.
    pub(super) fn advance(&mut self, by: Duration) {
        let until = self.now.after(by);
        loop {
            self.run();
            let next = self
                .hosts
                .iter()
                .filter_map(|host| host.links.poll_timeout())
                .min();
            let Some(next) = next.filter(|next| *next <= until) else {
                break;
            };
            self.now = self.now.max(next);
            self.timeouts();
        }
        self.now = until;
        self.timeouts();
        self.run();
    }

    /// Time passes, and nothing arrives.
    pub(super) fn advance_clock(&mut self, by: Duration) {
        self.now = self.now.after(by);
        self.timeouts();
    }

    pub(super) fn timeouts(&mut self) {
        for host in &mut self.hosts {
            let due = host.links.poll_timeout().is_some_and(|at| at <= self.now);
            host.links.handle_timeout(self.now);
            assert!(
                !due || host.links.poll_timeout().is_none_or(|at| at > self.now),
                "a deadline stays due"
            );
        }
    }
}
