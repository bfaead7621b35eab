//! Messages from methods: every kind of message, what is carried over, and how they are sent.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::{
    messages, Access, Actor, Address, Admits, AsyncContext, Context, Entities, Entity, Handler,
    InterleavedHandler, ReplyTo, System,
};
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::sim::Sim;

type Outcome = Result<(), Box<dyn Error>>;

/// Counts, and logs its hooks.
#[derive(Actor, Debug, Default)]
struct Counter {
    count: u64,
    waiting: Option<ReplyTo<u64>>,
}

#[messages]
impl Counter {
    /// No message: the mark is missing.
    fn set(&mut self, count: u64) -> u64 {
        self.count = count;
        if let Some(waiting) = self.waiting.take() {
            waiting.send(count);
        }
        count
    }

    /// Adds.
    #[message(derive(Clone, PartialEq, Debug))]
    fn add(
        &mut self,
        /// How much.
        by: u64,
    ) -> u64 {
        self.set(self.count + by)
    }

    #[message]
    fn get(&self) -> u64 {
        self.count
    }

    #[message(always)]
    fn is_above(&self, limit: u64) -> bool {
        self.count > limit
    }

    #[message]
    fn add_later(&mut self, by: u64, after: Duration, cx: &mut Context<'_, Self>) -> bool {
        cx.tell_after(after, Add { by }).is_ok()
    }

    #[message]
    async fn add_after(&mut self, mut by: u64, gate: Completion<()>) -> Result<u64, String> {
        gate.await.map_err(|failure| failure.to_string())?;
        by += 1;
        Ok(self.set(self.count + by - 1))
    }

    #[message]
    async fn add_slowly(&mut self, by: u64, cx: AsyncContext<Self>) -> Option<Self> {
        cx.sleep(Duration::from_secs(by)).await.ok()?;
        self.count += by;
        Some(Self { count: self.count, waiting: None })
    }

    #[message(interleaved)]
    fn add_beside(
        &mut self,
        message: u64,
        gate: Completion<()>,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u64> + Send {
        let myself = cx.myself();
        async move {
            gate.await.expect("the test opens the gate");
            myself.add(message).await.expect("the actor lives")
        }
    }

    #[message(interleaved, admits = "readers", name = GetAfter)]
    fn get_when_open(&self, gate: Completion<()>) -> Completion<()> {
        gate
    }

    #[message(interleaved, admits = "chain")]
    fn wait_for(&mut self, gate: Completion<()>) -> impl Future<Output = ()> + Send + 'static {
        async move { drop(gate.await) }
    }

    #[message]
    fn next(&mut self, above: u64, reply: ReplyTo<u64>) {
        if self.count > above {
            reply.send(self.count);
        } else {
            self.waiting = Some(reply);
        }
    }
}

#[messages(extension = CounterAdmin)]
impl Counter {
    #[message]
    pub(crate) fn r#type(&self) -> &'static str {
        "counter"
    }

    #[message]
    pub(crate) fn apply(&mut self, change: Box<dyn Fn(&u64) -> u64 + Send>, cx: u64) {
        self.count = change(&self.count) + cx;
    }
}

fn start(seed: u64) -> Result<(Sim, Address<Counter>), Box<dyn Error>> {
    let sim = Sim::new(seed);
    let counter = System::new(&sim.group("sim")).spawn(Counter::default())?;
    Ok((sim, counter))
}

