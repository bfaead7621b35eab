//! Turnwheel: `Task::call`, and the answer as a continuation; a relay hands its completer along.

use turnwheel_runtime::completion::completion;
use turnwheel_runtime::{Completer, Completion, Context, Task};

use crate::compare::impls::turnwheel::Turnwheel;
use crate::compare::patterns::{Answers, Told};
use crate::compare::plan::Run;
use crate::compare::trial::{Collector, Measured};
use crate::error::BenchError;
use crate::load::sent;

/// Answers; with a `next` it asks that first and adds what it says.
pub(super) struct Server {
    answers: Answers,
    next: Option<Task<Server>>,
}

impl Server {
    pub(super) fn new(answers: Answers, next: Option<Task<Self>>) -> Self {
        Self { answers, next }
    }

    #[inline]
    pub(super) fn answer(&mut self) -> u64 {
        self.answers.answer()
    }

    /// Answers later, when the next one has.
    fn relay(&mut self, cx: &mut Context<'_, Self>, asker: Completer<u64>) {
        let own = self.answers.answer();
        let Some(next) = &self.next else {
            // An asker that is gone is missed at the end.
            let _ = asker.complete(own);
            return;
        };
        cx.on_completion(relayed(next), move |_, _, answer| {
            let _ = asker.complete(own + answer.unwrap_or(0));
        });
    }
}

fn relayed(server: &Task<Server>) -> Completion<u64> {
    let (asker, answer) = completion();
    sent(server.submit(move |server, cx| server.relay(cx, asker)));
    answer
}

/// Asks, and asks again with the answer.
struct Asker {
    server: Task<Server>,
    /// Whether the server asks others.
    is_relayed: bool,
    left: u64,
    told: Told,
    collector: Collector,
}

impl Asker {
    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        if self.left == 0 {
            self.collector.report(self.told.answered());
            return;
        }
        self.left -= 1;
        let answer = if self.is_relayed {
            relayed(&self.server)
        } else {
            self.server.call(|server, _| server.answer())
        };
        cx.on_completion(answer, |asker, cx, answer| {
            asker.told.take(answer.ok());
            asker.ask(cx);
        });
    }
}

impl Turnwheel {
    pub(in crate::compare::impls) fn ask(
        &self,
        run: &Run,
        askers: u64,
        depth: u64,
    ) -> Result<Measured, BenchError> {
        let collector = Collector::new(askers);
        let answers = || Answers::new(run, &collector);
        let mut server = self.spawn(Server::new(answers(), None));
        for _ in 1..depth {
            server = self.spawn(Server::new(answers(), Some(server)));
        }
        let asker = |_| {
            self.spawn(Asker {
                server: server.clone(),
                is_relayed: depth > 1,
                left: run.messages / askers / depth,
                told: Told::new(depth),
                collector: collector.clone(),
            })
        };
        let all: Vec<_> = (0..askers).map(asker).collect();
        drop(server);
        let start =
            |all: &Vec<Task<Asker>>| all.iter().for_each(|one| sent(one.submit(Asker::ask)));
        self.time(run, collector, all, start, |_| {})
    }
}

/// Asks in a job; after the answer it submits the next one to itself.
struct Piper {
    server: Task<Server>,
    left: u64,
    told: Told,
    collector: Collector,
}

impl Piper {
    fn step(&mut self, cx: &mut Context<'_, Self>) {
        let answer = self.server.call(|server, _| server.answer());
        cx.on_completion(answer, |piper, cx, answer| {
            piper.told.take(answer.ok());
            piper.left -= 1;
            if piper.left > 0 {
                sent(cx.submit(Self::step));
            } else {
                piper.collector.report(piper.told.answered());
            }
        });
    }
}

impl Turnwheel {
    pub(in crate::compare::impls) fn pipe(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let answers = Answers::new(run, &collector);
        let piper = self.spawn(Piper {
            server: self.spawn(Server::new(answers, None)),
            left: run.messages,
            told: Told::new(1),
            collector: collector.clone(),
        });
        self.time(run, collector, piper, |piper| sent(piper.submit(Piper::step)), |_| {})
    }
}
