use core::cell::Cell;

use super::*;

/// How many retries it grants at once.
fn granted(budget: &mut impl Budget, now: Instant) -> usize {
    (0..10_000).take_while(|_| budget.withdraw(now)).count()
}

#[test]
fn it_starts_full_and_empties() {
    assert_eq!(granted(&mut RetryBudget::new(), at(0)), 100);
    assert_eq!(granted(&mut RetryBudget::new().with_capacity(0), at(9)), 0);
    assert_eq!(granted(&mut RetryBudget::new().with_capacity(3), at(0)), 3);
}

#[test]
fn calls_fill_it_by_a_part_each() {
    let mut budget = RetryBudget::new().with_per_second(0);
    granted(&mut budget, at(0));
    for _call in 0..4 {
        budget.deposit(at(0));
    }
    assert!(!budget.withdraw(at(0)), "four fifths");
    budget.deposit(at(0));
    assert_eq!(granted(&mut budget, at(0)), 1);
    for _call in 0..10_000 {
        budget.deposit(at(0));
    }
    assert_eq!(granted(&mut budget, at(0)), 100, "not above its capacity");
}

#[test]
fn time_fills_it_and_never_backwards() {
    let mut budget = RetryBudget::new();
    granted(&mut budget, at(1000));
    assert!(!budget.withdraw(at(1099)));
    assert!(budget.withdraw(at(1100)));
    assert!(!budget.withdraw(at(500)));
    assert!(
        !budget.withdraw(at(1100)),
        "a clock that went back gave nothing"
    );
    assert_eq!(granted(&mut budget, at(4100)), 30);
}

#[test]
fn one_is_shared_by_stubs() {
    let shared = Cell::new(
        RetryBudget::new()
            .with_capacity(2)
            .with_per_second(0)
            .with_percent(0),
    );
    let new = || {
        let storage = StubArray::<8>::new();
        let mut stub =
            Stub::with_budget(StubConfig::new(), RoundRobin::new(), storage, 1, &shared).unwrap();
        view(&mut stub, 1, "A B C D E").unwrap();
        stub
    };
    let (mut one, mut two) = (new(), new());
    let call = Call::new(at(1000));
    let (sent, _) = run(&mut one, at(0), call, |_| Err(Failure::busy()));
    assert_eq!(sent.len(), 3, "both tokens");
    let (sent, result) = run(&mut two, at(0), call, |_| Err(Failure::busy()));
    assert_eq!(sent.len(), 1);
    assert!(matches!(
        result,
        Err(CallError::BudgetExhausted {
            limit: Limit::Tokens,
            ..
        })
    ));
    assert_eq!((one.stats().retries, two.stats().retries_refused), (2, 1));
}

#[test]
#[cfg(feature = "std")]
fn one_is_shared_by_threads() {
    let shared = alloc::sync::Arc::new(std::sync::Mutex::new(RetryBudget::new()));
    let threads = [(); 4].map(|()| {
        let mut shared = alloc::sync::Arc::clone(&shared);
        std::thread::spawn(move || granted(&mut shared, at(0)))
    });
    let granted: usize = threads.map(|thread| thread.join().unwrap()).iter().sum();
    assert_eq!(granted, 100);
}
