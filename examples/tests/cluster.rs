//! The main job, end to end: real processes, real sockets.

use std::process::{Command, Output};

use serde_json::Value;

fn cluster(arguments: &[&str]) -> Output {
    let mut cluster = Command::new(env!("CARGO_BIN_EXE_cluster"));
    cluster.args(arguments).output().unwrap()
}

fn file(name: &str, text: &str) -> String {
    let path = std::env::temp_dir().join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn job(arguments: &[&str]) -> Value {
    // Other tests run at the same time, and this is no release build.
    let output = cluster(&[&["--json", "--no-bounds"], arguments].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr, "", "quiet when not a terminal");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_flights_while_a_node_joins_and_the_leading_one_leaves() {
    let json = job(&[]);
    for (key, value) in [
        ("rows", 20_000),
        ("processed", 20_000),
        ("duplicated", 0),
        ("reordered", 0),
        ("lost", 0),
        ("unanswered", 0),
        ("wrong_totals", 0),
    ] {
        assert_eq!(json[key], value, "{json}");
    }
    assert_eq!(json["verdict"], "ok");
    for (key, value) in [("events", 20_000), ("overwritten", 0), ("wrong_answers", 0)] {
        assert_eq!(json["journal"][key], value, "{json}");
    }
    assert!(json["moves"].as_u64() > Some(0), "{json}");
    for key in ["seconds", "asks_per_s", "p50_us", "p99_us"] {
        assert!(json[key].as_f64() > Some(0.0), "{json}");
    }
}

/// The leading node is killed and another one freezes: rows that have no answer are reported, and nothing is done twice.
#[cfg(unix)]
#[test]
fn nodes_fail_while_it_works_and_entities_recover() {
    let json = nodes_fail("sqlite");
    assert_eq!(json["journal"]["events"], json["processed"], "{json}");
    for key in ["overwritten", "wrong_answers"] {
        assert_eq!(json["journal"][key], 0, "{json}");
    }
}

/// The same on tokio, async-std and smol, a node each; the fourth is on tokio again.
#[cfg(unix)]
#[test]
fn nodes_of_all_runtimes_are_one_cluster() {
    let json = fail(&["--runtime", "mixed"]);
    assert_eq!(json["journal"]["events"], json["processed"], "{json}");
}

/// The same without a store: what the entities did is added up.
#[cfg(unix)]
#[test]
fn nodes_fail_while_it_works_and_entities_begin_anew() {
    let json = nodes_fail("memory");
    assert!(json["journal"].is_null(), "{json}");
}

#[cfg(unix)]
fn nodes_fail(store: &str) -> Value {
    fail(&["--store", store])
}

#[cfg(unix)]
fn fail(options: &[&str]) -> Value {
    let failures = [
        "--shards",
        "32",
        "--kill-at",
        "10000",
        "--freeze-at",
        "14000:other",
    ];
    let json = job(&[&failures, options].concat());
    for key in [
        "duplicated",
        "reordered",
        "lost",
        "contradicted",
        "wrong_totals",
        "two_homes",
    ] {
        assert_eq!(json[key], 0, "{key}: {json}");
    }
    let count = |key: &str| json[key].as_u64().unwrap();
    let failed = count("failed_surely") + count("failed_perhaps");
    assert_eq!(failed, count("unanswered"), "{json}");
    assert!(failed <= 256, "no more than were in flight: {json}");
    let unprocessed = failed - count("perhaps_processed");
    assert_eq!(count("processed") + unprocessed, 20_000, "{json}");
    let outages = json["outages"].as_array().unwrap();
    let changes = [
        "joined",
        "was killed",
        "started again",
        "froze",
        "woke",
        "left",
    ];
    assert_eq!(outages.len(), changes.len(), "{json}");
    for (outage, change) in outages.iter().zip(changes) {
        let said = outage["change"].as_str().unwrap();
        assert!(said.contains(change), "{json}");
    }
    for failure in [&outages[1], &outages[3]] {
        assert!(failure["hit"]["shards"].as_u64() > Some(0), "{json}");
        // A lease is two seconds: shards that had no home for less had two.
        let least = failure["hit"]["max_ms"].as_u64();
        assert!(least > Some(1500), "{json}");
    }
    json
}

#[test]
fn any_file_with_a_header() {
    let rows: String = (0..300)
        .map(|row| format!("{row},k{}\n", row % 7))
        .collect();
    let path = file("any.csv", &format!("n,city\n{rows}"));
    let json = job(&[
        "--input",
        &path,
        "--key",
        "city",
        "--nodes",
        "1",
        "--shards",
        "8",
        "--join-at",
        "0",
        "--leave-at",
        "300",
    ]);
    assert_eq!((&json["rows"], &json["keys"]), (&300.into(), &7.into()));
    assert_eq!(json["verdict"], "ok");
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let text = file("text.csv", "origin,delay\nA,1\nB,late\n");
    let rows: [(&[&str], &str); 6] = [
        (
            &["--input", "/nonexistent.csv"],
            "error: /nonexistent.csv: No such file",
        ),
        (
            &["--key", "airport"],
            "no column \"airport\"; there are date, origin,",
        ),
        (
            &["--input", &text],
            "line 3, column delay: \"late\" is not a whole number",
        ),
        (
            &["--nodes", "none"],
            "error: invalid value 'none' for '--nodes",
        ),
        (
            &["--join-at", "20001"],
            "--join-at 20001: the file has only 20000 rows",
        ),
        (&["--colour"], "error: unexpected argument '--colour'"),
    ];
    for (arguments, expected) in rows {
        let output = cluster(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(output.stdout, b"");
    }
}
