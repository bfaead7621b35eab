//! One message on its way through the interceptors: in, around its handler, and out in reverse.
//!
//! A panic of an interceptor is caught where it happens and becomes the failure of the message.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use turnwheel_runtime::Failure;

use super::call::{Call, MessageInfo};
use super::outcome::{Again, AnyEnd, End, Outcome, Retrying};
use super::{Chain, Layer, LayerState};
use crate::error::AskError;

/// A message that has begun, or is about to.
pub(crate) struct Interception {
    chain: Chain,
    /// Of the interceptors that have begun and not ended.
    kept: Vec<LayerState>,
    pub(crate) info: MessageInfo,
}

debug_fields!(impl Interception, self => info: self.info);

impl Interception {
    pub(crate) fn new(chain: Chain, info: MessageInfo) -> Self {
        let kept = Vec::with_capacity(chain.layers().len());
        Self { chain, kept, info }
    }

    /// Begins with the interceptors that have not begun, until one refuses.
    pub(crate) fn begin(&mut self, message: &mut (dyn Any + Send)) -> Result<(), Failure> {
        let Self { chain, kept, info } = self;
        for layer in &chain.layers()[kept.len()..] {
            let mut call = Call { info: &mut *info, message: &mut *message };
            kept.push(contained(&**layer, || layer.begin(&mut call)).and_then(|begun| begun)?);
        }
        Ok(())
    }

    /// Runs the closure with all interceptors around it. An error has the closure's result: an
    /// interceptor has failed after it.
    pub(crate) fn within<T>(
        &mut self,
        run: impl FnOnce() -> T,
    ) -> (Option<T>, Result<(), Failure>) {
        let (mut run, mut done) = (Some(run), None);
        let mut once = || {
            if let Some(run) = run.take() {
                done = Some(run());
            }
        };
        let mut around = around(self.chain.layers(), &mut self.kept, &mut once);
        if around.is_ok() && done.is_none() {
            around = Err(Failure::Refused("an interceptor did not go on with the message"));
        }
        (done, around)
    }

    /// Ends with the interceptors that have begun, the innermost first.
    pub(crate) fn end(&mut self, end: &mut dyn AnyEnd) {
        let again = self.end_or_again(end, None);
        debug_assert!(again.is_none(), "only a call that may be made again is");
    }

    /// As [`Interception::end`], unless an interceptor repeats the call: it and those outside it
    /// continue.
    pub(crate) fn end_or_again(
        &mut self,
        end: &mut dyn AnyEnd,
        retrying: Option<Retrying>,
    ) -> Option<Again> {
        let Self { chain, kept, info } = self;
        while let Some(mut one) = kept.pop() {
            let layer = &*chain.layers()[kept.len()];
            let mut outcome = Outcome { end: &mut *end, retrying, again: None };
            let ended = contained(layer, || layer.end(&mut one, info, &mut outcome));
            let again = outcome.again;
            if ended.is_ok() && again.is_some() {
                kept.push(one);
                info.attempt += 1;
                return again;
            }
            // The destructor of its state is code of the interceptor, too.
            if let Err(failure) = ended.and(contained(layer, || drop(one))) {
                end.fail(AskError::Unanswered(failure));
            }
        }
        None
    }
}

impl Drop for Interception {
    /// A handler's future that was dropped, or a caller that has given up.
    fn drop(&mut self) {
        if !self.kept.is_empty() {
            self.end(&mut End::<()>::Failed(AskError::Unanswered(Failure::Cancelled)));
        }
    }
}

/// Runs the closure inside these layers.
fn around(
    layers: &[std::sync::Arc<dyn Layer>],
    kept: &mut [LayerState],
    run: &mut dyn FnMut(),
) -> Result<(), Failure> {
    let Some(((layer, layers), (own, kept))) = layers.split_first().zip(kept.split_first_mut())
    else {
        run();
        return Ok(());
    };
    let mut inner = None;
    let outer = contained(&**layer, || {
        layer.within(own, &mut || {
            if inner.is_none() {
                inner = Some(around(layers, kept, run));
            }
        });
    });
    inner.unwrap_or(Ok(())).and(outer)
}

/// Runs code of an interceptor; its panic is the failure of the message.
fn contained<R>(layer: &dyn Layer, run: impl FnOnce() -> R) -> Result<R, Failure> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let failure = Failure::from_panic(panic);
        tracing::error!(interceptor = layer.name(), %failure, "an interceptor panicked");
        failure
    })
}
