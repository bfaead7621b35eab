//! The sending of messages with interceptors around it.
//!
//! Interceptors around a `tell` end when the mailbox has taken or refused the message; those around
//! a call when its answer is there. A call is sent at once, as without interceptors; the steps
//! after its answer, further attempts included, run while its future is polled.

use std::any::{type_name, TypeId};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use turnwheel_runtime::{Failure, SubmitErrorKind};

use super::call::{Direction, MessageInfo};
use super::interception::Interception;
use super::outcome::{AnyEnd, End, Retrying};
use crate::call::{deadline_after, Ask, Other, Term};
use crate::error::{AskError, TellError};
use crate::large::Carry;
use crate::request::{self, Ambient, RequestContext};
use crate::system::{DeadLetterReason, System};

/// The recipient of a message as interceptors see it.
pub(crate) struct Target<'a> {
    pub(crate) system: &'a System,
    pub(crate) actor: String,
    pub(crate) class: String,
}

/// A place that messages are sent to: an address, a pool, or an entity.
pub(crate) trait Destination {
    fn system(&self) -> &System;

    /// The target's description for interceptors.
    fn target(&self) -> Target<'_>;

    /// Whether interceptors are around messages sent to it.
    #[inline(always)]
    fn is_intercepted(&self) -> bool {
        !self.system().shared().outgoing.is_empty()
    }

    /// Sends a message by `send`, with interceptors around it if there are any. A message that one
    /// of them refuses is a dead letter.
    #[inline(always)]
    fn deliver<M: Send + 'static, P: Carry<M>>(
        &self,
        message: P,
        send: impl FnOnce(P) -> Result<(), TellError<P>>,
    ) -> Result<(), TellError<P>> {
        match self.is_intercepted() {
            true => tell::<M, P>(self.target(), message, send, lost),
            false => send(message),
        }
    }

    /// As [`Destination::deliver`]; a message that is refused is no dead letter.
    fn offer_by<M: Send + 'static, P: Carry<M>>(
        &self,
        message: P,
        send: impl FnOnce(P) -> Result<(), TellError<P>>,
    ) -> Result<(), TellError<P>> {
        match self.is_intercepted() {
            true => tell::<M, P>(self.target(), message, send, |_, _| ()),
            false => send(message),
        }
    }

    /// How long the caller of a call to it waits, from now on.
    #[inline(always)]
    fn term(&self, limit: Duration, outgoing: &Ambient) -> Term {
        let asked_ns = self.system().asking_ns(limit);
        let deadline_ns = deadline_after(asked_ns, limit).min(outgoing.deadline_ns);
        Term { asked_ns, deadline_ns }
    }
}

impl Target<'_> {
    fn interception<M>(self, is_ask: bool) -> Interception {
        let system = self.system.clone();
        let info = MessageInfo {
            actor: Arc::from(self.actor),
            class: Arc::from(self.class),
            message: type_name::<M>(),
            direction: Direction::Outgoing,
            is_ask,
            attempt: 0,
            limit: Duration::MAX,
            request: RequestContext::current(),
            system,
        };
        Interception::new(info.system.shared().outgoing.clone(), info)
    }
}

/// Counts a message that an interceptor has refused as a dead letter. The sender counts the refusals
/// of the mailbox.
pub(crate) fn lost(_: &Failure, info: &MessageInfo) {
    let letters = &info.system.shared().dead_letters;
    let reason = DeadLetterReason::Refused(SubmitErrorKind::Refused);
    letters.add(info.message, || info.actor.to_string(), reason);
}

/// Sends a message without an answer. `refused` is told of a refusal by an interceptor.
#[cold]
pub(crate) fn tell<M: Send + 'static, P: Carry<M>>(
    target: Target<'_>,
    message: P,
    send: impl FnOnce(P) -> Result<(), TellError<P>>,
    refused: impl FnOnce(&Failure, &MessageInfo),
) -> Result<(), TellError<P>> {
    let mut interception = target.interception::<M>(false);
    let sent = pass::<M, P, _>(&mut interception, message, |message: P, info| {
        info.request.scope(|| send(message))
    });
    let (mut end, sent) = match sent {
        Ok(Ok(())) => (End::<()>::Open, Ok(())),
        Ok(Err(error)) => {
            let seen = TellError { kind: error.kind, message: () };
            (End::Failed(AskError::Refused(seen)), Err(error))
        }
        Err((failure, message)) => {
            let seen = AskError::Intercepted { failure: failure.clone(), message: () };
            interception.end(&mut End::<()>::Failed(seen));
            refused(&failure, &interception.info);
            return Err(TellError { kind: SubmitErrorKind::Refused, message });
        }
    };
    interception.end(&mut end);
    sent
}

