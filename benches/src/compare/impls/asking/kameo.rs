//! kameo: `ask` in the form without a boxed future; askers are tasks of tokio.

use std::convert::Infallible;
use std::future::Future;

use ::kameo::actor::{Actor, ActorRef, Spawn};
use ::kameo::mailbox;
use ::kameo::message::{Context, Message};

use crate::compare::impls::kameo::KameoPeer;
use crate::compare::patterns::{Answers, Asking, Piper};

pub(in crate::compare::impls) struct Desk {
    answers: Answers,
    next: Option<ActorRef<Desk>>,
}

struct Question;

impl Actor for Desk {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(desk: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(desk)
    }
}

impl Message<Question> for Desk {
    type Reply = u64;

    async fn handle(&mut self, _: Question, _: &mut Context<Self, u64>) -> u64 {
        let mut answer = self.answers.answer();
        if let Some(next) = &self.next {
            answer += KameoPeer::ask(next).await.unwrap_or(0);
        }
        answer
    }
}

pub(in crate::compare::impls) struct PipeHost(Piper<KameoPeer>);

struct Step;

impl Actor for PipeHost {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(host: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(host)
    }
}

impl Message<Step> for PipeHost {
    type Reply = ();

    async fn handle(&mut self, _: Step, context: &mut Context<Self, ()>) {
        if self.0.step().await {
            // Its mailbox has no bound.
            let _ = context.actor_ref().tell(Step).try_send();
        } else {
            context.stop();
        }
    }
}

impl Asking for KameoPeer {
    type Server = ActorRef<Desk>;

    fn server(&self, answers: Answers, next: Option<Self::Server>) -> Self::Server {
        let _entered = self.handle.enter();
        Desk::spawn_with_mailbox(Desk { answers, next }, mailbox::unbounded())
    }

    fn spawn_asker(&self, asker: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(asker);
    }

    async fn ask(server: &Self::Server) -> Option<u64> {
        ActorRef::ask(server, Question).send().await.ok()
    }

    fn pipe(&self, piper: Piper<Self>) {
        let _entered = self.handle.enter();
        let actor = PipeHost::spawn_with_mailbox(PipeHost(piper), mailbox::unbounded());
        // It has just been made.
        let _ = actor.tell(Step).try_send();
    }
}
