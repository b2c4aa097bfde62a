use super::*;

fn cluster(line: &str) -> Result<Cluster, String> {
    Cluster::try_parse_from(format!("cluster {line}").split_whitespace())
        .map_err(|error| first_line(&error))
}

fn rows(count: usize) -> Input {
    let text = format!("k\n{}", "a\n".repeat(count));
    let columns = Columns {
        key: "k".to_owned(),
        sums: Vec::new(),
    };
    Input::read(text.as_bytes(), "test", &columns).unwrap()
}

#[test]
fn defaults() {
    let cluster = cluster("").unwrap();
    assert_eq!((cluster.nodes, cluster.shards), (3, 256));
    assert_eq!(cluster.path(), PathBuf::from(FLIGHTS));
    assert_eq!(cluster.columns().key, "origin");
    let changes = cluster.changes(&rows(300)).unwrap();
    assert_eq!((changes.join_at, changes.leave_at), (100, 200));
}

#[test]
fn every_option() {
    let cluster = cluster(
        "--nodes 5 --shards 64 --input f.csv --key city --sum n --sum m --concurrency 8 \
         --join-at 1 --leave-at 3 --json",
    )
    .unwrap();
    assert_eq!(cluster.path(), PathBuf::from("f.csv"));
    assert_eq!(cluster.columns().sums, ["n", "m"]);
    assert!(cluster.json);
    let changes = cluster.changes(&rows(3)).unwrap();
    assert_eq!((changes.join_at, changes.leave_at), (1, 3));
}

#[test]
fn a_bad_number_is_one_line() {
    for line in [
        "--nodes 0",
        "--nodes many",
        "--shards 0",
        "--shards 1000000",
        "--concurrency 0",
        "--join-at -1",
        "--nonsense",
        "--key",
    ] {
        let error = cluster(line).unwrap_err();
        assert!(error.starts_with("error: "), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_row_that_is_not_there() {
    let error = cluster("--join-at 4").unwrap().changes(&rows(3));
    let error = error.unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(error.to_string(), "--join-at 4: the file has only 3 rows");
}

#[test]
fn the_only_node_cannot_leave() {
    let alone = cluster("--nodes 1 --join-at 2 --leave-at 1").unwrap();
    assert_eq!(alone.changes(&rows(3)).unwrap_err().code(), 2);
    assert!(cluster("--nodes 1").unwrap().changes(&rows(3)).is_ok());
    // A single row: both would happen at once.
    let short = cluster("--nodes 1").unwrap().changes(&rows(1));
    assert_eq!(
        short,
        Ok(Changes {
            join_at: 0,
            leave_at: 1
        })
    );
}

#[test]
fn the_other_programs() {
    let node = "node --name a --listen 127.0.0.1:7001 --seed 127.0.0.1:7002 --seed 127.0.0.1:7003";
    let node = Node::try_parse_from(node.split_whitespace()).unwrap();
    assert_eq!(node.seed.len(), 2);
    assert!(Node::try_parse_from(["node", "--name", "a", "--listen", "here"]).is_err());
    let send = Send::try_parse_from(["send", "--seed", "127.0.0.1:7001", "user-42"]).unwrap();
    assert_eq!(
        (send.entity.as_str(), send.message.as_str()),
        ("user-42", "hello")
    );
    let missing = Send::try_parse_from(["send", "user-42"]).unwrap_err();
    assert!(
        first_line(&missing).contains("--seed"),
        "{}",
        first_line(&missing)
    );
    let bench = Bench::try_parse_from(["bench", "--quick", "--only", "route", "--json"]).unwrap();
    assert!(bench.quick && bench.json);
}
