//! Chains of calls.

use super::*;
use crate::call::Term;

#[test]
fn long_chain_is_looked_through_and_dropped_without_recursion() {
    let mut chain = CallChain::default();
    for actor in 0..100_000 {
        let (_reply, _receiver, call) = Call::new(Term::ENDLESS, chain).begin::<()>();
        let asker = Asker { actor, name: Name::Type("one"), is_reentrant: false };
        chain = CallChain::waiting(asker, Some(call));
    }
    assert_eq!(chain.depth(), 100_000);
    assert!(chain.blocks(0) && !chain.blocks(100_000));
}

#[test]
fn work_beside_a_handler_keeps_nothing_of_its_call() {
    let (reply, receiver, call) = Call::new(Term::ENDLESS, CallChain::default()).begin::<()>();
    let chain = CallChain::beside(Some(call.downgrade()));
    assert!(chain.above().is_some());
    drop((reply, receiver, call));
    assert!(chain.above().is_none());
}
