//! Phases of an action, as types.

use std::sync::Arc;

use super::erased::{blocking, finish, prepare, Begun, Call, Returned};
use super::{
    poll, together, Action, Finalize, FinalizeAsync, Next, PollAll, Polling, PollingAsync, Revert,
    RevertAsync, Run, RunAsync,
};

/// The phases of an action; implemented by `()`, [`Runs`], [`RunsAsync`], [`Finalizes`],
/// [`Reverts`] and the others of this kind, and by pairs and triples of them.
pub trait Phases<A: Action>: sealed::Sealed<A> {}

impl<A: Action, P: sealed::Sealed<A>> Phases<A> for P {}

/// The action has a run phase that may block: [`Run`].
#[derive(Debug)]
pub enum Runs {}

/// The action has a run phase that waits without a thread: [`RunAsync`].
#[derive(Debug)]
pub enum RunsAsync {}

/// The action has a run phase that starts something outside and polls it: [`Polling`].
#[derive(Debug)]
pub enum Polls {}

/// The same, and waits without a thread: [`PollingAsync`].
#[derive(Debug)]
pub enum PollsAsync {}

/// The action has a run phase that starts something outside and polls it together with others:
/// [`PollAll`].
#[derive(Debug)]
pub enum PollsTogether {}

/// The action has a finalize phase: [`Finalize`].
#[derive(Debug)]
pub enum Finalizes {}

/// The action has a finalize phase that waits without a thread: [`FinalizeAsync`].
#[derive(Debug)]
pub enum FinalizesAsync {}

/// The work of the action can be undone: [`Revert`].
#[derive(Debug)]
pub enum Reverts {}

/// The work of the action can be undone, without a thread that waits: [`RevertAsync`].
#[derive(Debug)]
pub enum RevertsAsync {}

pub(crate) mod sealed {
    use super::{Action, Arc, Begun, Call};

    /// The functions that the engine calls.
    #[expect(unnameable_types, reason = "it is sealed")]
    pub trait Sealed<A: Action> {
        const RUNS: bool = false;
        const IS_ASYNC: bool = false;
        const FINALIZES: bool = false;
        const REVERTS: bool = false;

        /// Begins a call of the run phase.
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn run(action: Arc<A>, call: Call) -> Begun {
            let _ = (action, call);
            unreachable!("an action without a run phase has no run step")
        }

        /// Calls the finalize phase.
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn finalize(action: Arc<A>, call: Call) -> Begun {
            let _ = (action, call);
            unreachable!("an action without a finalize phase has no finalize step")
        }

        /// Calls the compensation.
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn revert(action: Arc<A>, call: Call) -> Begun {
            let _ = (action, call);
            unreachable!("an action without a compensation is not taken back")
        }
    }
}

use sealed::Sealed;

/// A call whose code is awaited with the context of the step.
macro_rules! waiting {
    ($call:ident, $step:ident => $code:expr) => {
        Begun::Async(Box::pin(async move {
            let (mut step, before) = match prepare::<A>($call) {
                Ok(prepared) => prepared,
                Err(error) => return Returned::not_called(error),
            };
            let $step = &mut step;
            let result = $code;
            finish(&before, step, result)
        }))
    };
}

impl<A: Action> Sealed<A> for () {}

impl<A: Run> Sealed<A> for Runs {
    const RUNS: bool = true;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        Begun::Blocking(Box::new(move || blocking(call, |step| A::run(&action, step))))
    }
}

impl<A: RunAsync> Sealed<A> for RunsAsync {
    const RUNS: bool = true;
    const IS_ASYNC: bool = true;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        waiting!(call, step => A::run(&action, step).await)
    }
}

impl<A: Polling> Sealed<A> for Polls {
    const RUNS: bool = true;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        Begun::Blocking(Box::new(move || blocking(call, |step| poll::run_now(&*action, step))))
    }
}

