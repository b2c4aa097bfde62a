use super::*;

/// Few clients and nodes, so that it takes no time.
fn setup(phases: &[Phase]) -> Setup {
    Setup {
        clients: 60,
        per_process: 2,
        nodes: 6,
        seed: 7,
        phases: phases.to_vec(),
        quick: true,
    }
}

fn outcomes(setup: &Setup, policies: &[Policy]) -> Vec<Outcome> {
    simulate(setup, policies, true).unwrap()
}

/// The rows of one phase.
fn rows(phase: Phase, policies: &[Policy]) -> Vec<(Policy, Row)> {
    let outcomes = outcomes(&setup(&[phase]), policies);
    let rows = outcomes.into_iter().map(|outcome| {
        let row = outcome.rows.into_iter().find(|row| row.phase == phase);
        (outcome.policy, row.unwrap())
    });
    rows.collect()
}

const STICKY: [Policy; 2] = [
    Policy::FirstAvailable,
    Policy::FirstAvailableIdenticalAllProxies,
];

/// All but those that keep to one node.
fn spreading() -> Vec<Policy> {
    let all = Policy::ALL.iter().copied();
    all.filter(|policy| !STICKY.contains(policy)).collect()
}

#[test]
fn the_same_seed_gives_the_same_figures_and_another_one_others() {
    let setup = setup(&[Phase::Start, Phase::Steady]);
    let print = |setup: &Setup| {
        let outcomes = outcomes(setup, Policy::ALL);
        let json = report::to_json(setup, &outcomes)["policies"].to_string();
        (report::to_table(&outcomes), json)
    };
    let first = print(&setup);
    assert_eq!(first, print(&setup));
    assert_ne!(first, print(&Setup { seed: 8, ..setup }));
}

#[test]
fn clients_that_start_at_once_do_not_start_with_one_node() {
    let rows = rows(Phase::Start, &spreading());
    for (policy, row) in rows {
        // 60 clients are 10 for each node, 6 of which wait.
        assert!(row.queue <= 16, "{policy}: {} wait", row.queue);
        assert!((row.success() - 1.0).abs() < f64::EPSILON, "{policy}");
    }
}

#[test]
fn load_is_even_while_nothing_happens() {
    for (policy, row) in rows(Phase::Steady, &spreading()) {
        let most = match policy {
            Policy::RoundRobin | Policy::WeightedRoundRobin => 1.02,
            _ => 1.15,
        };
        assert!(row.load <= most, "{policy}: {}", row.load);
        assert!(row.load >= 1.0, "{policy}: {}", row.load);
        assert_eq!((row.calls, row.refused), (row.answered, 0), "{policy}");
        assert_eq!(row.calls, row.attempts, "{policy}");
    }
}

#[test]
fn nobody_notices_that_nodes_restart_one_by_one() {
    for (policy, row) in rows(Phase::Restart, &spreading()) {
        assert_eq!(row.calls, row.answered, "{policy}");
        let attempts = row.attempts_per_call();
        assert!(attempts < 1.01, "{policy}: {attempts}");
        assert_eq!(row.back.len(), 6, "{policy}");
        let slowest = row.slowest_back().unwrap_or(f64::MAX);
        assert!(slowest <= 1.0, "{policy}: {:?}", row.back);
    }
}

#[test]
fn new_nodes_get_their_share_at_once_but_of_sticky_clients_none() {
    for (policy, row) in rows(Phase::Grow, Policy::ALL) {
        assert_eq!(row.back.len(), 6, "{policy}");
        if STICKY.contains(&policy) {
            assert!(
                row.back.iter().all(Option::is_none),
                "{policy}: {:?}",
                row.back
            );
        } else {
            let slowest = row.slowest_back().unwrap_or(f64::MAX);
            assert!(slowest <= 2.0, "{policy}: {:?}", row.back);
        }
    }
}

