//! Conditions and channels, and their model.

use turnwheel_channel::{Channel, ChannelErrorKind};
use turnwheel_runtime::{ConditionMode, Context};

use super::hooks::{check, State};
use super::slots::{slot, track, Tracked};
use super::world::{violation, with, Code, Entered, Role, Token, World};
use super::{play, Here};
use crate::kind::Kind;
use crate::program::{Act, Script};

/// Items that the channels hold.
const CHANNEL_CAPACITY: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimerModel {
    pub(super) task: u32,
    /// No firing is earlier.
    pub(super) due_ns: u64,
    /// The next firing is not later, once everything at this time has run.
    pub(super) latest_ns: u64,
    pub(super) period_ns: u64,
    pub(super) is_recurring: bool,
    /// Whether it makes up for missed firings.
    pub(super) is_burst: bool,
    pub(super) since: u64,
    pub(super) runs: u32,
    pub(super) is_cancelled: bool,
    /// Whether its job was dropped.
    pub(super) is_gone: bool,
    /// Whether its task has dropped all subscriptions since.
    pub(super) is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ConditionModel {
    pub(super) task: u32,
    pub(super) is_counting: bool,
    pub(super) signals: u32,
    pub(super) runs: u32,
    /// Signals that its last run has seen.
    pub(super) seen: u32,
    pub(super) is_cancelled: bool,
    pub(super) is_gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct ChannelModel {
    /// Items that were sent and not taken, oldest first.
    pub(super) items: std::collections::VecDeque<u32>,
    pub(super) sent: u32,
    pub(super) is_closed: bool,
}

/// The model of a completion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CompletionModel {
    /// The value that has won.
    pub(super) won: Option<u32>,
    pub(super) has_failed: bool,
    pub(super) is_cancelled: bool,
    pub(super) completers: u32,
    /// Whether its consumer is one that the model does not follow.
    pub(super) is_handed: bool,
}

/// A value that is sent.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) number: u32,
    pub(super) _token: Token,
}

impl World {
    /// The task drops all its subscriptions.
    pub(super) fn cuts(&mut self, task: u32) {
        self.timers.iter_mut().filter(|timer| timer.task == task).for_each(|t| t.is_cut = true);
        let own = self.conditions.iter_mut().filter(|condition| condition.task == task);
        own.for_each(|condition| condition.is_cancelled = true);
    }
}

/// The channel of this number; none at the end of a program, which has given its channels up.
fn channel(argument: u8) -> Option<(usize, Channel<Item>)> {
    let index = usize::from(argument) % 2;
    with(|world| {
        if world.is_ending {
            return None;
        }
        let channel = &mut world.slots.channels[index];
        let channel = channel.get_or_insert_with(|| Channel::bounded(CHANNEL_CAPACITY));
        Some((index, channel.clone()))
    })
}

pub(super) fn register(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let task = cx.task().tag() as u32;
    let body = act.body.clone();
    if act.kind == Kind::Consume {
        let Some((index, channel)) = channel(act.a) else { return };
        let token = Token::new(Role::Other, &body);
        let consumer = channel.consume(cx, move |state, cx, item: Item| {
            let _used = &token;
            taken(index, &item);
            callback(task, &body, state, cx);
        });
        let old = with(|world| world.slots.consumers[slot(act.b)].replace(consumer));
        return drop(old);
    }
    let is_counting = act.b % 2 == 0;
    let condition = with(|world| {
        world.conditions.push(ConditionModel {
            task,
            is_counting,
            signals: 0,
            runs: 0,
            seen: 0,
            is_cancelled: false,
            is_gone: false,
        });
        (world.conditions.len() - 1) as u32
    });
    let token = Token::new(Role::Condition(condition), &body);
    let mode = if is_counting { ConditionMode::Counting } else { ConditionMode::Coalescing };
    let handle = cx.condition(mode, move |state, cx| {
        let _used = &token;
        condition_runs(condition);
        callback(task, &body, state, cx);
    });
    let entry = Some((handle, condition));
    let old = with(|world| std::mem::replace(&mut world.slots.conditions[slot(act.a)], entry));
    gives_up(old.as_ref().map(|(_, number)| *number));
    drop(old);
}

