//! Notifications: an event stays with its job until the plans that send it have begun.

use turnwheel_engine::internal::key_of_cause;
use turnwheel_engine::{PlanHandle, TriggerError, TriggerOptions, World};
use turnwheel_runtime::Context;

use super::Roster;
use crate::action::output;
use crate::launch::Launch;
use crate::notice::{SendMail, SendWebhook};
use crate::notify::{Facts, Message, Notify, Told};
use crate::record::Notice;

/// Facts needed to tell of an event, apart from the output.
struct Order {
    job: String,
    node: String,
    owner: String,
    launch: Launch,
    notice: Notice,
    /// Receivers of the event, with their keys.
    wanted: Vec<(Notify, String)>,
}

impl Roster {
    /// Begins a plan for each notification of an event; an existing plan with the key is the
    /// answer.
    pub(super) fn notify(&mut self, name: &str, notice: Notice, cx: &mut Context<'_, Self>) {
        let (Some(world), Some(entry)) = (self.world.upgrade(), self.entries.get(name)) else {
            return;
        };
        let record = &entry.record;
        if !record.notices.contains(&notice) {
            return;
        }
        let Some(launch) = record.launch(notice.launch).cloned() else {
            tracing::warn!(job = name, ?notice, "the launch of a notification is not there");
            return self.notified(name, &notice, cx);
        };
        let (made, run) = (record.created_at.0, notice.run.map_or(0, |run| run + 1));
        let of = format!("notify/{name}/{made}/{}/{run}/{}", launch.id, notice.event.name());
        let own = record.spec.notify.iter().enumerate().map(|(n, notify)| (notify, n));
        let all = self.notify.iter().enumerate().map(|(n, notify)| (notify, 1_000 + n));
        let wanted = own.chain(all).filter(|(notify, _)| notify.on.contains(&notice.event));
        let order = Order {
            job: name.to_owned(),
            node: self.node.name.clone(),
            owner: record.spec.owner_email.clone(),
            launch,
            notice: notice.clone(),
            wanted: wanted.map(|(notify, n)| (notify.clone(), format!("{of}/{n}"))).collect(),
        };
        let name = name.to_owned();
        cx.await_interleaved(begin(world, order), move |roster, cx, outcome| match outcome {
            Ok(()) => roster.notified(&name, &notice, cx),
            Err(TriggerError::Store(_) | TriggerError::Refused(_)) => roster.try_again(&name, cx),
            Err(error) => {
                tracing::error!(job = name, %error, "a notification could not begin");
                roster.notified(&name, &notice, cx);
            }
        });
    }

    /// The notifications of an event have begun.
    fn notified(&mut self, name: &str, notice: &Notice, cx: &mut Context<'_, Self>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        // Written with the next change: the keys find the plans.
        entry.record.notices.retain(|other| other != notice);
        if entry.record.is_leaving {
            self.leave(name, cx);
        }
    }
}

async fn begin(world: World, order: Order) -> Result<(), TriggerError> {
    let Order { job, node, owner, launch, notice, wanted } = order;
    let row = notice.run.map_or(launch.runs.last(), |run| launch.runs.get(run));
    let output = match row.and_then(|row| row.plan).filter(|_| launch.state.is_over()) {
        Some(plan) => match world.plan(plan).view().await {
            Ok(view) => output(&view),
            Err(_) => String::new(),
        },
        None => String::new(),
    };
    let (run, event, output) = (notice.run, notice.event, output.as_str());
    let facts = Facts::new(&Told { job: &job, launch: &launch, run, event, node: &node, output });
    for (notify, key) in wanted {
        let Some(message) = notify.message(&facts, &owner, key.clone()) else { continue };
        begin_one(&world, &job, key, message).await?;
    }
    Ok(())
}

async fn begin_one(
    world: &World,
    job: &str,
    key: String,
    message: Message,
) -> Result<PlanHandle, TriggerError> {
    let options = TriggerOptions::new().label("job", job).by(format!("job {job}"));
    let options = key_of_cause(options, key);
    match message.webhook.is_empty() {
        true => world.trigger_with::<SendMail>(options, message).await,
        false => world.trigger_with::<SendWebhook>(options, message).await,
    }
}
