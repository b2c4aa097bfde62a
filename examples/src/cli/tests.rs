use super::*;
use crate::input::Input;

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
    let plan = cluster.plan(&rows(300)).unwrap();
    let expected = [(100, Step::Join), (200, Step::Leave(Who::Leader))];
    assert_eq!(plan, Plan(expected.into()));
    assert_eq!(cluster.shape().voters, ["node-a", "node-b", "node-c"]);
    assert_eq!(cluster.freeze_for(), Duration::from_secs(3));
}

#[test]
fn a_database_needs_its_url() {
    let error = cluster("--store postgres").unwrap_err();
    assert!(error.contains("--postgres-url"), "{error}");
    let cluster = cluster("--store postgres --postgres-url postgres://here/db").unwrap();
    assert_eq!(cluster.store, Storing::Postgres);
    assert_eq!(cluster.check(), Ok(()));
}

#[test]
fn an_url_needs_a_database() {
    for store in ["", "--store sqlite", "--store memory"] {
        let cluster = cluster(&format!("--postgres-url postgres://here/db {store}")).unwrap();
        let error = cluster.check().unwrap_err();
        assert_eq!(error.code(), 2);
        assert_eq!(error.to_string(), "--postgres-url needs --store postgres");
    }
}

#[test]
fn a_database_needs_tokio() {
    let database = "--store postgres --postgres-url postgres://here/db";
    for runtime in ["async-std", "smol", "mixed"] {
        let cluster = cluster(&format!("{database} --runtime {runtime}")).unwrap();
        let error = cluster.check().unwrap_err();
        assert_eq!(error.code(), 2);
        assert_eq!(error.to_string(), "--store postgres needs --runtime tokio");
    }
}

#[test]
fn an_unknown_option_says_where_the_known_ones_are() {
    let error = cluster("--nonsense").unwrap_err();
    assert!(error.ends_with("'--nonsense' found; try --help"), "{error}");
}

#[test]
fn every_option() {
    let cluster = cluster(
        "--nodes 5 --shards 64 --input f.csv --key city --sum n --sum m --concurrency 8 \
         --join-at 1 --leave-at 3 --kill-at 2:other,3 --freeze-at 2:node-b --freeze-for 700 --lan --json",
    )
    .unwrap();
    assert_eq!(cluster.path(), PathBuf::from("f.csv"));
    assert_eq!(cluster.columns().sums, ["n", "m"]);
    assert!(cluster.json);
    assert_eq!(cluster.shape().voters.len(), 5);
    assert_eq!(cluster.freeze_for(), Duration::from_millis(700));
    let plan = cluster.plan(&rows(3)).unwrap();
    let expected = [
        (1, Step::Join),
        (2, Step::Kill(Who::Other)),
        (2, Step::Freeze(Who::Named("node-b".to_owned()))),
        (3, Step::Kill(Who::Leader)),
        (3, Step::Leave(Who::Leader)),
    ];
    assert_eq!(plan, Plan(expected.into()));
    assert_eq!(plan.failures(), 3);
}

#[test]
fn a_node_leaves_after_the_last_one_has_failed_unless_told_otherwise() {
    let leaves_at = |line: &str| {
        let plan = cluster(line).unwrap().plan(&rows(300)).unwrap();
        let leave = plan
            .0
            .iter()
            .find(|(_, step)| matches!(step, Step::Leave(_)));
        leave.unwrap().0
    };
    assert_eq!(leaves_at("--kill-at 150"), 225);
    assert_eq!(leaves_at("--kill-at 280"), 290);
    assert_eq!(leaves_at("--kill-at 300"), 300);
    assert_eq!(leaves_at("--kill-at 20"), 200);
    assert_eq!(leaves_at("--kill-at 20 --leave-at 299"), 299);
}

#[test]
fn a_quorum_of_voters_stays() {
    let plan = |line: &str| cluster(line).unwrap().plan(&rows(300));
    for (line, error) in [
        (
            "--kill-at 250 --leave-at 200",
            "--kill-at 250: 1 of 3 voters would be left",
        ),
        (
            "--freeze-at 1:node-d",
            "--freeze-at 1: there is no node-d then",
        ),
        (
            "--nodes 1 --kill-at 50",
            "--kill-at 50: there is no other node",
        ),
        (
            "--nodes 2 --kill-at 50",
            "--kill-at 50: 1 of 3 voters would be left",
        ),
        (
            "--nodes 2 --leave-at 50",
            "--leave-at 50: 1 of 3 voters would be left",
        ),
    ] {
        let failure = plan(line).unwrap_err();
        assert_eq!(failure.code(), 2);
        assert!(failure.to_string().starts_with(error), "{failure}");
    }
    for line in [
        "--kill-at 250:node-d --leave-at 200",
        "--kill-at 250:other --leave-at 200",
        "--nodes 2 --kill-at 150",
        "--nodes 5 --kill-at 250 --leave-at 200",
        "--ownership trust --kill-at 250 --leave-at 200",
    ] {
        assert!(plan(line).is_ok(), "{line}: {:?}", plan(line));
    }
    // The only voter stays: the other node leaves.
    let steps = plan("--nodes 1").unwrap().0;
    assert_eq!(steps.last(), Some(&(200, Step::Leave(Who::Other))));
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
        "--kill-at soon",
        "--kill-at 7:",
        "--freeze-for 0",
        "--ownership hope",
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
    let error = cluster("--join-at 4").unwrap().plan(&rows(3));
    let error = error.unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(error.to_string(), "--join-at 4: the file has only 3 rows");
}

#[test]
fn the_only_node_cannot_leave() {
    let alone = cluster("--nodes 1 --join-at 2 --leave-at 1").unwrap();
    assert_eq!(alone.plan(&rows(3)).unwrap_err().code(), 2);
    assert!(cluster("--nodes 1").unwrap().plan(&rows(3)).is_ok());
    // A single row: both would happen at once.
    let short = cluster("--nodes 1").unwrap().plan(&rows(1)).unwrap();
    assert_eq!((short.0[0].clone(), short.0[1].0), ((0, Step::Join), 1));
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