fn condition_runs(condition: u32) {
    with(|world| {
        let model = &mut world.conditions[condition as usize];
        model.runs += 1;
        model.seen = model.signals;
        let ConditionModel { task, runs, signals, is_cancelled, .. } = *model;
        if runs > signals {
            let text = format!("condition {condition} runs {runs} times for {signals} signals");
            world.violation(text);
        }
        if is_cancelled {
            world.violation(format!("condition {condition} runs after its end"));
        }
        if world.task(task).exclusive > 0 {
            world.violation(format!("condition {condition} runs beside an exclusive future"));
        }
    });
}

/// The last handle of a condition goes.
fn gives_up(condition: Option<u32>) {
    let Some(condition) = condition else { return };
    with(|world| world.conditions[condition as usize].is_cancelled = true);
}

/// A job of a subscription, whose order the model does not know.
pub(super) fn callback(task: u32, body: &[Act], state: &State, cx: &mut Context<'_, State>) {
    check(task, state, cx);
    let frame = Entered::turn(task, Code::Job);
    play(body, &mut Here::Job(cx));
    drop(frame);
}

/// An item has come out of a channel.
fn taken(index: usize, item: &Item) {
    with(|world| {
        let first = world.channels[index].items.pop_front();
        if first != Some(item.number) {
            let text = format!("channel {index} gave item {}, not {first:?}", item.number);
            world.violation(text);
        }
    });
}

pub(super) fn perform(act: &Act) {
    match act.kind {
        Kind::Signal | Kind::CancelCondition | Kind::DropCondition => on_condition(act),
        Kind::Send => send(act),
        Kind::TryTake => {
            let Some((index, channel)) = channel(act.a) else { return };
            if let Some(item) = channel.try_take() {
                taken(index, &item);
                drop(item);
            }
        }
        Kind::DropConsumer => {
            let old = with(|world| world.slots.consumers[slot(act.a)].take());
            drop(old);
        }
        Kind::CloseChannel => {
            // One channel stays open: a closed one is of little use.
            let Some((index, channel)) = channel(1) else { return };
            with(|world| world.channels[index].is_closed = true);
            channel.close();
        }
        _ => {
            let Some((_, channel)) = channel(act.a) else { return };
            track(Tracked::Unit("drained", channel.drained()));
        }
    }
}

fn on_condition(act: &Act) {
    let place = slot(act.a);
    if act.kind == Kind::DropCondition {
        let old = with(|world| world.slots.conditions[place].take());
        gives_up(old.as_ref().map(|(_, number)| *number));
        return drop(old);
    }
    let entry = with(|world| world.slots.conditions[place].clone());
    let Some((condition, number)) = entry else { return };
    if act.kind == Kind::CancelCondition {
        gives_up(Some(number));
        condition.cancel();
    } else {
        with(|world| world.conditions[number as usize].signals += 1);
        condition.signal();
    }
}

fn send(act: &Act) {
    let Some((index, channel)) = channel(act.a) else { return };
    let (number, has_room, is_closed) = with(|world| {
        let model = &mut world.channels[index];
        let (number, has_room) = (model.sent, model.items.len() < CHANNEL_CAPACITY);
        model.sent += 1;
        model.items.push_back(number);
        (number, has_room, model.is_closed)
    });
    let item = Item { number, _token: Token::new(Role::Item(number), &act.body) };
    let Err(refused) = channel.send(item) else {
        if is_closed || !has_room {
            violation(format!("channel {index} took item {number}, closed: {is_closed}"));
        }
        return;
    };
    with(|world| world.channels[index].items.retain(|item| *item != number));
    let is_right = match refused.kind {
        ChannelErrorKind::Full => !has_room,
        _ => is_closed,
    };
    if !is_right || refused.item.number != number {
        violation(format!("channel {index} refused item {number}: {:?}", refused.kind));
    }
    drop(refused);
}

/// Behaviour of a value's destructor.
pub(super) fn item(number: u32, body: &Script) -> Item {
    Item { number, _token: Token::new(Role::Item(number), body) }
}
