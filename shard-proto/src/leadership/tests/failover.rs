//! A cluster in calm, and how the lead moves.

use super::world::{World, ms, trust};
use crate::membership::{MemberChange, RemovalCause};

#[test]
fn the_oldest_leads_and_keeps_the_lead() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 5);
        world.run(ms(3_000));
        assert_eq!(world.agreed(), 0);
        world.run(ms(60_000));
        assert_eq!(world.agreed(), 0);
        assert_eq!(world.reigns.len(), 1, "seed {seed}");
    }
}

#[test]
fn one_in_five_frames_lost_does_not_move_the_lead_for_good() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 5);
        (world.loss, world.doubled, world.delay) = (200, 200, (1, 60));
        world.run(ms(60_000));
        (world.loss, world.doubled) = (0, 0);
        world.run(ms(10_000));
        world.agreed();
    }
}

#[test]
fn a_removed_leader_is_replaced_at_once() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 4);
        world.run(ms(4_000));
        assert_eq!(world.agreed(), 0);
        world.kill(0);
        let gone = world.gone(0, RemovalCause::Down);
        world.spread(0, gone, 100);
        assert!(world.until_new_reign(ms(110)) >= ms(0));
        world.run(ms(3_000));
        assert_eq!(world.agreed(), 1);
        assert_eq!(world.reigns.len(), 2, "seed {seed}");
    }
}

#[test]
fn a_silent_leader_is_replaced_without_membership() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 4);
        world.run(ms(4_000));
        assert_eq!(world.agreed(), 0);
        world.kill(0);
        let took = world.until_new_reign(ms(1_010));
        assert!(took >= ms(500), "{took:?}");
        world.run(ms(3_000));
        assert_eq!(world.agreed(), 1);
        assert_eq!(world.reigns.len(), 2, "seed {seed}");
    }
}

#[test]
fn a_leaving_leader_resigns() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 4);
        world.run(ms(4_000));
        assert_eq!(world.agreed(), 0);
        world.leave(0);
        assert_eq!(world.hosts[0].reign, None);
        world.until_new_reign(ms(20));
        let leaving = MemberChange::Member(world.member(0));
        world.spread(0, leaving, 500);
        world.run(ms(3_000));
        assert_eq!(world.agreed(), 1, "the leaving node follows, too");
        assert_eq!(world.reigns.len(), 2, "seed {seed}");
    }
}

#[test]
fn nobody_leads_when_all_leave() {
    let mut world = World::cluster(3, 3);
    world.run(ms(4_000));
    for i in 0..3 {
        world.leave(i);
    }
    for i in 0..3 {
        let leaving = MemberChange::Member(world.member(i));
        world.spread(i, leaving, 50);
    }
    world.run(ms(20_000));
    assert_eq!(world.leaders(), []);
}

#[test]
fn the_lead_is_lost_and_won_again_under_growing_terms() {
    let mut world = World::cluster(4, 3);
    world.run(ms(4_000));
    for _ in 0..10 {
        let leader = world.agreed();
        world.kill(leader);
        let gone = world.gone(leader, RemovalCause::Down);
        world.spread(leader, gone, 30);
        world.run(ms(40));
        world.restart(leader);
        let all = [0, 1, 2];
        world.introduce(&all);
        world.run(ms(6_000));
    }
    let terms: std::vec::Vec<_> = world.reigns.iter().map(|(_, term)| *term).collect();
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
    world.agreed();
}

#[test]
fn a_node_that_may_not_lead_is_passed_over() {
    let mut world = World::new(5);
    let config = trust();
    world.start(config.with_may_lead(false), 1_000, 0);
    world.start(config, 1_001, 0);
    world.start(config, 1_002, 0);
    world.introduce(&[0, 1, 2]);
    world.run(ms(6_000));
    assert_eq!(world.agreed(), 1);
}

#[test]
fn a_restarted_leader_comes_back_as_a_follower() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 3);
        world.run(ms(4_000));
        world.kill(0);
        world.restart(0);
        let all = [0, 1, 2];
        world.introduce(&all);
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 1, "seed {seed}");
    }
}

#[test]
fn a_stopped_leader_wakes_up_as_a_follower() {
    for seed in 0..50 {
        let mut world = World::cluster(seed, 4);
        world.run(ms(4_000));
        let old = world.hosts[0].reign;
        world.hosts[0].stopped = true;
        world.run(ms(1_500 + 10 * seed));
        assert_eq!(world.leaders().len(), 2, "the stopped one cannot know");
        world.hosts[0].stopped = false;
        world.run(ms(10));
        assert_ne!(world.hosts[0].reign, old, "acts on, seed {seed}");
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 1, "seed {seed}");
        assert_eq!(world.reigns.len(), 2, "seed {seed}");
    }
}

