//! Tasks and channels of one process.

use core::sync::atomic::{AtomicU64, Ordering};
use std::{
    sync::Arc,
    thread::{self, Thread},
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::{Semaphore, mpsc, oneshot},
};

use super::{per_second, timed};
use crate::{
    failure::Failure,
    figures::{Figure, Size, figure},
};

const MAILBOX: usize = 1024;

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// A tokio channel between two tasks, received in batches: what a mailbox costs.
///
/// # Errors
/// No runtime.
pub fn tell(size: Size) -> Result<Vec<Figure>, Failure> {
    let messages = size.of(10_000_000);
    let (received, took) = timed(|| {
        Ok::<_, Failure>(runtime()?.block_on(async {
            let (sender, mut mailbox) = mpsc::channel(MAILBOX);
            let receiver = tokio::spawn(async move {
                let mut batch = Vec::with_capacity(64);
                let mut received = 0_u64;
                while mailbox.recv_many(&mut batch, 64).await > 0 {
                    received += batch.drain(..).count() as u64;
                }
                received
            });
            let teller = tokio::spawn(async move {
                for number in 0..messages {
                    let message = [number; 4];
                    if let Err(full) = sender.try_send(message)
                        && sender.send(full.into_inner()).await.is_err()
                    {
                        return;
                    }
                }
            });
            let _ = teller.await;
            receiver.await.unwrap_or(0)
        }))
    });
    if received? != messages {
        return Err(Failure::run("messages were lost"));
    }
    Ok(vec![figure("local_tell_per_s", per_second(messages, took))])
}

type Question = (u64, oneshot::Sender<u64>);

/// Asks through a channel and a oneshot, so many at a time, each by a task of its own.
fn asks(asks: u64, in_flight: u64) -> Result<f64, Failure> {
    let runtime = runtime()?;
    let (answered, took) = timed(|| {
        runtime.block_on(async {
            let (sender, mut mailbox) = mpsc::channel::<Question>(MAILBOX);
            tokio::spawn(async move {
                let mut batch = Vec::with_capacity(64);
                while mailbox.recv_many(&mut batch, 64).await > 0 {
                    for (number, reply) in batch.drain(..) {
                        let _ = reply.send(number);
                    }
                }
            });
            let askers: Vec<_> = (0..in_flight)
                .map(|_| {
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        let mut answered = 0;
                        for number in 0..asks / in_flight {
                            let (reply, answer) = oneshot::channel();
                            if sender.send((number, reply)).await.is_err() {
                                break;
                            }
                            answered += u64::from(answer.await == Ok(number));
                        }
                        answered
                    })
                })
                .collect();
            let mut answered = 0;
            for asker in askers {
                answered += asker.await.unwrap_or(0);
            }
            answered
        })
    });
    Ok(per_second(answered, took))
}

/// One ask at a time.
///
/// # Errors
/// No runtime.
pub fn ask(size: Size) -> Result<Vec<Figure>, Failure> {
    let rate = asks(size.of(500_000), 1)?;
    Ok(vec![figure("local_ask_per_s", rate)])
}

/// 128 asks at a time.
///
/// # Errors
/// No runtime.
pub fn ask_128(size: Size) -> Result<Vec<Figure>, Failure> {
    let rate = asks(size.of(4_000_000), 128)?;
    Ok(vec![figure("local_ask_128_per_s", rate)])
}

/// A task with a mailbox of its own that answers once, spawned for each of many.
///
/// # Errors
/// No runtime.
pub fn spawn(size: Size) -> Result<Vec<Figure>, Failure> {
    let tasks = size.of(200_000);
    let runtime = runtime()?;
    let (answered, took) = timed(|| {
        runtime.block_on(async {
            let ready = Arc::new(Semaphore::new(0));
            let mut mailboxes = Vec::new();
            for number in 0..tasks {
                let (sender, mut mailbox) = mpsc::channel(16);
                let ready = Arc::clone(&ready);
                tokio::spawn(async move {
                    while mailbox.recv().await.is_some() {
                        ready.add_permits(1);
                    }
                });
                let _ = sender.send(number).await;
                mailboxes.push(sender);
            }
            let all = u32::try_from(tasks).unwrap_or(u32::MAX);
            ready.acquire_many(all).await.is_ok()
        })
    });
    if !answered {
        return Err(Failure::run("not every task answered"));
    }
    Ok(vec![figure("first_touch_per_s", per_second(tasks, took))])
}

/// Two threads that park and wake each other in turn: what a wake-up costs.
///
/// # Errors
/// The other thread panicked.
pub fn park(size: Size) -> Result<Vec<Figure>, Failure> {
    let wake_ups = 2 * size.of(100_000);
    let turn = Arc::new(AtomicU64::new(0));
    let me = thread::current();
    let other = {
        let turn = Arc::clone(&turn);
        thread::spawn(move || take_turns(&turn, 1, wake_ups, &me))
    };
    let ((), took) = timed(|| take_turns(&turn, 0, wake_ups, other.thread()));
    if other.join().is_err() {
        return Err(Failure::run("the other thread panicked"));
    }
    Ok(vec![figure("wake_ups_per_s", per_second(wake_ups, took))])
}

/// Takes every second turn, and wakes the other thread for the one after it.
fn take_turns(turn: &AtomicU64, first: u64, turns: u64, other: &Thread) {
    for mine in (first..turns).step_by(2) {
        while turn.load(Ordering::Acquire) != mine {
            thread::park();
        }
        turn.store(mine + 1, Ordering::Release);
        other.unpark();
    }
}
