//! The context of a request: values and trace go with messages, calls, continuations and timers,
//! and never to unrelated work.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use turnwheel_actors::{
    Actor, Address, AsyncContext, AsyncHandler, Context, Handler, InterleavedHandler,
    RequestContext, System, TraceContext,
};
use turnwheel_runtime::sim::Sim;
use turnwheel_runtime::Group;

type Outcome = Result<(), Box<dyn Error>>;
type Seen = Option<String>;

fn user() -> Seen {
    RequestContext::current().get("user").map(str::to_owned)
}

/// Returns the user of its request.
struct Who;

struct End;

impl Actor for End {
    type Error = Infallible;
}

impl Handler<Who> for End {
    type Reply = (Seen, Option<TraceContext>);

    fn handle(&mut self, _: Who, _: &mut Context<'_, Self>) -> Self::Reply {
        (user(), RequestContext::current().trace().cloned())
    }
}

struct Middle {
    end: Address<End>,
    later: Vec<Seen>,
}

impl Actor for Middle {
    type Error = Infallible;
}

/// Asks across an await point.
struct AskOn;

impl AsyncHandler<AskOn> for Middle {
    type Reply = (Seen, Seen, Seen);

    async fn handle(&mut self, _: AskOn, cx: AsyncContext<Self>) -> Self::Reply {
        let before = user();
        cx.sleep(Duration::from_secs(1)).await.expect("there is room for a timer");
        let after = user();
        let (asked, _) = self.end.ask(Who).await.expect("the end lives");
        (before, after, asked)
    }
}

/// As `AskOn`, with others in between.
struct AskBeside;

impl InterleavedHandler<AskBeside> for Middle {
    type Reply = (Seen, Seen);

    fn handle(
        &mut self,
        _: AskBeside,
        _: &mut Context<'_, Self>,
    ) -> impl Future<Output = Self::Reply> + Send + 'static {
        let end = self.end.clone();
        async move {
            let (asked, _) = end.ask(Who).await.expect("the end lives");
            (asked, user())
        }
    }
}

/// Pipes an answer, sets a timer, and sends itself a message.
struct Spread;

impl Handler<Spread> for Middle {
    type Reply = ();

    fn handle(&mut self, _: Spread, cx: &mut Context<'_, Self>) {
        let asked = self.end.ask(Who);
        cx.pipe(asked, |_| Later);
        cx.tell_after(Duration::from_secs(5), Later).expect("there is room for a timer");
        cx.myself().tell(Later).expect("there is room in the mailbox");
    }
}

struct Later;

impl Handler<Later> for Middle {
    type Reply = ();

    fn handle(&mut self, _: Later, _: &mut Context<'_, Self>) {
        self.later.push(user());
    }
}

struct AllLater;

impl Handler<AllLater> for Middle {
    type Reply = Vec<Seen>;

    fn handle(&mut self, _: AllLater, _: &mut Context<'_, Self>) -> Vec<Seen> {
        std::mem::take(&mut self.later)
    }
}

fn system(sim: &Sim) -> Result<Address<Middle>, Box<dyn Error>> {
    let system = System::new(&sim.group("cpu"));
    let end = system.spawn(End)?;
    Ok(system.spawn(Middle { end, later: Vec::new() })?)
}

fn of(name: &str) -> RequestContext {
    RequestContext::new().with("user", name)
}

#[test]
fn values_follow_calls_over_await_points_and_two_requests_do_not_mix() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let middle = system(&sim)?;
        let ada = of("ada").scope(|| middle.ask(AskOn));
        let bob = of("bob").scope(|| middle.ask(AskBeside));
        let nobody = middle.ask(AskBeside);
        sim.run_until_idle();
        sim.advance(Duration::from_secs(2));
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(sim.block_on(ada)??, (name("ada"), name("ada"), name("ada")), "seed {seed}");
        assert_eq!(sim.block_on(bob)??, (name("bob"), name("bob")), "seed {seed}");
        assert_eq!(sim.block_on(nobody)??, (None, None), "seed {seed}");
        assert!(RequestContext::current().is_empty());
    }
    Ok(())
}

