//! Calls that would wait for themselves: through entities, activations, and an entity being
//! passivated.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use turnwheel_actors::entity::EntityContext;
use turnwheel_actors::{
    Actor, Admits, Ask, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler,
    InterleavedHandler, System,
};
use turnwheel_runtime::completion::{completion, Completion};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Failure;

type Outcome = Result<(), Box<dyn Error>>;

fn ready<M, R>(ask: &mut Ask<M, R>) -> Result<R, AskError<M>> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(ask).poll(&mut cx) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("no answer yet"),
    }
}

/// One of a ring that calls the next.
struct Ring {
    entities: Option<Entities>,
}

impl Actor for Ring {
    type Error = Failure;
}

/// Below this, the activation calls too.
const CALLS_IN_ACTIVATION: u64 = 100;

impl Entity for Ring {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Ring { entities: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Failure> {
        self.entities = Some(cx.entities().clone());
        if *cx.key() >= CALLS_IN_ACTIVATION {
            // Calls itself by way of another.
            let other = cx.entities().get::<Ring>(1_u64);
            let told = other.ask(Call(vec![*cx.key()])).await.map_err(Failure::from)?;
            told.map_err(Failure::message)?;
        }
        Ok(())
    }
}

/// Calls the first of these, which calls the rest.
struct Call(Vec<u64>);

impl AsyncHandler<Call> for Ring {
    type Reply = Result<(), String>;

    async fn handle(&mut self, Call(mut keys): Call, _: AsyncContext<Self>) -> Self::Reply {
        if keys.is_empty() {
            return Ok(());
        }
        let entities = self.entities.as_ref().expect("it was activated");
        let next = entities.get::<Ring>(keys.remove(0));
        match next.ask(Call(keys)).await {
            Ok(told) => told,
            Err(AskError::Cycle { chain, message }) => {
                assert!(message.is_some(), "it comes back");
                Err(format!("a cycle of {}", chain.len() - 1))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[test]
fn a_call_cycle_through_one_to_five_entities_is_told_at_once() -> Outcome {
    for length in 1..=5_u64 {
        for seed in 0..20 {
            let sim = Sim::new(seed);
            let entities = Entities::new(&System::new(&sim.group("sim")));
            let mut keys: Vec<u64> = (2..=length).collect();
            keys.push(1);
            let first = entities.get::<Ring>(1_u64);
            let mut asked = first.ask(Call(keys));
            sim.run_until_idle();
            let told = ready(&mut asked)?.expect_err("a cycle");
            assert_eq!(told, format!("a cycle of {length}"), "seed {seed}");
            // All of them take calls again.
            let mut asked = first.ask(Call((2..=length).collect()));
            sim.run_until_idle();
            ready(&mut asked)??;
        }
    }
    Ok(())
}

#[test]
fn an_activation_that_calls_back_into_itself_is_told_at_once() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let mut asked = entities.get::<Ring>(CALLS_IN_ACTIVATION).ask(Call(Vec::new()));
    sim.run_until_idle();
    let told = ready(&mut asked).expect_err("a cycle");
    assert!(told.to_string().contains("a cycle of 2"), "{told}");
    Ok(())
}

/// Waits for a gate and then calls itself; lets its own calls in.
struct Comes {
    entities: Option<Entities>,
    gate: Option<Completion<()>>,
}

impl Actor for Comes {
    type Error = std::convert::Infallible;
}

impl Entity for Comes {
    type Key = u64;

    fn create(_: &u64) -> Self {
        Comes { entities: None, gate: None }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), Self::Error> {
        self.entities = Some(cx.entities().clone());
        Ok(())
    }
}

struct Gate(Completion<()>);

impl Handler<Gate> for Comes {
    type Reply = ();

    fn handle(&mut self, Gate(gate): Gate, _: &mut Context<'_, Self>) {
        self.gate = Some(gate);
    }
}

struct Back;

impl Handler<Back> for Comes {
    type Reply = u64;

    fn handle(&mut self, _: Back, _: &mut Context<'_, Self>) -> u64 {
        7
    }
}

struct ComeBack;

impl InterleavedHandler<ComeBack> for Comes {
    type Reply = Result<u64, bool>;
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        _: ComeBack,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static {
        let gate = self.gate.take();
        let myself = self.entities.as_ref().expect("activated").get::<Comes>(1_u64);
        async move {
            if let Some(gate) = gate {
                let _ = gate.await;
            }
            myself.ask(Back).await.map_err(|error| error.is_cycle())
        }
    }
}

#[test]
fn a_call_back_into_one_that_is_being_passivated_is_let_in() -> Outcome {
    let sim = Sim::fifo();
    let entities = Entities::new(&System::new(&sim.group("sim")));
    let comes = entities.get::<Comes>(1_u64);
    let mut asked = comes.ask(ComeBack);
    sim.run_until_idle();
    assert_eq!(ready(&mut asked)?, Ok(7), "it lets its own calls in");
    let (open, gate) = completion();
    comes.tell(Gate(gate))?;
    let mut asked = comes.ask(ComeBack);
    sim.run_until_idle();
    let over = comes.passivate();
    let mut after = comes.ask(Back);
    sim.run_until_idle();
    open.complete(()).map_err(|_| "completed twice")?;
    sim.run_until_idle();
    assert_eq!(ready(&mut asked)?, Ok(7), "it takes what it waits for");
    assert!(over.is_done());
    assert_eq!(ready(&mut after)?, 7);
    Ok(())
}

/// Passivates its entity if it is to leave, then calls the first of these, which calls the rest.
struct Round(Vec<u64>, bool);

impl InterleavedHandler<Round> for Comes {
    type Reply = Result<u64, String>;
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Round(mut keys, leaves): Round,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static {
        if leaves {
            cx.passivate();
        }
        let entities = self.entities.clone().expect("activated");
        async move {
            if keys.is_empty() {
                return Ok(1);
            }
            let next = entities.get::<Comes>(keys.remove(0));
            let asked = next.ask(Round(keys, false)).await;
            asked.map_err(|error| error.to_string())?.map(|depth| depth + 1)
        }
    }
}

// O-T082
#[test]
fn a_round_through_others_comes_back_to_one_that_passivates_itself() -> Outcome {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let entities = Entities::new(&System::new(&sim.group("sim")));
        for path in [vec![1], vec![2, 1], vec![2, 3, 1], vec![2, 1, 3, 1, 2]] {
            let depth = path.len() as u64 + 1;
            let one = entities.get::<Comes>(1_u64);
            let mut asked = one.ask(Round(path.clone(), true));
            let mut after = one.ask(Back);
            sim.run_until_idle();
            assert_eq!(ready(&mut asked)?, Ok(depth), "{path:?}, seed {seed}");
            assert_eq!(ready(&mut after)?, 7);
        }
    }
    Ok(())
}
