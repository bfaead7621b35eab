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
use crate::tasks::services::requests;
use crate::tasks::world::{group, violation, with, Code, Entered, Role, Token};
use crate::tasks::{play, Here};

/// Behaviour of a message's handler.
#[derive(Debug)]
pub(in crate::tasks) struct Letter {
    pub(in crate::tasks) number: u32,
    pub(super) body: Script,
    /// The value of the request that it is sent in.
    request: Option<String>,
    pub(super) _token: Token,
}

impl Letter {
    pub(in crate::tasks) fn new(number: u32, body: &Script) -> Self {
        let token = Token::new(Role::Message(number), body);
        Self { number, body: body.clone(), request: requests::current(), _token: token }
    }

    /// A script without a request.
    pub(in crate::tasks) fn apart(number: u32, body: &Script) -> Self {
        Self { request: None, ..Self::new(number, body) }
    }

    /// Its handler begins.
    pub(in crate::tasks) fn arrives(&self, actor: u32) {
        with(|world| world.message_begins(self.number, actor));
        requests::check(self.number, self.request.as_deref());
    }

    /// Its handler is a plain function.
    pub(in crate::tasks) fn plays(&self, actor: u32, cx: &mut Context<'_, Player>) {
        self.arrives(actor);
        let frame = Entered::handler(actor);
        play(&self.body, &mut Here::Handler(cx));
        drop(frame);
    }
}

/// Handled by a plain function.
#[derive(Debug)]
pub(in crate::tasks) struct Plain(pub(in crate::tasks) Letter);
/// Handled by a future that keeps the others out.
#[derive(Debug)]
pub(in crate::tasks) struct Busy(pub(in crate::tasks) Letter);
/// Handled by a future beside others.
#[derive(Debug)]
pub(in crate::tasks) struct Mixed(pub(in crate::tasks) Letter);
/// Answered by hand.
#[derive(Debug)]
pub(in crate::tasks) struct Later(pub(in crate::tasks) Letter);

/// Bytes beside a letter or an answer: more than lie in a node of a mailbox.
const LARGE_BYTES: usize = 5_000;

/// Handled by a plain function, and too large for a node of a mailbox.
#[derive(Debug)]
pub(in crate::tasks) struct Large {
    pub(in crate::tasks) letter: Letter,
    bulk: Bulk,
}

impl Large {
    pub(in crate::tasks) fn new(letter: Letter) -> Self {
        let bulk = Bulk::new(letter.number);
        Self { letter, bulk }
    }
}

/// A large answer.
#[derive(Debug)]
pub(in crate::tasks) struct Bulk {
    number: u32,
    bytes: [u8; LARGE_BYTES],
}

impl Bulk {
    fn new(number: u32) -> Self {
        Self { number, bytes: [number as u8; LARGE_BYTES] }
    }

    /// The message that it is of. Every byte has arrived as it was sent.
    pub(in crate::tasks) fn number(&self) -> u32 {
        if self.bytes.iter().any(|byte| *byte != self.number as u8) {
            violation(format!("the bytes of message {} have changed", self.number));
        }
        self.number
    }
}

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
    pub(in crate::tasks) fn new(number: u32, hooks: &Script) -> Self {
        let token = Token::new(Role::Actor(number), hooks);
        with(|world| world.actor_made(number));
        Self { number, hooks: hooks.clone(), _token: token }
    }

    pub(in crate::tasks) fn number(&self) -> u32 {
        self.number
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

    fn ended(&mut self, exit: &Exit) {
        with(|world| {
            world.actors.may_end(self.number);
            // A panic of this hook or of a destructor is a failure that comes later.
            let may_fail = self.hooks.iter().any(|act| !act.body.is_empty());
            if exit.is_failure() || !may_fail {
                world.actors.ended(self.number, exit.is_failure());
            }
        });
        let Some((_, script)) = self.hook(Kind::OnEnded) else { return };
        let _frame = Entered::loose();
        play(&script, &mut Here::Loose);
    }

    fn on_failure(&mut self, _: &Failure, cx: &mut Context<'_, Self>) -> Directive {
        with(|world| {
            world.actors.may_end(self.number);
            if let Some(key) = world.actors.key_of(self.number) {
                world.entity_failed(key);
            }
        });
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
            world.check_place(*key);
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
        letter.plays(self.number, cx);
        letter.number
    }
}

impl Handler<Large> for Player {
    type Reply = Bulk;

    fn handle(&mut self, Large { letter, bulk }: Large, cx: &mut Context<'_, Self>) -> Bulk {
        letter.plays(self.number, cx);
        // The answer of a message whose destructor panics is lost with it.
        let number = bulk.number();
        drop(letter);
        Bulk::new(number)
    }
}

impl AsyncHandler<Busy> for Player {
    type Reply = u32;

    async fn handle(&mut self, Busy(letter): Busy, _: AsyncContext<Self>) -> u32 {
        letter.arrives(self.number);
        with(|world| world.actors.busy(self.number, true));
        let busy = BusyGuard(self.number);
        let number = letter.number;
        Steps::new(self.number, &letter).await;
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

/// Counts a handler's future that runs beside others, until it is dropped.
pub(in crate::tasks) struct OpenGuard(u32);

impl OpenGuard {
    pub(in crate::tasks) fn new(actor: u32) -> Self {
        with(|world| world.actors.opens(actor, 1));
        Self(actor)
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        with(|world| world.actors.opens(self.0, -1));
    }
}

impl InterleavedHandler<Mixed> for Player {
    type Reply = u32;

    fn handle(
        &mut self,
        Mixed(letter): Mixed,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = u32> + Send + 'static {
        letter.arrives(self.number);
        let steps = Steps::new(self.number, &letter);
        let open = OpenGuard::new(self.number);
        async move {
            // The whole message is captured. If this function dropped it and the drop panicked,
            // the future would leak: a return value is not dropped then (rust-lang/rust#47949).
            let letter = letter;
            steps.await;
            drop(open);
            letter.number
        }
    }
}

impl ReplyHandler<Later> for Player {
    type Reply = u32;

    fn handle(&mut self, Later(letter): Later, reply: ReplyTo<u32>, cx: &mut Context<'_, Self>) {
        with(|world| world.actors.replies.push((reply, letter.number)));
        letter.plays(self.number, cx);
    }
}

/// The acts of a handler's future.
pub(super) struct Steps {
    actor: u32,
    message: u32,
    request: Option<String>,
    acts: Script,
    at: usize,
    sleep: Option<Completion<()>>,
}

impl Steps {
    pub(super) fn new(actor: u32, letter: &Letter) -> Self {
        let (request, acts) = (letter.request.clone(), letter.body.clone());
        Self { actor, message: letter.number, request, acts, at: 0, sleep: None }
    }
}

impl Future for Steps {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<()> {
        let this = &mut *self;
        requests::check(this.message, this.request.as_deref());
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
pub(in crate::tasks) fn acting() -> Option<u32> {
    with(|world| match world.frames.last().map(|frame| frame.code) {
        Some(Code::Handler(actor)) => Some(actor),
        _ => None,
    })
}
