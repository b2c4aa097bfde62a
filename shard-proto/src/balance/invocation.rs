//! One call, over all its attempts.

use super::{
    Budget, Call, CallError, CompletionStatus, Failure, Limit, LoadBalancePolicy, NodeRef, Stub,
    StubConfig, StubStorage, overlay::Flight, stub::Pick,
};
use crate::Instant;

/// What to do next for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a step nobody takes must not compile"
)]
pub enum Step {
    /// Send it, with the version of the stub's view, and tell what came of it: [`Invocation::on_outcome`].
    Send {
        /// To whom.
        node: NodeRef,
        /// The number of the attempt, from 1.
        attempt: u8,
        /// Until when to wait for the answer: [`Invocation::handle_timeout`].
        deadline: Instant,
    },
    /// Nothing, until then or until a view arrives: [`Invocation::handle_timeout`].
    Park {
        /// Until when, at most.
        until: Instant,
    },
    /// It was answered.
    Done,
    /// It failed.
    Fail {
        /// Why, and whether it was carried out.
        error: CallError,
    },
}

#[derive(Clone, Copy, Debug)]
enum State {
    New,
    Sent(Flight, Instant),
    Parked(Instant),
    Done,
    Failed(CallError),
}

/// A call to a service: a state machine that tries nodes until one answers, or it must stop.
///
/// ```text
///            ┌─────── no node yet ──────┐   view, time
///   start ───┤                        Parked ─────┐
///            │                          │ too long│
///            └──► Sent ◄──── retry ─────┼─────────┘
///                  │  └── failed: again? ┘
///          answered│        │ no
///                Done     Failed
/// ```
///
/// All methods take the stub of the service, always the same one. A call that is not wanted any more must be
/// [cancelled](Invocation::cancel), since otherwise the node would count as busy with it for as long as it is a member.
/// About 500 bytes; nothing is allocated.
#[derive(Clone, Debug)]
pub struct Invocation {
    call: Call,
    state: State,
    tried: heapless::Vec<NodeRef, { StubConfig::MAX_ATTEMPTS as usize }>,
    /// When it has waited long enough for a node.
    patience: Instant,
    completed: CompletionStatus,
    last: Option<Failure>,
}

impl Invocation {
    /// A call that has not started.
    #[must_use]
    pub const fn new(call: Call) -> Self {
        Self {
            call,
            state: State::New,
            tried: heapless::Vec::new(),
            patience: Instant::FAR_FUTURE,
            completed: CompletionStatus::No,
            last: None,
        }
    }

