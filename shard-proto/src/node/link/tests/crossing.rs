//! Several connections of two nodes at once, in every interleaving: one survives, the same at both ends.

use super::raw::{Raw, hello, welcome};
use super::*;
use crate::wire::Kind;

/// How the steps of a run were chosen, and how many there were to choose from.
struct Path {
    choices: Vec<(usize, usize)>,
}

impl Path {
    /// Turns the last choice that has an alternative; `false` when there is none.
    fn advance(&mut self) -> bool {
        while let Some((chosen, of)) = self.choices.pop() {
            if chosen + 1 < of {
                self.choices.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

fn check(world: &mut World) {
    let open = world.open();
    assert_eq!(open.len(), 1, "{world:#?}");
    assert!(world.is_up(0, 1) && world.is_up(1, 0));
    let pipe = &world.pipes[open[0]];
    for (host, link) in pipe.ends {
        let slot = world.slot(host, 1 - host).unwrap();
        assert_eq!(
            world.hosts[host].links.peers.get(slot).unwrap().link,
            Some(link)
        );
    }
    for host in [0, 1] {
        // The link may change under a peer, but once it is up it does not go down.
        let downs = world.hosts[host]
            .heard
            .iter()
            .filter(|heard| matches!(heard, Heard::Down(..)))
            .count();
        assert!(downs <= 1, "{:?}", world.hosts[host].heard);
    }
    world.send(0, 1, 2);
    world.send(1, 0, 2);
    world.run();
    assert_eq!(world.hosts[1].from(world.node(0)), [0, 1, 2]);
    assert_eq!(world.hosts[0].from(world.node(1)), [0, 1, 2]);
}

/// Runs every order of events; answers how many there were.
fn explore(setup: impl Fn() -> World, also: impl Fn(&World)) -> usize {
    let mut path = Path {
        choices: Vec::new(),
    };
    let mut runs = 0;
    loop {
        let mut world = setup();
        let mut step = 0;
        loop {
            let choices = world.choices();
            if choices.is_empty() {
                break;
            }
            if step == path.choices.len() {
                path.choices.push((0, choices.len()));
            }
            let (chosen, of) = path.choices[step];
            assert_eq!(of, choices.len(), "not deterministic");
            world.choose(choices[chosen]);
            step += 1;
        }
        world.send(0, 1, 1);
        world.send(1, 0, 1);
        check(&mut world);
        also(&world);
        runs += 1;
        if !path.advance() {
            return runs;
        }
    }
}

/// As `explore`, but at random.
fn sample(runs: u64, setup: impl Fn() -> World) {
    for seed in 0..runs {
        let mut rng = hash::SplitMix64::new(seed);
        let mut world = setup();
        for step in 0.. {
            let choices = world.choices();
            if choices.is_empty() {
                break;
            }
            world.choose(choices[rng.below(choices.len() as u64) as usize]);
            if step == 3 {
                world.send(0, 1, 1);
                world.send(1, 0, 1);
            }
        }
        check(&mut world);
    }
}

fn world(seeds: &[(usize, usize)]) -> World {
    let names = lower_first("a", "b");
    let mut world = World::new(&names);
    let (low, high) = (world.node(0), world.node(1));
    // Members without an address: dials come from seeds alone, and data can wait for the link.
    for (host, other) in [(0, high), (1, low)] {
        world.hosts[host]
            .links
            .handle_member(world.now, other, Incarnation(10), None);
    }
    for (host, times) in seeds {
        for time in 0..*times {
            let address = format!("alias-{time}:1");
            world.hosts[*host].links.add_seed(world.now, &address);
        }
    }
    for host in [0, 1] {
        world.collect(host);
        world.send(host, 1 - host, 0);
    }
    // All aliases lead to the other host.
    for (host, _, address) in &mut world.dials {
        *address = format!("{}:1", names[1 - *host]);
    }
    world
}

#[test]
fn both_dial() {
    let runs = explore(
        || world(&[(0, 1), (1, 1)]),
        |world| {
            assert_eq!(
                world.pipes[world.only()].ends[0].0,
                0,
                "the lower one's survives"
            )
        },
    );
    assert!(runs > 500, "{runs}");
}

#[test]
fn one_dials_twice() {
    let lower = explore(|| world(&[(0, 2)]), |_| ());
    let higher = explore(|| world(&[(1, 2)]), |_| ());
    assert!(lower > 100 && higher > 100, "{lower} {higher}");
}

#[test]
fn both_dial_twice_or_thrice() {
    sample(1000, || world(&[(0, 2), (1, 2)]));
    sample(300, || world(&[(0, 3), (1, 1)]));
    sample(300, || world(&[(0, 1), (1, 3)]));
}

/// A link stands, one end loses it, and either end dials again before the other end notices.
#[test]
fn a_half_open_link_is_replaced_whoever_dials() {
    for dialed_by in [0, 1] {
        for lost_by in [0, 1] {
            for again_by in [0, 1] {
                let mut world = world(&[(dialed_by, 1)]);
                world.run();
                world.send(0, 1, 1);
                world.send(1, 0, 1);
                let pipe = world.only();
                world.cut_end(pipe, usize::from(lost_by != dialed_by));
                // The other end hears nothing of it.
                world.pipes[pipe].closed = [true; 2];
                world.run();
                world.dials.clear();
                world.hosts[again_by].links.add_seed(world.now, "late:1");
                world.collect(again_by);
                let (_, _, address) = world
                    .dials
                    .iter_mut()
                    .find(|dial| dial.0 == again_by)
                    .unwrap();
                *address = format!("{}:1", lower_first("a", "b")[1 - again_by]);
                world.run();
                if again_by != lost_by && !world.is_up(lost_by, again_by) {
                    // The end that dialed believes in the link until it has been silent for too long.
                    for alias in ["alias-0:1", "late:1"] {
                        world.unreachable.push(alias.into());
                    }
                    world.advance(ms(6000));
                    world.hosts[again_by].links.add_seed(world.now, "later:1");
                    world.collect(again_by);
                    let (_, _, address) = world.dials.last_mut().unwrap();
                    *address = format!("{}:1", lower_first("a", "b")[1 - again_by]);
                    world.run();
                }
                check(&mut world);
            }
        }
    }
}

/// The dialer lost the connection it had committed to; the offer on one that it dialed before comes too late.
#[test]
fn an_offer_older_than_a_commit_is_not_taken() {
    for dialer in [0, 1] {
        let mut world = world(&[(dialer, 2)]);
        world.connect(0);
        world.connect(0);
        for choice in [(0, 1), (0, 0), (0, 0), (0, 1)] {
            world.collect(dialer);
            world.collect(1 - dialer);
            world.choose(Choice::Frame(choice.0, choice.1));
        }
        assert!(world.is_up(0, 1) && world.is_up(1, 0));
        world.cut(0);
        world.run();
        assert_eq!(world.open(), [0; 0]);
        assert!(!world.is_up(dialer, 1 - dialer));
    }
}

/// Two commits of one dialer arrive the other way round: it lost the connection of the first to arrive late.
#[test]
fn a_commit_on_an_older_connection_is_not_taken() {
    let mut raw = Raw::new(|config| config);
    let older = raw.link;
    let newer = raw.host.links.accepted(raw.now, 1, None).unwrap();
    for link in [older, newer] {
        raw.link = link;
        raw.say(&Control::Hello(hello("b"))).unwrap();
    }
    raw.say(&welcome(&[0; 8])).unwrap();
    let slot = raw.slot();
    assert!(raw.host.links.is_up(slot));
    raw.answers.clear();
    raw.link = older;
    raw.say(&welcome(&[0; 8])).unwrap();
    assert_eq!(raw.said(), [Kind::REFUSED]);
    assert_eq!(raw.host.links.peers.get(slot).unwrap().link, Some(newer));

    // The other way round the newer one takes the place.
    let newest = raw.host.links.accepted(raw.now, 1, None).unwrap();
    raw.link = newest;
    raw.say(&Control::Hello(hello("b"))).unwrap();
    raw.say(&welcome(&[0; 8])).unwrap();
    assert_eq!(raw.host.links.peers.get(slot).unwrap().link, Some(newest));
}
