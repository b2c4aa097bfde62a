//! A node on std threads in one cluster with tokio nodes, as a person runs them.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use common::Node;

/// One voter: the tokio node.
const VOTERS: [&str; 4] = ["--voters", "a", "--shards", "16"];

/// A `threads` process. Killed when dropped.
struct Threads {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Threads {
    fn start(name: &str, seed: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threads"));
        command.args(["--name", name, "--seed", seed]).args(VOTERS);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let out = BufReader::new(process.stdout.take().unwrap()).lines();
        let err = BufReader::new(process.stderr.take().unwrap()).lines();
        let also = tell.clone();
        thread::spawn(move || {
            out.map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        thread::spawn(move || {
            err.map_while(Result::ok)
                .try_for_each(|line| also.send(line))
        });
        let input = process.stdin.take().unwrap();
        Self {
            process,
            input,
            lines,
        }
    }

    /// The next line that contains this.
    fn line_with(&self, text: &str) -> String {
        let found = self.lines.iter().find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("ended before {text:?}"))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A `send` process that asks so often, one ask after the other; its lines.
fn send(seed: &str, entity: &str, repeat: u32, every: u32) -> Child {
    let mut send = Command::new(env!("CARGO_BIN_EXE_send"));
    send.args(["--seed", seed, entity, "hello"]).args(VOTERS);
    send.args([
        "--repeat",
        &repeat.to_string(),
        "--every",
        &every.to_string(),
    ]);
    send.stdout(Stdio::piped()).spawn().unwrap()
}

/// The node that answered, and the number of the message there.
fn answer(line: &str) -> (String, u64) {
    let (before, after) = line.split_once(": message ").unwrap();
    let node = before
        .split(" on ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let number = after.split(':').next().unwrap();
    (node.to_owned(), number.parse().unwrap())
}

#[test]
fn both_kinds_of_nodes_host_ask_and_hand_over() {
    let mut tokio = Node::start("a", &[], &VOTERS);
    let mut threads = Threads::start("t", &tokio.address);
    threads.line_with("takes part");

    // Asks of the one node: entities live on both, and each hears its messages in order.
    let entities: Vec<_> = (0..24).map(|number| format!("user-{number}")).collect();
    for round in 1..=3 {
        for entity in &entities {
            writeln!(threads.input, "{entity} round {round}").unwrap();
        }
    }
    let mut hosts = BTreeSet::new();
    let mut counts = vec![0; entities.len()];
    let mut on_threads = None;
    for _ in 0..3 * entities.len() {
        let line = threads.line_with(": message ");
        let (node, number) = answer(&line);
        let entity = line.split(' ').next().unwrap();
        let index = entities.iter().position(|one| one == entity).unwrap();
        counts[index] += 1;
        assert_eq!(number, counts[index], "{line}");
        assert!(line.ends_with(&format!("\"round {number}\"")), "{line}");
        if node == "t" {
            on_threads = Some(entity.to_owned());
        }
        hosts.insert(node);
    }
    assert_eq!(hosts.iter().collect::<Vec<_>>(), ["a", "t"]);

    // A stream of asks of another process to an entity on threads; meanwhile the node leaves.
    let entity = on_threads.unwrap();
    let mut asks = send(&tokio.address, &entity, 400, 2);
    let mut lines = BufReader::new(asks.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let mut heard: Vec<_> = lines.by_ref().take(50).map(|line| answer(&line)).collect();
    assert!(heard.iter().all(|(node, _)| node == "t"), "{heard:?}");
    writeln!(threads.input, "leave").unwrap();
    threads.line_with("t has left");
    assert!(threads.process.wait().unwrap().success());
    heard.extend(lines.map(|line| answer(&line)));
    assert!(asks.wait().unwrap().success());
    // Nothing was lost, doubled or out of order: each life of the entity counted on from its first message.
    assert_eq!(heard.len(), 400);
    let there = heard.iter().take_while(|(node, _)| node == "t").count();
    let (before, after) = heard.split_at(there);
    let numbers =
        |part: &[(String, u64)]| part.iter().map(|(_, number)| *number).collect::<Vec<_>>();
    assert_eq!(numbers(before), (4..).take(there).collect::<Vec<_>>());
    assert_eq!(numbers(after), (1..).take(400 - there).collect::<Vec<_>>());
    assert!(after.iter().all(|(node, _)| node == "a") && !after.is_empty());

    tokio.signal("TERM");
    tokio.line_with("a has left");
}

#[test]
fn ctrl_c_leaves() {
    let tokio = Node::start("a", &[], &VOTERS);
    let mut threads = Threads::start("t", &tokio.address);
    threads.line_with("takes part");
    let id = threads.process.id().to_string();
    let killed = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(killed.unwrap().success());
    threads.line_with("t has left");
    assert!(threads.process.wait().unwrap().success());
}
