//! A node without an async runtime: the core, driven by std threads and blocking sockets.
//!
//! This is all there is to an adapter. One thread owns the core; what blocks has a thread of its own and says what
//! happened through one channel. The core is told, and what it wants is done: nothing is decided here. Entities run on
//! the core's thread; others would look at the lease before each message, and be waited for by `StopShard`.

use core::{array, iter, mem, time::Duration};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::{Bytes, BytesMut};
use examples::failure::{self, Failure, say};
use examples::{cli, clock, visitor::Visitors};
use shard_proto::node::*;
use shard_proto::{Epoch, Incarnation, Instant, ShardId, Term, allocation::LeastShards};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Something that happened.
enum Input {
    Accepted(TcpStream),
    Dialed(DialId, io::Result<TcpStream>),
    Read(LinkId, Vec<u8>),
    Closed(LinkId),
    Line(String),
}

struct Driver {
    ty: TypeIndex,
    core: Node<Bytes>,
    now: Instant,
    inputs: SyncSender<Input>,
    /// Per connection: a part of a frame that was read, and the queue of the thread that writes.
    conns: HashMap<LinkId, (BytesMut, SyncSender<Bytes>)>,
    writers: Vec<JoinHandle<()>>,
    visitors: Visitors,
    asks: HashMap<AskKey, String>,
    next_ask: u64,
    ended: Option<ExitCode>,
}

fn main() -> ExitCode {
    let options = cli::parse::<cli::Threads>();
    options.map_or_else(|code| code, |options| failure::exit(run(&options)))
}

fn run(options: &cli::Threads) -> Result<ExitCode, Failure> {
    let listener = TcpListener::bind(options.listen)?;
    let (name, address) = (&options.name, listener.local_addr()?.to_string());
    say(format_args!("{name} listens on {address}; Ctrl-C leaves\n"))?;
    let identity = Identity::new(name, Incarnation::started(clock::wall()), address);
    let config = NodeConfig::new(MembershipMode::Swim)
        .with_voters(options.voters.clone())
        .with_seeds(options.seed.clone())
        .with_seed(clock::random());
    let mut core = Node::new(clock::boot(), identity, config).map_err(Failure::usage)?;
    let visitor = TypeConfig::new("visitor").with_shards(options.shards);
    let ty = core.add_type(clock::boot(), visitor, Box::new(LeastShards::new()));
    let ty = ty.map_err(Failure::usage)?;

    // Bounded: if the core cannot keep up, the threads that read wait, and so, by TCP, do its peers.
    let (inputs, inbox) = sync_channel(1024);
    let [tell, accepted, typed] = array::from_fn(|_| inputs.clone());
    ctrlc::set_handler(move || drop(tell.send(Input::Line("leave".to_owned()))))
        .map_err(Failure::run)?;
    thread::spawn(move || {
        let mut streams = listener.incoming().flatten();
        streams.try_for_each(|stream| accepted.send(Input::Accepted(stream)))
    });
    thread::spawn(move || {
        let mut lines = io::stdin().lines().map_while(Result::ok);
        lines.try_for_each(|line| typed.send(Input::Line(line)))
    });
    #[rustfmt::skip]
    let mut driver = Driver {
        core, ty, inputs, now: clock::boot(), visitors: Visitors::new(name),
        conns: HashMap::new(), writers: Vec::new(), asks: HashMap::new(), next_ask: 0, ended: None,
    };
    let code = driver.run(&inbox);
    // The last thing to write is that this node has left.
    drop((inbox, driver.conns));
    let mut writers = driver.writers.into_iter();
    let _ = writers.try_for_each(JoinHandle::join);
    say(format_args!("{name} has left\n"))?;
    Ok(code)
}

impl Driver {
    fn run(&mut self, inbox: &Receiver<Input>) -> ExitCode {
        loop {
            let due = self.core.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
            let input = inbox.recv_timeout(due.since(clock::boot()).min(TIMEOUT));
            // The time is taken once per input. What is due comes first: above all, the end of the lease.
            self.now = clock::boot();
            let floor = Term::floor(clock::wall());
            self.core.handle_term_floor(self.now, floor);
            self.core.handle_timeout(self.now);
            self.commands();
            input.into_iter().for_each(|input| self.input(input));
            self.commands();
            while let Some(link) = self.core.links_to_flush() {
                self.write(link, false);
            }
            if let Some(code) = self.ended {
                return code;
            }
        }
    }

    fn input(&mut self, input: Input) {
        let now = self.now;
        match input {
            Input::Accepted(stream) => self.connect(|it| it.handle_accepted(now, 1, None), stream),
            Input::Dialed(dial, Ok(stream)) => {
                self.connect(|it| it.handle_dialed(now, dial, 1, None), stream);
            }
            Input::Dialed(dial, Err(_)) => self.core.handle_dial_failed(now, dial),
            Input::Read(link, bytes) => self.read(link, &bytes),
            Input::Closed(link) => {
                self.conns.remove(&link);
                self.core.handle_closed(now, link);
            }
            Input::Line(line) => match line.split_once(' ') {
                Some((id, text)) => self.ask(id, text),
                // By force: whoever ends a process wants it to end, with or without a quorum.
                None if line == "leave" => drop(self.core.leave(now, true)),
                None => eprintln!("ENTITY TEXT, or leave"),
            },
        }
    }

