//! Programs on the API of `turnwheel-runtime`: the interpreter and its model.

mod actors;
mod completions;
mod end;
mod futures;
mod hooks;
mod lanes;
mod life;
mod main_thread;
mod services;
mod slots;
mod submissions;
mod subscribed;
mod timers;
mod world;

use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Context;

use self::actors::Player;
use self::hooks::State;
use self::world::with;
use crate::kind::Kind;
use crate::program::{Act, Program};
use crate::run::Twin;

/// Where acts are performed.
enum Here<'a, 'b, 'c> {
    /// On the thread of the simulation, outside of turns.
    Main(&'a Sim),
    /// In a handler or hook of an actor.
    Handler(&'b mut turnwheel_actors::Context<'c, Player>),
    /// In a job or hook.
    Job(&'b mut Context<'c, State>),
    /// Anywhere else.
    Loose,
}

/// Runs a program and answers how it broke the contract.
pub(crate) fn run(program: &Program, twin: Option<Twin>) -> Vec<String> {
    main_thread::run(program, twin)
}

/// Performs acts one after the other.
fn play(acts: &[Act], here: &mut Here<'_, '_, '_>) {
    for act in acts {
        if !with(world::World::burn) {
            return;
        }
        perform(act, here);
    }
}

fn perform(act: &Act, here: &mut Here<'_, '_, '_>) {
    match act.kind {
        Kind::Spawn
        | Kind::CloneTask
        | Kind::DropTask
        | Kind::Downgrade
        | Kind::Upgrade
        | Kind::Close
        | Kind::CloseWithin
        | Kind::Stop
        | Kind::Kill
        | Kind::Fail
        | Kind::Interrupt
        | Kind::Started
        | Kind::Closed => life::perform(act),
        Kind::CloseSelf | Kind::StopSelf | Kind::FailSelf | Kind::Yield | Kind::CancelAll => {
            life::of_own(act, here)
        }
        Kind::Submit
        | Kind::Run
        | Kind::Call
        | Kind::Urgent
        | Kind::Keyed
        | Kind::Again
        | Kind::Reserve
        | Kind::DropReserve
        | Kind::PermitSubmit
        | Kind::DropPermit => submissions::perform(act),
        Kind::RunSelf | Kind::SubmitSelf | Kind::RunAgain => submissions::of_own(act, here),
        Kind::Panic => hooks::raise(here, false),
        Kind::Raise => hooks::raise(here, true),
        Kind::After | Kind::At | Kind::Every | Kind::EveryAfter => timers::arm(act, here),
        Kind::CancelTimer => timers::cancel(act),
        Kind::Condition | Kind::Consume => subscribed::register(act, here),
        Kind::Signal
        | Kind::CancelCondition
        | Kind::DropCondition
        | Kind::Send
        | Kind::TryTake
        | Kind::DropConsumer
        | Kind::CloseChannel
        | Kind::Drained => subscribed::perform(act),
        Kind::OnCompletion | Kind::OnHolding | Kind::OnAll => completions::continued(act, here),
        Kind::Make
        | Kind::Complete
        | Kind::CompleteFail
        | Kind::CloneCompleter
        | Kind::DropCompleter
        | Kind::CancelCompletion
        | Kind::DropCompletion
        | Kind::Poll
        | Kind::OnCancel
        | Kind::ThenOn
        | Kind::ThenInline
        | Kind::All
        | Kind::First
        | Kind::Race
        | Kind::Shared
        | Kind::Sleep => completions::perform(act),
        Kind::Interleaved | Kind::Holding | Kind::Exclusive | Kind::RunExclusive => {
            futures::begin(act, here);
        }
        Kind::Blocking => futures::block(act, here),
        Kind::CancelSubscription => futures::cancel(act),
        _ => perform_others(act, here),
    }
}

/// Acts on actors, and those of the thread of the simulation.
fn perform_others(act: &Act, here: &mut Here<'_, '_, '_>) {
    match act.kind {
        Kind::Actor
        | Kind::DropAddress
        | Kind::Tell
        | Kind::TellUrgent
        | Kind::Ask
        | Kind::DropAsk
        | Kind::CloseActor
        | Kind::StopActor
        | Kind::KillActor
        | Kind::EntityTell
        | Kind::EntityAsk
        | Kind::Passivate
        | Kind::FailActivation
        | Kind::Answer
        | Kind::DropReply => actors::perform(act),
        Kind::Forward | Kind::TellSelf | Kind::TellAfter | Kind::Pipe | Kind::FailActor => {
            actors::of_own(act, here)
        }
        Kind::Within
        | Kind::Watch
        | Kind::Link
        | Kind::Unlink
        | Kind::TellLater
        | Kind::CancelLater
        | Kind::TellEvery
        | Kind::CancelEvery
        | Kind::Subscribe
        | Kind::Unsubscribe
        | Kind::Publish
        | Kind::Pool
        | Kind::PoolTell
        | Kind::PoolAsk
        | Kind::Broadcast
        | Kind::ClosePool
        | Kind::Route
        | Kind::RouterTell
        | Kind::RouterAsk
        | Kind::DropRouter
        | Kind::Supervise
        | Kind::FindChild
        | Kind::StartChild
        | Kind::StopChild
        | Kind::EndSupervisor
        | Kind::Attach
        | Kind::Detach
        | Kind::AskStream
        | Kind::TakeAnswer
        | Kind::DropAnswers
        | Kind::Save
        | Kind::Restore
        | Kind::FailStore
        | Kind::MoveKey
        | Kind::AskRetried
        | Kind::Remind
        | Kind::Forget => services::perform(act, here),
        Kind::Idle | Kind::Step | Kind::Advance | Kind::LoseHints | Kind::SlowWorker => {
            main_thread::perform(act, here)
        }
        // Parts of bodies: performed when their time comes.
        _ => {}
    }
}
