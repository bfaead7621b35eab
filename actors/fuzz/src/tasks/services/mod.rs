//! Acts on what is built from actors: watch and link, topics, pools, supervisors, streams, stored
//! state, reminders, interceptors, request context. A file holds one of them: its acts, what the
//! model knows of it, and its checks.

mod answers;
pub(super) mod intercepted;
mod later;
mod links;
pub(super) mod placed;
mod pools;
mod reminders;
pub(super) mod requests;
mod retried;
mod routers;
pub(super) mod stored;
mod streams;
mod supervision;
mod topics;
mod watches;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll, Waker};

use turnwheel_runtime::Completion;

use super::world::with;
use super::Here;
use crate::kind::Kind;
use crate::program::Act;

/// The model of all services.
#[derive(Default)]
pub(super) struct Services {
    answers: Vec<answers::Model>,
    asking: Vec<supervision::Asking>,
    intercepted: intercepted::Model,
    later: later::Model,
    links: Vec<links::Model>,
    placed: placed::Model,
    pools: pools::Model,
    reminders: reminders::Model,
    retried: Vec<retried::Model>,
    routers: routers::Model,
    stored: stored::Model,
    streams: Vec<streams::Model>,
    supervisors: Vec<supervision::Model>,
    topics: topics::Model,
    watches: Vec<watches::Model>,
}

impl Services {
    /// Whether calls that are made again were made.
    pub(super) fn has_calls(&self) -> bool {
        !self.retried.is_empty()
    }
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services").finish_non_exhaustive()
    }
}

pub(super) fn perform(act: &Act, here: &mut Here<'_, '_, '_>) {
    match act.kind {
        Kind::Within => requests::within(act),
        Kind::Watch => watches::watch(act, here),
        Kind::Link | Kind::Unlink => links::perform(act),
        Kind::TellLater | Kind::CancelLater | Kind::CancelEvery => later::perform(act),
        Kind::TellEvery => later::repeat(act, here),
        Kind::Subscribe | Kind::Unsubscribe | Kind::Publish => topics::perform(act),
        Kind::Pool | Kind::PoolTell | Kind::PoolAsk | Kind::Broadcast | Kind::ClosePool => {
            pools::perform(act);
        }
        Kind::Route | Kind::RouterTell | Kind::RouterAsk | Kind::DropRouter => {
            routers::perform(act);
        }
        Kind::Supervise
        | Kind::FindChild
        | Kind::StartChild
        | Kind::StopChild
        | Kind::EndSupervisor => supervision::perform(act),
        Kind::AskStream | Kind::TakeAnswer | Kind::DropAnswers => answers::perform(act),
        Kind::Attach | Kind::Detach => streams::perform(act),
        Kind::MoveKey => placed::perform(act),
        Kind::AskRetried => retried::perform(act),
        Kind::Save | Kind::Restore | Kind::FailStore => stored::perform(act),
        _ => reminders::perform(act),
    }
}

/// Checks what must hold when the simulation is idle.
pub(super) fn check_idle(now_ns: u64) {
    supervision::take_answers();
    with(|world| {
        world.check_routed();
        world.check_spread();
        world.check_waiting();
        world.check_watches();
        world.check_links();
        world.check_later(now_ns);
        world.check_children(now_ns);
        world.check_streams();
        world.check_reminders(now_ns);
        world.settle_places();
    });
    topics::check_idle();
}

/// Checks what must hold after the shutdown.
pub(super) fn check_end() {
    topics::check_end();
    answers::check_end();
    supervision::check_end();
    intercepted::check_metrics();
    with(|world| world.check_intercepted());
}

/// Drops what destructors have left behind since the checks, and looks for lost ends of sendings.
pub(super) fn drop_rest() {
    for _ in 0..3 {
        give_up();
        answers::drop_all();
        supervision::drop_answers();
    }
}

/// Checks what must hold when all calls are over.
pub(super) fn check_sent() {
    with(|world| world.check_sent());
}

/// Drops handles at the end of a program.
pub(super) fn give_up() {
    links::give_up();
    later::give_up();
    topics::give_up();
    pools::give_up();
    routers::give_up();
    supervision::give_up();
    streams::give_up();
    reminders::give_up();
}

/// The end of an actor, and how it came, once it is there.
#[derive(Debug)]
struct End {
    closed: Option<Completion<()>>,
    has_failed: Option<bool>,
}

impl End {
    fn of(closed: Completion<()>) -> Self {
        Self { closed: Some(closed), has_failed: None }
    }

    /// Whether it has ended with a failure; nothing while it lives.
    fn look(&mut self) -> Option<bool> {
        if let Some(Poll::Ready(outcome)) = self.closed.as_mut().map(poll) {
            self.has_failed = Some(outcome.is_err());
            self.closed = None;
        }
        self.has_failed
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut PollContext::from_waker(Waker::noop()))
}
