//! Units of the registry of tasks.

use std::sync::mpsc;
use std::time::Duration;

use crate::task::{Context, Lifecycle, OnFailure};
use crate::{Failure, Group, Pinning};

/// Long enough for any machine; the test waits for it only if it fails.
const PATIENCE: Duration = Duration::from_secs(60);

struct Escalates;

impl Lifecycle<()> for Escalates {
    fn on_failure(&mut self, (): &mut (), _: &mut Context<'_, ()>, _: &Failure) -> OnFailure {
        OnFailure::Escalate
    }
}

#[test]
fn escalated_failure_takes_no_lock_of_the_registry() {
    let (tell, told) = mpsc::channel();
    let hook = move |task: &crate::task::AnyTask, _: &Failure| {
        tell.send(task.name()).expect("the test listens");
    };
    let group = Group::builder("escalates").workers(1).pinning(Pinning::None).on_escalate(hook);
    let group = group.build().expect("threads can be started");
    let fragile = group.task(()).name("fragile").lifecycle(Escalates).spawn().expect("it runs");
    let locks: Vec<_> = group.shared().registry.shards.iter().map(|shard| shard.lock()).collect();
    let submitted = fragile.submit(|(), _| panic!("planted"));
    let name = told.recv_timeout(PATIENCE);
    drop(locks);
    assert_eq!(name.as_deref(), Ok("fragile"));
    assert!(submitted.is_ok());
    let closed = fragile.closed().wait_timeout(PATIENCE);
    assert!(matches!(closed, Err(Failure::Panicked(_))));
    assert!(group.shutdown().expect("another thread").is_clean());
}
