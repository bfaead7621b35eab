//! Calls to entities of other processes, which are systems of one simulation here.

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turnwheel_actors::entity::{
    CreateContext, EntityContext, MemoryStore, Ownership, Placement, RemoteCall, RemoteCalls,
    RemoteError, RemoteMessage, StoreError, Stored,
};
use turnwheel_actors::{
    Actor, AskError, AsyncContext, AsyncHandler, Context, Entities, Entity, Handler, ReplyHandler,
    ReplyTo, RequestContext, System,
};
use turnwheel_runtime::completion::completion;
use turnwheel_runtime::internal::spawn_inline;
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::{Completer, Completion};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);

/// Processes with one owner of all keys; the process after it owns those from [`ELSEWHERE`] on.
#[derive(Debug, Default)]
struct Net {
    owner: AtomicUsize,
    epoch: AtomicUsize,
    nodes: Mutex<Vec<Entities>>,
    /// Whether answers are lost.
    is_deaf: AtomicBool,
    lost: Mutex<Vec<Lost>>,
    carried: AtomicUsize,
}

/// The first key of another owner.
const ELSEWHERE: u64 = 100;

/// Attempts of a carrier.
const TRIES: usize = 5;

type Lost = Completer<Result<Vec<u8>, RemoteError>>;

impl Net {
    fn give(&self, node: usize) {
        self.owner.store(node, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    fn node(&self, node: usize) -> Entities {
        self.nodes.lock().expect("no panic here")[node].clone()
    }

    fn owner_of(&self, key: &str) -> usize {
        let is_elsewhere = key.parse::<u64>().is_ok_and(|key| key >= ELSEWHERE);
        let owner = self.owner.load(Ordering::Relaxed) + usize::from(is_elsewhere);
        owner % self.nodes.lock().expect("no panic here").len()
    }
}

/// One process as its entities see the net.
#[derive(Debug)]
struct Node(Arc<Net>, usize);

impl Placement for Node {
    fn place(&self, _: &str, key: &str) -> Ownership {
        let is_local = self.0.owner_of(key) == self.1;
        Ownership { is_local, epoch: self.0.epoch.load(Ordering::Relaxed) as u64 }
    }
}

impl RemoteCalls for Node {
    fn call(&self, call: RemoteCall) -> Completion<Result<Vec<u8>, RemoteError>> {
        let net = &self.0;
        net.carried.fetch_add(1, Ordering::Relaxed);
        let taken = net.node(net.owner_of(&call.key)).take_remote(&call);
        if net.is_deaf.load(Ordering::Relaxed) {
            let (completer, never) = completion();
            net.lost.lock().expect("no panic here").push(completer);
            spawn_inline(async { Ok(taken.await) }).detach();
            return never;
        }
        let net = Arc::clone(net);
        spawn_inline(async move {
            let mut answer = taken.await;
            for _ in 1..TRIES {
                if !matches!(answer, Err(RemoteError::Moved { .. })) {
                    break;
                }
                answer = net.node(net.owner_of(&call.key)).take_remote(&call).await;
            }
            Ok(answer)
        })
    }
}

struct Account {
    entities: Entities,
    balance: Option<Stored<i64>>,
    seen: i64,
}

/// The key of an account that cannot be activated.
const DAMAGED: u64 = 13;

impl Actor for Account {
    type Error = StoreError;
}

impl Entity for Account {
    type Key = u64;
    const NAME: &'static str = "account";

    fn create(_: &u64) -> Self {
        unreachable!("`create_in` is called")
    }

    fn create_in(cx: &CreateContext<'_, Self>) -> Self {
        Self { entities: cx.entities(), balance: None, seen: 0 }
    }

    async fn activate(&mut self, cx: EntityContext<Self>) -> Result<(), StoreError> {
        if *cx.key() == DAMAGED {
            return Err(StoreError::Failed("the disk is damaged".to_owned()));
        }
        cx.sleep(SECOND / 10).await.map_err(|error| StoreError::Failed(error.to_string()))?;
        self.balance = Some(Stored::load(&cx).await?);
        Ok(())
    }
}

/// Adds to the stored balance, and takes a second for it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Deposit(i64);

impl RemoteMessage for Deposit {
    const NAME: &'static str = "deposit";
}

impl AsyncHandler<Deposit> for Account {
    type Reply = Result<i64, String>;

    async fn handle(&mut self, Deposit(amount): Deposit, cx: AsyncContext<Self>) -> Self::Reply {
        cx.sleep(SECOND).await.map_err(|error| error.to_string())?;
        let balance = self.balance.as_mut().expect("it was activated");
        let written = balance.update(|balance| *balance += amount).await;
        written.map_err(|error| error.to_string())?;
        Ok(**balance)
    }
}

/// Counts in memory; the answer names the user of the request.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct See(i64);

impl RemoteMessage for See {
    const NAME: &'static str = "see";
    const IS_REPEATABLE: bool = true;
}

impl Handler<See> for Account {
    type Reply = (i64, Option<String>);

    fn handle(&mut self, See(more): See, _: &mut Context<'_, Self>) -> Self::Reply {
        assert!(more >= 0, "it sees less");
        self.seen += more;
        (self.seen, RequestContext::current().get("user").map(str::to_owned))
    }
}

/// A message that travels in a box, with an answer that does too.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wide([[u64; 30]; 30]);

impl RemoteMessage for Wide {
    const NAME: &'static str = "wide";
}

impl Handler<Wide> for Account {
    type Reply = Wide;

    fn handle(&mut self, mut wide: Wide, _: &mut Context<'_, Self>) -> Wide {
        wide.0[29][29] += 1;
        wide
    }
}

/// A message that does not cross.
#[derive(Debug, PartialEq)]
struct Stays(u32);

impl Handler<Stays> for Account {
    type Reply = u32;

    fn handle(&mut self, Stays(value): Stays, _: &mut Context<'_, Self>) -> u32 {
        value
    }
}

/// A message that only the first process knows.
#[derive(Debug, Serialize, Deserialize)]
struct New;

impl RemoteMessage for New {
    const NAME: &'static str = "new";
}

impl Handler<New> for Account {
    type Reply = ();

    fn handle(&mut self, _: New, _: &mut Context<'_, Self>) {}
}

/// Counts as seen, and has the answer given by somebody else.
#[derive(Debug, Serialize, Deserialize)]
enum Relay {
    /// An account of another process, which does not know the message.
    Unknown,
    /// The same, with a message that does not cross.
    Stays,
    /// An actor that does not take the message in time.
    Busy,
}

impl RemoteMessage for Relay {
    const NAME: &'static str = "relay";
}

impl ReplyHandler<Relay> for Account {
    type Reply = ();

    fn handle(&mut self, relay: Relay, reply: ReplyTo<()>, cx: &mut Context<'_, Self>) {
        fn pass_on<M>(answer: Result<(), AskError<M>>, reply: ReplyTo<()>) {
            match answer {
                Ok(()) => reply.send(()),
                Err(error) => reply.fail(error.into()),
            }
        }
        self.seen += 1;
        let other = self.entities.get::<Account>(ELSEWHERE + 7);
        match relay {
            Relay::Unknown => {
                let asked = other.ask(New);
                spawn_inline(async move {
                    pass_on(asked.await, reply);
                    Ok(())
                })
                .detach();
            }
            Relay::Stays => {
                let asked = other.ask(Stays(1));
                spawn_inline(async move {
                    pass_on(asked.await.map(drop), reply);
                    Ok(())
                })
                .detach();
            }
            Relay::Busy => {
                let busy = cx.system().spawn(Busy).expect("it begins");
                busy.tell(Rest).expect("it is taken");
                busy.forward(Rest, reply).expect("it is taken");
            }
        }
    }
}

/// Rests for a minute.
struct Busy;

impl Actor for Busy {
    type Error = Infallible;
}

struct Rest;

impl AsyncHandler<Rest> for Busy {
    type Reply = ();

    async fn handle(&mut self, _: Rest, cx: AsyncContext<Self>) {
        cx.sleep(60 * SECOND).await.expect("the group runs");
    }
}

fn net(sim: &Sim, nodes: usize) -> Arc<Net> {
    let (net, store) = (Arc::new(Net::default()), Arc::new(MemoryStore::new()));
    for index in 0..nodes {
        let system = System::new(&sim.group(&format!("node {index}")));
        let builder =
            Entities::builder(&system).store(store.clone()).remote::<Account>(|account| {
                let account = account.message::<Deposit, _>().message::<See, _>();
                let account = account.message::<Wide, _>().message::<Relay, _>();
                if index == 0 {
                    account.message::<New, _>()
                } else {
                    account
                }
            });
        let node = Arc::new(Node(Arc::clone(&net), index));
        let entities = builder.placement(node.clone()).carrier(node).build();
        net.nodes.lock().expect("no panic here").push(entities);
    }
    net
}

fn passing<F: std::future::Future>(sim: &Sim, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        match sim.block_on(future.as_mut()) {
            Ok(output) => return output,
            Err(stuck) => assert!(sim.advance_to_next_timer(), "nothing will happen: {stuck}"),
        }
    }
}

#[test]
fn a_call_reaches_the_one_activation_that_the_owner_holds() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let [first, second] = [net.node(0), net.node(1)];
    let seen = passing(&sim, second.get::<Account>(7_u64).ask(See(2)))?;
    assert_eq!(seen, (2, None));
    let user = RequestContext::new().with("user", "ada");
    let asked = user.scope(|| second.get::<Account>(7_u64).ask(See(3)));
    assert_eq!(passing(&sim, asked)?, (5, Some("ada".to_owned())));
    second.get::<Account>(7_u64).tell(See(4))?;
    assert_eq!(passing(&sim, first.get::<Account>(7_u64).ask(See(0)))?, (9, None));
    assert_eq!(net.carried.load(Ordering::Relaxed), 3, "the owner asks its own entity itself");
    let wide = passing(&sim, second.get::<Account>(7_u64).ask(Wide([[3; 30]; 30])))?;
    assert_eq!((wide.0[0][0], wide.0[29][29]), (3, 4));
    assert_eq!((first.active::<Account>(), second.active::<Account>()), (1, 0));
    assert_eq!(first.system().dead_letters() + second.system().dead_letters(), 0);
    Ok(())
}

#[test]
fn what_does_not_cross_or_is_not_known_there_is_refused_and_was_not_done() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let [first, second] = [net.node(0), net.node(1)];
    let stays = passing(&sim, second.get::<Account>(1_u64).ask(Stays(3)));
    let Err(AskError::NotOwner { message, .. }) = stays else { panic!("{stays:?}") };
    assert_eq!(message, Stays(3));
    net.give(1);
    let unknown = passing(&sim, first.get::<Account>(1_u64).ask(New));
    let Err(AskError::Remote(error)) = unknown else { panic!("{unknown:?}") };
    assert!(!error.may_have_been_done(), "{error}");
    assert!(error.to_string().contains("«account» takes no message «new» here"), "{error}");
    // A key that is none, a type that is not served, a text that is no message, an entity that does
    // not begin, and the same one while it is held.
    let call = |entity, key, content| call_of(entity, key, "see", content);
    for (call, why) in [
        (call("account", "seven", "1"), "«seven» is no key of «account»"),
        (call("ledger", "7", "1"), "entities «ledger» are not served here"),
        (call("account", "7", "{"), "the message cannot be read"),
        (call("account", "13", "1"), "the disk is damaged"),
        (call("account", "13", "1"), "the disk is damaged"),
    ] {
        let refused = passing(&sim, second.take_remote(&call)).expect_err("it is refused");
        assert!(matches!(&refused, RemoteError::Refused { reason } if reason.contains(why)));
    }
    // The process that is asked does not own the key: it does not carry the call on.
    let moved = passing(&sim, first.take_remote(&call("account", "7", "1")));
    assert_eq!(moved, Err(RemoteError::Moved { epoch: 1 }));
    Ok(())
}

