use super::*;
use crate::balance::select::select;
use crate::membership::{MemberState, Roles};

fn config(preference: Preference) -> StubConfig {
    StubConfig::new().with_preference(preference)
}

fn suspect(stub: &mut TestStub<RoundRobin>, now: Instant, names: &str) {
    for wanted in nodes(names) {
        // Bound, so that it goes to this very node.
        let call = Call::new(at(1_000_000)).with_bound(wanted);
        let (sent, _) = run(stub, now, call, |_| Err(Failure::refused()));
        assert_eq!(sent, [name(wanted)]);
    }
}

fn with_members(preference: Preference, members: &[Provider]) -> TestStub<RoundRobin> {
    let mut stub = stub(config(preference), RoundRobin::new(), "");
    let epoch = 1;
    stub.handle_view(
        at(0),
        ViewUpdate {
            cluster: 7,
            epoch,
            members,
        },
    )
    .unwrap();
    stub
}

#[test]
fn suspicion_expires_by_itself() {
    let mut stub = stub(StubConfig::new(), RoundRobin::new(), "A B C");
    suspect(&mut stub, at(1000), "A");
    assert_eq!(eligible(&mut stub, at(1000)), "B C");
    assert_eq!(eligible(&mut stub, at(5999)), "B C");
    assert_eq!(eligible(&mut stub, at(6000)), "A B C");
}

#[test]
fn doubtful_nodes_are_there_when_no_good_one_is() {
    let never = Preference::new().with_panic_percent(0);
    let mut stub = stub(config(never), RoundRobin::new(), "A B");
    suspect(&mut stub, at(0), "A B");
    assert_eq!(eligible(&mut stub, at(0)), "A B");
}

#[test]
fn joining_and_unreachable_nodes_are_doubtful_and_leaving_ones_last() {
    let never = Preference::new().with_panic_percent(0);
    let mut members = providers("A B C D");
    members[0] = members[0].with_state(MemberState::Leaving);
    members[1] = members[1].with_state(MemberState::Joining);
    members[2] = members[2].with_state(MemberState::Unreachable);
    assert_eq!(eligible(&mut with_members(never, &members), at(0)), "D");
    let mut stub = with_members(never, &members[..3]);
    assert_eq!(eligible(&mut stub, at(0)), "B C");
    assert_eq!(
        eligible(&mut with_members(never, &members[..1]), at(0)),
        "A"
    );
}

#[test]
fn few_good_nodes_make_all_candidates_that_do_not_leave() {
    let prefer = Preference::new().with_local(node("G").node);
    let mut members = providers("A B C D E F G");
    members[0] = members[0].with_state(MemberState::Leaving);
    let mut stub = with_members(prefer, &members);
    suspect(&mut stub, at(0), "B C D E");
    // Two of six are good, 33 %.
    assert_eq!(eligible(&mut stub, at(0)), "G");
    assert_eq!(stub.stats().panics, 0);
    suspect(&mut stub, at(1), "F");
    assert_eq!(
        eligible(&mut stub, at(1)),
        "B C D E F G",
        "not by preference either"
    );
    assert!(stub.stats().panics > 0);
    // The first four are good again.
    assert_eq!(eligible(&mut stub, at(5000)), "G");
}

#[test]
fn local_before_zone_before_role_before_the_others() {
    let role = crate::hash::role_id("fast");
    let fast = Roles::NONE.with(role).unwrap();
    let mut members = providers("A B C D");
    members[1] = members[1].with_roles(fast);
    members[2] = members[2].with_zone(9);
    let prefer = Preference::new()
        .with_local(node("D").node)
        .with_zone(9)
        .with_role(role);
    let mut stub = with_members(prefer, &members);
    let mut now = at(0);
    for expected in ["D", "C", "B", "A"] {
        assert_eq!(eligible(&mut stub, now), expected);
        now = now.after(ms(1));
        if expected != "A" {
            // Not so many that doubt is ignored: each of them is good again, but was tried by this call.
            let tried = nodes("D C B");
            let upto = tried
                .iter()
                .position(|tried| name(*tried) == expected)
                .unwrap();
            let mut out = [0; 8];
            let found = select(
                now,
                stub.view().members(),
                stub.overlay().beliefs(),
                &tried[..=upto],
                &prefer,
                &mut out,
            );
            assert_eq!(found.count, 1);
            let next = ["C", "B", "A"][upto];
            assert_eq!(name(members[usize::from(out[0])].node), next);
        }
        if expected == "D" {
            suspect(&mut stub, now, "D");
        } else if expected == "C" {
            suspect(&mut stub, now, "C");
        } else {
            break;
        }
    }
}

#[test]
fn preferred_nodes_are_joined_by_others_if_they_are_too_few() {
    let mut members = providers("A B C D");
    members[1] = members[1].with_zone(9);
    members[2] = members[2].with_zone(9);
    for (least, expected) in [
        (0, "B C"),
        (1, "B C"),
        (2, "B C"),
        (3, "A B C D"),
        (9, "A B C D"),
    ] {
        let prefer = Preference::new().with_zone(9).with_min_preferred(least);
        assert_eq!(
            eligible(&mut with_members(prefer, &members), at(0)),
            expected,
            "{least}"
        );
    }
}

#[test]
fn required_zones_and_roles_leave_the_others_out_for_good() {
    let role = crate::hash::role_id("pricing");
    let mut members = providers("A B C");
    members[0] = members[0]
        .with_roles(Roles::NONE.with(role).unwrap())
        .with_zone(3);
    members[1] = members[1].with_zone(3);
    let required = Preference::new().with_required_role(role);
    let mut stub = with_members(required, &members);
    suspect(&mut stub, at(0), "A");
    assert_eq!(eligible(&mut stub, at(0)), "A");
    let required = Preference::new().with_required_zone(3);
    assert_eq!(
        eligible(&mut with_members(required, &members), at(0)),
        "A B"
    );
    let required = Preference::new().with_required_zone(4);
    let mut stub = with_members(required, &members);
    assert_eq!(eligible(&mut stub, at(0)), "");
    let (_, error) = run(&mut stub, at(0), Call::new(at(1)).with_wait(ms(0)), |_| {
        Ok(())
    });
    assert_eq!(error, Err(CallError::NoNodes));
}
