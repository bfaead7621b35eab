//! Timers of an activation: they tick, change, end with it, and keep it alive or not.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use parking_lot::Mutex;
use turnwheel_actors::{
    Access, Actor, ActorTimer, Admits, AsyncContext, AsyncHandler, Context, Directive, Entities,
    Entity, EntityRef, Handler, InterleavedHandler, System, TimerError, Timing,
};
use turnwheel_actors_testkit::Stage;
use turnwheel_runtime::completion::{completion, Completer, Completion};
use turnwheel_runtime::{Failure, Group, Late, Pinning};

type Outcome = Result<(), Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(100);

/// State that outlives the activations of one key.
#[derive(Default)]
struct Life {
    created: u32,
    ticks: u32,
}

static LIVES: Mutex<Option<HashMap<u64, Life>>> = Mutex::new(None);

/// Runs `look` on the data that survives the activations of a key; every test has its own keys.
fn life<R>(key: u64, look: impl FnOnce(&mut Life) -> R) -> R {
    look(LIVES.lock().get_or_insert_default().entry(key).or_default())
}

/// Counts the ticks of its timers.
struct Metronome {
    key: u64,
    ticks: Vec<&'static str>,
    timers: Vec<ActorTimer>,
    resumes: bool,
}

impl Actor for Metronome {
    type Error = TimerError;

    fn starting(&mut self, cx: &mut Context<'_, Self>) -> Result<(), TimerError> {
        // Keys from a thousand on tick from their activation on.
        if self.key >= 1_000 {
            self.timers.push(cx.timer(Timing::every(SECOND), || Tick("own"))?);
        }
        Ok(())
    }

    fn on_failure(&mut self, _: &Failure, _: &mut Context<'_, Self>) -> Directive {
        if self.resumes {
            Directive::Resume
        } else {
            Directive::Restart
        }
    }
}

impl Entity for Metronome {
    type Key = u64;
    const IDLE: Duration = IDLE;

    fn create(key: &u64) -> Self {
        life(*key, |life| life.created += 1);
        Metronome { key: *key, ticks: Vec::new(), timers: Vec::new(), resumes: false }
    }
}

#[derive(Clone, Copy)]
struct Tick(&'static str);

impl Handler<Tick> for Metronome {
    type Reply = ();

    fn handle(&mut self, Tick(name): Tick, cx: &mut Context<'_, Self>) {
        self.ticks.push(name);
        life(self.key, |life| life.ticks += 1);
        match name {
            "dispose" => assert!(self.timers[0].dispose(), "it was not over"),
            "panic" => panic!("as the test wants it"),
            "slower" => self.timers[0].change(5 * SECOND, SECOND).expect("it is not over"),
            "leave" => cx.passivate(),
            "resume" => self.resumes = true,
            _ => {}
        }
    }
}

/// A tick whose handling takes three seconds.
struct SlowTick;

impl AsyncHandler<SlowTick> for Metronome {
    type Reply = ();

    async fn handle(&mut self, _: SlowTick, cx: AsyncContext<Self>) {
        self.ticks.push("begin");
        cx.sleep(3 * SECOND).await.expect("room for a timer");
        self.ticks.push("end");
    }
}

/// A call that keeps other messages out until it is let go.
struct Hold(Completion<()>);

impl InterleavedHandler<Hold> for Metronome {
    type Reply = ();
    const ADMITS: Admits = Admits::Chain;

    fn handle(
        &mut self,
        Hold(until): Hold,
        _: &mut Context<'_, Self>,
    ) -> impl std::future::Future<Output = ()> + Send + 'static {
        self.ticks.clear();
        async move { until.await.expect("it is let go") }
    }
}

