//! SQLite with real processes: this program starts itself again, as `child`.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use shard_tokio::store::sqlite::{Durability, SqliteConfig};
use shard_tokio::store::{Journal, SqliteStore, Storage, StoreError};

use super::sqlite::Folder;
use super::suite::{Backend, append, entity, epoch, events};

const FILE: &str = "SHARD_STORE_FILE";
const NAME: &str = "SHARD_STORE_NAME";
const WRITERS: &str = "SHARD_STORE_WRITERS";
const SECONDS: &str = "SHARD_STORE_SECONDS";
const RELAXED: &str = "SHARD_STORE_RELAXED";

/// A process that appends to entities of its own until it is killed, fenced, or its time is over.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(file: &Path, name: &str, more: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture"])
            .env(FILE, file)
            .env(NAME, name)
            .envs(more.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing that it says, without the test harness's chatter.
    fn next(&mut self) -> Option<Vec<String>> {
        loop {
            let line = self.lines.next()?.ok()?;
            // What is cut off in the middle by a kill has no full stop.
            if let Some(said) = line.strip_prefix("child ")
                && let Some(said) = said.strip_suffix('.')
            {
                return Some(said.split(' ').map(str::to_owned).collect());
            }
        }
    }

    fn expect(&mut self, what: &str) -> Vec<String> {
        loop {
            let said = self.next().expect(what);
            if said[0] == what {
                return said;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(what: std::fmt::Arguments<'_>) {
    // One write: nothing comes in between.
    let line = format!("child {what}.\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Not a test, but the other process.
#[test]
fn child() {
    let (Ok(file), Ok(name)) = (env::var(FILE), env::var(NAME)) else {
        return;
    };
    let number = |name| env::var(name).ok().and_then(|number| number.parse().ok());
    let writers: u64 = number(WRITERS).unwrap_or(8);
    let until = number(SECONDS).map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let durability = match env::var(RELAXED) {
        Ok(_) => Durability::ProcessCrash,
        Err(_) => Durability::PowerCut,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let config = SqliteConfig::new().with_durability(durability);
        let store = SqliteStore::open_with(file, config).await.unwrap();
        say(format_args!("opened {}", store.id()));
        let longest = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let (store, longest) = (store.clone(), Arc::clone(&longest));
                let id = format!("{name}-{writer}");
                tokio::spawn(async move { write(&store, &id, until, &longest).await })
            })
            .collect();
        let mut total = 0;
        for task in tasks {
            total += task.await.unwrap();
        }
        let longest = longest.load(Ordering::Relaxed);
        let transactions = store.stats().transactions;
        say(format_args!("wrote {total} {transactions} {longest}"));
    });
}

async fn write(store: &SqliteStore, id: &str, until: Option<Instant>, longest: &AtomicU64) -> u64 {
    let entity = entity(id);
    let opened = store.open(entity.clone(), epoch(1)).await.unwrap();
    for seq in opened.last_seq + 1.. {
        let start = Instant::now();
        let event = format!("{id} {seq}");
        let request = append(&entity, 1, seq, &[event.as_bytes()]);
        match store.append(request).await {
            Ok(()) if until.is_none() => say(format_args!("acknowledged {id} {seq}")),
            Ok(()) => {}
            Err(StoreError::Fenced { .. }) => {
                say(format_args!("fenced {id} {seq}"));
                return seq - 1;
            }
            Err(error) => panic!("{error}"),
        }
        let took = start.elapsed().as_micros() as u64;
        longest.fetch_max(took, Ordering::Relaxed);
        if until.is_some_and(|until| Instant::now() > until) {
            return seq;
        }
    }
    unreachable!("nobody counts that far")
}

#[tokio::test]
async fn kill_minus_nine_costs_nothing() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 1..=3 {
        let mut process = Process::start(&folder.file(), "a", &[]);
        for n in 1..=100 {
            let said = process.expect("acknowledged");
            acknowledged.insert(said[1].clone(), said[2].parse().unwrap());
            if n % 10 == 0 {
                // This process writes, too.
                let seq = (round - 1) * 10 + n / 10;
                let here = append(&entity("here"), 1, seq, &[b"x"]);
                store.append(here).await.unwrap();
            }
        }
        process.child.kill().unwrap();
        while let Some(said) = process.next() {
            acknowledged.insert(said[1].clone(), said[2].parse().unwrap());
        }
        process.child.wait().unwrap();

        for (id, acknowledged) in &acknowledged {
            let written = events(&store, &entity(id)).await;
            let last = written.len() as u64;
            // One more may have been written without its acknowledgement being heard of.
            let expected = *acknowledged..=acknowledged + 1;
            assert!(expected.contains(&last), "{id}: {last}, not {expected:?}");
            for (event, seq) in written.iter().zip(1..) {
                assert_eq!(*event, format!("{id} {seq}").into_bytes());
            }
        }
    }
    assert_eq!(acknowledged.len(), 8);
    assert_eq!(events(&store, &entity("here")).await.len(), 30);
}

#[tokio::test]
async fn a_former_home_in_another_process_is_fenced() {
    let folder = Folder::new();
    let mut process = Process::start(&folder.file(), "a", &[(WRITERS, "1")]);
    let store = folder.open().await;
    for _ in 0..10 {
        process.expect("acknowledged");
    }
    let opened = store.open(entity("a-0"), epoch(2)).await.unwrap();
    assert!(opened.last_seq >= 10);
    // It stops by itself, and what it wrote is what was there when the fence was raised.
    let said = process.expect("fenced");
    assert_eq!(said[2], (opened.last_seq + 1).to_string());
    let next = append(&entity("a-0"), 2, opened.last_seq + 1, &[b"new"]);
    store.append(next).await.unwrap();
    assert!(process.child.wait().unwrap().success());
    let written = events(&store, &entity("a-0")).await;
    assert_eq!(written.len() as u64, opened.last_seq + 1);
}

#[test]
fn processes_that_start_together_make_one_store() {
    let folder = Folder::new();
    let names = ["a", "b", "c", "d"];
    let processes = names.map(|name| Process::start(&folder.file(), name, &[]));
    let mut ids: Vec<_> = processes
        .into_iter()
        .map(|mut process| {
            let opened = process.expect("opened");
            process.expect("acknowledged");
            opened[1].clone()
        })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_ne!(ids[0], "0");
}

/// `cargo test --release --all-features --test store measure -- --ignored --nocapture`
#[test]
#[ignore = "prints figures"]
fn measure() {
    for relaxed in [false, true] {
        println!(
            "{}:",
            if relaxed {
                "process crash"
            } else {
                "power cut"
            }
        );
        for (processes, writers) in [(1, 1), (1, 16), (1, 256), (4, 1), (4, 64)] {
            let folder = Folder::new();
            let writers = writers.to_string();
            let mut more = vec![(WRITERS, &*writers), (SECONDS, "3")];
            more.extend(relaxed.then_some((RELAXED, "1")));
            let processes: Vec<_> = (0..processes)
                .map(|n| Process::start(&folder.file(), &n.to_string(), &more))
                .collect();
            for mut process in processes {
                let wrote = process.expect("wrote");
                let [writes, transactions, longest]: [u64; 3] =
                    core::array::from_fn(|n| wrote[n + 1].parse().unwrap());
                println!(
                    "  {writers:>3} writers: {:>6} writes/s in {:>5} transactions/s, the slowest took {:>6.1} ms",
                    writes / 3,
                    transactions / 3,
                    longest as f64 / 1000.0
                );
            }
        }
    }
}
