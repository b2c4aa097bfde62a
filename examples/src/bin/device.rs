//! The node without an allocator of `examples/no_alloc`, on the host: this program moves bytes between it and sockets, and
//! lines of text between it and a person. What a frame is, only the library knows.

use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use device::{AskError, AskKey, Config, Device, Event, LINKS, State};
use examples::failure::{self, Failure, say};
use examples::{cli, clock, visitor::Visitors};
use shard_proto::Instant;

/// What the other threads have; of which of a link's connections.
enum Input {
    Connected(usize, u32, io::Result<TcpStream>),
    Read(usize, u32, Vec<u8>),
    Closed(usize, u32),
    Line(String),
}

/// A link's connection, if it has one, and which that is.
#[derive(Default)]
struct Pipe {
    number: u32,
    is_wanted: bool,
    stream: Option<TcpStream>,
}

/// What a person sees of it.
#[derive(Default)]
struct Shown {
    takes_part: bool,
    is_host: bool,
    hosted: u32,
}

fn main() -> ExitCode {
    let options = cli::parse::<cli::Device>();
    options.map_or_else(|code| code, |options| failure::exit(run(&options)))
}

fn run(options: &cli::Device) -> Result<ExitCode, Failure> {
    if options.seed.len() > LINKS {
        return Err(Failure::usage(format!("it has {LINKS} links")));
    }
    let (tell, inputs) = channel();
    let typed = tell.clone();
    thread::spawn(move || {
        let mut lines = io::stdin().lines().map_while(Result::ok);
        lines.try_for_each(|line| typed.send(Input::Line(line)))
    });
    let voters: Vec<_> = options.voters.iter().map(String::as_str).collect();
    let mut lines = VecDeque::new();
    loop {
        let config = Config {
            name: &options.name,
            incarnation: u64::try_from(clock::wall().as_micros()).unwrap_or(u64::MAX),
            seed: clock::random(),
            cluster: "",
            voters: &voters,
            shards: options.shards,
        };
        let Some(device) = Device::new(now(), &config) else {
            return Err(Failure::usage(
                "voters are 1, 3 or 5 names, and there are 1 to 16 shards",
            ));
        };
        let host = Host {
            device: Box::new(device),
            pipes: options.seed.iter().map(|_| Pipe::default()).collect(),
            asked: VecDeque::new(),
            shown: Shown::default(),
        };
        match host.live(options, &tell, &inputs, &mut lines)? {
            State::Left => return Ok(ExitCode::SUCCESS),
            _ => say("this life is over, the next one begins\n")?,
        }
    }
}

fn now() -> Instant {
    clock::boot()
}

struct Host<'a> {
    device: Box<Device<'a>>,
    pipes: Vec<Pipe>,
    asked: VecDeque<(AskKey, String)>,
    shown: Shown,
}

