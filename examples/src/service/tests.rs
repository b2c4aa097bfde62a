use super::{prober::longest_gap, *};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn two_homes_at_once_are_seen_by_their_times() {
    let shard = ShardId(3);
    let mut servings = Servings::default();
    servings.add(shard, 5, 10, 20);
    servings.add(shard, 6, 21, 30);
    servings.add(ShardId(4), 5, 25, 90);
    assert_eq!(servings.beside_a_newer_home(), 0);
    // A former home that serves on.
    let mut woken = Servings::default();
    woken.add(shard, 5, 31, 31);
    servings.merge(&woken);
    assert_eq!(servings.beside_a_newer_home(), 1);
    servings.add(shard, 7, 15, 16);
    assert_eq!(servings.beside_a_newer_home(), 2);
}

#[test]
fn a_gap_reaches_from_serving_to_serving() {
    let served = [1_000, 2_000, 3_000, 9_000, 10_000];
    assert_eq!(longest_gap(&served, 3_500, 9_500), ms(6));
    assert_eq!(longest_gap(&served, 0, 3_000), ms(1));
    // Not served until the end.
    assert_eq!(longest_gap(&served, 9_500, 30_000), ms(20));
    assert_eq!(longest_gap(&[], 1_000, 30_000), ms(29));
}

#[test]
fn what_is_shorter_than_the_resolution_is_no_gap() {
    let gaps = [(0, 5), (1, 40), (2, 2500), (3, 2000), (4, 2400)];
    let gaps = gaps.map(|(shard, gap)| (ShardId(shard), ms(gap)));
    let hit = [2, 3, 4].map(ShardId).into();
    let bounds = (ms(2900), ms(100));
    let outage = |resolution| {
        Outage::new(
            "b was killed".to_owned(),
            &gaps.into(),
            &hit,
            bounds,
            ms(resolution),
        )
    };
    let fine = outage(50);
    let max_and_p50 = |shards, max, p50| Gaps {
        shards,
        max: ms(max),
        p50: ms(p50),
    };
    assert_eq!(fine.hit, max_and_p50(3, 2500, 2400));
    assert_eq!(fine.others, max_and_p50(2, 0, 0));
    assert!(fine.is_ok());
    let said = fine.to_string();
    let bounds = "(bound 2900 ms, judged at 2900 ms on this machine)";
    assert!(said.contains(bounds), "{said}");
    assert!(said.contains("max 0 ms (judged at 250 ms)"), "{said}");
    assert_eq!(outage(10).others.max, ms(40));
    let json = fine.to_json();
    assert_eq!(
        (&json["hit"]["max_ms"], &json["ok"]),
        (&2500.into(), &true.into())
    );
    let late = Outage {
        hit: max_and_p50(1, 2901, 0),
        ..fine.clone()
    };
    assert!(!late.is_ok() && late.to_string().ends_with("EXCEEDED"));
    let others = Outage {
        others: max_and_p50(1, 251, 0),
        ..fine
    };
    assert!(!others.is_ok());
}
