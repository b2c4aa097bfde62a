//! The election that stubs share.

use core::cell::Cell;
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::{AtomicU64, Ordering};

/// Whom the stubs of a process elected for a service, and the random choices of their elections.
///
/// One per service. References to one, `Rc` and `Arc` (feature `alloc`) are elections too, so that each stub's policy
/// holds a handle to the same. [`AtomicElection`] is for threads, [`LocalElection`] for one of them; a target without
/// 64-bit atomics that has interrupts or threads wraps the latter in its critical section.
pub trait Election {
    /// The [mark](crate::balance::NodeRef::mark) of the elected node. 0: nobody.
    fn elected(&self) -> u64;

    /// The state of the generator from which the next election draws.
    fn random(&self) -> u64;

    /// Elects `next` if `seen` is still elected, and leaves the generator in the state `random`. `false`: somebody else
    /// was faster, nothing changed.
    fn elect(&self, seen: u64, next: u64, random: u64) -> bool;
}

impl<E: Election + ?Sized> Election for &E {
    fn elected(&self) -> u64 {
        (**self).elected()
    }

    fn random(&self) -> u64 {
        (**self).random()
    }

    fn elect(&self, seen: u64, next: u64, random: u64) -> bool {
        (**self).elect(seen, next, random)
    }
}

#[cfg(feature = "alloc")]
impl<E: Election + ?Sized> Election for alloc::rc::Rc<E> {
    fn elected(&self) -> u64 {
        (**self).elected()
    }

    fn random(&self) -> u64 {
        (**self).random()
    }

    fn elect(&self, seen: u64, next: u64, random: u64) -> bool {
        (**self).elect(seen, next, random)
    }
}

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
impl<E: Election + ?Sized> Election for alloc::sync::Arc<E> {
    fn elected(&self) -> u64 {
        (**self).elected()
    }

    fn random(&self) -> u64 {
        (**self).random()
    }

    fn elect(&self, seen: u64, next: u64, random: u64) -> bool {
        (**self).elect(seen, next, random)
    }
}

/// An election among stubs of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalElection {
    elected: Cell<u64>,
    random: Cell<u64>,
}

impl LocalElection {
    /// Nobody is elected. The seed is that of the service: the operating system's entropy, mixed with the service's
    /// number.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            elected: Cell::new(0),
            random: Cell::new(seed),
        }
    }
}

impl Election for LocalElection {
    fn elected(&self) -> u64 {
        self.elected.get()
    }

    fn random(&self) -> u64 {
        self.random.get()
    }

    fn elect(&self, seen: u64, next: u64, random: u64) -> bool {
        let first = self.elected.get() == seen;
        if first {
            self.elected.set(next);
            self.random.set(random);
        }
        first
    }
}

/// An election among stubs of many threads, without locks: who is elected is one word, and it is swapped.
#[cfg(target_has_atomic = "64")]
#[derive(Debug, Default)]
pub struct AtomicElection {
    elected: AtomicU64,
    random: AtomicU64,
}

#[cfg(target_has_atomic = "64")]
impl AtomicElection {
    /// Nobody is elected. The seed is that of the service: the operating system's entropy, mixed with the service's
    /// number.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            elected: AtomicU64::new(0),
            random: AtomicU64::new(seed),
        }
    }
}

#[cfg(target_has_atomic = "64")]
impl Election for AtomicElection {
    fn elected(&self) -> u64 {
        self.elected.load(Ordering::Acquire)
    }

    fn random(&self) -> u64 {
        self.random.load(Ordering::Acquire)
    }

    fn elect(&self, seen: u64, next: u64, random: u64) -> bool {
        let swapped =
            self.elected
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Acquire);
        if swapped.is_ok() {
            // Whoever elects before this is stored draws the same number again, for other candidates.
            self.random.store(random, Ordering::Release);
        }
        swapped.is_ok()
    }
}
