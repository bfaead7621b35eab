//! Calls that come back: reentrant handlers, open call chains of entities, calls kept out of their
//! chain, and fan-outs, deep and wide.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, Admits, AsyncContext, AsyncHandler, Context, Entities, Entity, EntityRef,
    Handler, InterleavedHandler, RequestContext, System,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::Completion;

type Outcome = Result<(), Box<dyn Error>>;

const SEEDS: u64 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// A node that others call.
struct Node;

impl Actor for Node {
    type Error = Infallible;
}

/// Goes back and forth between two nodes, this many times.
struct Ping(Address<Node>, u32);

impl InterleavedHandler<Ping> for Node {
    type Reply = u32;

    fn handle(
        &mut self,
        Ping(other, left): Ping,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = u32> + Send + 'static {
        let myself = cx.myself();
        async move {
            match left {
                0 => 0,
                _ => 1 + other.ask(Ping(myself, left - 1)).await.expect("it is let in"),
            }
        }
    }
}

/// As `Ping`, with handlers that admit nothing in between.
struct PingAlone(Address<Node>, u32);

impl AsyncHandler<PingAlone> for Node {
    type Reply = Result<u32, bool>;

    async fn handle(
        &mut self,
        PingAlone(other, left): PingAlone,
        cx: AsyncContext<Self>,
    ) -> Self::Reply {
        if left == 0 {
            return Ok(0);
        }
        match other.ask(PingAlone(cx.myself().clone(), left - 1)).await {
            Ok(answer) => answer.map(|depth| depth + 1),
            Err(error) => Err(error.is_cycle()),
        }
    }
}

// O-T034
#[test]
fn two_reentrant_actors_ping_each_other_fifteen_deep_from_both_ends_at_once() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (one, two) = (stage.spawn(Node), stage.spawn(Node));
        let (from_one, from_two) = (one.ask(Ping(two.clone(), 15)), two.ask(Ping(one, 15)));
        let begun = stage.now();
        assert_eq!((stage.answer(from_one), stage.answer(from_two)), (15, 15), "seed {seed}");
        assert_eq!(stage.now(), begun, "nobody waits");
    }
    Ok(())
}

// O-T035
#[test]
fn two_that_let_nobody_in_and_ping_each_other_are_a_cycle_at_once() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (one, two) = (stage.spawn(Node), stage.spawn(Node));
        let asked = one.ask(PingAlone(two, 15));
        let begun = stage.now();
        assert_eq!(stage.answer(asked), Err(true), "seed {seed}");
        assert_eq!(stage.now(), begun);
    }
    Ok(())
}

/// Asks all of these at once, and adds their answers up.
struct FanOut(Vec<Address<Node>>, bool);

impl AsyncHandler<FanOut> for Node {
    type Reply = u32;

    async fn handle(
        &mut self,
        FanOut(targets, are_reentrant): FanOut,
        _: AsyncContext<Self>,
    ) -> u32 {
        let mut sum = 0;
        if are_reentrant {
            let leaf = |target: &Address<Node>| target.ask(Ping(target.clone(), 0));
            for asked in targets.iter().map(leaf).collect::<Vec<_>>() {
                sum += 1 + asked.await.expect("it answers");
            }
        } else {
            let leaf = |target: &Address<Node>| target.ask(PingAlone(target.clone(), 0));
            for asked in targets.iter().map(leaf).collect::<Vec<_>>() {
                sum += 1 + asked.await.expect("it answers").expect("no cycle");
            }
        }
        sum
    }
}

// O-T036, O-T037, O-T045
#[test]
fn fan_outs_to_ten_targets_join_also_many_at_once() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let targets: Vec<_> = (0..10).map(|_| stage.spawn(Node)).collect();
        for are_reentrant in [true, false] {
            let asked = stage.spawn(Node).ask(FanOut(targets.clone(), are_reentrant));
            assert_eq!(stage.answer(asked), 10, "seed {seed}");
        }
        // Five at once, ten rounds, all on the same targets.
        let begun = stage.now();
        let callers: Vec<_> = (0..5).map(|_| stage.spawn(Node)).collect();
        for round in 0..10 {
            let fan = |caller: &Address<Node>| caller.ask(FanOut(targets.clone(), round % 2 == 0));
            for asked in callers.iter().map(fan).collect::<Vec<_>>() {
                assert_eq!(stage.answer(asked), 10, "seed {seed}, round {round}");
            }
        }
        assert!(stage.now() - begun < 40 * SECOND, "seed {seed}");
    }
    Ok(())
}

