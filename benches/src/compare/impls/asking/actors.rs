//! Typed actors of Turnwheel: `Address::ask`, with the deadline that every ask has. A relay awaits the
//! next one's answer in an exclusive handler, an asker each answer before the next question, a piper has
//! it sent to itself.

use std::convert::Infallible;

use turnwheel::actors::{Actor, Address, AsyncContext, AsyncHandler, Context, Handler};

use crate::compare::impls::actors::{sent, Actors};
use crate::compare::patterns::{Answers, Told};
use crate::compare::plan::Run;
use crate::compare::trial::{Collector, Measured};
use crate::error::BenchError;

pub(super) struct Question;

/// The last of a chain.
struct Desk(Answers);

/// Asks the next.
struct Relay {
    answers: Answers,
    next: Server,
}

/// Either.
#[derive(Clone)]
enum Server {
    Desk(Address<Desk>),
    Relay(Address<Relay>),
}

impl Server {
    async fn ask(&self) -> Option<u64> {
        match self {
            Self::Desk(desk) => desk.ask(Question).await.ok(),
            Self::Relay(relay) => relay.ask(Question).await.ok(),
        }
    }
}

impl Actor for Desk {
    type Error = Infallible;
}

impl Handler<Question> for Desk {
    type Reply = u64;

    #[inline]
    fn handle(&mut self, _: Question, _: &mut Context<'_, Self>) -> u64 {
        self.0.answer()
    }
}

impl Actor for Relay {
    type Error = Infallible;
}

impl AsyncHandler<Question> for Relay {
    type Reply = u64;

    async fn handle(&mut self, _: Question, _: AsyncContext<Self>) -> u64 {
        let own = self.answers.answer();
        own + self.next.ask().await.unwrap_or(0)
    }
}

/// Asks, awaits the answer, and asks again.
struct Asker {
    server: Server,
    told: Told,
    collector: Collector,
}

impl Actor for Asker {
    type Error = Infallible;
}

struct Ask(u64);

impl AsyncHandler<Ask> for Asker {
    type Reply = ();

    async fn handle(&mut self, Ask(questions): Ask, _: AsyncContext<Self>) {
        for _ in 0..questions {
            self.told.take(self.server.ask().await);
        }
        self.collector.report(self.told.answered());
    }
}

impl Actors {
    pub(in crate::compare::impls) fn ask(
        &self,
        run: &Run,
        askers: u64,
        depth: u64,
    ) -> Result<Measured, BenchError> {
        let collector = Collector::new(askers);
        let answers = || Answers::new(run, &collector);
        let mut server = Server::Desk(self.spawn(Desk(answers())));
        for _ in 1..depth {
            server = Server::Relay(self.spawn(Relay { answers: answers(), next: server }));
        }
        let asker = |_| {
            let (server, collector) = (server.clone(), collector.clone());
            self.spawn(Asker { server, told: Told::new(depth), collector })
        };
        let all: Vec<_> = (0..askers).map(asker).collect();
        drop(server);
        let questions = run.messages / askers / depth;
        let start = |all: &Vec<Address<Asker>>| {
            all.iter().for_each(|one| sent(one.tell(Ask(questions))));
        };
        self.time(run, collector, all, start, |_| {})
    }
}

/// Asks in a handler; the answer comes as a message, after which it sends itself the next step.
struct Piper {
    server: Address<Desk>,
    left: u64,
    told: Told,
    collector: Collector,
}

struct Step;
struct Answered(Option<u64>);

impl Actor for Piper {
    type Error = Infallible;
}

impl Handler<Step> for Piper {
    type Reply = ();

    #[inline]
    fn handle(&mut self, _: Step, cx: &mut Context<'_, Self>) {
        cx.pipe(self.server.ask(Question), |answer| Answered(answer.ok()));
    }
}

impl Handler<Answered> for Piper {
    type Reply = ();

    #[inline]
    fn handle(&mut self, Answered(answer): Answered, cx: &mut Context<'_, Self>) {
        self.told.take(answer);
        self.left -= 1;
        if self.left > 0 {
            sent(cx.tell_self(Step));
        } else {
            self.collector.report(self.told.answered());
        }
    }
}

impl Actors {
    pub(in crate::compare::impls) fn pipe(&self, run: &Run) -> Result<Measured, BenchError> {
        let collector = Collector::new(1);
        let piper = self.spawn(Piper {
            server: self.spawn(Desk(Answers::new(run, &collector))),
            left: run.messages,
            told: Told::new(1),
            collector: collector.clone(),
        });
        self.time(run, collector, piper, |piper| sent(piper.tell(Step)), |_| {})
    }
}
