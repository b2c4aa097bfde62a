//! A progress bar on stderr; nothing at all where that is not a terminal.

use core::fmt;
use std::borrow::Cow;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// How far a long job is. Clones show the same bar.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A job of so many steps.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let template = "{bar:40} {pos}/{len} {rate} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
                // A bar is no place to report an error of its own.
                let _ = write!(out, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        Self(bar)
    }

    /// None at all.
    #[must_use]
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// So many more steps are done.
    pub fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// What is going on now.
    pub fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.0.set_message(what);
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }

    /// Does something that prints, without the bar.
    pub fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        self.0.suspend(what)
    }

    /// A line above the bar. Not printed where there is no bar.
    pub fn note(&self, line: impl AsRef<str>) {
        self.0.println(line);
    }
}
