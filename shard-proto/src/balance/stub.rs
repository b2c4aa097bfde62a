//! A service as a client sees it.

use super::{
    Budget, Call, Candidates, Failure, LoadBalancePolicy, NodeRef, Outcome, Overlay, PickContext,
    RetryBudget, Source, SplitMix64, StubConfig, StubConfigError, StubStorage, View, ViewError,
    ViewUpdate,
    overlay::{Change, Flight},
    refresh::Refresh,
    select::Selection,
};
use crate::Instant;

/// What a stub has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StubStats {
    /// Attempts, the first ones of calls and retries.
    pub attempts: u64,
    /// Attempts that were retries.
    pub retries: u64,
    /// Retries that the budget refused.
    pub retries_refused: u64,
    /// How often a call found no node, or the policy declined.
    pub parked: u64,
    /// Picks of a policy that were no candidates; taken as declined.
    pub bad_picks: u64,
    /// Nodes that became suspected.
    pub suspected: u64,
    /// Nodes that were ejected.
    pub ejected: u64,
    /// Nodes that were not ejected because too many are.
    pub spared: u64,
    /// How often candidates were chosen without regard to doubt, because too few nodes were good.
    pub panics: u64,
    /// Views that were taken.
    pub views: u64,
    /// Views that were not taken because they are not newer.
    pub views_old: u64,
    /// Views that were refused for another reason.
    pub views_refused: u64,
}

/// What came of picking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    Node(NodeRef),
    /// The policy does not want any of the candidates.
    Declined,
    /// There is no candidate.
    Nobody,
}

/// A service that many nodes provide, in one client: its [`View`], its [`Overlay`], its policy and its retry budget.
///
/// Calls go through an [`Invocation`](super::Invocation) each. Views come with replies ([`Stub::handle_view`]), or are
/// asked for when [`Stub::poll_view`] says so.
#[derive(Debug)]
pub struct Stub<P, S: StubStorage, B = RetryBudget> {
    pub(super) config: StubConfig,
    policy: P,
    view: View<S::Members>,
    overlay: Overlay<S::Overlay>,
    budget: B,
    rng: SplitMix64,
    now: Instant,
    /// Who is eligible for a call that has tried nobody, if that is what the overlay's list says.
    selected: Option<Selection>,
    generation: u64,
    refresh: Refresh,
    pub(super) stats: StubStats,
}

impl<P: LoadBalancePolicy, S: StubStorage> Stub<P, S> {
    /// A stub that knows nobody yet. Its seed is [`stub_seed`](super::stub_seed).
    ///
    /// # Errors
    ///
    /// The storage has room for nobody or for too many, or the settings contradict themselves.
    pub fn new(
        config: StubConfig,
        policy: P,
        storage: S,
        seed: u64,
    ) -> Result<Self, StubConfigError> {
        Self::with_budget(config, policy, storage, seed, RetryBudget::new())
    }
}

impl<P: LoadBalancePolicy, S: StubStorage, B: Budget> Stub<P, S, B> {
    /// A stub with another retry budget than the default, or with one that it shares.
    ///
    /// # Errors
    ///
    /// As [`Stub::new`].
    pub fn with_budget(
        config: StubConfig,
        policy: P,
        storage: S,
        seed: u64,
        budget: B,
    ) -> Result<Self, StubConfigError> {
        let (members, overlay) = storage.split();
        let mut overlay = Overlay::new(overlay);
        let (view, room) = (members.as_ref().len(), overlay.capacity());
        if view == 0 || view > usize::from(u16::MAX) {
            return Err(StubConfigError::Capacity(view));
        }
        if view > room {
            let overlay = room;
            return Err(StubConfigError::Overlay { view, overlay });
        }
        if !(1..=StubConfig::MAX_ATTEMPTS).contains(&config.max_attempts) {
            return Err(StubConfigError::Attempts(config.max_attempts));
        }
        // A generator of its own: the policy's first draw is the seed's first number.
        let seeds = u64::from(config.seeds);
        let first = SplitMix64::new(super::mix(seed)).below(seeds);
        Ok(Self {
            config,
            policy,
            view: View::new(config.cluster, members),
            overlay,
            budget,
            rng: SplitMix64::new(seed),
            now: Instant::ZERO,
            selected: None,
            generation: 0,
            refresh: Refresh::new(u16::try_from(first).unwrap_or(0)),
            stats: StubStats::default(),
        })
    }

    /// Takes a view that came with a reply, or as the answer to a question. What is believed of nodes that stay is kept.
    ///
    /// Calls that are parked should look again. O(n log n).
    ///
    /// # Errors
    ///
    /// It is of another cluster, not newer, empty or too long. The view there is stays.
    pub fn handle_view(&mut self, now: Instant, update: ViewUpdate<'_>) -> Result<(), ViewError> {
        let now = self.clamp(now);
        let taken = self.view.replace(update);
        match taken {
            Ok(()) => {
                self.stats.views = self.stats.views.saturating_add(1);
                self.overlay
                    .follow(self.view.members(), self.config.half_life);
                self.overlay.spare(now, &self.config);
                self.selected = None;
                self.refresh.answered(now, self.config.refresh);
            }
            Err(ViewError::NotNewer { current }) => {
                self.stats.views_old = self.stats.views_old.saturating_add(1);
                // A late one says nothing of what is current.
                if update.epoch == current {
                    self.refresh.answered(now, self.config.refresh);
                }
            }
            Err(_) => self.stats.views_refused = self.stats.views_refused.saturating_add(1),
        }
        taken
    }