#[test]
fn a_short_stop_moves_nothing() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 4);
        world.run(ms(4_000));
        world.hosts[0].stopped = true;
        world.run(ms(500));
        world.hosts[0].stopped = false;
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 0);
        assert_eq!(world.reigns.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_joiner_does_not_lead_while_a_reign_lives() {
    // Younger, older, and older by an hour.
    for (seed, (incarnation, skew)) in [(2_000, 0), (1, -10), (0, -3_590)].iter().enumerate() {
        let mut world = World::cluster(seed as u64, 3);
        world.run(ms(4_000));
        let before = world.hosts[0].reign;
        let joiner = world.start(trust(), *incarnation, *skew);
        let all = [0, 1, 2, joiner];
        world.introduce(&all);
        world.run(ms(30_000));
        assert_eq!(world.agreed(), 0);
        assert_eq!(world.hosts[0].reign, before);
        assert_eq!(world.hosts[joiner].taken, []);
    }
}

#[test]
fn a_joiner_that_hears_late_gives_way() {
    // The leader learns of the joiner, whose clock is behind, long after the joiner began to listen.
    for seed in 0..20 {
        let mut world = World::cluster(seed, 3);
        world.run(ms(4_000));
        let before = world.hosts[0].reign;
        let joiner = world.start(trust(), 1, -600);
        for i in 0..3 {
            let change = MemberChange::Member(world.member(i));
            world.tell(joiner, change);
        }
        world.run(ms(5_000));
        assert_eq!(world.leaders(), [0, joiner]);
        let all = [0, 1, 2, joiner];
        world.introduce(&all);
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 0, "seed {seed}");
        assert_eq!(world.hosts[1].taken, []);
        assert!(world.hosts[0].reign >= before);
    }
}

#[test]
fn a_joiner_whose_clock_is_more_than_an_hour_behind_stays_outside() {
    let mut world = World::cluster(6, 3);
    world.run(ms(4_000));
    let joiner = world.start(trust(), 1, -3_700);
    let all = [0, 1, 2, joiner];
    world.introduce(&all);
    world.run(ms(30_000));
    assert_eq!(world.leaders(), [0]);
    assert!(world.stats(joiner).terms_too_high > 50);
    assert_eq!(world.hosts[1].leader.unwrap().node, World::id(0));
    assert_eq!(world.reigns.len(), 1);
}

#[test]
fn islands_meet_and_the_older_stays() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        for i in 0..5 {
            let config = trust().with_bootstrap(i == 0);
            // The younger island's clock is ahead in one half of the cases, behind in the other.
            let skew = if i < 2 { 0 } else { [5, -5][seed as usize % 2] };
            world.start(config, 1_000 + i, skew);
        }
        world.introduce(&[0, 1]);
        world.introduce(&[2, 3, 4]);
        world.run(ms(6_000));
        assert_eq!(world.leaders(), [0, 2]);
        world.introduce(&[0, 1, 2, 3, 4]);
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 0, "seed {seed}");
        assert_eq!(world.hosts[2].taken.len(), 1);
    }
}

#[test]
fn single_nodes_meet_and_the_oldest_stays() {
    for seed in 0..50 {
        let mut world = World::new(seed);
        for i in 0..4 {
            let skew = [0, 7, -7, 3][(i as usize + seed as usize) % 4];
            world.start(trust().with_bootstrap(true), 1_000 + i, skew);
        }
        world.run(ms(1_000));
        assert_eq!(world.leaders(), [0, 1, 2, 3]);
        let nodes: std::vec::Vec<usize> = (0..4).collect();
        world.introduce(&nodes);
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 0, "seed {seed}");
    }
}

#[test]
fn a_lonely_older_reign_stays_too() {
    // The older island is a single node, so nobody but itself follows it.
    for seed in 0..50 {
        let mut world = World::new(seed);
        for i in 0..4 {
            let config = trust().with_bootstrap(i == 0);
            world.start(config, 1_000 + i, [3, -3][seed as usize % 2] * i as i64);
        }
        world.introduce(&[1, 2, 3]);
        world.run(ms(6_000));
        assert_eq!(world.leaders(), [0, 1]);
        world.introduce(&[0, 1, 2, 3]);
        world.run(ms(5_000));
        assert_eq!(world.agreed(), 0, "seed {seed}");
    }
}

#[test]
fn a_split_heals() {
    for seed in 0..50 {
        let mut world = World::cluster(seed, 5);
        world.run(ms(4_000));
        for a in [0, 1] {
            for b in [2, 3, 4] {
                world.cut.insert((a, b));
                if seed % 3 > 0 {
                    world.cut.insert((b, a));
                }
            }
        }
        world.run(ms(3_000 + seed * 50));
        world.cut.clear();
        world.run(ms(10_000));
        world.agreed();
        let reigns = world.reigns.len();
        world.run(ms(20_000));
        world.agreed();
        assert_eq!(world.reigns.len(), reigns, "seed {seed}");
    }
}