impl Host<'_> {
    /// One life of the device.
    fn live(
        mut self,
        options: &cli::Device,
        tell: &Sender<Input>,
        inputs: &Receiver<Input>,
        lines: &mut VecDeque<String>,
    ) -> Result<State, Failure> {
        loop {
            self.device.handle_timeout(now());
            self.lines(lines);
            self.events()?;
            self.show(&options.name)?;
            for (link, address) in options.seed.iter().enumerate() {
                self.connect(link, address, tell);
                self.write(link);
            }
            let state = self.device.state();
            let is_done = (0..self.pipes.len()).all(|link| !self.device.wants(link));
            if state == State::Over || (state == State::Left && is_done) {
                for pipe in &mut self.pipes {
                    close(pipe);
                }
                return Ok(state);
            }
            let due = self.device.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
            let wait = due.since(now()).min(Duration::from_millis(100));
            if let Ok(input) = inputs.recv_timeout(wait) {
                self.input(input, tell, lines);
            }
        }
    }

    fn input(&mut self, input: Input, tell: &Sender<Input>, lines: &mut VecDeque<String>) {
        let is_late = |pipes: &[Pipe], link: usize, number| {
            pipes
                .get(link)
                .is_none_or(|pipe: &Pipe| pipe.number != number)
        };
        match input {
            Input::Line(line) => lines.push_back(line),
            Input::Connected(link, number, _)
            | Input::Read(link, number, _)
            | Input::Closed(link, number)
                if is_late(&self.pipes, link, number) => {}
            Input::Connected(link, number, Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
                if let Ok(reader) = stream.try_clone() {
                    let tell = tell.clone();
                    thread::spawn(move || read(reader, link, number, &tell));
                }
                self.pipes[link].stream = Some(stream);
                self.device.connected(now(), link);
            }
            Input::Read(link, _, bytes) => self.device.receive(now(), link, &bytes),
            Input::Connected(link, _, Err(_)) | Input::Closed(link, _) => self.closed(link),
        }
    }

    fn closed(&mut self, link: usize) {
        close(&mut self.pipes[link]);
        self.device.closed(now(), link);
    }

    fn connect(&mut self, link: usize, address: &str, tell: &Sender<Input>) {
        let wants = self.device.wants(link);
        let pipe = &mut self.pipes[link];
        if pipe.is_wanted && !wants {
            self.closed(link);
        } else if wants && !pipe.is_wanted {
            pipe.is_wanted = true;
            let (tell, number, address) = (tell.clone(), pipe.number, address.to_owned());
            thread::spawn(move || {
                tell.send(Input::Connected(link, number, TcpStream::connect(address)))
            });
        }
    }

    fn write(&mut self, link: usize) {
        let mut out = heapless::Vec::new();
        while let Some(stream) = &mut self.pipes[link].stream {
            self.device.transmit(now(), link, &mut out);
            if out.is_empty() {
                return;
            }
            if stream.write_all(&out).is_err() {
                self.closed(link);
            }
        }
    }

    /// Does what a person wants; what there is no room for waits.
    fn lines(&mut self, lines: &mut VecDeque<String>) {
        while let Some(line) = lines.front() {
            let device = &mut self.device;
            let done = match line.split_once(' ') {
                Some((id, text)) => {
                    let timeout = Duration::from_secs(5);
                    match device.ask(now(), id, &Visitors::say(text), timeout) {
                        Ok(key) => {
                            self.asked.push_back((key, id.to_owned()));
                            true
                        }
                        Err(AskError::Busy) => false,
                        Err(error) => {
                            eprintln!("{id} is not asked: {error}");
                            true
                        }
                    }
                }
                None if line == "host" => device.is_host() || !device.host(now()),
                None if line == "leave" => {
                    device.leave(now());
                    true
                }
                None if line == "stats" => {
                    eprintln!("{:?}", device.stats());
                    true
                }
                None => true,
            };
            if !done {
                return;
            }
            lines.pop_front();
        }
    }

    fn events(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.device.poll_event() {
            let (Event::Answer(key, _) | Event::Failed(key, _)) = &event;
            let at = self.asked.iter().position(|(asked, _)| asked == key);
            let id = at
                .and_then(|at| self.asked.remove(at))
                .map_or_else(String::new, |(_, id)| id);
            match event {
                Event::Answer(_, answer) => {
                    say(format_args!("{}\n", Visitors::read(&id, &answer)))?
                }
                Event::Failed(_, reason) => say(format_args!("{id} did not answer: {reason:?}\n"))?,
            }
        }
        Ok(())
    }

    fn show(&mut self, name: &str) -> Result<(), Failure> {
        let device = &self.device;
        let shown = Shown {
            takes_part: device.is_registered(),
            is_host: device.is_host(),
            hosted: device.hosted(),
        };
        let before = core::mem::replace(&mut self.shown, shown);
        let now = &self.shown;
        if now.takes_part && (!before.takes_part || before.is_host != now.is_host) {
            let role = if now.is_host { "host" } else { "proxy" };
            say(format_args!("{name} takes part, as a {role}\n"))?;
        }
        if now.hosted != before.hosted {
            say(format_args!("{name} hosts {} shards\n", now.hosted))?;
        }
        if device.state() == State::Left && !self.pipes.is_empty() {
            say(format_args!("{name} has left\n"))?;
        }
        Ok(())
    }
}

/// The next connection of a link is another one.
fn close(pipe: &mut Pipe) {
    if let Some(stream) = pipe.stream.take() {
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    *pipe = Pipe {
        number: pipe.number.wrapping_add(1),
        ..Pipe::default()
    };
}

fn read(mut stream: TcpStream, link: usize, number: u32, tell: &Sender<Input>) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        if tell
            .send(Input::Read(link, number, chunk[..count].to_vec()))
            .is_err()
        {
            return;
        }
    }
    let _ = tell.send(Input::Closed(link, number));
}