    /// Somebody who was told the [version](View::version) of this view had no newer one.
    pub fn handle_view_current(&mut self, now: Instant) {
        let now = self.clamp(now);
        self.refresh.answered(now, self.config.refresh);
    }

    /// Whom to ask for a view now, if anybody. Ask, and pass on the answer if there is one.
    ///
    /// Asks a good node of the view every [refresh period](StubConfig::with_refresh); the seeds, which are never
    /// forgotten, if there is none or if nobody answers.
    pub fn poll_view(&mut self, now: Instant) -> Option<Source> {
        let now = self.clamp(now);
        if now < self.poll_timeout()? {
            return None;
        }
        let selection = self.select(now, &[]);
        let good = if selection.panic { 0 } else { selection.count };
        // Not the policy's generator: asking must not change what is picked.
        let seed = super::mix(now.as_micros() ^ self.rng.state());
        let at = SplitMix64::new(seed).below(good as u64);
        let node = usize::try_from(at)
            .ok()
            .filter(|at| *at < good)
            .and_then(|at| self.listed(selection).get(at))
            .map(|candidate| candidate.node);
        let (retry, seeds) = (self.config.refresh_retry, self.config.seeds);
        self.refresh.ask(now, retry, seeds, node)
    }

    /// When [`Stub::poll_view`] has something to ask. Never without seeds and nodes.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let somebody = self.config.seeds > 0 || !self.view.members().is_empty();
        somebody.then_some(self.refresh.due())
    }

    /// Who provides the service.
    #[must_use]
    pub const fn view(&self) -> &View<S::Members> {
        &self.view
    }

    /// What is believed of them.
    #[must_use]
    pub const fn overlay(&self) -> &Overlay<S::Overlay> {
        &self.overlay
    }

    /// The policy.
    #[must_use]
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// What was counted.
    #[must_use]
    pub const fn stats(&self) -> StubStats {
        self.stats
    }

    /// Among whom the policy would pick for a call that has tried nobody. O(1) unless something changed, then O(n).
    pub fn candidates(&mut self, now: Instant) -> Candidates<'_> {
        let now = self.clamp(now);
        let selection = self.select(now, &[]);
        self.listed(selection)
    }

    pub(super) fn clamp(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Lists who is eligible. For a call that has tried nobody the list is kept until something changes.
    fn select(&mut self, now: Instant, tried: &[NodeRef]) -> Selection {
        if tried.is_empty()
            && let Some(selection) = self.selected
            && now < selection.until
        {
            return selection;
        }
        let preference = &self.config.preference;
        let members = self.view.members();
        let selection = self.overlay.select(now, members, tried, preference);
        self.generation = self.generation.wrapping_add(1).max(1);
        self.selected = tried.is_empty().then_some(selection);
        if selection.panic {
            self.stats.panics = self.stats.panics.saturating_add(1);
        }
        selection
    }

    fn listed(&self, selection: Selection) -> Candidates<'_> {
        self.overlay.listed(selection, self.generation)
    }

    pub(super) fn pick(&mut self, now: Instant, call: &Call, tried: &[NodeRef]) -> Pick {
        let selection = self.select(now, tried);
        if selection.count == 0 {
            self.refresh.hurry(now);
            return Pick::Nobody;
        }
        if selection.panic {
            self.refresh.hurry(now);
        }
        let candidates = self.overlay.listed(selection, self.generation);
        let cx = PickContext::new(now, candidates)
            .with_key(call.key)
            .with_hint(call.hint);
        let Some(at) = self.policy.pick(&cx, &mut self.rng) else {
            return Pick::Declined;
        };
        match candidates.get(at) {
            Some(candidate) => Pick::Node(candidate.node),
            None => {
                self.stats.bad_picks = self.stats.bad_picks.saturating_add(1);
                Pick::Declined
            }
        }
    }

    /// Whether a call that has tried these nodes has tried all it may.
    pub(super) fn nobody_but(&self, tried: &[NodeRef]) -> bool {
        let preference = &self.config.preference;
        let mut members = self.view.members().iter();
        members.all(|member| tried.contains(&member.node) || !preference.allows(member))
    }

    pub(super) fn deposit(&mut self, now: Instant) {
        self.budget.deposit(now);
    }

    pub(super) fn withdraw(&mut self, now: Instant) -> bool {
        let may = self.budget.withdraw(now);
        let counter = if may {
            &mut self.stats.retries
        } else {
            &mut self.stats.retries_refused
        };
        *counter = counter.saturating_add(1);
        may
    }

    pub(super) fn send(&mut self, now: Instant, node: NodeRef) -> Option<Flight> {
        let flight = self.overlay.send(now, node)?;
        self.stats.attempts = self.stats.attempts.saturating_add(1);
        Some(flight)
    }

    pub(super) fn abandon(&mut self, flight: Flight) {
        self.overlay.abandon(flight);
    }

    pub(super) fn land(&mut self, now: Instant, flight: Flight, failure: Option<Failure>) {
        let Change {
            standing,
            suspected,
            ejected,
            spared,
        } = match failure {
            None => self.overlay.answered(now, flight),
            Some(failure) => self.overlay.failed(now, flight, failure, &self.config),
        };
        if standing {
            self.selected = None;
        }
        let stats = &mut self.stats;
        for (happened, counter) in [
            (suspected, &mut stats.suspected),
            (ejected, &mut stats.ejected),
            (spared, &mut stats.spared),
        ] {
            *counter = counter.saturating_add(happened.into());
        }
        let outcome = Outcome::new(now.since(flight.sent), failure);
        self.policy.observe(flight.node, outcome, now);
    }
}