fn call_of(entity: &str, key: &str, message: &str, content: &str) -> RemoteCall {
    RemoteCall {
        entity: entity.to_owned(),
        key: key.to_owned(),
        message: message.to_owned(),
        content: content.as_bytes().to_vec(),
        limit: SECOND,
        is_repeatable: false,
        request: RequestContext::new(),
    }
}

#[test]
fn an_error_with_which_a_handler_answers_is_none_of_its_own_call() -> Outcome {
    for relay in ["\"Unknown\"", "\"Stays\"", "\"Busy\""] {
        let sim = Sim::new(1);
        let net = net(&sim, 2);
        let [first, second] = [net.node(0), net.node(1)];
        let taken = first.take_remote(&call_of("account", "7", "relay", relay));
        let error = passing(&sim, taken).expect_err("nobody answers");
        assert!(error.may_have_been_done(), "{relay}: {error}");
        let asked =
            second.get::<Account>(7_u64).ask_within(serde_json::from_str::<Relay>(relay)?, SECOND);
        let error = passing(&sim, asked).expect_err("nobody answers");
        let is_open = match &error {
            AskError::Remote(error) => error.may_have_been_done(),
            AskError::TimedOut(spent) => spent.running.is_some(),
            _ => false,
        };
        assert!(is_open, "{relay}: {error}");
        // Each call was handled once, and the owner's own callers are not misled either.
        let account = first.get::<Account>(7_u64);
        assert_eq!(passing(&sim, account.ask(See(0)))?, (2, None), "{relay}");
        let error = passing(&sim, account.ask(serde_json::from_str::<Relay>(relay)?));
        assert!(!matches!(&error, Err(AskError::Remote(_))), "{relay}: {error:?}");
    }
    Ok(())
}

