//! actix: `Addr::send`; a relay answers with a future, other messages may come in between. Askers
//! are futures on the arbiters, spread over them like actors.

use std::future::Future;

use ::actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, ContextFutureSpawner,
    Handler, Message, ResponseFuture, WrapFuture,
};

use crate::compare::impls::actix::ActixPeer;
use crate::compare::patterns::{Answers, Asking, Piper};

struct Question;

impl Message for Question {
    type Result = u64;
}

/// The last of a chain.
pub(in crate::compare::impls) struct Desk(Answers);

/// Asks the next.
pub(in crate::compare::impls) struct Relay {
    answers: Answers,
    next: Server,
}

/// Either.
#[derive(Clone)]
pub(in crate::compare::impls) enum Server {
    Desk(Addr<Desk>),
    Relay(Addr<Relay>),
}

impl Actor for Desk {
    type Context = Context<Self>;
}

impl Actor for Relay {
    type Context = Context<Self>;
}

impl Handler<Question> for Desk {
    type Result = u64;

    fn handle(&mut self, _: Question, _: &mut Context<Self>) -> u64 {
        self.0.answer()
    }
}

impl Handler<Question> for Relay {
    type Result = ResponseFuture<u64>;

    fn handle(&mut self, _: Question, _: &mut Context<Self>) -> ResponseFuture<u64> {
        let answer = self.answers.answer();
        let next = self.next.clone();
        Box::pin(async move { answer + ActixPeer::ask(&next).await.unwrap_or(0) })
    }
}

struct PipeHost(Piper<ActixPeer>);

struct Step;

impl Message for Step {
    type Result = ();
}

impl Actor for PipeHost {
    type Context = Context<Self>;
}

impl Handler<Step> for PipeHost {
    type Result = ();

    fn handle(&mut self, _: Step, context: &mut Context<Self>) {
        let server = self.0.server.clone();
        let answer = async move { ActixPeer::ask(&server).await };
        let take = |answer, host: &mut Self, context: &mut Context<Self>| {
            if host.0.take(answer) {
                context.notify(Step);
            } else {
                context.stop();
            }
        };
        answer.into_actor(self).map(take).wait(context);
    }
}

impl Asking for ActixPeer {
    type Server = Server;

    fn server(&self, answers: Answers, next: Option<Server>) -> Server {
        let arbiter = self.next_arbiter();
        match next {
            None => Server::Desk(Desk::start_in_arbiter(arbiter, |_| Desk(answers))),
            Some(next) => {
                Server::Relay(Relay::start_in_arbiter(arbiter, |_| Relay { answers, next }))
            }
        }
    }

    fn spawn_asker(&self, asker: impl Future<Output = ()> + Send + 'static) {
        // An arbiter that is gone is missed at the end.
        let _ = self.next_arbiter().spawn(asker);
    }

    async fn ask(server: &Server) -> Option<u64> {
        match server {
            Server::Desk(desk) => desk.send(Question).await.ok(),
            Server::Relay(relay) => relay.send(Question).await.ok(),
        }
    }

    fn pipe(&self, piper: Piper<Self>) {
        PipeHost::start_in_arbiter(self.next_arbiter(), |_| PipeHost(piper)).do_send(Step);
    }
}