/// Waits for the test, then for the next.
struct HoldThenAsk(Completion<()>, Address<Node>);

impl AsyncHandler<HoldThenAsk> for Node {
    type Reply = Result<u32, bool>;

    async fn handle(
        &mut self,
        HoldThenAsk(go, next): HoldThenAsk,
        _: AsyncContext<Self>,
    ) -> Self::Reply {
        go.await.expect("the test lets go");
        let asked = next.ask(PingAlone(next.clone(), 0)).await;
        asked.map_err(|error| error.is_timed_out())?
    }
}

// O-T045
#[test]
fn five_long_calls_that_block_each_other_end_with_their_deadline() -> Outcome {
    let stage = Stage::new(1);
    let system = System::builder(stage.group()).ask_limit(10 * SECOND).build();
    let nodes = (0..5).map(|_| system.spawn(Node)).collect::<Result<Vec<_>, _>>()?;
    let mut gates = Vec::new();
    let mut asked = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let (go, gate) = completion();
        gates.push(go);
        asked.push(node.ask_within(HoldThenAsk(gate, nodes[(index + 1) % 5].clone()), 60 * SECOND));
    }
    stage.run();
    for gate in gates {
        gate.complete(()).map_err(|_| "let go twice")?;
    }
    let begun = stage.now();
    let answers: Vec<_> = asked.into_iter().map(|asked| stage.answer(asked)).collect();
    assert!(answers.contains(&Err(true)), "somebody is told of the time: {answers:?}");
    assert!(stage.now() - begun <= 11 * SECOND, "nobody hangs");
    Ok(())
}

/// An entity that goes through others and back to itself.
struct Stop {
    visits: u32,
}

impl Actor for Stop {
    type Error = Infallible;
}

impl Entity for Stop {
    type Key = String;

    fn create(_: &String) -> Self {
        Self { visits: 0 }
    }
}

/// Opens a chain and follows the route; the last stop may be this one.
struct Open(Vec<EntityRef<Stop>>);

impl InterleavedHandler<Open> for Stop {
    type Reply = Result<u32, String>;
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Open(route): Open,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static {
        self.visits += 1;
        follow(route)
    }
}

/// Follows the rest of the route, and admits nothing meanwhile.
struct Follow(Vec<EntityRef<Stop>>);

impl AsyncHandler<Follow> for Stop {
    type Reply = Result<u32, String>;

    async fn handle(&mut self, Follow(route): Follow, _: AsyncContext<Self>) -> Self::Reply {
        self.visits += 1;
        follow(route).await
    }
}

async fn follow(mut route: Vec<EntityRef<Stop>>) -> Result<u32, String> {
    let next = route.remove(0);
    if route.is_empty() {
        return next.ask(Visit).await.map_err(|error| error.to_string());
    }
    next.ask(Follow(route)).await.map_err(|error| error.to_string())?
}

struct Visit;

impl Handler<Visit> for Stop {
    type Reply = u32;

    fn handle(&mut self, _: Visit, _: &mut Context<'_, Self>) -> u32 {
        self.visits += 1;
        self.visits
    }
}

// O-T040, O-T041, O-T042
#[test]
fn an_open_chain_comes_back_to_its_entity_over_none_one_and_two_others() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let entities = Entities::new(stage.system());
        let begun = stage.now();
        for key in 0..30 {
            for others in 0..=2 {
                let name = |number: u32| format!("{key}, {others}, {number}");
                let first = entities.get::<Stop>(name(0));
                let mut route: Vec<_> =
                    (1..=others).map(|number| entities.get::<Stop>(name(number))).collect();
                route.push(first.clone());
                let answer = stage.answer(first.ask(Open(route.clone())));
                assert_eq!(answer, Ok(2), "seed {seed}, key {key}, {others} others");
                // Without the open chain the same way is a cycle.
                let answer = stage.answer(first.ask(Follow(route)));
                assert!(answer.is_err_and(|error| error.contains("wait for one another")));
            }
        }
        assert_eq!(stage.now(), begun, "nobody waits");
    }
    Ok(())
}