#[test]
fn a_node_that_fails_fast_does_not_attract_calls() {
    for phase in [Phase::Breaks, Phase::Sheds] {
        for (policy, row) in rows(phase, Policy::ALL) {
            let share = row.faulty.unwrap();
            let most = match (policy, phase) {
                (Policy::PeakEwma, _) => 0.1,
                // It is suspected after each call.
                (_, Phase::Breaks) => 0.2,
                _ => 1.1,
            };
            assert!(share <= most, "{policy}: {share} of its share");
            assert!(row.success() > 0.999, "{policy}: {}", row.success());
            assert!(row.attempts_per_call() < 1.3, "{policy}");
        }
    }
}

#[test]
fn a_node_that_failed_gets_its_share_back_but_not_from_sticky_clients() {
    for (phase, most) in [
        (Phase::Breaks, 6.0),
        (Phase::Sheds, 1.0),
        (Phase::Hangs, 31.0),
    ] {
        for (policy, row) in rows(phase, Policy::ALL) {
            let [back] = row.back[..] else {
                panic!("{policy}: {:?}", row.back);
            };
            if STICKY.contains(&policy) {
                assert_eq!(back, None, "{policy} failed back");
                continue;
            }
            // What it believes of the node's latency fades with its half-life.
            let most = if policy == Policy::PeakEwma {
                31.0
            } else {
                most
            };
            let back = back.unwrap_or(f64::MAX);
            assert!(back <= most, "{policy}, {}: {back} s", phase.name());
        }
    }
}

#[test]
fn a_node_that_hangs_costs_time_but_no_calls() {
    for (policy, row) in rows(Phase::Hangs, Policy::ALL) {
        assert!(row.success() > 0.999, "{policy}: {}", row.success());
        assert!(row.faulty.unwrap() < 0.5, "{policy}: {:?}", row.faulty);
        // An attempt waits for 250 ms; then another node answers.
        let slow = row.latency.micros(0.999) / 1000.0;
        assert!(slow < 550.0, "{policy}: {slow} ms");
    }
}

#[test]
fn a_slow_node_gets_fewer_calls_of_whoever_looks_at_latency() {
    for (policy, row) in rows(Phase::Slow, &[Policy::PeakEwma, Policy::LeastOutstanding]) {
        let (share, most) = (
            row.faulty.unwrap(),
            match policy {
                Policy::PeakEwma => 0.4,
                _ => 1.0,
            },
        );
        assert!(share < most, "{policy}: {share} of its share");
    }
}

#[test]
fn the_table_and_the_picture_show_every_policy_and_phase() {
    let setup = setup(&[Phase::Steady, Phase::Grow]);
    let outcomes = outcomes(&setup, &Policy::ALL[..3]);
    let table = report::to_table(&outcomes);
    let file = std::env::temp_dir().join(format!("policies-{}.svg", std::process::id()));
    chart::draw(&file, &outcomes).unwrap();
    let svg = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for name in [
        "round-robin",
        "random-robin",
        "first-available",
        "steady",
        "grow",
    ] {
        assert!(table.contains(name), "{table}");
        assert!(svg.contains(name), "no {name}");
    }
    assert_eq!(
        svg.matches("<polyline").count(),
        svg.matches("polyline fill=\"none\"").count()
    );
    let nowhere = std::path::Path::new("/nowhere/at/all.svg");
    assert_eq!(chart::draw(nowhere, &outcomes).unwrap_err().code(), 2);
}

#[test]
fn arguments() {
    let parse = |arguments: &[&str]| {
        let program = core::iter::once(&"policies");
        Options::try_parse_from(program.chain(arguments))
    };
    let options = parse(&["--policy", "peak-ewma", "--policy", "rendezvous"]).unwrap();
    assert_eq!(options.policy, [Policy::PeakEwma, Policy::Rendezvous]);
    assert_eq!((options.setup().clients, options.setup().nodes), (500, 20));
    let quick = parse(&["--quick", "--nodes", "7"]).unwrap().setup();
    assert_eq!((quick.clients, quick.nodes, quick.quick), (50, 7, true));
    let error = parse(&["--policy", "fastest"]).unwrap_err().to_string();
    assert!(
        Policy::ALL
            .iter()
            .all(|policy| error.contains(policy.name())),
        "{error}"
    );
    for wrong in [
        ["--clients", "0"],
        ["--nodes", "3"],
        ["--per-process", "0"],
        ["--phase", "x"],
    ] {
        parse(&wrong).unwrap_err();
    }
}
