//! tokio: a question is a oneshot sender for the answer, sent through an mpsc channel.

use std::future::Future;

use ::tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use ::tokio::sync::oneshot;

use crate::compare::impls::tokio::TokioPeer;
use crate::compare::patterns::{Answers, Asking};

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