impl<A: PollingAsync> Sealed<A> for PollsAsync {
    const RUNS: bool = true;
    const IS_ASYNC: bool = true;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        waiting!(call, step => poll::run(&poll::Waits(&*action), step).await)
    }
}

impl<A: PollAll> Sealed<A> for PollsTogether {
    const RUNS: bool = true;
    const IS_ASYNC: bool = true;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        Begun::Async(Box::pin(together::run(action, call)))
    }
}

impl<A: Finalize> Sealed<A> for Finalizes {
    const FINALIZES: bool = true;

    #[allow(private_interfaces)]
    fn finalize(action: Arc<A>, call: Call) -> Begun {
        Begun::Blocking(Box::new(move || {
            blocking(call, |step| action.finalize(step).map(|()| Next::Done))
        }))
    }
}

impl<A: FinalizeAsync> Sealed<A> for FinalizesAsync {
    const FINALIZES: bool = true;

    #[allow(private_interfaces)]
    fn finalize(action: Arc<A>, call: Call) -> Begun {
        waiting!(call, step => A::finalize(&action, step).await.map(|()| Next::Done))
    }
}

impl<A: Revert> Sealed<A> for Reverts {
    const REVERTS: bool = true;

    #[allow(private_interfaces)]
    fn revert(action: Arc<A>, call: Call) -> Begun {
        Begun::Blocking(Box::new(move || {
            blocking(call, |step| action.revert(step).map(|()| Next::Done))
        }))
    }
}

impl<A: RevertAsync> Sealed<A> for RevertsAsync {
    const REVERTS: bool = true;

    #[allow(private_interfaces)]
    fn revert(action: Arc<A>, call: Call) -> Begun {
        waiting!(call, step => A::revert(&action, step).await.map(|()| Next::Done))
    }
}

impl<A: Action, P: Sealed<A>, Q: Sealed<A>, R: Sealed<A>> Sealed<A> for (P, Q, R) {
    const RUNS: bool = <(P, (Q, R)) as Sealed<A>>::RUNS;
    const IS_ASYNC: bool = <(P, (Q, R)) as Sealed<A>>::IS_ASYNC;
    const FINALIZES: bool = <(P, (Q, R)) as Sealed<A>>::FINALIZES;
    const REVERTS: bool = <(P, (Q, R)) as Sealed<A>>::REVERTS;

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        <(P, (Q, R)) as Sealed<A>>::run(action, call)
    }

    #[allow(private_interfaces)]
    fn finalize(action: Arc<A>, call: Call) -> Begun {
        <(P, (Q, R)) as Sealed<A>>::finalize(action, call)
    }

    #[allow(private_interfaces)]
    fn revert(action: Arc<A>, call: Call) -> Begun {
        <(P, (Q, R)) as Sealed<A>>::revert(action, call)
    }
}

impl<A: Action, P: Sealed<A>, Q: Sealed<A>> Sealed<A> for (P, Q) {
    const RUNS: bool = P::RUNS || Q::RUNS;
    const IS_ASYNC: bool = P::IS_ASYNC || Q::IS_ASYNC;
    const FINALIZES: bool = P::FINALIZES || Q::FINALIZES;
    const REVERTS: bool = P::REVERTS || Q::REVERTS;

    #[allow(private_interfaces)]
    fn revert(action: Arc<A>, call: Call) -> Begun {
        if P::REVERTS {
            P::revert(action, call)
        } else {
            Q::revert(action, call)
        }
    }

    #[allow(private_interfaces)]
    fn run(action: Arc<A>, call: Call) -> Begun {
        if P::RUNS {
            P::run(action, call)
        } else {
            Q::run(action, call)
        }
    }

    #[allow(private_interfaces)]
    fn finalize(action: Arc<A>, call: Call) -> Begun {
        if P::FINALIZES {
            P::finalize(action, call)
        } else {
            Q::finalize(action, call)
        }
    }
}
