//! The chain of calls to which a call belongs: each caller with the callee that it waits for.
//!
//! A call knows its caller, and the call that its caller was handling. Waiting callers keep the
//! calls above them alive. Work beside a handler holds its call weakly, so an ended call is freed.

use std::ops::Deref;
use std::sync::Arc;

use turnwheel_runtime::oneshot::{SharedOneshot, WeakOneshot};

use crate::call::Call;

/// The call that is handled where another one is made.
#[derive(Clone, Debug)]
enum Above {
    /// Its handler waits for the calls it makes.
    Waiting(SharedOneshot<Call>),
    Beside(WeakOneshot<Call>),
}

impl Above {
    /// The call, if it is not gone.
    fn upgrade(&self) -> Option<SharedOneshot<Call>> {
        match self {
            Self::Waiting(call) => Some(call.clone()),
            Self::Beside(call) => call.upgrade(),
        }
    }

    fn downgrade(&self) -> WeakOneshot<Call> {
        match self {
            Self::Waiting(call) => call.downgrade(),
            Self::Beside(call) => call.clone(),
        }
    }
}

/// The actors that wait for a call, the nearest first. Empty if none does.
#[derive(Debug, Default)]
pub(crate) struct CallChain {
    asker: Option<Asker>,
    above: Option<Above>,
}

// In line, as the clone of `Asker`: a call clones the chain of its maker, and a clone that is
// returned through memory is read back in other sizes than it was written in, which stalls.
clone_fields!(impl CallChain, asker, above);

impl Drop for CallChain {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(above) = self.above.take() {
            Self::unlink(above);
        }
    }
}

impl CallChain {
    /// The chain of calls that an actor waits for while it handles one.
    #[inline]
    pub(crate) fn waiting(asker: Asker, handled: Option<SharedOneshot<Call>>) -> Self {
        Self { asker: Some(asker), above: handled.map(Above::Waiting) }
    }

    /// The chain of calls for which no actor waits.
    #[inline]
    pub(crate) fn beside(handled: Option<WeakOneshot<Call>>) -> Self {
        Self { asker: None, above: handled.map(Above::Beside) }
    }

    /// Not by recursion: a chain may be longer than a stack.
    #[inline(never)]
    fn unlink(mut above: Above) {
        while let Above::Waiting(call) = above {
            let last = call.into_metadata();
            let Some(next) = last.and_then(|mut call| call.chain.above.take()) else { return };
            above = next;
        }
    }

    /// As [`CallChain::above`], without keeping it.
    pub(crate) fn above_weak(&self) -> Option<WeakOneshot<Call>> {
        self.above.as_ref().map(Above::downgrade)
    }

    /// The call that its caller handled.
    pub(crate) fn above(&self) -> Option<SharedOneshot<Call>> {
        self.above.as_ref()?.upgrade()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.asker.is_none() && self.above.is_none()
    }

    /// Whether the actor waits somewhere in this chain.
    pub(crate) fn contains(&self, actor: u64) -> bool {
        self.any(|asker| asker.actor == actor)
    }

    /// Whether the actor waits somewhere in this chain and takes nothing meanwhile.
    #[inline]
    pub(crate) fn blocks(&self, actor: u64) -> bool {
        self.any(|asker| asker.blocks(actor))
    }

    /// Number of waiting calls.
    pub(crate) fn depth(&self) -> usize {
        let mut depth = 0;
        self.each(|_| depth += 1);
        depth
    }

    /// The names of the chain, the first caller first.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.each(|asker| names.push(asker.name.to_string()));
        names.reverse();
        names
    }

    fn each(&self, mut look: impl FnMut(&Asker)) {
        self.any(|asker| {
            look(asker);
            false
        });
    }

    fn any(&self, mut is: impl FnMut(&Asker) -> bool) -> bool {
        let mut beside = match self.any_waiting(&mut is) {
            Ok(found) => return found,
            Err(above) => above.upgrade(),
        };
        while let Some(call) = beside {
            beside = match call.metadata().chain.any_waiting(&mut is) {
                Ok(found) => return found,
                Err(above) => above.upgrade(),
            };
        }
        false
    }

    /// As `any`, up to a call that is known weakly.
    fn any_waiting(&self, mut is: impl FnMut(&Asker) -> bool) -> Result<bool, &WeakOneshot<Call>> {
        let mut chain = self;
        loop {
            if chain.asker.as_ref().is_some_and(&mut is) {
                return Ok(true);
            }
            match &chain.above {
                None => return Ok(false),
                Some(Above::Waiting(call)) => chain = &call.metadata().chain,
                Some(Above::Beside(call)) => return Err(call),
            }
        }
    }
}

/// An actor that waits for its calls. Its cell keeps it from call to call.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) actor: u64,
    pub(crate) name: Name,
    /// Whether it takes calls that come back to it.
    pub(crate) is_reentrant: bool,
}

clone_fields!(impl Asker, actor, name, is_reentrant);

impl Asker {
    /// Whether this is that actor, and takes nothing while it waits.
    #[inline(always)]
    pub(crate) fn blocks(&self, actor: u64) -> bool {
        self.actor == actor && !self.is_reentrant
    }
}

/// The name of an actor in a chain.
#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// By its type; costs no count.
    Type(&'static str),
    Own(Arc<str>),
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Type(name) => name,
            Self::Own(name) => name,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/chain.rs"]
mod tests;
