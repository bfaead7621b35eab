//! States of tasks and their hooks.

use turnwheel_runtime::{Context, Failure, Lifecycle, OnFailure};

use super::world::{current, tag_of, violation, with, Code, Entered, Token};
use super::{play, Here};
use crate::kind::{Kind, HOOKS};
use crate::program::{Act, Script};

/// The state of each task.
#[derive(Debug)]
pub(super) struct State {
    pub(super) task: u32,
    pub(super) _token: Token,
}

/// Hooks whose acts are those of a program.
#[derive(Debug)]
pub(super) struct Hooks {
    task: u32,
    scripts: [Option<(u8, Script)>; HOOKS.len()],
    _token: Token,
}

impl Hooks {
    /// The hooks that a body describes; none if it has no part for them.
    pub(super) fn of(task: u32, body: &[Act], token: impl FnOnce() -> Token) -> Option<Self> {
        let mut scripts: [Option<(u8, Script)>; HOOKS.len()] = Default::default();
        for (script, kind) in scripts.iter_mut().zip(HOOKS) {
            let act = body.iter().find(|act| act.kind == *kind);
            *script = act.map(|act| (act.a, act.body.clone()));
        }
        let has_some = scripts.iter().any(Option::is_some);
        has_some.then(|| Self { task, scripts, _token: token() })
    }

    fn call(&self, kind: Kind, state: &State, cx: &mut Context<'_, State>) -> Option<u8> {
        check(self.task, state, cx);
        let _frame = Entered::turn(self.task, Code::Hook(kind));
        with(|world| {
            let model = world.task(self.task);
            match kind {
                Kind::OnCloseRequested | Kind::OnClosing => model.may_close = true,
                Kind::OnClosed | Kind::OnFailed => {
                    model.may_end();
                    model.is_last = true;
                }
                _ => {}
            }
        });
        let place = HOOKS.iter().position(|hook| *hook == kind)?;
        let (variant, script) = self.scripts[place].as_ref()?;
        play(script, &mut Here::Job(cx));
        Some(*variant)
    }

    /// Calls a hook that may answer an error.
    fn answer(
        &self,
        kind: Kind,
        state: &State,
        cx: &mut Context<'_, State>,
    ) -> Result<(), Failure> {
        match self.call(kind, state, cx) {
            Some(variant) if variant % 8 == 7 => {
                with(|world| world.task(self.task).may_end());
                Err(Failure::message(raise_number(Code::Hook(kind))))
            }
            _ => Ok(()),
        }
    }
}

/// The state must be the one of the task whose job runs.
pub(super) fn check(task: u32, state: &State, cx: &Context<'_, State>) {
    let tag = cx.task().tag();
    if state.task != task || tag != tag_of(task) {
        violation(format!("a job of task {task} got the state of {} ({tag})", state.task));
    }
}

/// A number for a panic or error, which the text of its failure holds.
pub(super) fn raise_number(code: Code) -> String {
    let is_own = match code {
        Code::Job | Code::Poll => true,
        Code::Hook(kind) => kind != Kind::OnFailed && kind != Kind::OnFailure,
        // A handler's panic may be caught on the way and told to its caller.
        Code::Handler(_) | Code::Loose => false,
    };
    let number = with(|world| {
        world.raised.push(super::world::Raised { is_reported: is_own, asked: 0, seen: 0 });
        world.raised.len() - 1
    });
    format!("raised {number}")
}

/// The number in the text of a failure.
pub(super) fn number_of(failure: &Failure) -> Option<usize> {
    let text = match failure {
        Failure::Panicked(text) => text.to_string(),
        Failure::Error(error) => error.to_string(),
        _ => return None,
    };
    text.strip_prefix("raised ")?.parse().ok()
}

impl Lifecycle<State> for Hooks {
    fn starting(&mut self, state: &mut State, cx: &mut Context<'_, State>) -> Result<(), Failure> {
        self.answer(Kind::OnStarting, state, cx)
    }

    fn started(&mut self, state: &mut State, cx: &mut Context<'_, State>) -> Result<(), Failure> {
        self.answer(Kind::OnStarted, state, cx)
    }

    fn close_requested(
        &mut self,
        state: &mut State,
        cx: &mut Context<'_, State>,
    ) -> Result<(), Failure> {
        self.answer(Kind::OnCloseRequested, state, cx)
    }

    fn closing(&mut self, state: &mut State, cx: &mut Context<'_, State>) -> Result<(), Failure> {
        self.answer(Kind::OnClosing, state, cx)
    }

    fn closed(&mut self, state: &mut State, cx: &mut Context<'_, State>) -> Result<(), Failure> {
        self.answer(Kind::OnClosed, state, cx)
    }

    fn failed(&mut self, state: &mut State, cx: &mut Context<'_, State>, _: &Failure) {
        let is_second = with(|world| {
            let model = world.task(self.task);
            std::mem::replace(&mut model.has_failed, true)
        });
        if is_second {
            violation(format!("the failed hook of task {} was called twice", self.task));
        }
        self.call(Kind::OnFailed, state, cx);
    }

    fn on_failure(
        &mut self,
        state: &mut State,
        cx: &mut Context<'_, State>,
        failure: &Failure,
    ) -> OnFailure {
        if let Some(number) = number_of(failure) {
            let asked = with(|world| {
                world.raised[number].asked += 1;
                world.raised[number].asked
            });
            if asked > 1 {
                violation(format!("on_failure was told of panic {number} {asked} times"));
            }
        }
        if self.scripts[6].is_some() {
            with(|world| world.task(self.task).may_end());
        }
        match self.call(Kind::OnFailure, state, cx).map(|variant| variant % 3) {
            None | Some(0) => OnFailure::Resume,
            Some(1) => OnFailure::Stop,
            _ => OnFailure::Escalate,
        }
    }

    fn interrupted(
        &mut self,
        state: &mut State,
        cx: &mut Context<'_, State>,
    ) -> Result<(), Failure> {
        self.answer(Kind::OnInterrupted, state, cx)
    }
}

/// Ends the code under way with a panic or, by choice, a raised failure.
pub(super) fn raise(here: &Here<'_, '_, '_>, is_raised: bool) {
    if std::thread::panicking() {
        // A second panic in a destructor would end the process, as everywhere in Rust.
        return;
    }
    let code = with(|world| world.frames.last().map_or(Code::Loose, |frame| frame.code));
    let is_started = match here {
        Here::Job(cx) => cx.phase() == turnwheel_runtime::Phase::Started,
        _ => false,
    };
    if let (Some(task), false) = (current(), is_started) {
        with(|world| world.task(task).may_end());
    }
    if let Code::Handler(actor) = code {
        with(|world| world.actors.may_end(actor));
    }
    let text = raise_number(code);
    if is_raised {
        Failure::message(text).raise();
    }
    std::panic::resume_unwind(Box::new(text))
}