#[test]
fn messages_that_wait_when_their_key_moves_are_carried_to_the_next_owner() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let [first, second] = [net.node(0), net.node(1)];
    let account = first.get::<Account>(7_u64);
    let begun = account.ask(Deposit(1));
    sim.advance(SECOND / 2);
    // The activation ends: what comes now waits for the next one.
    let over = Arc::new(());
    net.give(1);
    first.passivate_if(|entity, key| {
        assert_eq!((entity, key), ("account", "7"));
        Some(Arc::clone(&over))
    });
    let waiting: Vec<_> = (0..3).map(|_| account.ask(Deposit(10))).collect();
    let carried = second.get::<Account>(7_u64).ask(Deposit(100));
    sim.run_until_idle();
    assert_eq!(Arc::strong_count(&over), 2, "its handler is under way");
    assert_eq!(passing(&sim, begun)?, Ok(1));
    sim.run_until_idle();
    assert_eq!(Arc::strong_count(&over), 1, "the activation is over");
    assert_eq!(first.active::<Account>(), 0);
    let mut answers = vec![passing(&sim, carried)?];
    for asked in waiting {
        answers.push(passing(&sim, asked)?);
    }
    // The next owner had read the state before the last write of the first one: its first write is
    // refused by the version, and nothing is lost or doubled.
    let done: i64 = answers.iter().filter(|it| it.is_ok()).count() as i64;
    assert!(done >= 3, "{answers:?}");
    let refused: Vec<_> = answers.iter().filter_map(|it| it.as_ref().err()).collect();
    assert!(refused.iter().all(|text| text.contains("version")), "{refused:?}");
    let last = passing(&sim, first.get::<Account>(7_u64).ask(Deposit(0)))?.expect("it is written");
    let sum = answers.iter().flatten().max().copied().unwrap_or_default();
    assert_eq!(last, sum);
    Ok(())
}

