//! The node without an allocator in a cluster of tokio nodes: first a proxy, then a host of two shards, then gone.

mod common;

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::thread;

use common::net::{Net, free_address};
use examples::visitor::{Heard, Visitor};
use shard_tokio::{EntityType, Membership, Node};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Three nodes, two shards each.
const SHARDS: u32 = 6;
const ENTITIES: usize = 24;

/// A tokio node. The only voter is `a`.
async fn node(name: &'static str, listen: &str, seeds: &[String]) -> (Node, EntityType<Visitor>) {
    let node = Node::builder(name)
        .listen(listen)
        .seeds(seeds)
        .membership(Membership::Links)
        .voters(["a"])
        .start()
        .await
        .unwrap();
    let visitors = node.entity_type::<Visitor>().shards(SHARDS);
    let visitors = visitors.factory(move |_id| Visitor::new(name.to_owned()));
    (node, visitors.start().await.unwrap())
}

/// A `device` process. Killed when dropped.
struct Device {
    process: Child,
    input: Mutex<ChildStdin>,
    lines: UnboundedReceiver<String>,
}

impl Device {
    fn start(seeds: &[String]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_device"));
        command.args(["--name", "device", "--voters", "a"]);
        command.args(["--shards", &SHARDS.to_string()]);
        for seed in seeds {
            command.args(["--seed", seed]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let input = Mutex::new(process.stdin.take().unwrap());
        let mut out = BufReader::new(process.stdout.take().unwrap()).lines();
        let (tell, lines) = unbounded_channel();
        thread::spawn(move || out.try_for_each(|line| tell.send(line.unwrap())));
        Self {
            process,
            input,
            lines,
        }
    }

    fn say(&self, line: &str) {
        writeln!(self.input.lock().unwrap(), "{line}").unwrap();
    }

    async fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv().await;
            let line = line.unwrap_or_else(|| panic!("ended before {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What each entity has answered so far.
type Answers = BTreeMap<String, Vec<Heard>>;

fn entities() -> Vec<String> {
    (0..ENTITIES)
        .map(|number| format!("user-{number}"))
        .collect()
}

/// Asks every entity so many times, many at once, and each in order.
async fn ask_all(visitors: &EntityType<Visitor>, rounds: usize) -> Answers {
    let mut asks = Vec::new();
    for round in 0..rounds {
        for entity in entities() {
            let one = visitors.entity(&entity);
            // Tasks of this thread begin in the order in which they are made.
            let ask = tokio::spawn(async move { one.ask(format!("round {round}")).await });
            asks.push((entity, round, ask));
        }
    }
    let mut answers = Answers::new();
    for (entity, round, ask) in asks {
        let heard = ask.await.unwrap().unwrap();
        assert_eq!(heard.text, format!("round {round}"));
        answers.entry(entity).or_default().push(heard);
    }
    answers
}

/// In the order in which they were asked, each message was the next one of a life of the entity.
fn check(answers: &Answers) {
    for (entity, heard) in answers {
        for (before, after) in heard.iter().zip(heard.iter().skip(1)) {
            let same = (&before.node, before.epoch) == (&after.node, after.epoch);
            let expected = if same { before.count + 1 } else { 1 };
            assert_eq!(after.count, expected, "{entity}: {heard:?}");
            assert!(after.epoch >= before.epoch, "{entity}: {heard:?}");
        }
    }
}

fn hosts(answers: &Answers) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    for heard in answers.values().flatten() {
        *hosts.entry(heard.node.clone()).or_default() += 1;
    }
    hosts
}

#[tokio::test]
async fn a_device_asks_hosts_and_hands_over() {
    tokio::time::timeout(Duration::from_secs(120), scenario())
        .await
        .unwrap();
}

async fn scenario() {
    let (at_a, at_b) = (free_address(), free_address());
    let seeds = [at_a.clone(), at_b.clone()];
    let (a, on_a) = node("a", &at_a, &seeds).await;
    let (b, on_b) = node("b", &at_b, &seeds).await;
    on_a.ready().await.unwrap();
    on_b.ready().await.unwrap();
    // The device's connections can be broken.
    let net = Net::new(&["device"]);
    let ways = [net.relay("a", at_a).await, net.relay("b", at_b).await];

    // A proxy: it asks entities of both nodes, which hear it in order.
    let mut device = Device::start(&ways);
    device.line_with("takes part, as a proxy").await;
    for round in 1..=8 {
        if round == 5 {
            net.reset();
        }
        for entity in entities() {
            device.say(&format!("{entity} round {round}"));
        }
    }
    let mut counts = BTreeMap::new();
    for _ in 0..8 * ENTITIES {
        let line = device.line_with("user-").await;
        let entity = line.split(' ').next().unwrap().to_owned();
        let count = counts.entry(entity).or_insert(0);
        *count += 1;
        let expected = format!(": message {count}: \"round {count}\"");
        assert!(line.ends_with(&expected), "{line}, not {expected}");
    }
    assert_eq!(counts.len(), ENTITIES);

    // A host of two shards: entities there answer asks of both nodes, also over connections that break.
    device.say("host");
    device.line_with("takes part, as a host").await;
    device.line_with("hosts 2 shards").await;
    for visitors in [&on_a, &on_b] {
        let breaks = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                net.reset();
            }
        };
        let (answers, ()) = tokio::join!(ask_all(visitors, 40), breaks);
        check(&answers);
        let hosts = hosts(&answers);
        assert!(hosts.contains_key("device"), "{hosts:?}");
        assert_eq!(hosts.values().sum::<usize>(), 40 * ENTITIES);
    }

    // It leaves while it is asked, and nothing is lost.
    let leave = async {
        device.say("leave");
        device.line_with("device has left").await;
        device.process.wait().unwrap()
    };
    let (answers, status) = tokio::join!(ask_all(&on_a, 200), leave);
    assert!(status.success());
    check(&answers);
    let hosts_after = hosts(&ask_all(&on_b, 1).await);
    assert!(!hosts_after.contains_key("device"), "{hosts_after:?}");
    b.shutdown().await;
    a.shutdown().await;
}

/// The same library for a microcontroller: what is linked into it, and how much room it takes. Needs the target
/// thumbv6m-none-eabi.
#[test]
#[ignore = "builds for another target; `.ci/run` has it"]
fn the_firmware_fits_and_neither_allocates_nor_formats() {
    use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/no_alloc/firmware/Cargo.toml");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("firmware");
    let target = "thumbv6m-none-eabi";
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--release", "--manifest-path", manifest]);
    build
        .args(["--target", target, "--target-dir"])
        .arg(&folder);
    assert!(build.status().unwrap().success());
    let program = std::fs::read(folder.join(target).join("release/firmware")).unwrap();
    let program = object::File::parse(&*program).unwrap();

    let (mut flash, mut ram) = (0, 0);
    for section in program.sections() {
        match section.kind() {
            SectionKind::Text | SectionKind::ReadOnlyData => flash += section.size(),
            SectionKind::Data => {
                flash += section.size();
                ram += section.size();
            }
            SectionKind::UninitializedData => ram += section.size(),
            _ => {}
        }
    }
    println!("flash: {flash} bytes, RAM: {ram} bytes and the stack");
    // As the documentation of the crate says, with some room for other compilers.
    assert!((64 << 10..120 << 10).contains(&flash), "{flash}");
    assert!((24 << 10..40 << 10).contains(&ram), "{ram}");
    let names: Vec<_> = program.symbols().filter_map(|it| it.name().ok()).collect();
    let has = |part: &str| names.iter().find(|name| name.contains(part));
    // It is this program, with its names.
    assert!(has("shard_proto").is_some());
    for part in [
        "__rust_alloc",
        "__rdl_alloc",
        "alloc5alloc",
        "4core3fmt",
        "9Formatter",
    ] {
        assert_eq!(has(part), None);
    }
}
