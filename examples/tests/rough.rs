//! Programs that are treated badly.
#![cfg(unix)]

use core::time::Duration;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

const CLUSTER: &str = env!("CARGO_BIN_EXE_cluster");
const IN_MEMORY: &str = env!("CARGO_BIN_EXE_in_memory");
const NODE: &str = env!("CARGO_BIN_EXE_node");
const SEND: &str = env!("CARGO_BIN_EXE_send");

/// A program that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nobody_reads_the_report() {
    for arguments in [&["--json"][..], &[], &["--help"]] {
        let mut cluster = Command::new(CLUSTER);
        cluster.args(arguments).args(["--nodes", "1"]);
        cluster.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut cluster);
        drop(running.0.stdout.take());
        let status = running.ended();
        let mut stderr = String::new();
        let mut pipe = running.0.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        assert!(status.success(), "{arguments:?}: {status}, {stderr}");
        assert_eq!(stderr, "");
    }
}

#[test]
fn nobody_reads_what_the_core_does() {
    for arguments in [&[][..], &["--help"]] {
        let mut program = Command::new(IN_MEMORY);
        program.args(arguments);
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut program);
        drop(running.0.stdout.take());
        let status = running.ended();
        let mut stderr = String::new();
        let mut pipe = running.0.stderr.take().unwrap();
        pipe.read_to_string(&mut stderr).unwrap();
        assert!(status.success() && stderr.is_empty(), "{status}, {stderr}");
    }
}

#[test]
fn mistakes_of_every_program_are_one_line_and_exit_code_2() {
    let long_key = std::env::temp_dir().join(format!("{}-long-key.csv", std::process::id()));
    let key = "k".repeat(65_500);
    std::fs::write(&long_key, format!("origin\n{key}\n")).unwrap();
    let long_name = "n".repeat(300);
    let bytes = OsStr::from_bytes(b"\xff");
    let text = OsStr::new;
    let anywhere = [text("--listen"), text("127.0.0.1:0")];
    let two_voters = ["--name", "a", "--voters", "a,b"].map(text);
    let rows: [(&str, Vec<&OsStr>); 12] = [
        (NODE, [&two_voters[..], &anywhere[..]].concat()),
        (CLUSTER, vec![bytes]),
        (CLUSTER, vec![text("--input"), long_key.as_os_str()]),
        (NODE, [&[text("--name"), text("")], &anywhere[..]].concat()),
        (
            NODE,
            [&[text("--name"), text(&long_name)], &anywhere[..]].concat(),
        ),
        (NODE, [&[text("--name"), bytes], &anywhere[..]].concat()),
        (
            NODE,
            ["--name", "a", "--listen", "192.0.2.1:7"].map(text).into(),
        ),
        (
            CLUSTER,
            ["--postgres-url", "postgres://here/db"].map(text).into(),
        ),
        (SEND, vec![bytes]),
        (env!("CARGO_BIN_EXE_bench"), vec![bytes]),
        (IN_MEMORY, vec![text("--nonsense")]),
        (IN_MEMORY, vec![text("surplus")]),
    ];
    for (program, arguments) in rows {
        let output = Command::new(program).args(&arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.starts_with("error: "), "{stderr}");
    }
}

#[test]
fn a_temporary_folder_that_cannot_be_made_says_what_to_set() {
    let mut cluster = Command::new(CLUSTER);
    let output = cluster.env("TMPDIR", "/dev/null").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "error: cannot make a temporary folder in /dev/null: set TMPDIR";
    assert!(stderr.starts_with(expected), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

/// A node process that waits for a cluster ends with whoever started it.
#[test]
fn a_member_process_does_not_outlive_its_parent() {
    let books = std::env::temp_dir().join(format!("{}-orphan.jsonl", std::process::id()));
    let orders = format!(
        r#"{{"name":"orphan","seeds":["127.0.0.1:1"],"shape":{{"shards":8,"voters":[],"lan":true}},
        "on":"Tokio","hosts":{{"Ledgers":{{"book":{:?},"each_row":false}}}}}}"#,
        books.to_str().unwrap()
    );
    let mut member = Command::new(CLUSTER);
    member.args(["--member", &orders]).stdin(Stdio::piped());
    let mut running = Running::start(&mut member);
    thread::sleep(Duration::from_millis(300));
    assert!(running.0.try_wait().unwrap().is_none());
    drop(running.0.stdin.take());
    assert!(running.ended().success());
}

/// A node whose name another one takes stops, and so does its program.
#[test]
fn a_node_that_was_replaced_ends() {
    let start = |name: &str, seeds: &[&str]| {
        let mut node = Command::new(NODE);
        node.args(["--name", name, "--listen", "127.0.0.1:0", "--lan"]);
        node.args(["--ownership", "trust"]);
        for seed in seeds {
            node.args(["--seed", seed]);
        }
        node.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = Running::start(&mut node);
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        let address = lines.next().unwrap().unwrap();
        let address = address.split_whitespace().nth(3).unwrap();
        let address = address.trim_end_matches(';').to_owned();
        let takes_part = lines.find(|line| line.as_ref().unwrap().contains("takes part"));
        assert!(takes_part.is_some(), "{name} ended");
        // Read to the end, so that it can go on printing.
        thread::spawn(move || lines.for_each(drop));
        (running, address)
    };
    let (mut first, seed) = start("first", &[]);
    let (mut old, _) = start("twin", &[&seed]);
    assert!(old.0.try_wait().unwrap().is_none());
    let (mut new, _) = start("twin", &[&seed]);
    assert_eq!(old.ended().code(), Some(1));
    assert!(new.0.try_wait().unwrap().is_none());
    assert!(first.0.try_wait().unwrap().is_none());
}
