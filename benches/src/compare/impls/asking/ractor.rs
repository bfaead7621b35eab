//! ractor: `ActorRef::call` with a reply port, without a time-out; askers are tasks of tokio.

use std::future::Future;

use ::ractor::rpc::CallResult;
use ::ractor::{Actor, ActorProcessingErr, ActorRef, ActorRuntime, RpcReplyPort};

use crate::compare::impls::ractor::RactorPeer;
use crate::compare::patterns::{Answers, Asking, Piper};

pub(in crate::compare::impls) struct Question(RpcReplyPort<u64>);

struct Desk;

struct Served {
    answers: Answers,
    next: Option<ActorRef<Question>>,
}

impl Actor for Desk {
    type Msg = Question;
    type State = Served;
    type Arguments = Served;

    async fn pre_start(
        &self,
        _: ActorRef<Question>,
        served: Served,
    ) -> Result<Served, ActorProcessingErr> {
        Ok(served)
    }

    async fn handle(
        &self,
        _: ActorRef<Question>,
        Question(asker): Question,
        served: &mut Served,
    ) -> Result<(), ActorProcessingErr> {
        let mut answer = served.answers.answer();
        if let Some(next) = &served.next {
            answer += RactorPeer::ask(next).await.unwrap_or(0);
        }
        // An asker that is gone is missed at the end.
        let _ = asker.send(answer);
        Ok(())
    }
}

struct PipeHost;

impl Actor for PipeHost {
    type Msg = ();
    type State = Piper<RactorPeer>;
    type Arguments = Piper<RactorPeer>;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        piper: Piper<RactorPeer>,
    ) -> Result<Piper<RactorPeer>, ActorProcessingErr> {
        Ok(piper)
    }

    async fn handle(
        &self,
        myself: ActorRef<()>,
        (): (),
        piper: &mut Piper<RactorPeer>,
    ) -> Result<(), ActorProcessingErr> {
        if piper.step().await {
            myself.send_message(())?;
        } else {
            myself.stop(None);
        }
        Ok(())
    }
}

impl Asking for RactorPeer {
    type Server = ActorRef<Question>;

    fn server(&self, answers: Answers, next: Option<Self::Server>) -> Self::Server {
        let _entered = self.handle.enter();
        let spawned = ActorRuntime::spawn_instant(None, Desk, Served { answers, next });
        let (server, _join) = spawned.expect("an actor without a name collides with none");
        server
    }

    fn spawn_asker(&self, asker: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(asker);
    }

    async fn ask(server: &Self::Server) -> Option<u64> {
        match server.call(Question, None).await {
            Ok(CallResult::Success(answer)) => Some(answer),
            _ => None,
        }
    }

    fn pipe(&self, piper: Piper<Self>) {
        let _entered = self.handle.enter();
        let (actor, _join) = ActorRuntime::spawn_instant(None, PipeHost, piper)
            .expect("an actor without a name collides with none");
        // It has just been made.
        let _ = actor.send_message(());
    }

    fn end(server: &Self::Server) {
        server.stop(None);
    }
}
