use super::*;

fn seeded(seeds: u16) -> TestStub<RoundRobin> {
    stub(StubConfig::new().with_seeds(seeds), RoundRobin::new(), "")
}

#[test]
fn seeds_are_asked_in_turns_until_somebody_answers() {
    let mut stub = seeded(3);
    let mut asked = Vec::new();
    for turn in 0..6 {
        let now = at(turn * 1000);
        assert_eq!(stub.poll_timeout(), Some(now));
        let Some(Source::Seed(seed)) = stub.poll_view(now) else {
            panic!("turn {turn}");
        };
        asked.push(seed);
        assert_eq!(stub.poll_view(now), None, "once");
    }
    assert_eq!(asked[..3], asked[3..]);
    asked.truncate(3);
    asked.sort_unstable();
    assert_eq!(asked, [0, 1, 2]);
    view(&mut stub, 1, "A B").unwrap();
    assert_eq!(stub.poll_timeout(), Some(at(35_000)));
}

#[test]
fn the_first_seed_is_a_random_one() {
    let mut counts = [0; 4];
    for process in 0..400 {
        let config = StubConfig::new().with_seeds(4);
        let storage = StubArray::<8>::new();
        let seed = stub_seed(process, 1);
        let mut stub = Stub::new(config, RoundRobin::new(), storage, seed).unwrap();
        let Some(Source::Seed(seed)) = stub.poll_view(at(0)) else {
            panic!();
        };
        counts[usize::from(seed)] += 1;
    }
    assert!(
        counts.iter().all(|count| (60..140).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn nodes_are_asked_when_a_view_is_old_and_seeds_when_they_do_not_answer() {
    let mut stub = seeded(1);
    view(&mut stub, 1, "A B").unwrap();
    assert_eq!(stub.poll_view(at(29_999)), None);
    assert!(matches!(stub.poll_view(at(30_000)), Some(Source::Node(_))));
    stub.handle_view_current(at(30_100));
    assert_eq!(stub.poll_timeout(), Some(at(60_100)));

    assert!(matches!(stub.poll_view(at(60_100)), Some(Source::Node(_))));
    assert_eq!(stub.poll_view(at(61_100)), Some(Source::Seed(0)));
    assert!(matches!(stub.poll_view(at(62_100)), Some(Source::Node(_))));
    // A late view from before says nothing, the same view does.
    view(&mut stub, 0, "A").unwrap_err();
    assert_eq!(stub.poll_timeout(), Some(at(63_100)));
    view(&mut stub, 1, "A").unwrap_err();
    assert_eq!(stub.poll_timeout(), Some(at(92_100)));
}

#[test]
fn seeds_are_not_forgotten_when_all_nodes_are_bad() {
    let mut stub = seeded(2);
    view(&mut stub, 1, "A B").unwrap();
    let (sent, _) = run(&mut stub, at(0), Call::new(at(9)), |_| {
        Err(Failure::refused())
    });
    assert_eq!(sent.len(), 2);
    // Another call finds nobody good and hurries.
    run(&mut stub, at(1), Call::new(at(9)), |_| {
        Err(Failure::refused())
    })
    .1
    .unwrap_err();
    assert!(matches!(stub.poll_view(at(1)), Some(Source::Seed(_))));
    assert_eq!(stub.stats().views, 1);
}

#[test]
fn without_seeds_and_nodes_nobody_is_asked() {
    let mut stub = seeded(0);
    assert_eq!((stub.poll_timeout(), stub.poll_view(at(9))), (None, None));
    view(&mut stub, 1, "A").unwrap();
    assert_eq!(stub.poll_view(at(40_000)), Some(Source::Node(node("A"))));
}

#[test]
fn asking_does_not_change_what_is_picked() {
    let picks = |asks: bool| {
        let mut stub = stub(
            StubConfig::new().with_seeds(3),
            RandomRobin::new(),
            "A B C D",
        );
        (0..50)
            .map(|turn| {
                let now = at(turn * 1000);
                if asks {
                    stub.poll_view(now);
                }
                run(&mut stub, now, Call::new(Instant::FAR_FUTURE), |_| Ok(())).0
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(picks(true), picks(false));
}