    /// One thread reads, one writes. What waits to be written is bounded by the core's window.
    #[rustfmt::skip]
    fn connect(&mut self, link: impl FnOnce(&mut Node<Bytes>) -> Result<LinkId, LinksFull>, mut stream: TcpStream) {
        let (Ok(mut out), Ok(link)) = (stream.try_clone(), link(&mut self.core)) else { return };
        let _ = out.set_nodelay(true);
        let _ = out.set_write_timeout(Some(TIMEOUT));
        let tell = self.inputs.clone();
        thread::spawn(move || {
            let mut chunk = [0; 16 * 1024];
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                tell.send(Input::Read(link, chunk[..count].to_vec()))?;
            }
            tell.send(Input::Closed(link))
        });
        let (writer, queue) = sync_channel::<Bytes>(1024);
        self.conns.insert(link, (BytesMut::new(), writer));
        self.writers.retain(|writer| !writer.is_finished());
        self.writers.push(thread::spawn(move || {
            let _ = queue.iter().try_for_each(|bytes| out.write_all(&bytes));
            let _ = out.shutdown(Shutdown::Both);
        }));
    }

    #[rustfmt::skip]
    fn read(&mut self, link: LinkId, bytes: &[u8]) {
        let Some((unread, _)) = self.conns.get_mut(&link) else { return };
        let mut unread = mem::take(unread);
        unread.extend_from_slice(bytes);
        loop {
            let read = self.core.read(self.now, link, StreamIndex::CONTROL, &mut unread);
            // What waited in the core for an entity is older than what arrives for it now.
            self.commands();
            match read {
                Ok(Some(Delivery::Message { shard, epoch, message, reply, .. })) => self.handle(shard, epoch, message, reply),
                Ok(Some(Delivery::Answer { key, payload, .. })) => self.answer(key, &payload),
                Ok(None) => break,
                Err(error) => {
                    eprintln!("closing a link: {error}");
                    self.write(link, true);
                    break;
                }
            }
        }
        self.conns.entry(link).and_modify(|conn| conn.0 = unread);
    }

    /// Gives a connection's thread all there is. Whatever is lost on the way goes over the next connection again.
    fn write(&mut self, link: LinkId, last: bool) {
        if let Some((_, writer)) = self.conns.get(&link) {
            let mut chunks = iter::from_fn(|| self.core.poll_stream(link, StreamIndex::CONTROL));
            if chunks.any(|bytes| writer.try_send(bytes).is_err()) || last {
                self.conns.remove(&link);
                self.core.handle_closed(self.now, link);
            }
        }
    }

    #[rustfmt::skip]
    fn commands(&mut self) {
        while let Some(command) = self.core.poll_command() {
            match command {
                NodeCommand::Dial { dial, address } => {
                    let tell = self.inputs.clone();
                    thread::spawn(move || tell.send(Input::Dialed(dial, TcpStream::connect(address))));
                }
                NodeCommand::Close { link, .. } => self.write(link, true),
                NodeCommand::StartShard { ty, shard, epoch } => self.core.shard_started(self.now, ty, shard, epoch),
                NodeCommand::StopShard { ty, shard, epoch, .. } => {
                    self.visitors.stop(shard);
                    self.core.shard_stopped(self.now, ty, shard, epoch, false);
                }
                NodeCommand::Deliver { shard, epoch, message, reply, .. } => self.handle(shard, epoch, message, reply),
                NodeCommand::Reject { message, .. } => message.ask.iter().for_each(|ask| self.answer(ask.key, &[])),
                NodeCommand::AskFailed { key, .. } => self.answer(key, &[]),
                NodeCommand::Registered { .. } => eprintln!("takes part"),
                NodeCommand::Left => self.ended = Some(ExitCode::SUCCESS),
                NodeCommand::Removed { .. } => self.ended = Some(ExitCode::FAILURE),
                NodeCommand::TypeRefused { reason, .. } => eprintln!("refused: {reason:?}"),
                NodeCommand::Warn(warning) => eprintln!("{warning:?}"),
                // For those who show it, or whose callers and entities are on other threads.
                _ => {}
            }
        }
    }

    #[rustfmt::skip]
    fn handle(&mut self, shard: ShardId, epoch: Epoch, message: Message<Bytes>, to: Option<ReplyTo>) {
        let answer = self.visitors.handle(shard, epoch, message.id.as_bytes(), &message.body);
        if let Some(to) = to {
            self.core.reply(self.now, to, REPLY_ANSWER, |out| answer.encode(out));
        }
        message.ask.iter().for_each(|ask| self.answer(ask.key, &answer));
    }

    fn ask(&mut self, id: &str, text: &str) {
        let key = AskKey(self.next_ask);
        self.next_ask += 1;
        self.asks.insert(key, id.to_owned());
        let (core, ty, deadline) = (&mut self.core, self.ty, self.now.after(TIMEOUT));
        let shard = core.shard(ty, id.as_bytes()).unwrap_or_default();
        let (body, ask) = (Visitors::say(text), Some(Ask { key, deadline }));
        match core.send(self.now, ty, shard, id.into(), body, ask) {
            Ok(Sent::Local { epoch, message }) => self.handle(shard, epoch, message, None),
            // A command or an answer says what became of it.
            Ok(Sent::Remote | Sent::Queued) => {}
            Err(_) => self.answer(key, &[]),
        }
    }

    fn answer(&mut self, key: AskKey, answer: &[u8]) {
        let id = self.asks.remove(&key).unwrap_or_default();
        println!("{}", Visitors::read(&id, answer));
    }
}
