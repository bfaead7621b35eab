//! tokio: a question is a oneshot sender for the answer, sent through an mpsc channel.

use std::future::Future;

use ::tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use ::tokio::sync::oneshot;

use crate::compare::impls::tokio::TokioPeer;
use crate::compare::patterns::{Answers, Asking, Piper, Servers};

type Server = UnboundedSender<oneshot::Sender<u64>>;

impl Asking for TokioPeer {
    type Server = Server;

    fn server(&self, answers: Answers, next: Option<Server>) -> Server {
        let (server, questions) = unbounded_channel();
        self.handle.spawn(serve(answers, next, questions));
        server
    }

    fn spawn_asker(&self, asker: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(asker);
    }

    async fn ask(server: &Server) -> Option<u64> {
        let (asker, answer) = oneshot::channel();
        server.send(asker).ok()?;
        answer.await.ok()
    }

    async fn ask_key(servers: &Servers<Server>, key: u32) -> Option<u64> {
        let (asker, answer) = oneshot::channel();
        // Sent where it is: no clone of the sender.
        servers.get(&key)?.send(asker).ok()?;
        answer.await.ok()
    }

    fn pipe(&self, piper: Piper<Self>) {
        let (me, messages) = unbounded_channel();
        // The receiver is still here.
        let _ = me.send(());
        self.handle.spawn(take_steps(piper, me, messages));
    }
}

async fn take_steps(
    mut piper: Piper<TokioPeer>,
    me: UnboundedSender<()>,
    mut messages: UnboundedReceiver<()>,
) {
    while let Some(()) = messages.recv().await {
        if !piper.step().await {
            return;
        }
        // The receiver is its own.
        let _ = me.send(());
    }
}

async fn serve(
    mut answers: Answers,
    next: Option<Server>,
    mut questions: UnboundedReceiver<oneshot::Sender<u64>>,
) {
    while let Some(asker) = questions.recv().await {
        let mut answer = answers.answer();
        if let Some(next) = &next {
            answer += TokioPeer::ask(next).await.unwrap_or(0);
        }
        // An asker that is gone is missed at the end.
        let _ = asker.send(answer);
    }
}
