//! Small clusters in every order of events, and whether the search would find something.

use alloc::string::String;

use crate::sim::Violation;
use crate::sim::search::{Budget, Explored, Plant, Search, Situation};

fn search(search: &Search, situation: Situation) -> Explored {
    search.run(situation).expect("the settings fit")
}

#[test]
fn nothing_is_found_in_small_clusters() {
    for (nodes, shards) in [(2, 1), (3, 1), (3, 2)] {
        for situation in Situation::ALL {
            let small = Search::new(nodes, shards).with_states(150).with_walks(1);
            let explored = search(&small, situation);
            assert!(explored.violation.is_none(), "{explored}");
            assert!(explored.states >= 150, "{explored}");
        }
    }
}

#[test]
fn a_search_is_the_same_every_time() {
    let small = Search::new(3, 2).with_states(200).with_walks(1);
    let first = search(&small, Situation::Moving);
    let second = search(&small, Situation::Moving);
    assert_eq!(first.states, second.states);
    assert_eq!(first.events, second.events);
}

/// Looks where it hurts.
fn find(
    plant: Plant,
    situation: Situation,
    budget: Budget,
    depth: u32,
) -> (Violation, usize, String) {
    let planted = Search::new(2, 2)
        .with_plant(plant)
        .with_budget(budget)
        .with_states(20_000)
        .with_depth(depth);
    let explored = search(&planted, situation);
    let text = alloc::format!("{explored}");
    let found = explored.violation.expect("it was planted");
    (found.violation, found.path.len(), text)
}

#[test]
fn a_host_that_serves_on_is_found() {
    let budget = Budget {
        passes: 1,
        ..Budget::NONE
    };
    let (violation, events, text) = find(Plant::ServesOn, Situation::Formed, budget, 1);
    assert!(matches!(violation, Violation::TwoHomes { .. }), "{text}");
    assert_eq!(events, 1, "{text}");
    assert!(text.contains("in which 1 stands still"), "{text}");
}

#[test]
fn a_clock_that_is_too_slow_is_found() {
    let budget = Budget {
        passes: 1,
        ..Budget::NONE
    };
    let (violation, events, text) = find(Plant::SlowClock, Situation::Formed, budget, 1);
    assert!(matches!(violation, Violation::TwoHomes { .. }), "{text}");
    assert_eq!(events, 1, "{text}");
}

#[test]
fn data_that_overtakes_is_found() {
    let budget = Budget {
        sends: 2,
        ..Budget::NONE
    };
    let (violation, events, text) = find(Plant::Overtakes, Situation::Formed, budget, 4);
    assert!(matches!(violation, Violation::OutOfOrder { .. }), "{text}");
    // Two are sent, and both arrive.
    assert_eq!(events, 4, "{text}");
}
