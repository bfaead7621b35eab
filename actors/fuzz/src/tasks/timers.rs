//! Timers of tasks and their model.

use std::time::Duration;

use turnwheel_runtime::{Cancelled, Context, Late, Timer, TimerError};

use super::hooks::{check, State};
use super::life::delay;
use super::slots::slot;
use super::subscribed::TimerModel;
use super::world::{group, violation, with, Code, Entered, Role, Token};
use super::{play, Here};
use crate::kind::Kind;
use crate::program::{Act, Script};

/// Periods of recurring timers.
const PERIODS_MS: [u64; 4] = [1, 2, 7, 50];

pub(super) fn arm(act: &Act, here: &mut Here<'_, '_, '_>) {
    let Here::Job(cx) = here else { return };
    let Some(group) = group() else { return };
    let task = cx.task().tag() as u32;
    let is_recurring = matches!(act.kind, Kind::Every | Kind::EveryAfter);
    let period = Duration::from_millis(PERIODS_MS[usize::from(act.b) % PERIODS_MS.len()]);
    let delay = if is_recurring { period } else { delay(act.b) };
    let late = [Late::Burst, Late::Skip, Late::Delay][usize::from(act.b / 4) % 3];
    let due_ns = group.now_ns() + delay.as_nanos() as u64;
    let timer = with(|world| {
        let since = world.next();
        world.timers.push(TimerModel {
            task,
            due_ns,
            latest_ns: due_ns,
            period_ns: period.as_nanos() as u64,
            is_recurring,
            is_burst: act.kind == Kind::Every && late == Late::Burst,
            since,
            ..TimerModel::default()
        });
        (world.timers.len() - 1) as u32
    });
    let token = Token::new(Role::Timer(timer), &act.body);
    let body = act.body.clone();
    let armed = match act.kind {
        Kind::After => cx.after(delay, once(timer, token, body)).map_err(TimerError::from),
        Kind::At => cx.at(group.wall() + delay, once(timer, token, body)).map_err(TimerError::from),
        Kind::EveryAfter => cx.every_after(period, repeated(timer, token, body)),
        _ => cx.every(period, late, repeated(timer, token, body)),
    };
    keep(act.a, timer, armed);
}

fn keep(argument: u8, timer: u32, armed: Result<Timer, TimerError>) {
    match armed {
        Ok(handle) => {
            let entry = Some((handle, timer));
            let old =
                with(|world| std::mem::replace(&mut world.slots.timers[slot(argument)], entry));
            drop(old);
        }
        Err(error) => violation(format!("timer {timer} was refused: {error}")),
    }
}

fn once(
    timer: u32,
    token: Token,
    body: Script,
) -> impl FnOnce(&mut State, &mut Context<'_, State>) + Send + 'static {
    move |state, cx| {
        let token = token;
        fired(timer, &body, state, cx);
        drop(token);
    }
}

fn repeated(
    timer: u32,
    token: Token,
    body: Script,
) -> impl FnMut(&mut State, &mut Context<'_, State>) + Send + 'static {
    move |state, cx| {
        let _used = &token;
        fired(timer, &body, state, cx);
    }
}

/// The job of a timer begins.
fn fired(timer: u32, body: &[Act], state: &State, cx: &mut Context<'_, State>) {
    let now_ns = group().map_or(0, |group| group.now_ns());
    let seen_ns = cx.now_ns();
    let task = with(|world| {
        let TimerModel { task, due_ns, is_recurring, runs, is_cancelled, since, .. } =
            world.timers[timer as usize];
        let model = &mut world.timers[timer as usize];
        model.runs += 1;
        model.latest_ns = now_ns + model.period_ns;
        // A missed firing of a burst follows at once, else a period passes.
        model.due_ns = if model.is_burst { due_ns + model.period_ns } else { due_ns.max(now_ns) };
        let ended = world.task(task).ended;
        if now_ns < due_ns || seen_ns < due_ns {
            world.violation(format!(
                "timer {timer} is early: due at {due_ns} ns, the clock says {now_ns} ns and the \
                 context {seen_ns} ns"
            ));
        }
        if is_cancelled {
            world.violation(format!("timer {timer} fires after it was cancelled"));
        }
        if runs > 0 && !is_recurring {
            world.violation(format!("one-shot timer {timer} fires twice"));
        }
        if ended.is_some_and(|ended| since < ended) {
            world.violation(format!("timer {timer} fires after the end of task {task}"));
        }
        if world.task(task).exclusive > 0 {
            world.violation(format!("timer {timer} fires beside an exclusive future"));
        }
        task
    });
    check(task, state, cx);
    let frame = Entered::turn(task, Code::Job);
    play(body, &mut Here::Job(cx));
    drop(frame);
}

pub(super) fn cancel(act: &Act) {
    let entry = with(|world| world.slots.timers[slot(act.a)].clone());
    let Some((handle, timer)) = entry else { return };
    let before = with(|world| {
        let model = &world.timers[timer as usize];
        (model.runs, model.is_cancelled, model.is_recurring)
    });
    // Before the call: what the cancelled job holds is dropped in it.
    let met = handle.cancel();
    with(|world| {
        let (runs, was_cancelled, is_recurring) = before;
        let model = &mut world.timers[timer as usize];
        let task = model.task;
        let is_gone = model.is_gone || model.is_cut;
        match met {
            Cancelled::TooLate => {
                let is_right = was_cancelled || is_gone || (runs > 0 && !is_recurring);
                if !is_right && !world.task(task).may_close {
                    world.violation(format!("the cancel of timer {timer} says too late"));
                }
            }
            _ => {
                model.is_cancelled = true;
                if was_cancelled {
                    world.violation(format!("timer {timer} was cancelled twice: {met:?}"));
                } else if runs > 0 && !is_recurring && met != Cancelled::WhileRunning {
                    world.violation(format!("timer {timer} has run, its cancel says {met:?}"));
                }
            }
        }
    });
}