#[test]
fn an_activation_whose_key_moves_while_it_begins_hands_its_messages_to_the_owner() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let [first, second] = [net.node(0), net.node(1)];
    let asked: Vec<_> = (0..3).map(|_| first.get::<Account>(7_u64).ask(Deposit(1))).collect();
    sim.run_until_idle();
    assert_eq!(first.active::<Account>(), 1, "it is about to read its state");
    net.give(1);
    for (number, asked) in (1..).zip(asked) {
        assert_eq!(passing(&sim, asked)?, Ok(number));
    }
    assert_eq!((first.active::<Account>(), second.active::<Account>()), (0, 1));
    Ok(())
}

#[test]
fn a_call_keeps_its_deadline_and_cannot_be_cancelled_once_it_is_carried() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let second = net.node(1);
    let account = second.get::<Account>(7_u64);
    // The owner's entity is busy: the second call does not begin before its deadline.
    let first = account.ask(Deposit(1));
    let late = account.ask_within(Deposit(10), SECOND / 2);
    assert_eq!(passing(&sim, first)?, Ok(1));
    let late = passing(&sim, late);
    let Err(AskError::Remote(error)) = late else { panic!("{late:?}") };
    assert!(!error.may_have_been_done(), "{error}");
    assert!(!account.ask(Deposit(100)).cancel(), "it may have begun elsewhere");
    sim.advance(3 * SECOND);
    assert_eq!(passing(&sim, account.ask(Deposit(0)))?, Ok(101), "what came too late was not done");
    Ok(())
}

