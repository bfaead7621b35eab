//! A store is copied into another one: what a world leaves in the first, another one finds in the
//! second.

use std::sync::Arc;
use std::time::Duration;

use turnwheel_actors::entity::{ReminderId, ReminderRow};
use turnwheel_engine::store::{copy, Content, CopyError};
use turnwheel_engine::{
    action, ActionError, Next, PlanHandle, PlanId, PlanResult, PlanState, Schedule, StepContext,
    Store, Time, World,
};
use turnwheel_runtime::completion::block_on;

/// More plans than are copied at once.
const PLANS: u64 = 300;

/// Waits for an event if its input says so.
#[action(output = String)]
pub(crate) async fn greet(
    name: String,
    step: &mut StepContext<Greet>,
) -> Result<Next, ActionError> {
    if name == "wait" && !step.has_event() {
        return Ok(step.wait_for_event("an event"));
    }
    step.output = format!("hello {name}");
    Ok(Next::Done)
}

/// The plans that are looked at in both stores.
pub(crate) struct Left {
    waits: PlanId,
    keyed: PlanId,
}

fn world(store: Arc<dyn Store>) -> World {
    World::builder().action(Greet).build(store).expect("it opens")
}

/// Leaves something of each kind in a store.
pub(crate) fn fill(store: Arc<dyn Store>) -> Left {
    let world = world(store);
    let begun: Vec<PlanHandle> = (0..PLANS)
        .map(|number| world.trigger::<Greet>(number.to_string()).wait().expect("it is taken"))
        .collect();
    for plan in begun {
        plan.finished().wait().expect("it ends");
    }
    let keyed = world.trigger_once::<Greet>("Ann's", "Ann".to_owned()).wait().expect("it is taken");
    keyed.finished().wait().expect("it ends");
    let waits = world.trigger::<Greet>("wait".to_owned()).wait().expect("it is taken");
    let hourly =
        Schedule::every("hourly", Duration::from_secs(3_600)).action::<Greet>(&"all".into());
    let put = world.schedules().put(hourly.expect("it is complete"));
    put.wait().expect("it is answered").expect("it is put");
    let states = world.timed_states();
    let mut reminder = ReminderRow::new(ReminderId::new("account", "7", "pay"));
    (reminder.first_due_ms, reminder.planned_ms, reminder.due_ms) = (5, 5, 5);
    let (reminders, due) = (world.reminders(), Some(Time(5)));
    let written = block_on(async {
        states.save("user", "ann", (Some(b"x".to_vec()), due), 0).await?;
        reminders.upsert(&reminder, 1).await
    });
    written.expect("no worker waits").expect("they are written");
    let left = Left { waits: waits.id(), keyed: keyed.id() };
    world.shutdown().expect("it ends");
    left
}

/// A world over the copy goes on with what was left.
pub(crate) fn go_on(store: Arc<dyn Store>, left: &Left) {
    let world = world(store);
    let again = world.trigger_once::<Greet>("Ann's", "Ann".to_owned()).wait().expect("it is known");
    assert_eq!(again.id(), left.keyed, "the key is taken");
    let waits = world.plan(left.waits);
    let view = waits.view().wait().expect("it is there");
    assert_eq!(view.state, PlanState::Running);
    let step = view.steps.last().expect("it waits").id;
    world.event(left.waits, step, None, &1).wait().expect("no worker waits").expect("it is taken");
    let ended = waits.finished().wait().expect("it ends");
    assert_eq!(ended.result(), PlanResult::Success);
    assert_eq!(ended.output::<Greet>().expect("a text"), "hello wait");
    let hourly = world.schedules().list("", 9).wait().expect("it is answered").expect("it lists");
    assert_eq!(hourly.len(), 1);
    let id = ReminderId::new("account", "7", "pay");
    let (states, reminders) = (world.timed_states(), world.reminders());
    let (state, reminder) =
        block_on(async { (states.load("user", "ann").await, reminders.get(&id).await) })
            .expect("no worker waits");
    assert_eq!(state.expect("it is read").bytes.as_deref(), Some(&b"x"[..]));
    assert_eq!(reminder.expect("it is read").map(|row| row.due_ms), Some(5));
    world.shutdown().expect("it ends");
}

/// Copies from one store into an empty one, which is then as the first.
pub(crate) fn check(from: Arc<dyn Store>, to: Arc<dyn Store>) -> Content {
    let left = fill(Arc::clone(&from));
    let copied = copy(Arc::clone(&from), Arc::clone(&to), &mut |_| {}).expect("it is copied");
    assert_eq!((copied.plans, copied.schedules, copied.reminders), (PLANS + 2, 1, 1));
    assert!(copied.entries > copied.plans && copied.states > 0, "{copied:?}");
    let refused = copy(from, Arc::clone(&to), &mut |_| {}).expect_err("the target is not empty");
    assert!(matches!(refused, CopyError::NotEmpty(_)), "{refused}");
    go_on(to, &left);
    copied
}
