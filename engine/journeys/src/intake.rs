//! Requests of callers about a user: they are handed to the user's desk, and answered once they are durable.

use std::collections::HashMap;
use std::sync::Arc;

use turnwheel_runtime::completion::{completion, Completer};
use turnwheel_runtime::SubmitErrorKind;

use crate::desk::Request;
use crate::error::JourneyError;
use crate::event::{user_key, Event};
use crate::journeys::{desk_of, Asking, Journeys};
use crate::view::Taken;
use crate::walk::Turn;

/// A request of a caller.
struct Ask<I, T, F> {
    event: Option<Arc<Event>>,
    input: I,
    decide: F,
    decided: Option<Result<T, JourneyError>>,
    to: Reply<T>,
}

type Reply<T> = Completer<Result<T, JourneyError>>;

fn reply<T>(to: Reply<T>, outcome: Result<T, JourneyError>) {
    // The caller may have given up.
    let _gone = to.complete(outcome);
}

fn key_of(event: &Event) -> Result<String, JourneyError> {
    event.check().and_then(|()| user_key(&event.platform, &event.user))
}

fn taken(event: &Arc<Event>, turn: &mut Turn<'_>) -> Result<Taken, JourneyError> {
    let is_repeated = turn.event(event);
    let moved = std::mem::take(&mut turn.moved);
    Ok(Taken { is_repeated, moved, problem: turn.notes.text() })
}

/// A request that brings an event.
fn ask_taken(event: Event, to: Reply<Taken>) -> Box<dyn Request> {
    let event = Arc::new(event);
    Box::new(Ask {
        event: Some(Arc::clone(&event)),
        input: event,
        decide: taken,
        decided: None,
        to,
    })
}

fn refused(kind: SubmitErrorKind) -> JourneyError {
    match kind {
        SubmitErrorKind::Full => JourneyError::Busy,
        kind => JourneyError::Failed(format!("the journeys take no requests: {kind:?}")),
    }
}

impl Journeys {
    /// Takes an event: finds the waits of its user and the starts of its kind, and moves the user.
    /// It completes when that is durable; then a second event with the same id changes nothing.
    pub fn event(&self, event: Event) -> Asking<Taken> {
        let (to, asked) = completion();
        match key_of(&event) {
            Ok(key) => {
                let refusal = to.clone();
                let request = ask_taken(event, to);
                self.hand_over(key, request, move |error| reply(refusal, Err(error)));
            }
            Err(error) => reply(to, Err(error)),
        }
        asked
    }

    /// Takes events that came together, as [`event`](Self::event) does each. Those of one user are taken or
    /// refused together: one that is sent again after it was refused does not come after a later one.
    pub fn events(&self, events: Vec<Event>) -> Vec<Asking<Taken>> {
        let mut asked = Vec::with_capacity(events.len());
        let mut users: HashMap<String, Together> = HashMap::new();
        for event in events {
            let (to, asking) = completion();
            asked.push(asking);
            match key_of(&event) {
                Ok(key) => {
                    let user = users.entry(key).or_default();
                    user.refusals.push(to.clone());
                    user.requests.push(ask_taken(event, to));
                }
                Err(error) => reply(to, Err(error)),
            }
        }
        for (key, Together { requests, refusals }) in users {
            let desk = &self.desks[desk_of(&key, self.desks.len())];
            let handed_over = desk.submit(move |desk, cx| desk.take_all(&key, requests, cx));
            if let Err(error) = handed_over {
                let error = refused(error.kind);
                refusals.into_iter().for_each(|to| reply(to, Err(error.clone())));
            }
        }
        asked
    }

    pub(crate) fn ask<I: Send + 'static, T: Send + 'static>(
        &self,
        key: Result<String, JourneyError>,
        input: I,
        decide: impl FnMut(&I, &mut Turn<'_>) -> Result<T, JourneyError> + Send + 'static,
    ) -> Asking<T> {
        let (to, asked) = completion();
        match key {
            Ok(key) => {
                let refusal = to.clone();
                let request = Box::new(Ask { event: None, input, decide, decided: None, to });
                self.hand_over(key, request, move |error| reply(refusal, Err(error)));
            }
            Err(error) => reply(to, Err(error)),
        }
        asked
    }

    fn hand_over(&self, key: String, request: Box<dyn Request>, refuse: impl FnOnce(JourneyError)) {
        let desk = &self.desks[desk_of(&key, self.desks.len())];
        if let Err(error) = desk.submit(move |desk, cx| desk.take(key, request, cx)) {
            refuse(refused(error.kind));
        }
    }
}

/// Events of one user that came together.
#[derive(Default)]
struct Together {
    requests: Vec<Box<dyn Request>>,
    refusals: Vec<Reply<Taken>>,
}

impl<I, T, F> Request for Ask<I, T, F>
where
    I: Send,
    T: Send,
    F: FnMut(&I, &mut Turn<'_>) -> Result<T, JourneyError> + Send,
{
    fn decide(&mut self, turn: &mut Turn<'_>) {
        self.decided = Some((self.decide)(&self.input, turn));
    }

    fn event(&self) -> Option<&Event> {
        self.event.as_deref()
    }

    fn answer(self: Box<Self>, outcome: Result<(), JourneyError>) {
        let Self { decided, to, .. } = *self;
        let unanswered = || Err(JourneyError::failed("it was not decided"));
        reply(to, outcome.and_then(|()| decided.unwrap_or_else(unanswered)));
    }
}
