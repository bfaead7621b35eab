//! The actor of programs: its hooks and handlers perform acts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{
    Actor, AsyncContext, AsyncHandler, Context, Directive, Entity, Exit, Handler,
    InterleavedHandler, ReplyHandler, ReplyTo,
};
use turnwheel_runtime::{Completion, Failure};

use crate::kind::{Kind, ACTOR_HOOKS};
use crate::program::{Act, Script};
use crate::tasks::life::delay;
use crate::tasks::world::{group, with, Code, Entered, Role, Token};
use crate::tasks::{play, Here};

/// Behaviour of a message's handler.
#[derive(Debug)]
pub(in crate::tasks) struct Letter {
    pub(super) number: u32,
    pub(super) body: Script,
    pub(super) _token: Token,
}

impl Letter {
    pub(super) fn new(number: u32, body: &Script) -> Self {
        let token = Token::new(Role::Message(number), body);
        Self { number, body: body.clone(), _token: token }
    }
}

/// Handled by a plain function.
#[derive(Debug)]
pub(in crate::tasks) struct Plain(pub(super) Letter);
/// Handled by a future that keeps the others out.
#[derive(Debug)]
pub(in crate::tasks) struct Busy(pub(super) Letter);
/// Handled by a future beside others.
#[derive(Debug)]
pub(in crate::tasks) struct Mixed(pub(super) Letter);
/// Answered by hand.
#[derive(Debug)]
pub(in crate::tasks) struct Later(pub(super) Letter);

/// An error of a hook.
#[derive(Debug)]
pub(in crate::tasks) struct HookError;

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hook fails on purpose")
    }
}

impl std::error::Error for HookError {}

/// The actor.
#[derive(Debug)]
pub(in crate::tasks) struct Player {
    number: u32,
    hooks: Script,
    _token: Token,
}

impl Player {
    pub(super) fn new(number: u32, hooks: &Script) -> Self {
        let token = Token::new(Role::Actor(number), hooks);
        with(|world| world.actor_made(number));
        Self { number, hooks: hooks.clone(), _token: token }
    }

    fn hook(&self, kind: Kind) -> Option<(u8, Script)> {
        debug_assert!(ACTOR_HOOKS.contains(&kind));
        let act = self.hooks.iter().find(|act| act.kind == kind)?;
        Some((act.a, act.body.clone()))
    }

    fn call(&self, kind: Kind, cx: &mut Context<'_, Self>) -> Option<u8> {
        let (variant, script) = self.hook(kind)?;
        let _frame = Entered::handler(self.number);
        play(&script, &mut Here::Handler(cx));
        Some(variant)
    }

    fn answer(&self, kind: Kind, cx: &mut Context<'_, Self>) -> Result<(), HookError> {
        if self.call(kind, cx).is_some_and(|variant| variant % 8 == 7) {
            with(|world| world.actors.may_end(self.number));
            return Err(HookError);
        }
        Ok(())
    }
}

impl Actor for Player {
    type Error = HookError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), HookError> {
        self.answer(Kind::OnStarting, cx)
    }

    fn closing(&mut self, cx: &mut Context<'_, Self>) -> Result<(), HookError> {
        with(|world| world.actors.may_end(self.number));
        self.answer(Kind::OnClosing, cx)
    }

    fn ended(&mut self, _: &Exit) {
        with(|world| world.actors.may_end(self.number));
        let Some((_, script)) = self.hook(Kind::OnEnded) else { return };
        let _frame = Entered::loose();
        play(&script, &mut Here::Loose);
    }

    fn on_failure(&mut self, _: &Failure, cx: &mut Context<'_, Self>) -> Directive {
        with(|world| world.actors.may_end(self.number));
        match self.call(Kind::OnFailure, cx).map(|variant| variant % 4) {
            None | Some(0) => Directive::Restart,
            Some(1) => Directive::Resume,
            Some(2) => Directive::Stop,
            _ => Directive::Escalate,
        }
    }
}

impl Entity for Player {
    type Key = u64;
    const IDLE: std::time::Duration = std::time::Duration::from_millis(2);

    fn create(key: &u64) -> Self {
        let number = with(|world| {
            let number = world.actors.add(true, Some(*key));
            world.actors.may_end(number);
            number
        });
        Self::new(number, &Script::from([]))
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), HookError> {
        let is_failing = with(|world| {
            let is_failing = world.actors.failing > 0;
            world.actors.failing = world.actors.failing.saturating_sub(1);
            is_failing
        });
        let _ = cx.key();
        if is_failing {
            return Err(HookError);
        }
        Ok(())
    }
}

impl Handler<Plain> for Player {
    type Reply = u32;

    fn handle(&mut self, Plain(letter): Plain, cx: &mut Context<'_, Self>) -> u32 {
        with(|world| world.message_begins(letter.number, self.number));
        let frame = Entered::handler(self.number);
        play(&letter.body, &mut Here::Handler(cx));
        drop(frame);
        letter.number
    }
}

impl AsyncHandler<Busy> for Player {
    type Reply = u32;

    async fn handle(&mut self, Busy(letter): Busy, _: AsyncContext<Self>) -> u32 {
        with(|world| {
            world.message_begins(letter.number, self.number);
            world.actors.busy(self.number, true);
        });
        let busy = BusyGuard(self.number);
        let number = letter.number;
        Steps::new(self.number, letter.body.clone()).await;
        drop(busy);
        drop(letter);
        number
    }
}

/// Ends the time in which no other handler begins, also when the future is dropped.
struct BusyGuard(u32);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        with(|world| world.actors.busy(self.0, false));
    }
}

impl InterleavedHandler<Mixed> for Player {
    type Reply = u32;

    fn handle(
        &mut self,
        Mixed(letter): Mixed,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = u32> + Send + 'static {
        with(|world| world.message_begins(letter.number, self.number));
        let steps = Steps::new(self.number, letter.body.clone());
        async move {
            steps.await;
            letter.number
        }
    }
}

impl ReplyHandler<Later> for Player {
    type Reply = u32;

    fn handle(&mut self, Later(letter): Later, reply: ReplyTo<u32>, cx: &mut Context<'_, Self>) {
        with(|world| {
            world.message_begins(letter.number, self.number);
            world.actors.replies.push((reply, letter.number));
        });
        let frame = Entered::handler(self.number);
        play(&letter.body, &mut Here::Handler(cx));
        drop(frame);
    }
}

/// The acts of a handler's future.
pub(super) struct Steps {
    actor: u32,
    acts: Script,
    at: usize,
    sleep: Option<Completion<()>>,
}

impl Steps {
    pub(super) fn new(actor: u32, acts: Script) -> Self {
        Self { actor, acts, at: 0, sleep: None }
    }
}

impl Future for Steps {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            if let Some(sleep) = &mut this.sleep {
                if Pin::new(sleep).poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.sleep = None;
            }
            let Some(act) = this.acts.get(this.at).cloned() else { return Poll::Ready(()) };
            this.at += 1;
            if act.kind == Kind::Pend {
                if act.b % 2 == 0 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.sleep = group().map(|group| group.sleep(delay(act.b / 2)));
                continue;
            }
            let frame = Entered::handler(this.actor);
            play(std::slice::from_ref::<Act>(&act), &mut Here::Loose);
            drop(frame);
        }
    }
}

/// The actor whose handler is under way on this thread.
pub(super) fn acting() -> Option<u32> {
    with(|world| match world.frames.last().map(|frame| frame.code) {
        Some(Code::Handler(actor)) => Some(actor),
        _ => None,
    })
}
