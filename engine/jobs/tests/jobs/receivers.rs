//! Notifications in real time, to receivers that hang: they hold up what goes to themselves.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use turnwheel_engine::{MemoryStore, World};
use turnwheel_jobs::{Event, Executors, Jobs, JobsOptions, Message, Notifier, Notify, WithJobs};
use turnwheel_runtime::completion::block_on;
use turnwheel_runtime::Group;

use super::common::{job, Play};

/// Notifications that go to each receiver that hangs: more than there are places.
const HANGING: usize = 40;

/// A server of mail and a host that hang until they are let go, and hosts that do not.
#[derive(Clone, Debug)]
struct Hanging {
    is_over: Arc<(Mutex<bool>, Condvar)>,
    told: Sender<String>,
}

impl Notifier for Hanging {
    fn check(&self, _: &Notify) -> Result<(), String> {
        Ok(())
    }

    fn send(&self, message: &Message, _: &(dyn Fn() -> bool + Sync)) -> Result<(), String> {
        if message.webhook.is_empty() || message.webhook.contains("hangs") {
            let (is_over, changed) = &*self.is_over;
            let guard = is_over.lock().expect("no panic");
            drop(changed.wait_while(guard, |is_over| !*is_over).expect("no panic"));
        }
        self.told.send(message.webhook.clone()).map_err(|error| error.to_string())
    }
}

fn to(webhook: &str) -> Notify {
    let (on, webhook) = (vec![Event::Success], webhook.to_owned());
    Notify { on, webhook, ..Notify::default() }
}

fn mail() -> Notify {
    Notify { on: vec![Event::Success], mail: vec!["ann@example.org".to_owned()], ..to("") }
}

/// Runs jobs whose notifications go to receivers that hang, and then one that goes elsewhere.
fn send_behind(hanging: &[Notify]) -> Result<String, String> {
    let (told, heard): (_, Receiver<String>) = channel();
    let is_over = Arc::new((Mutex::new(false), Condvar::new()));
    let notifier = Hanging { is_over: Arc::clone(&is_over), told };
    let executors = Executors::new().with("play", Play::default()).with_notifier(notifier);
    let group = Group::builder("jobs").workers(1).build().expect("it is done");
    let world = World::builder().jobs(&executors).build(MemoryStore::new()).expect("it is done");
    let options = JobsOptions::new(&executors);
    let jobs =
        block_on(Jobs::open(&world, &group, options)).expect("it is done").expect("it is done");
    let then = to("https://fine");
    let hanging = hanging.iter().map(|notify| (notify, HANGING));
    for (number, (notify, times)) in hanging.chain([(&then, 1)]).enumerate() {
        let name = &format!("job-{number}");
        let spec = job(name, "@manually", |spec| spec.notify.push(notify.clone()));
        jobs.put(spec, None, "ann").wait().expect("it is done").expect("it is done");
        for _ in 0..times {
            jobs.run(name, "ann", false).wait().expect("it is done").expect("it is done");
        }
    }
    let first = heard.recv_timeout(Duration::from_secs(30)).map_err(|error| error.to_string());
    *is_over.0.lock().expect("it is done") = true;
    is_over.1.notify_all();
    jobs.end();
    world.shutdown().expect("it is done");
    group.shutdown().expect("it is done");
    first
}

#[test]
fn a_server_of_mail_that_hangs_holds_up_no_webhook() {
    assert_eq!(send_behind(&[mail()]).as_deref(), Ok("https://fine"));
}

#[test]
fn a_host_that_hangs_holds_up_no_other_one() {
    assert_eq!(send_behind(&[to("https://hangs/a")]).as_deref(), Ok("https://fine"));
}

#[test]
fn hosts_that_hang_hold_up_no_further_one() {
    let hosts: Vec<_> = (0..5).map(|host| to(&format!("https://hangs-{host}/"))).collect();
    assert_eq!(send_behind(&hosts).as_deref(), Ok("https://fine"));
}