#[test]
fn each_method_is_a_message_and_each_message_a_method_of_the_address() -> Outcome {
    let (sim, counter) = start(1)?;
    counter.tell(Add { by: 2 })?;
    assert_eq!(sim.block_on(counter.add(3))??, 5);
    assert_eq!(sim.block_on(counter.ask(Add { by: 1 }))??, 6);
    assert_eq!(sim.block_on(counter.get())??, 6);
    assert!(sim.block_on(counter.is_above(5))??);
    assert_eq!(sim.block_on(counter.r#type())??, "counter");
    sim.block_on(counter.apply(Box::new(|count| count * 2), 1))??;
    assert_eq!(sim.block_on(counter.get())??, 13);
    Ok(())
}

#[test]
fn the_last_parameter_may_be_what_the_actor_gives() -> Outcome {
    let (sim, counter) = start(2)?;
    assert!(sim.block_on(counter.add_later(4, Duration::from_secs(9)))??);
    sim.advance(Duration::from_secs(8));
    assert_eq!(sim.block_on(counter.get())??, 0);
    sim.advance(Duration::from_secs(1));
    assert_eq!(sim.block_on(counter.get())??, 4);
    let slow = counter.add_slowly(3);
    sim.advance(Duration::from_secs(3));
    assert_eq!(sim.block_on(slow)??.map(|counter| counter.count), Some(7));
    Ok(())
}

#[test]
fn an_async_method_keeps_others_out_and_an_interleaved_one_does_not() -> Outcome {
    for seed in 0..20 {
        let (sim, counter) = start(seed)?;
        let (open, gate) = completion();
        let slow = counter.add_after(1, gate);
        let quick = counter.add(10);
        assert!(sim.block_on(counter.get()).is_err(), "the exclusive future holds all back");
        open.complete(()).map_err(|_| "completed twice")?;
        assert_eq!(sim.block_on(slow)??, Ok(1));
        assert_eq!(sim.block_on(quick)??, 11);

        let (open, gate) = completion();
        let slow = counter.add_beside(100, gate);
        assert_eq!(sim.block_on(counter.add(10))??, 21, "it comes in between");
        open.complete(()).map_err(|_| "completed twice")?;
        assert_eq!(sim.block_on(slow)??, 121);
    }
    Ok(())
}

#[test]
fn what_is_admitted_is_as_written() -> Outcome {
    for seed in 0..20 {
        let (sim, counter) = start(seed)?;
        let (open, gate) = completion();
        let reading = counter.ask(GetAfter { gate });
        assert_eq!(sim.block_on(counter.get())??, 0, "a reader beside a reader");
        let write = counter.add(1);
        assert!(sim.block_on(counter.get()).is_err(), "not past a writer that waits");
        assert!(!sim.block_on(counter.is_above(0))??, "always is always");
        open.complete(()).map_err(|_| "completed twice")?;
        assert_eq!(sim.block_on(write)??, 1);
        sim.block_on(reading)???;
    }
    let access = (<Counter as Handler<Get>>::ACCESS, <Counter as Handler<Add>>::ACCESS);
    assert_eq!(access, (Access::Read, Access::Write));
    assert_eq!(<Counter as InterleavedHandler<AddBeside>>::ADMITS, Admits::All);
    assert_eq!(<Counter as InterleavedHandler<GetAfter>>::ADMITS, Admits::Readers);
    assert_eq!(<Counter as InterleavedHandler<WaitFor>>::ADMITS, Admits::Chain);
    Ok(())
}

#[test]
fn a_method_may_answer_by_hand() -> Outcome {
    let (sim, counter) = start(3)?;
    let next = counter.next(0);
    sim.run_until_idle();
    counter.tell(Add { by: 4 })?;
    assert_eq!(sim.block_on(next)??, 4);
    assert_eq!(sim.block_on(counter.next(1))??, 4);
    Ok(())
}

#[test]
fn messages_are_values_with_the_derives_asked_for() {
    let add = Add { by: 3 };
    assert_eq!(add.clone(), add);
    assert_eq!(format!("{add:?} {:?}", Get), "Add { by: 3 } Get");
}

/// A facade: the crates are not found under their own names.
mod facade {
    pub(crate) use turnwheel_actors as actors;
}

#[derive(Actor)]
#[actor(crate = facade::actors)]
struct Account(i64);

impl Entity for Account {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Self(0)
    }
}

#[messages(crate = facade::actors, entity)]
impl Account {
    #[message]
    async fn deposit(&mut self, amount: i64) -> i64 {
        self.0 += amount;
        self.0
    }
}

#[test]
fn references_of_entities_have_the_methods_if_asked_for() -> Outcome {
    let sim = Sim::new(4);
    let system = System::new(&sim.group("sim"));
    let entities = Entities::new(&system);
    assert_eq!(sim.block_on(entities.get::<Account>(42_u64).deposit(5))??, 5);
    assert_eq!(sim.block_on(entities.get::<Account>(42_u64).deposit(5))??, 10);
    assert_eq!(sim.block_on(entities.get::<Account>(43_u64).deposit(5))??, 5);
    let account = system.spawn(Account(1))?;
    assert_eq!(sim.block_on(account.deposit(5))??, 6);
    Ok(())
}

/// As the derive makes it for a type with parameters.
#[derive(Actor)]
struct Cache<T>
where
    T: Send + 'static,
{
    last: Option<T>,
}

#[messages]
impl Cache<String> {
    #[message]
    fn keep(&mut self, text: String) -> Option<<Self as Kept>::Value> {
        self.last.replace(text)
    }
}

/// `Self` in a path that the type and the trait of the methods must spell out.
trait Kept {
    type Value;
}

impl<T: Send + 'static> Kept for Cache<T> {
    type Value = T;
}

#[test]
fn an_actor_of_a_concrete_type_of_a_generic_one_has_messages() -> Outcome {
    let sim = Sim::new(5);
    let cache = System::new(&sim.group("sim")).spawn(Cache { last: None })?;
    assert_eq!(sim.block_on(cache.keep("one".to_owned()))??, None);
    assert_eq!(sim.block_on(cache.keep("two".to_owned()))??.as_deref(), Some("one"));
    Ok(())
}
