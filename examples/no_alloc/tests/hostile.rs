//! What other nodes say, broken in every way: the device breaks the connection, or ignores it, and goes on.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use core::time::Duration;

use device::{AskError, Config, Device, Event, Failure, OUTBOX, State, VISITOR};
use heapless::Vec;
use shard_proto::hash::{SplitMix64, entity_type_id, node_id};
use shard_proto::membership::Roles;
use shard_proto::wire::control::{Hello, LeaderBeat, Refusal, ShardEpoch, Welcome};
use shard_proto::wire::{Control, Data, DataHead, Envelope, Flags, Reply};
use shard_proto::{Epoch, Incarnation, Instant, ShardId, Term};

const LIFE: u64 = 7;

fn device() -> Device<'static> {
    let config = Config {
        name: "device",
        incarnation: LIFE,
        seed: 1,
        cluster: "",
        voters: &["a"],
        shards: 4,
    };
    Device::new(Instant::ZERO, &config).unwrap()
}

fn control(control: &Control<'_>) -> std::vec::Vec<u8> {
    let mut frame = [0; 1024];
    let len = control.encode(entity_type_id(VISITOR), Term(5), 1, &mut frame);
    frame[..len.unwrap()].to_vec()
}

fn hello(name: &str, incarnation: u64) -> std::vec::Vec<u8> {
    let voters = shard_proto::leadership::Voters::new(&[node_id("a")]).unwrap();
    control(&Control::Hello(Hello {
        min_version: 1,
        max_version: 1,
        cluster: shard_proto::hash::cluster_id(""),
        voters: voters.digest(),
        node: node_id(name),
        incarnation: Incarnation(incarnation),
        name,
        address: "there",
        roles: Roles::NONE,
        lanes: 8,
        max_frame: 1 << 20,
        max_message: 1 << 20,
        dialer: false,
    }))
}

fn welcome(expected: u64) -> std::vec::Vec<u8> {
    control(&Control::Welcome(Welcome {
        version: 1,
        incarnation: Incarnation(LIFE),
        expected: &expected.to_le_bytes(),
    }))
}

fn data(seq: u64, data: &Data<'_>) -> std::vec::Vec<u8> {
    let head = DataHead {
        flags: Flags::NONE,
        version: 1,
        entity_type: entity_type_id(VISITOR),
        epoch: Epoch::new(Term(5), 1).unwrap(),
        seq,
    };
    let mut frame = [0; 1024];
    let len = data.encode(&head, 1 << 20, &mut frame).unwrap();
    frame[..len].to_vec()
}

fn envelope(seq: u64) -> std::vec::Vec<u8> {
    let envelope = Envelope {
        shard: ShardId(1),
        correlation: seq + 1,
        id: b"user-1",
        payload: b"\x05hello",
    };
    data(seq, &Data::Envelope(envelope))
}

/// Everything that it wants to write.
fn said(device: &mut Device<'_>, now: Instant) -> usize {
    let mut out: Vec<u8, OUTBOX> = Vec::new();
    let mut said = 0;
    loop {
        device.transmit(now, 0, &mut out);
        if out.is_empty() {
            return said;
        }
        said += out.len();
    }
}

#[test]
fn broken_bytes_break_the_connection_at_most() {
    let mut random = SplitMix64::new(3);
    let mut broken = 0;
    for _ in 0..20_000 {
        let mut device = device();
        let now = Instant::from_micros(1_000_000);
        device.handle_timeout(now);
        device.connected(now, 0);
        let beat = LeaderBeat {
            seq: 1,
            echo: 1,
            valid: 1 << 40,
        };
        let reply = Reply {
            correlation: 3,
            status: 0,
            payload: b"?",
        };
        let claim = ShardEpoch {
            shard: ShardId(9),
            epoch: Epoch::NONE,
        };
        let mut bytes = hello("a", 1);
        bytes.extend(welcome(0));
        bytes.extend(control(&Control::LeaderBeat(beat)));
        bytes.extend(envelope(0));
        bytes.extend(control(&Control::ShardStarted(claim)));
        bytes.extend(data(1, &Data::Reply(reply)));
        for _ in 0..random.below(4) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            match random.below(3) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.next_u64() as u8),
            }
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = usize::try_from(1 + random.below(rest.len() as u64)).unwrap();
            device.receive(now, 0, &rest[..len]);
            rest = &rest[len..];
        }
        assert!(said(&mut device, now) < 4096);
        assert_ne!(device.state(), State::Left);
        broken += u32::from(!device.wants(0));
        device.handle_timeout(now.after(Duration::from_secs(60)));
    }
    // Whole ones do not, and most broken ones are noticed.
    assert!((5_000..19_000).contains(&broken), "{broken}");
}

#[test]
fn what_cannot_be_answered_is_not_accepted_and_comes_again() {
    let mut device = device();
    let now = Instant::from_micros(1_000_000);
    device.handle_timeout(now);
    device.connected(now, 0);
    device.receive(now, 0, &hello("a", 1));
    device.receive(now, 0, &welcome(0));
    // Each goes back, since nothing is hosted here: until nothing more fits that nobody acknowledges.
    let mut sent = 0;
    while device.wants(0) {
        device.receive(now, 0, &envelope(sent));
        sent += 1;
        assert!(sent < 1000);
    }
    assert_eq!(device.stats().overruns, 1);
    device.closed(now, 0);
    // The next connection follows at once. The other side has all that was sent, and is told what to send again.
    assert!(device.wants(0));
    said(&mut device, now);
    device.connected(now, 0);
    device.receive(now, 0, &hello("a", 1));
    device.receive(now, 0, &welcome(0));
    let mut out: Vec<u8, OUTBOX> = Vec::new();
    device.transmit(now, 0, &mut out);
    let expected = sent - 1;
    let told = out.windows(8).any(|it| it == expected.to_le_bytes());
    assert!(told, "the last one was not accepted: {expected}");
    device.receive(now, 0, &envelope(expected));
    assert_eq!(device.stats().faults, 0);
}

#[test]
fn a_life_that_the_others_gave_up_is_over() {
    let mut device = device();
    let now = Instant::from_micros(1_000_000);
    device.handle_timeout(now);
    device.connected(now, 0);
    let key = device.ask(now, "user-1", b"?", Duration::from_secs(5));
    let newest = Incarnation(LIFE);
    device.receive(now, 0, &hello("a", 1));
    device.receive(
        now,
        0,
        &control(&Control::Refused(Refusal::Incarnation { newest })),
    );
    assert_eq!(device.state(), State::Over);
    let failed = Event::Failed(key.unwrap(), Failure::PerhapsDelivered);
    assert_eq!(device.poll_event(), Some(failed));
    let again = device.ask(now, "user-1", b"?", Duration::from_secs(5));
    assert_eq!(again, Err(AskError::Stopped));
}