    /// Starts it. Once it has started: what it waits for, or how it ended.
    pub fn start<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
    ) -> Step {
        if !matches!(self.state, State::New) {
            return self.step();
        }
        let now = stub.clamp(now);
        let wait = self
            .call
            .wait
            .map_or(Instant::FAR_FUTURE, |wait| now.after(wait));
        self.patience = wait.min(self.call.deadline);
        stub.deposit(now);
        self.attempt(now, stub)
    }

    /// Takes in how an attempt ended: `Ok` if the node answered, with an error of the application too.
    ///
    /// An attempt that is not the one in flight, since it was given up, changes nothing.
    pub fn on_outcome<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
        attempt: u8,
        outcome: Result<(), Failure>,
    ) -> Step {
        let State::Sent(flight, _) = self.state else {
            return self.step();
        };
        if attempt != self.attempts() {
            return self.step();
        }
        let now = stub.clamp(now);
        stub.land(now, flight, outcome.err());
        let Err(failure) = outcome else {
            self.state = State::Done;
            return Step::Done;
        };
        self.last = Some(failure);
        self.completed = self.completed.max(failure.completed());
        if let Some(error) = self.verdict(now, failure) {
            return self.fail(error);
        }
        self.attempt(now, stub)
    }

    /// Time has passed, or a view arrived: gives up an attempt whose time is over, and looks again for a node if there
    /// was none. At any time.
    pub fn handle_timeout<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
    ) -> Step {
        let now = stub.clamp(now);
        match self.state {
            State::Sent(_, deadline) if now >= deadline => {
                let attempt = self.attempts();
                self.on_outcome(now, stub, attempt, Err(Failure::timed_out()))
            }
            State::Parked(_) => self.attempt(now, stub),
            _ => self.step(),
        }
    }

    /// When [`Invocation::handle_timeout`] has something to do.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Sent(_, until) | State::Parked(until) => Some(until),
            State::New | State::Done | State::Failed(_) => None,
        }
    }

    /// Ends it: nobody waits for it any more. Says whether it was carried out, as far as that is known.
    pub fn cancel<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        stub: &mut Stub<P, S, B>,
    ) -> CompletionStatus {
        match self.state {
            State::Done => return CompletionStatus::Yes,
            State::Failed(error) => return error.completed(),
            State::Sent(flight, _) => {
                stub.abandon(flight);
                self.completed = self.completed.max(CompletionStatus::Maybe);
            }
            State::New | State::Parked(_) => {}
        }
        let completed = self.completed;
        self.state = State::Failed(CallError::Cancelled { completed });
        completed
    }

    /// How many attempts there were, the one in flight counted.
    #[must_use]
    pub fn attempts(&self) -> u8 {
        u8::try_from(self.tried.len()).unwrap_or(u8::MAX)
    }

    /// The nodes that were tried, in order.
    #[must_use]
    pub fn tried(&self) -> &[NodeRef] {
        &self.tried
    }

    fn step(&self) -> Step {
        match self.state {
            State::New => Step::Park {
                until: Instant::FAR_FUTURE,
            },
            State::Sent(_, until) | State::Parked(until) => Step::Park { until },
            State::Done => Step::Done,
            State::Failed(error) => Step::Fail { error },
        }
    }

    fn fail(&mut self, error: CallError) -> Step {
        self.state = State::Failed(error);
        Step::Fail { error }
    }

    /// Why a call is not tried again after this failure, whatever nodes there are.
    fn verdict(&self, now: Instant, last: Failure) -> Option<CallError> {
        let (attempts, completed) = (self.attempts(), self.completed);
        if let Some(node) = self.call.bound
            && last.suspicious()
        {
            let last = Some(last);
            return Some(CallError::BoundLost {
                node,
                last,
                completed,
            });
        }
        if now >= self.call.deadline && completed != CompletionStatus::Yes {
            return Some(self.late());
        }
        let again = match completed {
            CompletionStatus::No => true,
            CompletionStatus::Maybe => self.call.idempotent,
            CompletionStatus::Yes => false,
        };
        let stop = !again || self.call.bound.is_some();
        stop.then_some(CallError::NotRetried {
            attempts,
            last,
            completed,
        })
    }

    fn late(&self) -> CallError {
        CallError::Deadline {
            attempts: self.attempts(),
            last: self.last,
            completed: self.completed,
        }
    }

    /// Looks for the next node.
    fn attempt<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
    ) -> Step {
        if now >= self.call.deadline && !matches!(self.state, State::Parked(_)) {
            return self.fail(self.late());
        }
        if let Some(node) = self.call.bound {
            return self.send(now, stub, node);
        }
        let Some(last) = self.last else {
            return match stub.pick(now, &self.call, &self.tried) {
                Pick::Node(node) if now < self.call.deadline => self.send(now, stub, node),
                _ => self.park(now, stub),
            };
        };
        // Whether anybody is left decides before limits do: to have tried everybody is the better thing to know.
        let (attempts, completed) = (self.attempts(), self.completed);
        let exhausted = CallError::Exhausted {
            attempts,
            last,
            completed,
        };
        let spent = |limit| CallError::BudgetExhausted {
            limit,
            attempts,
            last,
            completed,
        };
        if stub.nobody_but(&self.tried) {
            return self.fail(exhausted);
        }
        let most = self.call.max_attempts.unwrap_or(stub.config.max_attempts);
        if attempts >= most.min(StubConfig::MAX_ATTEMPTS) {
            return self.fail(spent(Limit::Attempts));
        }
        if !stub.withdraw(now) {
            return self.fail(spent(Limit::Tokens));
        }
        match stub.pick(now, &self.call, &self.tried) {
            Pick::Node(node) => self.send(now, stub, node),
            Pick::Declined | Pick::Nobody => self.fail(exhausted),
        }
    }

    fn send<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
        node: NodeRef,
    ) -> Step {
        let flight = stub.send(now, node);
        let Some(flight) = flight.filter(|_| self.tried.push(node).is_ok()) else {
            // Only a bound node may have left; whoever was picked is a member.
            return self.fail(CallError::BoundLost {
                node,
                last: self.last,
                completed: self.completed,
            });
        };
        let timeout = self.call.attempt_timeout;
        let timeout = timeout.map_or(Instant::FAR_FUTURE, |timeout| now.after(timeout));
        let deadline = timeout.min(self.call.deadline);
        self.state = State::Sent(flight, deadline);
        Step::Send {
            node,
            attempt: self.attempts(),
            deadline,
        }
    }

    fn park<P: LoadBalancePolicy, S: StubStorage, B: Budget>(
        &mut self,
        now: Instant,
        stub: &mut Stub<P, S, B>,
    ) -> Step {
        if now >= self.patience {
            return self.fail(CallError::NoNodes);
        }
        stub.stats.parked = stub.stats.parked.saturating_add(1);
        let until = now.after(stub.config.park).min(self.patience);
        self.state = State::Parked(until);
        Step::Park { until }
    }
}