#[test]
fn values_follow_continuations_timers_and_messages_to_itself() -> Outcome {
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let middle = system(&sim)?;
        of("ada").scope(|| middle.tell(Spread))?;
        middle.tell(Later)?;
        sim.run_until_idle();
        sim.advance(Duration::from_secs(6));
        let mut later = sim.block_on(middle.ask(AllLater))??;
        later.sort();
        let ada = Some("ada".to_owned());
        assert_eq!(later, [None, ada.clone(), ada.clone(), ada], "seed {seed}");
    }
    Ok(())
}

#[test]
fn request_of_a_thread_that_runs_a_simulation_is_not_that_of_the_turns() -> Outcome {
    let sim = Sim::fifo();
    let middle = system(&sim)?;
    middle.tell(Later)?;
    of("ada").scope(|| {
        sim.run_until_idle();
        assert_eq!(user().as_deref(), Some("ada"), "it is the thread's again");
    });
    assert_eq!(sim.block_on(middle.ask(AllLater))??, [None]);
    Ok(())
}

#[test]
fn request_of_a_thread_that_waits_for_an_answer_is_not_that_of_the_turns_it_runs() -> Outcome {
    let (group, mut workers) = Group::builder("hosted").workers(1).build_hosted()?;
    let mut cx = PollContext::from_waker(Waker::noop());
    // From now on the worker is the own one of this thread.
    assert!(pin!(&mut workers[0]).poll(&mut cx).is_pending());
    let system = System::new(&group);
    let end = system.spawn(End)?;
    let middle = system.spawn(Middle { end, later: Vec::new() })?;
    middle.tell(Later)?;
    let asked = middle.ask(AllLater);
    let mut asked = pin!(asked);
    let polled = of("ada").scope(|| {
        let polled = asked.as_mut().poll(&mut cx);
        assert_eq!(user().as_deref(), Some("ada"), "it is the thread's again");
        polled
    });
    let Poll::Ready(later) = polled else { return Err("the thread assists".into()) };
    assert_eq!(later?, [None]);
    // So with a poll of the worker itself.
    middle.tell(Later)?;
    of("bob").scope(|| assert!(pin!(&mut workers[0]).poll(&mut cx).is_pending()));
    let Poll::Ready(later) = pin!(middle.ask(AllLater)).poll(&mut cx) else {
        return Err("the thread assists".into());
    };
    assert_eq!(later?, [None]);
    drop(workers);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}

#[test]
fn a_trace_goes_along_unchanged_and_a_scope_inside_replaces_it() -> Outcome {
    let sim = Sim::fifo();
    let end = System::new(&sim.group("cpu")).spawn(End)?;
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace: TraceContext = header.parse()?;
    let trace = trace.with_state("vendor=1");
    let request = of("ada").with_trace(trace.clone());
    let (outer, inner) = request.scope(|| {
        let inner = RequestContext::current().with("user", "bob");
        (end.ask(Who), inner.scope(|| end.ask(Who)))
    });
    let (user, seen) = sim.block_on(outer)??;
    assert_eq!((user.as_deref(), seen.as_ref()), (Some("ada"), Some(&trace)));
    let (user, seen) = sim.block_on(inner)??;
    let seen = seen.ok_or("the trace was kept")?;
    assert_eq!((user.as_deref(), seen.to_string().as_str()), (Some("bob"), header));
    assert_eq!(seen.state(), Some("vendor=1"));
    Ok(())
}

#[test]
fn what_is_no_trace_is_told_with_its_text() {
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    assert!(good.parse::<TraceContext>().is_ok_and(|trace| !trace.is_sampled()));
    let bad = [
        "",
        "00",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-00000000000000000000000000000000-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-00",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more",
        "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
        "00-äf7651916cd43dd8448eb211c80319-b7ad6b7169203331-00",
    ];
    for text in bad {
        let error = text.parse::<TraceContext>().expect_err(text);
        assert!(error.to_string().contains(&format!("{text:?}")));
    }
}