/// Begins with the interceptors and sends; a refused message comes back.
fn pass<M: Send + 'static, P: Carry<M>, T>(
    interception: &mut Interception,
    mut message: P,
    send: impl FnOnce(P, MessageInfo) -> T,
) -> Result<T, (Failure, P)> {
    if let Err(failure) = interception.begin(message.message()) {
        return Err((failure, message));
    }
    let info = interception.info.clone();
    let mut held = Some(message);
    // A panic out of the sending, of a destructor for example, is none of an interceptor.
    let send = |message| catch_unwind(AssertUnwindSafe(|| send(message, info)));
    let (sent, around) = interception.within(|| held.take().map(send));
    match (sent.flatten(), held, around) {
        (Some(Ok(sent)), ..) => Ok(sent),
        (Some(Err(panic)), ..) => resume_unwind(panic),
        (None, Some(message), Err(failure)) => Err((failure, message)),
        (None, ..) => unreachable!("what was not gone on with has failed and is still held"),
    }
}

/// Sends a message and returns a future of the reply; `send` makes one attempt, with the metadata
/// and its time limit.
#[cold]
pub(crate) fn ask<M: Send + 'static, P: Carry<M>, R: Send + 'static>(
    target: Target<'_>,
    message: P,
    limit: Duration,
    send: impl Fn(P, Ambient, Duration) -> Ask<P, R> + Send + 'static,
) -> Box<Other<P, R>> {
    let outgoing = request::outgoing();
    let system = target.system.clone();
    let end_ns = deadline_after(system.asking_ns(limit), limit).min(outgoing.deadline_ns);
    let mut call_with_retries = RetriedCall {
        interception: target.interception::<M>(true),
        system,
        outgoing,
        end_ns,
        send,
    };
    let mut call = call_with_retries.attempt::<M, P, R>(message);
    Other::intercepted(async move {
        loop {
            let mut end = call.await;
            let Some((message, delay)) = call_with_retries.end::<M, P, R>(&mut end) else {
                return end;
            };
            if !delay.is_zero() {
                if let Err(failure) = call_with_retries.system.group().sleep(delay).await {
                    // Before the result is made: a panic of its drop would leak it.
                    drop(message);
                    return Err(AskError::Unanswered(failure));
                }
            }
            call = call_with_retries.attempt::<M, P, R>(message);
        }
    })
}

/// A call with its attempts.
struct RetriedCall<S> {
    interception: Interception,
    system: System,
    outgoing: Ambient,
    /// When its caller gives up, nanoseconds.
    end_ns: u64,
    send: S,
}

impl<S> RetriedCall<S> {
    fn left(&self) -> Duration {
        match self.end_ns {
            u64::MAX => Duration::MAX,
            end_ns => Duration::from_nanos(end_ns.saturating_sub(self.system.group().now_ns())),
        }
    }

    /// Sends the message, with the interceptors that have not begun.
    fn attempt<M: Send + 'static, P: Carry<M>, R>(&mut self, message: P) -> Ask<P, R>
    where
        S: Fn(P, Ambient, Duration) -> Ask<P, R>,
    {
        let (outgoing, left) = (self.outgoing.clone(), self.left());
        let Self { interception, send, .. } = self;
        let sent = pass::<M, P, _>(interception, message, |message, info| {
            let outgoing = Ambient { baggage: info.request.baggage(), ..outgoing };
            send(message, outgoing, left.min(info.limit))
        });
        match sent {
            Ok(call) => call,
            Err((failure, message)) => Ask::refused(AskError::Intercepted { failure, message }),
        }
    }

    /// Ends with the interceptors, which may change the end; or the message of one more attempt and
    /// the time before it.
    fn end<M: Send + 'static, P: Carry<M>, R: Send + 'static>(
        &mut self,
        answered: &mut Result<R, AskError<P>>,
    ) -> Option<(P, Duration)> {
        let unknown = || Err(AskError::Unanswered(Failure::Cancelled));
        let (mut end, message) = match std::mem::replace(answered, unknown()) {
            Ok(reply) => (End::Replied(reply), None),
            Err(error) => {
                let (error, message) = error.split();
                (End::Failed(error), message)
            }
        };
        let retrying = Retrying { message: TypeId::of::<M>(), left: self.left() };
        let again = self.interception.end_or_again(&mut end as &mut dyn AnyEnd, Some(retrying));
        if let Some(again) = again {
            match again.message.downcast() {
                Ok(message) => return Some((P::of(*message), again.delay)),
                Err(_) => unreachable!("an outcome takes a message of the call's type only"),
            }
        }
        *answered = match end {
            End::Replied(reply) => Ok(reply),
            End::Failed(error) => Err(AskError::join(error, message)),
            End::Open => unreachable!("a call that was answered is not open"),
        };
        None
    }
}
