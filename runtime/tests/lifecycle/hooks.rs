//! Hooks that log themselves and then run the actions of the case.

use std::sync::Arc;

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Context, Failure, Lifecycle, OnFailure, Phase};

use crate::world::Log;

pub(crate) type Cx<'a, 'b> = &'a mut Context<'b, State>;
pub(crate) type Hook =
    Box<dyn FnMut(&mut State, &mut Context<'_, State>) -> Result<(), Failure> + Send>;
pub(crate) type Policy =
    Box<dyn FnMut(&mut State, &mut Context<'_, State>, &Failure) -> OnFailure + Send>;

/// The state writes into the log that the case reads.
pub(crate) struct State(pub(crate) Arc<Log>);

impl State {
    pub(crate) fn note(&self, what: &str) {
        self.0.note(what);
    }
}

/// Logs each hook, then runs the actions of the case.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) starting: Option<Hook>,
    pub(crate) started: Option<Hook>,
    pub(crate) close_requested: Option<Hook>,
    pub(crate) closing: Option<Hook>,
    pub(crate) closed: Option<Hook>,
    pub(crate) policy: Option<Policy>,
    pub(crate) is_failing_in_clean_up: bool,
}

impl Hooks {
    /// With one hook, chosen by the name that it notes.
    pub(crate) fn with(name: &str, hook: Option<Hook>) -> Self {
        let mut hooks = Self::default();
        match name {
            "starting" => hooks.starting = hook,
            "started" => hooks.started = hook,
            "close_requested" => hooks.close_requested = hook,
            "closing" => hooks.closing = hook,
            "closed" => hooks.closed = hook,
            _ => unreachable!("there is no hook {name}"),
        }
        hooks
    }
}

fn act(
    hook: &mut Option<Hook>,
    name: &str,
    state: &mut State,
    cx: Cx<'_, '_>,
) -> Result<(), Failure> {
    state.note(name);
    hook.as_mut().map_or(Ok(()), |hook| hook(state, cx))
}

impl Lifecycle<State> for Hooks {
    fn starting(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Starting);
        act(&mut self.starting, "starting", state, cx)
    }
    fn started(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Started);
        act(&mut self.started, "started", state, cx)
    }
    fn close_requested(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::CloseRequested);
        act(&mut self.close_requested, "close_requested", state, cx)
    }
    fn closing(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Closing);
        act(&mut self.closing, "closing", state, cx)
    }
    fn closed(&mut self, state: &mut State, cx: Cx<'_, '_>) -> Result<(), Failure> {
        assert_eq!(cx.phase(), Phase::Closed);
        act(&mut self.closed, "closed", state, cx)
    }
    fn failed(&mut self, state: &mut State, cx: Cx<'_, '_>, _: &Failure) {
        assert_eq!(cx.phase(), Phase::Failed);
        state.note("failed");
        assert!(!self.is_failing_in_clean_up, "planted in the clean-up");
    }
    fn on_failure(&mut self, state: &mut State, cx: Cx<'_, '_>, failure: &Failure) -> OnFailure {
        state.note("on_failure");
        self.policy.as_mut().map_or(OnFailure::Resume, |policy| policy(state, cx, failure))
    }
}

/// The hooks of a complete life, in order.
pub(crate) const FULL: [&str; 5] = ["starting", "started", "close_requested", "closing", "closed"];

pub(crate) fn hook(
    run: impl FnMut(&mut State, &mut Context<'_, State>) -> Result<(), Failure> + Send + 'static,
) -> Option<Hook> {
    Some(Box::new(run))
}

/// A hook that succeeds.
pub(crate) fn doing(
    mut run: impl FnMut(&mut State, &mut Context<'_, State>) + Send + 'static,
) -> Option<Hook> {
    hook(move |state, cx| {
        run(state, cx);
        Ok(())
    })
}

/// A hook that is called once.
pub(crate) fn once(
    run: impl FnOnce(&mut State, &mut Context<'_, State>) + Send + 'static,
) -> Option<Hook> {
    let mut run = Some(run);
    doing(move |state, cx| {
        let run = run.take().expect("each hook is called once in a life");
        run(state, cx);
    })
}

/// A hook whose phase is held by a completion until the case completes it.
pub(crate) fn held(
    run: impl FnOnce(&mut State, &mut Context<'_, State>) + Send + 'static,
) -> (Option<Hook>, Completer<()>) {
    let (completer, waiting) = completion();
    let hook = once(move |state, cx| {
        cx.on_completion_holding(waiting, |state, _, _| state.note("released"));
        run(state, cx);
    });
    (hook, completer)
}