struct Arm(Timing, &'static str);

impl Handler<Arm> for Metronome {
    type Reply = Result<ActorTimer, TimerError>;

    fn handle(&mut self, Arm(timing, name): Arm, cx: &mut Context<'_, Self>) -> Self::Reply {
        let timer = cx.timer(timing, move || Tick(name))?;
        self.timers.push(timer.clone());
        Ok(timer)
    }
}

struct ArmSlowly;

impl Handler<ArmSlowly> for Metronome {
    type Reply = bool;

    fn handle(&mut self, _: ArmSlowly, cx: &mut Context<'_, Self>) -> bool {
        cx.timer(Timing::every(SECOND), || SlowTick).is_ok()
    }
}

struct ArmPlainly;

impl Handler<ArmPlainly> for Metronome {
    type Reply = bool;

    fn handle(&mut self, _: ArmPlainly, cx: &mut Context<'_, Self>) -> bool {
        let later = cx.myself().tell_after(SECOND, Tick("address"));
        cx.tell_after(SECOND, Tick("after")).is_ok()
            && cx.tell_every(SECOND, Late::Skip, || Tick("every")).is_ok()
            && later.is_ok()
    }
}

/// Its ticks; answered even while other messages are kept out.
struct Ticks;

impl Handler<Ticks> for Metronome {
    type Reply = Vec<&'static str>;
    const ACCESS: Access = Access::Always;

    fn handle(&mut self, _: Ticks, _: &mut Context<'_, Self>) -> Vec<&'static str> {
        self.ticks.clone()
    }
}

fn arm(
    stage: &Stage<'_>,
    to: &EntityRef<Metronome>,
    timing: Timing,
    name: &'static str,
) -> ActorTimer {
    stage.answer(to.ask(Arm(timing, name))).expect("a timer")
}

/// The ticks so far, including those of the present time.
fn ticks(stage: &Stage<'_>, of: &EntityRef<Metronome>) -> Vec<&'static str> {
    stage.run();
    stage.answer(of.ask(Ticks))
}

fn count(stage: &Stage<'_>, of: &EntityRef<Metronome>) -> usize {
    ticks(stage, of).len()
}

fn one(stage: &Stage<'_>, key: u64) -> (Entities, EntityRef<Metronome>) {
    let entities = Entities::new(stage.system());
    let metronome = entities.get(key);
    (entities, metronome)
}

// O-T046
#[test]
fn ten_periods_give_ten_ticks_and_a_disposed_timer_none() {
    let stage = Stage::new(46);
    let (_entities, metronome) = one(&stage, 1);
    let timer = arm(&stage, &metronome, Timing::every(SECOND), "tick");
    for period in 1..=10 {
        stage.advance(SECOND - Duration::from_nanos(1));
        assert_eq!(count(&stage, &metronome), period - 1, "never early");
        stage.advance(Duration::from_nanos(1));
        assert_eq!(count(&stage, &metronome), period);
    }
    assert!(timer.dispose() && !timer.dispose() && timer.is_over());
    stage.advance(2 * SECOND);
    assert_eq!(count(&stage, &metronome), 10);
}

// O-T047
#[test]
fn the_timers_of_ten_entities_do_not_influence_each_other() {
    let stage = Stage::new(47);
    let entities = Entities::new(stage.system());
    let all: Vec<_> = (101..=110_u64).map(|key| entities.get::<Metronome>(key)).collect();
    let timers: Vec<_> = (1..=10)
        .zip(&all)
        .map(|(number, metronome)| arm(&stage, metronome, Timing::every(number * SECOND), "tick"))
        .collect();
    stage.advance(20 * SECOND);
    timers[0].dispose();
    drop(all[1].passivate());
    stage.advance(20 * SECOND);
    let ticks: Vec<_> = all.iter().map(|metronome| count(&stage, metronome)).collect();
    assert_eq!(ticks, [20, 0, 13, 10, 8, 6, 5, 5, 4, 4]);
}

// O-T049
#[test]
fn a_failing_tick_does_not_end_its_timer() {
    let stage = Stage::new(49);
    let (_entities, metronome) = one(&stage, 2);
    stage.answer(metronome.ask(Tick("resume")));
    arm(&stage, &metronome, Timing::every(SECOND), "panic");
    stage.advance(3 * SECOND);
    assert_eq!(ticks(&stage, &metronome)[1..], ["panic"; 3]);
    // A restarted activation arms its timers as any activation does.
    let (_entities, fresh) = one(&stage, 1_002);
    arm(&stage, &fresh, Timing::once(SECOND / 2), "panic");
    stage.advance(SECOND);
    assert_eq!(count(&stage, &fresh), 0, "the timers of the failed one are over");
    stage.advance(SECOND);
    assert_eq!(ticks(&stage, &fresh), ["own"]);
    assert_eq!(life(1_002, |life| life.created), 2);
}

/// Asks another entity at each tick.
struct Caller {
    entities: Option<Entities>,
    heard: usize,
}

impl Actor for Caller {
    type Error = TimerError;
}

impl AsyncHandler<Tick> for Caller {
    type Reply = Result<(), Failure>;

    async fn handle(&mut self, _: Tick, _: AsyncContext<Self>) -> Result<(), Failure> {
        let entities = self.entities.as_ref().expect("it has them");
        self.heard += entities.get::<Metronome>(3_u64).ask(Ticks).await?.len();
        entities.get::<Metronome>(3_u64).ask(Tick("panic")).await?;
        Ok(())
    }
}

// O-T049
#[test]
fn a_tick_may_call_other_entities() -> Outcome {
    let stage = Stage::new(490);
    let (entities, metronome) = one(&stage, 3);
    stage.answer(metronome.ask(Tick("resume")));
    arm(&stage, &metronome, Timing::every(SECOND), "tick");
    let caller = stage.spawn(Caller { entities: Some(entities), heard: 0 });
    let timing = Timing::every(SECOND).first(SECOND + SECOND / 2);
    let armed = stage.answer(caller.with(move |_, cx| cx.timer(timing, || Tick("call"))));
    armed?;
    stage.advance(4 * SECOND);
    // One tick, then two and a failed one, then three and two; and «resume» each time.
    assert_eq!(stage.answer(caller.with(|caller, _| caller.heard)), 2 + 4 + 6);
    Ok(())
}

// O-T050
#[test]
fn all_ways_to_arm_a_timer_fire() -> Outcome {
    let stage = Stage::new(50);
    let (_entities, metronome) = one(&stage, 4);
    assert!(stage.answer(metronome.ask(ArmPlainly)));
    arm(&stage, &metronome, Timing::once(SECOND), "once");
    arm(&stage, &metronome, Timing::every(3 * SECOND).first(SECOND), "first");
    arm(&stage, &metronome, Timing::every(SECOND).first(Duration::MAX), "paused");
    arm(&stage, &metronome, Timing::once(Duration::ZERO), "now");
    assert_eq!(ticks(&stage, &metronome), ["now"]);
    stage.advance(SECOND);
    let mut all = ticks(&stage, &metronome);
    all.sort_unstable();
    assert_eq!(all, ["address", "after", "every", "first", "now", "once"]);
    stage.advance(SECOND);
    assert_eq!(ticks(&stage, &metronome)[6..], ["every"]);
    Ok(())
}

// O-T051
#[test]
fn a_timer_that_its_own_tick_disposes_of_does_not_tick_again() {
    let stage = Stage::new(51);
    let (_entities, metronome) = one(&stage, 5);
    let timer = arm(&stage, &metronome, Timing::every(SECOND), "dispose");
    stage.advance(5 * SECOND);
    assert_eq!(ticks(&stage, &metronome), ["dispose"]);
    assert!(timer.is_over());
    assert!(matches!(timer.change(SECOND, SECOND), Err(TimerError::Over)));
    stage.advance(5 * SECOND);
    assert_eq!(count(&stage, &metronome), 1);
}

// O-T054
#[test]
fn a_change_pauses_fires_at_once_or_waits_for_the_tick_under_way() -> Outcome {
    let stage = Stage::new(54);
    let (_entities, metronome) = one(&stage, 6);
    let refused = stage.answer(metronome.ask(Arm(Timing::every(Duration::ZERO), "never")));
    assert!(matches!(refused, Err(TimerError::ZeroPeriod)));
    let timer = arm(&stage, &metronome, Timing::every(SECOND), "tick");
    assert!(matches!(timer.change(SECOND, Duration::ZERO), Err(TimerError::ZeroPeriod)));
    timer.change(Duration::MAX, SECOND)?;
    stage.advance(90 * SECOND);
    assert_eq!(count(&stage, &metronome), 0, "paused");
    timer.change(Duration::ZERO, 10 * SECOND)?;
    assert_eq!(count(&stage, &metronome), 1, "at once");
    stage.advance(10 * SECOND);
    assert_eq!(count(&stage, &metronome), 2);
    timer.change(SECOND, Duration::MAX)?;
    stage.advance(90 * SECOND);
    assert_eq!(count(&stage, &metronome), 3, "its last tick");
    timer.change(SECOND, Duration::MAX)?;
    timer.change(2 * SECOND, Duration::MAX)?;
    stage.advance(SECOND);
    assert_eq!(count(&stage, &metronome), 3, "the last change counts");
    stage.advance(SECOND);
    assert_eq!(count(&stage, &metronome), 4, "wound up again, and once");
    timer.dispose();
    // Its own tick changes it: first to five seconds, and then to one.
    let (_entities, metronome) = one(&stage, 7);
    arm(&stage, &metronome, Timing::every(2 * SECOND), "slower");
    stage.advance(6 * SECOND);
    assert_eq!(count(&stage, &metronome), 1);
    stage.advance(SECOND);
    assert_eq!(count(&stage, &metronome), 2);
    Ok(())
}

// O-T055
#[test]
fn ticks_do_not_overlap_and_the_period_counts_from_the_end_of_one() {
    let stage = Stage::new(55);
    let (_entities, metronome) = one(&stage, 8);
    assert!(stage.answer(metronome.ask(ArmSlowly)));
    // Begun at 1, over at 4, begun at 5, over at 8.
    stage.advance(4 * SECOND);
    assert_eq!(ticks(&stage, &metronome), ["begin", "end"]);
    stage.advance(SECOND);
    let late = metronome.ask(Ticks);
    stage.advance(2 * SECOND);
    assert_eq!(stage.answer(late), ["begin", "end", "begin", "end"]);
    assert_eq!(stage.now(), 8 * SECOND, "it waited for the end of the tick");
}

fn hold(
    stage: &Stage<'_>,
    metronome: &EntityRef<Metronome>,
) -> Result<Completer<()>, Box<dyn Error>> {
    let (open, until) = completion();
    metronome.tell(Hold(until)).map_err(|error| error.to_string())?;
    stage.run();
    Ok(open)
}

// O-T056
#[test]
fn a_tick_that_interleaves_does_not_wait_for_a_suspended_request() -> Outcome {
    let stage = Stage::new(56);
    let (_entities, metronome) = one(&stage, 9);
    arm(&stage, &metronome, Timing::every(SECOND).interleave(), "beside");
    arm(&stage, &metronome, Timing::every(SECOND), "behind");
    let open = hold(&stage, &metronome)?;
    stage.advance(5 * SECOND);
    assert_eq!(ticks(&stage, &metronome), ["beside"; 5]);
    open.complete(()).map_err(|_| "let go twice")?;
    stage.run();
    let all = ticks(&stage, &metronome);
    assert_eq!(all[5..], ["behind"], "one that waited, not five");
    stage.advance(SECOND);
    assert_eq!(count(&stage, &metronome), 8);
    Ok(())
}

// O-T057
#[test]
fn only_a_timer_that_is_told_to_keeps_an_idle_entity_active() {
    let stage = Stage::new(57);
    let entities = Entities::new(stage.system());
    let (plain, kept) = (entities.get::<Metronome>(10_u64), entities.get::<Metronome>(11_u64));
    let old = entities.get::<Metronome>(12_u64);
    let timer = arm(&stage, &plain, Timing::every(SECOND), "tick");
    arm(&stage, &kept, Timing::every(SECOND).keep_alive(), "tick");
    assert!(stage.answer(old.ask(ArmPlainly)));
    stage.advance(2 * IDLE);
    assert!(!plain.is_active() && !old.is_active() && kept.is_active());
    assert!(timer.is_over(), "it went with the activation");
    let ticks = life(10, |life| life.ticks);
    assert!((100..=2 * 100).contains(&ticks), "{ticks} ticks");
    stage.advance(2 * IDLE);
    assert_eq!(life(10, |life| life.ticks), ticks, "nothing after the end");
    assert!(kept.is_active());
    assert_eq!(life(11, |life| life.created), 1);
}

#[test]
fn nothing_ticks_after_a_passivation_and_the_next_activation_arms_anew() {
    let stage = Stage::new(58);
    let (_entities, metronome) = one(&stage, 1_001);
    assert_eq!(count(&stage, &metronome), 0);
    stage.advance(3 * SECOND);
    assert_eq!(count(&stage, &metronome), 3);
    let over = metronome.passivate();
    stage.wait(over).expect("it ends").expect("in order");
    stage.advance(10 * SECOND);
    assert_eq!(life(1_001, |life| life.ticks), 3);
    assert_eq!(count(&stage, &metronome), 0, "a new one");
    stage.advance(2 * SECOND);
    assert_eq!(count(&stage, &metronome), 2);
    // A tick may end its own activation.
    arm(&stage, &metronome, Timing::every(SECOND / 2), "leave");
    stage.advance(SECOND);
    assert!(!metronome.is_active());
}

#[test]
fn a_timer_without_a_handle_ticks_on_and_a_spent_one_leaves_nothing() {
    let stage = Stage::new(59);
    struct Bell(u32);
    impl Actor for Bell {
        type Error = TimerError;
    }
    impl Handler<Tick> for Bell {
        type Reply = ();
        fn handle(&mut self, _: Tick, cx: &mut Context<'_, Self>) {
            self.0 += 1;
            if self.0 < 3 {
                drop(cx.timer(Timing::once(SECOND), || Tick("again")).expect("a timer"));
            }
        }
    }
    let bell = stage.spawn(Bell(0));
    stage.answer(bell.ask(Tick("first")));
    stage.advance(SECOND);
    assert_eq!(stage.answer(bell.with(|bell, _| bell.0)), 2);
    drop(bell);
    stage.advance(SECOND);
    stage.assert_empty();
    stage.assert_no_failures();
}

// O-T083
#[test]
fn calls_to_an_entity_with_ten_timers_that_passivates_itself_all_succeed() -> Outcome {
    let group = Group::builder("timers").workers(2).pinning(Pinning::None).build()?;
    let system = System::new(&group);
    let entities = Entities::new(&system);
    let metronome = entities.get::<Metronome>(13_u64);
    let mut asked = Vec::new();
    for round in 0..200 {
        if round % 20 == 0 {
            let timing = Timing::every(Duration::from_micros(50)).keep_alive();
            for _ in 0..10 {
                metronome.tell(Arm(timing, "tick"))?;
            }
        }
        if round % 7 == 3 {
            metronome.tell(Tick("leave"))?;
        }
        asked.push(metronome.ask(Ticks));
    }
    for ask in asked {
        ask.wait()?;
    }
    metronome.ask(Ticks).wait()?;
    assert!(life(13, |life| life.created) > 1);
    assert_eq!(system.dead_letters(), 0);
    assert!(group.shutdown()?.is_clean());
    Ok(())
}
