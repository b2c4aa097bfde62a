//! The other programs, as a person runs them.

mod common;

use std::process::{Command, Output};

use common::Node;
use examples::ledger::Shelf;
use serde_json::Value;

/// A single node leads as long as others trust it to.
const TRUST: [&str; 2] = ["--ownership", "trust"];

fn send(node: &Node, arguments: &[&str]) -> String {
    let mut send = Command::new(env!("CARGO_BIN_EXE_send"));
    let output = send
        .args(["--seed", &node.address])
        .args(TRUST)
        .args(arguments)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nodes_answer_and_hand_their_shards_over_when_told_to_stop() {
    let mut first = Node::start("a", &[], &TRUST);
    let mut second = Node::start("b", &[&first.address], &TRUST);
    let heard = send(
        &second,
        &["user-42", "hi there", "--repeat", "2", "--every", "1"],
    );
    let lines: Vec<_> = heard.lines().collect();
    assert_eq!(lines.len(), 2, "{heard}");
    assert!(lines[1].starts_with("user-42 on "), "{heard}");
    assert!(lines[1].ends_with("message 2: \"hi there\""), "{heard}");

    first.signal("INT");
    first.line_with("a has left");
    assert!(first.process.wait().unwrap().success());
    let heard = send(&second, &["user-42"]);
    assert!(heard.starts_with("user-42 on b "), "{heard}");

    second.signal("TERM");
    second.line_with("b has left");
    assert!(second.process.wait().unwrap().success());
}

/// The other one runs on async-std.
#[test]
fn a_node_on_another_runtime_takes_over_and_leaves() {
    let mut first = Node::start("a", &[], &TRUST);
    let program = env!("CARGO_BIN_EXE_asyncstd_node");
    let seeds = [&*first.address];
    let mut second = Node::run(program, "b", "127.0.0.1:0", &seeds, &TRUST);
    second.takes_part();
    first.signal("INT");
    first.line_with("a has left");
    assert!(first.process.wait().unwrap().success());
    let heard = send(&second, &["user-42"]);
    assert!(heard.starts_with("user-42 on b "), "{heard}");
    second.signal("TERM");
    second.line_with("b has left");
    assert!(second.process.wait().unwrap().success());
}

/// Two of three voters are a majority; one is not, but ends when it is told to.
#[test]
fn a_voter_that_cannot_be_done_without_ends_when_it_is_told_to() {
    let mut first = Node::spawn("a", "127.0.0.1:0", &[], &[]);
    let mut second = Node::start("b", &[&first.address], &[]);
    first.takes_part();
    for node in [&mut first, &mut second] {
        node.signal("TERM");
        node.line_with("has left");
        assert!(node.process.wait().unwrap().success());
    }
    // So does one that waits for others.
    let mut alone = Node::spawn("a", "127.0.0.1:0", &[], &[]);
    alone.signal("TERM");
    alone.line_with("has left");
    assert!(alone.process.wait().unwrap().success());
}

/// Certificates, then nodes and a sender that show them; whoever has none is not let in.
#[test]
fn with_certificates_nodes_let_nobody_else_in() {
    let shelf = Shelf::new().unwrap();
    let folder = shelf.path().join("certs").display().to_string();
    let certs = |arguments: &[&str]| {
        let mut certs = Command::new(env!("CARGO_BIN_EXE_certs"));
        let output = certs.args(["--out", &folder]).args(arguments).output();
        output.unwrap()
    };
    let made = certs(&["--cluster", "demo", "a", "b", "send", "--client", "till"]);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains("shard://demo/b") && said.contains("shard-client://demo/till"));
    let other = certs(&["--cluster", "other", "a"]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    // A folder without one for this name.
    let missing = Command::new(env!("CARGO_BIN_EXE_node"))
        .args(["--name", "c", "--listen", "127.0.0.1:0", "--tls", &folder])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(String::from_utf8(missing.stderr).unwrap().contains("c.pem"));

    certs(&["--cluster", "demo", "a", "b", "send"]);
    let tls = [&TRUST[..], &["--tls", &folder]].concat();
    let first = Node::start("a", &[], &tls);
    let second = Node::start("b", &[&first.address], &tls);
    let heard = send(&second, &["user-42", "--tls", &folder]);
    assert!(heard.starts_with("user-42 on "), "{heard}");
    // The same over QUIC.
    let quic = [&tls[..], &["--transport", "quic"]].concat();
    let third = Node::start("a", &[], &quic);
    let heard = send(
        &third,
        &["user-42", "--tls", &folder, "--transport", "quic"],
    );
    assert!(heard.starts_with("user-42 on a"), "{heard}");
    let outsider = Command::new(env!("CARGO_BIN_EXE_send"))
        .args(["--seed", &second.address, "user-42"])
        .args(TRUST)
        .output()
        .unwrap();
    assert_eq!(outsider.status.code(), Some(1), "{outsider:?}");
}

fn bench(arguments: &[&str]) -> Output {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"));
    bench.args(arguments).output().unwrap()
}

#[test]
fn bench_measures_the_rows_it_is_asked_for() {
    let rows = ["route", "local_ask", "first_touch"];
    let only: Vec<_> = rows.iter().flat_map(|row| ["--only", row]).collect();
    let output = bench(&[&["--quick", "--json"], &only[..]].concat());
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["route_ns", "local_ask_per_s", "first_touch_per_s"] {
        assert!(json[key].as_f64() > Some(0.0), "{json}");
    }
    assert!(
        json["floor"]["local_ask_per_s"].as_f64() > Some(0.0),
        "{json}"
    );
    assert_eq!(json.get("remote_ask_per_s"), None, "{json}");
}

#[test]
fn bench_names_its_rows_when_asked_for_another() {
    let output = bench(&["--only", "walk"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.starts_with("error: no row \"walk\"; there are route, local_tell,"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1);
}
