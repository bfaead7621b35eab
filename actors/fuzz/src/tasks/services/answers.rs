//! Streams of answers: each answer comes once and in order, and each stream ends.

use std::future::Future;
use std::pin::pin;
use std::task::{Context as PollContext, Poll, Waker};

use turnwheel_actors::{AnswerSink, Answers, Ask, Context, Handler};
use turnwheel_runtime::{Completion, Failure};

use super::poll;
use crate::kind::Kind;
use crate::program::{Act, Script};
use crate::run::Twin;
use crate::tasks::actors::{OpenGuard, Player};
use crate::tasks::life::delay;
use crate::tasks::main_thread::guarded;
use crate::tasks::slots::slot;
use crate::tasks::submissions::waker;
use crate::tasks::world::{group, violation, with, Entered, Role, Token};
use crate::tasks::{play, Here};

/// Answers of one stream, at most.
const ANSWERS_MAX: u8 = 6;

/// One stream.
#[derive(Debug, Default)]
pub(super) struct Model {
    asked: Option<Ask<Asked, Answers<Answer>>>,
    answers: Option<Answers<Answer>>,
    wanted: u32,
    bound: u32,
    sent: u32,
    got: u32,
    is_over: bool,
}

/// A call for a stream.
#[derive(Debug)]
pub(super) struct Asked {
    stream: usize,
    body: Script,
    _token: Token,
}

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    number: u32,
    _token: Token,
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::AskStream => ask(act),
        Kind::TakeAnswer => take(act),
        _ => {
            let old = with(|world| {
                let model = world.services.answers.last_mut()?;
                Some((model.asked.take(), model.answers.take()))
            });
            drop(old);
        }
    }
}

fn ask(act: &Act) {
    let Some((address, _)) = with(|world| world.actors.addresses[slot(act.a)].clone()) else {
        return;
    };
    let stream = with(|world| {
        let (wanted, bound) = (u32::from(act.b % ANSWERS_MAX), 1 + u32::from(act.a / 4 % 3));
        world.services.answers.push(Model { wanted, bound, ..Model::default() });
        world.services.answers.len() - 1
    });
    let token = Token::new(Role::Other, &act.body);
    let ask = address.ask(Asked { stream, body: act.body.clone(), _token: token });
    with(|world| {
        if let Some(model) = world.services.answers.get_mut(stream) {
            model.asked = Some(ask);
        }
    });
}

/// Takes what is there from the newest stream.
fn take(act: &Act) {
    let Some(stream) = with(|world| world.services.answers.len().checked_sub(1)) else { return };
    begin(stream);
    let waker = waker(&act.body);
    for _ in 0..=act.b % 3 {
        if !next(stream, &mut PollContext::from_waker(&waker)) {
            break;
        }
    }
    drop(waker);
}

/// Exchanges the call for its stream once that is there.
fn begin(stream: usize) -> bool {
    let asked = with(|world| world.services.answers[stream].asked.take());
    let Some(mut asked) = asked else { return true };
    match poll(&mut asked) {
        Poll::Pending => {
            with(|world| world.services.answers[stream].asked = Some(asked));
            false
        }
        Poll::Ready(Ok(answers)) => {
            with(|world| world.services.answers[stream].answers = Some(answers));
            true
        }
        Poll::Ready(Err(error)) => {
            drop(error);
            true
        }
    }
}

/// Takes one answer; `false` if none is there now.
fn next(stream: usize, cx: &mut PollContext<'_>) -> bool {
    let answers = with(|world| world.services.answers[stream].answers.take());
    let Some(mut answers) = answers else { return false };
    let polled = pin!(answers.next()).poll(cx);
    with(|world| world.services.answers[stream].answers = Some(answers));
    match polled {
        Poll::Pending => false,
        Poll::Ready(Some(Ok(answer))) => {
            let wanted = with(|world| {
                let model = &mut world.services.answers[stream];
                model.got += 1;
                model.got - 1
            });
            if answer.number != wanted {
                violation(format!("answer {} of stream {stream}, not {wanted}", answer.number));
            }
            drop(answer);
            true
        }
        Poll::Ready(end) => {
            let Some(text) = with(|world| {
                let model = &mut world.services.answers[stream];
                let is_early = end.is_none() && !model.is_over && model.got < model.wanted;
                model.is_over = true;
                is_early.then(|| format!("stream {stream} ends in order, early: {model:?}"))
            }) else {
                return false;
            };
            violation(text);
            false
        }
    }
}

impl Handler<Asked> for Player {
    type Reply = Answers<Answer>;

    fn handle(&mut self, asked: Asked, cx: &mut Context<'_, Self>) -> Answers<Answer> {
        let (stream, actor) = (asked.stream, self.number());
        let (wanted, bound) = with(|world| {
            let model = &world.services.answers[stream];
            (model.wanted, model.bound)
        });
        let open = OpenGuard::new(actor);
        cx.answers(bound as usize, move |sink| make(open, actor, wanted, asked, sink))
    }
}

/// Makes the answers, with an act between two of them.
async fn make(
    _open: OpenGuard,
    actor: u32,
    wanted: u32,
    asked: Asked,
    mut sink: AnswerSink<Answer>,
) -> Result<(), Failure> {
    for number in 0..wanted {
        if let Some(act) = asked.body.get(number as usize).cloned() {
            if act.kind == Kind::Pend {
                sleep(act.b).await;
            } else {
                let _frame = Entered::handler(actor);
                play(std::slice::from_ref::<Act>(&act), &mut Here::Loose);
            }
        }
        let is_mixed = with(|world| world.twin == Some(Twin::MixesAnswers));
        let number = if is_mixed { number ^ 1 } else { number };
        let answer = Answer { number, _token: Token::new(Role::Other, &[]) };
        if sink.send(answer).await.is_err() {
            break;
        }
        let text = with(|world| {
            let model = world.services.answers.get_mut(asked.stream)?;
            model.sent += 1;
            let is_beyond = model.sent > model.got + model.bound;
            is_beyond.then(|| format!("more answers wait than agreed: {model:?}"))
        });
        text.into_iter().for_each(violation);
    }
    Ok(())
}

fn sleep(argument: u8) -> impl Future<Output = ()> + Send {
    let sleep: Option<Completion<()>> = group().map(|group| group.sleep(delay(argument)));
    async move {
        if let Some(sleep) = sleep {
            let _ = sleep.await;
        }
    }
}

/// Every stream has come to its end.
pub(super) fn check_end() {
    let count = with(|world| world.services.answers.len());
    for stream in 0..count {
        // A refused call panics where the destructor of its message does: it is there all the same.
        let mut is_there = true;
        guarded("the beginning of a stream", || is_there = begin(stream));
        let cx = &mut PollContext::from_waker(Waker::noop());
        guarded("the rest of a stream", || while next(stream, cx) {});
        let text = with(|world| {
            let model = &world.services.answers[stream];
            let is_over = is_there && (model.is_over || model.answers.is_none());
            (!is_over).then(|| format!("stream {stream} never ends: {model:?}"))
        });
        text.into_iter().for_each(violation);
    }
    drop_all();
}

/// Drops all handles; the models stay.
pub(super) fn drop_all() {
    let count = with(|world| world.services.answers.len());
    for stream in 0..count {
        let old = with(|world| {
            let model = &mut world.services.answers[stream];
            (model.asked.take(), model.answers.take())
        });
        guarded("dropping a stream", || drop(old));
    }
}
