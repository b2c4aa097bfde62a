use core::sync::atomic::{AtomicBool, AtomicUsize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::queue::{PushError, Queue};

#[test]
fn pending_survives_every_change_of_state() {
    let gate = Gate::default();
    assert_eq!(gate.way(), Way::Closed);
    assert_eq!(gate.enter(|_| 2), Ok(Way::Closed));
    assert_eq!(gate.enter(|_| 2), Ok(Way::Closed));
    assert_eq!(gate.enter(|_| 2), Err(Way::Closed));
    let first = gate.start();
    gate.set(Way::Open);
    assert_eq!((gate.way(), gate.pending()), (Way::Open, 2));
    assert!(!gate.is_free(first));
    gate.settle(2);
    assert!(gate.is_free(first));
    gate.set(Way::Remote);
    assert!(!gate.is_free(first));
    let second = gate.start();
    gate.set(Way::Open);
    assert!(!gate.is_free(first) && gate.is_free(second));
}

type Box = Arc<Queue<(usize, u64)>>;

/// A host with one entity, whose shard opens and closes: what the driver and the core do with it, in small.
struct Host {
    gate: Gate,
    inbox: Queue<(usize, u64)>,
    mailbox: Mutex<(Opening, Box)>,
    done: AtomicBool,
}

impl Host {
    fn send(&self, item: (usize, u64), chaos: &mut impl FnMut()) {
        // A mailbox found before or after the gate is looked at: both happen, by cache and by look-up.
        let (opening, mailbox) = self.mailbox.lock().unwrap().clone();
        chaos();
        if self.gate.is_free(opening) {
            chaos();
            match mailbox.push(item, usize::MAX) {
                Ok(_) => return,
                Err(PushError::Full(_)) => unreachable!(),
                Err(PushError::Closed(_)) => {}
            }
        }
        while self.gate.enter(|_| 64).is_err() {
            std::thread::yield_now();
        }
        chaos();
        assert!(self.inbox.push(item, usize::MAX).is_ok());
    }

    /// Opens and closes the shard until everything has been handled; returns what the entity saw.
    fn drive(&self, total: usize, mut chance: impl FnMut() -> u64) -> Vec<(usize, u64)> {
        let mut seen = Vec::new();
        let mut buffer: VecDeque<(usize, u64)> = VecDeque::new();
        let mut open = false;
        while seen.len() < total {
            if open && chance().is_multiple_of(4) {
                open = false;
                self.gate.set(Way::Closed);
                let mailbox = Arc::clone(&self.mailbox.lock().unwrap().1);
                mailbox.close();
                let rest = mailbox.take_rest();
                for item in rest.into_iter().rev() {
                    buffer.push_front(item);
                }
            }
            let mut arrived = self.inbox.take_rest();
            if open {
                let mailbox = Arc::clone(&self.mailbox.lock().unwrap().1);
                let count = arrived.len();
                for item in arrived {
                    assert!(mailbox.push(item, usize::MAX).is_ok());
                }
                self.gate.settle(count as u32);
                let some = mailbox.take_rest();
                seen.extend(some);
            } else {
                let count = arrived.len();
                buffer.append(&mut arrived);
                if chance().is_multiple_of(2) {
                    let opening = self.gate.start();
                    let mailbox = Arc::new(Queue::new());
                    // Published before the buffered messages are in: the number must keep callers out.
                    *self.mailbox.lock().unwrap() = (opening, Arc::clone(&mailbox));
                    std::thread::yield_now();
                    for item in buffer.drain(..) {
                        assert!(mailbox.push(item, usize::MAX).is_ok());
                    }
                    self.gate.set(Way::Open);
                    open = true;
                }
                self.gate.settle(count as u32);
            }
            if chance().is_multiple_of(8) {
                std::thread::yield_now();
            }
        }
        self.done.store(true, Ordering::Relaxed);
        seen
    }
}

fn generator(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        shard_proto::hash::mix(state)
    }
}

fn per_caller_order_holds(seed: u64, callers: usize, each: u64) {
    let host = Host {
        gate: Gate::default(),
        inbox: Queue::new(),
        mailbox: Mutex::new((Opening(u64::MAX), Arc::new(Queue::new()))),
        done: AtomicBool::new(false),
    };
    let sent = AtomicUsize::new(0);
    let seen = std::thread::scope(|scope| {
        for caller in 0..callers {
            let (host, sent) = (&host, &sent);
            scope.spawn(move || {
                let mut next = generator(seed ^ (caller as u64) << 32);
                let mut chaos = move || {
                    if next().is_multiple_of(16) {
                        std::thread::yield_now();
                    }
                };
                for n in 0..each {
                    host.send((caller, n), &mut chaos);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        host.drive(callers * each as usize, generator(seed))
    });
    assert_eq!(sent.into_inner(), seen.len());
    let mut next = vec![0; callers];
    for (caller, n) in seen {
        assert_eq!(next[caller], n, "caller {caller}, seed {seed}");
        next[caller] += 1;
    }
    assert_eq!(host.gate.pending(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn callers_keep_their_order_while_the_shard_opens_and_closes(seed: u64, callers in 1_usize..5) {
        per_caller_order_holds(seed, callers, 4_000);
    }
}