#[test]
fn an_outcome_that_nobody_knows_is_told_as_such() -> Outcome {
    let sim = Sim::new(1);
    let net = net(&sim, 2);
    let second = net.node(1);
    let account = second.get::<Account>(7_u64);
    let panicked = passing(&sim, account.ask(See(-1)));
    let Err(AskError::Remote(error)) = panicked else { panic!("{panicked:?}") };
    assert!(error.may_have_been_done() && error.to_string().contains("it sees less"), "{error}");
    // The carrier lets go of the call.
    net.is_deaf.store(true, Ordering::Relaxed);
    let asked = account.ask(See(1));
    let before = second.system().dead_letters();
    account.tell(See(1))?;
    net.lost.lock().expect("no panic here").clear();
    let lost = passing(&sim, asked);
    assert!(matches!(&lost, Err(AskError::Remote(RemoteError::Unknown { .. }))), "{lost:?}");
    assert_eq!(second.system().dead_letters(), before + 1, "the told one is noted");
    Ok(())
}

#[test]
#[should_panic(expected = "two messages of the entity «account» are named «see»")]
fn two_messages_of_one_name_are_refused() {
    #[derive(Serialize, Deserialize)]
    struct Same;
    impl RemoteMessage for Same {
        const NAME: &'static str = "see";
    }
    impl Handler<Same> for Account {
        type Reply = ();
        fn handle(&mut self, _: Same, _: &mut Context<'_, Self>) {}
    }
    let system = System::new(&Sim::new(1).group("sim"));
    let _built = Entities::builder(&system)
        .remote::<Account>(|account| account.message::<See, _>().message::<Same, _>());
}

#[test]
#[should_panic(expected = "two types of entities are named «account»")]
fn two_types_of_one_name_are_refused() {
    struct Same;
    impl Actor for Same {
        type Error = Infallible;
    }
    impl Entity for Same {
        type Key = u64;
        const NAME: &'static str = Account::NAME;
        fn create(_: &u64) -> Self {
            Same
        }
    }
    #[derive(Serialize, Deserialize)]
    struct Other;
    impl RemoteMessage for Other {
        const NAME: &'static str = "other";
    }
    impl Handler<Other> for Same {
        type Reply = ();
        fn handle(&mut self, _: Other, _: &mut Context<'_, Self>) {}
    }
    let system = System::new(&Sim::new(1).group("sim"));
    let builder = Entities::builder(&system);
    let builder = builder.remote::<Account>(|account| account.message::<See, _>());
    let _built = builder.remote::<Same>(|same| same.message::<Other, _>());
}

#[test]
fn a_request_context_is_written_and_read() -> Outcome {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    let full = RequestContext::new().with("user", "ada").with_trace(trace);
    for context in [RequestContext::new(), full] {
        let text = serde_json::to_string(&context)?;
        assert_eq!(serde_json::from_str::<RequestContext>(&text)?, context, "{text}");
    }
    Ok(())
}
