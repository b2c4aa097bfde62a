//! The main job with its journal in PostgreSQL, on a server of its own, found as the tests of the stores do.
#![cfg(unix)]

#[path = "../../shard-tokio/tests/store/server.rs"]
#[allow(dead_code, reason = "the tests of the stores do more with it")]
mod server;

use std::process::Command;

use serde_json::Value;

#[test]
fn totals_are_exact_while_a_node_is_killed() {
    const ROWS: u32 = 2000;
    let Some(server) = server::Server::start() else {
        return;
    };
    let path = std::env::temp_dir().join(format!("{}-postgres.csv", std::process::id()));
    let rows: String = (0..ROWS)
        .map(|row| format!("{row},k{}\n", row % 17))
        .collect();
    std::fs::write(&path, format!("n,city\n{rows}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cluster"))
        .args(["--store", "postgres", "--postgres-url", &server.url()])
        .args(["--input", path.to_str().unwrap(), "--key", "city"])
        .args(["--shards", "16", "--join-at", "200", "--kill-at", "800"])
        .args(["--leave-at", "1800", "--json", "--no-bounds"])
        .output()
        .unwrap();
    std::fs::remove_file(path).unwrap();
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["rows"], ROWS, "{json}");
    for key in ["duplicated", "reordered", "lost", "wrong_totals"] {
        assert_eq!(json[key], 0, "{key}: {json}");
    }
    assert_eq!(json["journal"]["events"], json["processed"], "{json}");
    for key in ["overwritten", "wrong_answers"] {
        assert_eq!(json["journal"][key], 0, "{json}");
    }
    let said = json["outages"].to_string();
    assert!(said.contains("was killed"), "{json}");
}
