//! Interceptors that note and rule, and an actor with all kinds of handlers for them to be around.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "each program of tests uses a part"
)]

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::intercept::{Call, Interceptor, MessageInfo, Outcome};
use turnwheel_actors::{
    Actor, Address, Admits, AsyncContext, AsyncHandler, Context, Directive, Entity, Handler,
    InterleavedHandler, ReplyHandler, ReplyTo, System,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

pub type Tested = Result<(), Box<dyn Error>>;
pub type Journal = Arc<Mutex<Vec<String>>>;

/// Notes the messages that it sees.
pub struct Notes {
    name: &'static str,
    journal: Journal,
}

impl Notes {
    fn note(&self, text: &str) {
        self.journal.lock().push(format!("{} {text}", self.name));
    }
}

pub fn short(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

impl Interceptor for Notes {
    type State = u32;

    fn begin(&self, call: &mut Call<'_>) -> Result<u32, Failure> {
        self.note(&format!("begins {}", short(call.message_type())));
        Ok(7)
    }

    fn within(&self, state: &mut u32, run: &mut dyn FnMut()) {
        assert_eq!(*state, 7, "each interceptor gets back its own state");
        self.note("goes in");
        run();
        self.note("comes out");
    }

    fn end(&self, _: &mut u32, _: &MessageInfo, outcome: &mut Outcome<'_>) {
        let what = match outcome.error() {
            Some(error) => error.to_string(),
            None if outcome.is_open() => "open".to_owned(),
            None => format!("{:?}", outcome.reply::<u64>()),
        };
        self.note(&format!("ends {what}"));
    }
}

pub fn notes(journal: &Journal) -> impl Fn(&'static str) -> Notes {
    let journal = Arc::clone(journal);
    move |name| Notes { name, journal: Arc::clone(&journal) }
}

pub fn taken(journal: &Journal) -> Vec<String> {
    std::mem::take(&mut journal.lock())
}

/// Runs a closure, which gets the call and the outcome.
pub struct Rule<B, E>(B, E);

impl<B, E> Interceptor for Rule<B, E>
where
    B: Fn(&mut Call<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    E: Fn(&MessageInfo, &mut Outcome<'_>) + Send + Sync + 'static,
{
    type State = ();

    fn begin(&self, call: &mut Call<'_>) -> Result<(), Failure> {
        (self.0)(call)
    }

    fn end(&self, (): &mut (), info: &MessageInfo, outcome: &mut Outcome<'_>) {
        (self.1)(info, outcome);
    }
}

pub fn before(
    rule: impl Fn(&mut Call<'_>) -> Result<(), Failure> + Send + Sync + 'static,
) -> impl Interceptor {
    Rule(rule, |_: &MessageInfo, _: &mut Outcome<'_>| ())
}

pub fn after(
    rule: impl Fn(&MessageInfo, &mut Outcome<'_>) + Send + Sync + 'static,
) -> impl Interceptor {
    Rule(|_: &mut Call<'_>| Ok(()), rule)
}

/// Adds, by each kind of handler.
#[derive(Default)]
pub struct Adder {
    pub sum: u64,
}

#[derive(Clone)]
pub struct Plain(pub u64);
pub struct Exclusive(pub u64);
pub struct Shared(pub u64);
pub struct ByHand(pub u64);
#[derive(Clone)]
pub struct Sum;
#[derive(Clone)]
pub struct Fall;

impl Actor for Adder {
    type Error = Infallible;

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        Directive::Resume
    }
}

impl Entity for Adder {
    type Key = String;

    fn create(_: &String) -> Self {
        Self::default()
    }
}

impl Handler<Plain> for Adder {
    type Reply = u64;

    fn handle(&mut self, Plain(by): Plain, _: &mut Context<'_, Self>) -> u64 {
        self.sum += by;
        self.sum
    }
}

impl AsyncHandler<Exclusive> for Adder {
    type Reply = u64;

    async fn handle(&mut self, Exclusive(by): Exclusive, cx: AsyncContext<Self>) -> u64 {
        cx.sleep(Duration::from_secs(1)).await.expect("there is room for a timer");
        self.sum += by;
        self.sum
    }
}

impl InterleavedHandler<Shared> for Adder {
    type Reply = u64;

    const ADMITS: Admits = Admits::Readers;

    fn handle(
        &mut self,
        Shared(by): Shared,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send + 'static {
        let group = cx.group();
        async move {
            group.sleep(Duration::from_secs(1)).await.expect("there is room for a timer");
            by
        }
    }
}

impl ReplyHandler<ByHand> for Adder {
    type Reply = u64;

    fn handle(&mut self, ByHand(by): ByHand, reply: ReplyTo<u64>, _: &mut Context<'_, Self>) {
        self.sum += by;
        reply.send(self.sum);
    }
}

impl Handler<Sum> for Adder {
    type Reply = u64;

    fn handle(&mut self, _: Sum, _: &mut Context<'_, Self>) -> u64 {
        self.sum
    }
}

impl Handler<Fall> for Adder {
    type Reply = u64;

    fn handle(&mut self, _: Fall, _: &mut Context<'_, Self>) -> u64 {
        panic!("fell over")
    }
}

pub fn adder(sim: &Sim, interceptor: impl Interceptor) -> Result<Address<Adder>, Box<dyn Error>> {
    Ok(System::new(&sim.group("cpu")).actor(Adder::default()).intercept(interceptor).spawn()?)
}
