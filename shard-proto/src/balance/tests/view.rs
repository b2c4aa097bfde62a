use super::*;

fn update<'a>(cluster: u64, epoch: u64, members: &'a [Provider]) -> ViewUpdate<'a> {
    ViewUpdate {
        cluster,
        epoch,
        members,
    }
}

fn names(view: &View<[Provider; 4]>) -> String {
    let names = view.members().iter().map(|member| name(member.node));
    names.collect::<Vec<_>>().join(" ")
}

fn known() -> View<[Provider; 4]> {
    let mut view = View::new(None, [Provider::EMPTY; 4]);
    view.replace(update(7, 5, &providers("A B"))).unwrap();
    view
}

#[test]
fn only_a_newer_view_replaces() {
    let mut view = known();
    for epoch in [5, 4, 0] {
        let late = view.replace(update(7, epoch, &providers("C")));
        assert_eq!(late, Err(ViewError::NotNewer { current: 5 }));
    }
    assert_eq!(names(&view), "A B");
    view.replace(update(7, 6, &providers("C"))).unwrap();
    assert_eq!((names(&view).as_str(), view.epoch()), ("C", 6));
}

#[test]
fn an_empty_view_does_not_replace_the_last_good_one() {
    let mut view = known();
    assert_eq!(view.replace(update(7, 9, &[])), Err(ViewError::Empty));
    assert_eq!((names(&view).as_str(), view.epoch()), ("A B", 5));
    view.replace(update(7, 8, &providers("C"))).unwrap();
    assert_eq!(
        names(&view),
        "C",
        "the epoch of the empty one did not count"
    );
}

#[test]
fn a_view_of_another_cluster_is_refused() {
    let mut view = known();
    let other = view.replace(update(8, 6, &providers("C")));
    assert_eq!(other, Err(ViewError::OtherCluster { expected: 7 }));
    let mut view = View::new(Some(7), [Provider::EMPTY; 4]);
    let other = view.replace(update(8, 6, &providers("C")));
    assert_eq!(other, Err(ViewError::OtherCluster { expected: 7 }));
    assert_eq!((view.members().len(), view.epoch()), (0, 0));
}

#[test]
fn a_view_that_is_too_long_is_refused_whole() {
    let mut view = known();
    let long = view.replace(update(7, 6, &providers("A B C D E")));
    assert_eq!(long, Err(ViewError::Full { capacity: 4 }));
    assert_eq!((names(&view).as_str(), view.epoch()), ("A B", 5));
}

#[test]
fn it_is_sorted_and_each_node_is_there_once_in_its_newest_life() {
    let mut view = known();
    view.replace(update(7, 6, &providers("C A B3 B2"))).unwrap();
    assert_eq!(names(&view), "A B3 C");
    assert_eq!(view.get(node("B").node).unwrap().node, node("B3"));
    assert!(view.get(node("D").node).is_none());
}

#[test]
fn a_reply_carries_a_view_only_for_who_has_an_older_one() {
    let view = known();
    for (version, newer) in [
        ((0, 0), true),
        ((7, 4), true),
        ((7, 5), false),
        ((7, 6), false),
        ((8, 1), false),
    ] {
        let reply = view.newer_than(version);
        assert_eq!(reply.is_some(), newer, "{version:?}");
    }
    let nothing = View::new(Some(7), [Provider::EMPTY; 4]);
    assert_eq!(nothing.newer_than((0, 0)), None);

    let mut client = View::new(None, [Provider::EMPTY; 8]);
    assert_eq!(client.version(), (0, 0));
    client
        .replace(view.newer_than(client.version()).unwrap())
        .unwrap();
    assert_eq!(client.members(), view.members());
    assert_eq!(view.newer_than(client.version()), None);
}