/// One of two that call each other; notes the events.
#[derive(Default)]
struct Peer {
    log: Vec<&'static str>,
}

impl Actor for Peer {
    type Error = Infallible;
}

/// Opens a chain and asks the other to call back.
struct Begin(Address<Peer>, Completion<()>);

impl InterleavedHandler<Begin> for Peer {
    type Reply = bool;
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Begin(other, go): Begin,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = bool> + Send + 'static {
        self.log.push("begins");
        let myself = cx.myself();
        async move { other.ask(CallBack(myself, go)).await.is_ok() }
    }
}

/// Calls back, then continues until the test completes it.
struct CallBack(Address<Peer>, Completion<()>);

impl InterleavedHandler<CallBack> for Peer {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        CallBack(first, go): CallBack,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.log.push("is called");
        let myself = cx.myself();
        async move {
            first.ask(Back(myself)).await.expect("it is let in");
            go.await.expect("the test lets go");
        }
    }
}

/// Calls the other twice: apart from the chain, without waiting, and as part of it.
struct Back(Address<Peer>);

impl InterleavedHandler<Back> for Peer {
    type Reply = ();

    fn handle(
        &mut self,
        Back(other): Back,
        cx: &mut Context<'_, Self>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.log.push("is called back");
        let apart = RequestContext::current().apart(|| other.ask(Note("apart")));
        cx.pipe(apart, |_| Note("apart is answered"));
        async move { other.ask(Note("in the chain")).await.expect("it is let in") }
    }
}

struct Note(&'static str);

impl Handler<Note> for Peer {
    type Reply = ();

    fn handle(&mut self, Note(line): Note, _: &mut Context<'_, Self>) {
        self.log.push(line);
    }
}

// O-T044
#[test]
fn a_call_apart_from_its_chain_waits_until_its_target_is_free() -> Outcome {
    for seed in 0..SEEDS {
        let stage = Stage::new(seed);
        let (first, other) = (stage.spawn(Peer::default()), stage.spawn(Peer::default()));
        let (go, gate) = completion();
        let asked = first.ask(Begin(other.clone(), gate));
        stage.run();
        go.complete(()).map_err(|_| "let go twice")?;
        assert!(stage.answer(asked), "seed {seed}");
        stage.run();
        let log = stage.answer(other.with(|peer, _| peer.log.clone()));
        assert_eq!(log, ["is called", "in the chain", "apart"], "seed {seed}");
        let log = stage.answer(first.with(|peer, _| peer.log.clone()));
        assert_eq!(log[..2], ["begins", "is called back"], "seed {seed}");
    }
    Ok(())
}

/// Asks itself with other values than those of its request.
struct AskMyself(bool);

impl AsyncHandler<AskMyself> for Node {
    type Reply = (bool, bool);

    async fn handle(
        &mut self,
        AskMyself(is_apart): AskMyself,
        cx: AsyncContext<Self>,
    ) -> (bool, bool) {
        let request = RequestContext::new().with("user", "bob");
        let call = || cx.myself().ask_within(PingAlone(cx.myself().clone(), 0), SECOND);
        let asked = if is_apart { request.apart(call) } else { request.scope(call) };
        let error = asked.await.expect_err("it waits for itself");
        (error.is_cycle(), error.is_timed_out())
    }
}

// O-T022
#[test]
fn other_values_keep_a_call_in_its_chain_and_only_a_call_apart_leaves_it() -> Outcome {
    let stage = Stage::new(1);
    let node = stage.spawn(Node);
    assert_eq!(stage.answer(node.ask(AskMyself(false))), (true, false));
    assert_eq!(stage.answer(node.ask(AskMyself(true))), (false, true));
    Ok(())
}
