//! The limit of memory of commands: looked at each second, and kept by the kernel where there is a
//! cgroup.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::jobs::shell;
use crate::serve_common::{eventually, Place};

/// A cgroup for the test; removed with it.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _left = fs::remove_dir(entry.path());
        }
        let _left = fs::remove_dir(&self.0);
    }
}

/// One below that of this process, if it may make one: with the controller of memory.
fn group() -> Option<Group> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (mut root, mut below) = ("/sys/fs/cgroup", None);
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers == "memory" {
            (root, below) = ("/sys/fs/cgroup/memory", Some(path.to_owned()));
            break;
        }
        if controllers.is_empty() {
            below = Some(path.to_owned());
        }
    }
    let folder = format!("{root}{}/turnwheel-test-{}", below?, std::process::id());
    fs::create_dir(&folder).ok()?;
    let group = Group(PathBuf::from(folder));
    let first = group.0.join("memory.limit_in_bytes").exists();
    let second = fs::read_to_string(group.0.join("cgroup.controllers")).unwrap_or_default();
    (first || second.split_whitespace().any(|name| name == "memory")).then_some(group)
}

/// A command that takes 200 MB and would then stay.
const GREEDY: &str = "head -c 200000000 /dev/zero | tail -c 200000000 > /dev/null; sleep 60";

#[test]
fn a_command_that_takes_more_memory_than_its_limit_is_ended() {
    let place = Place::new();
    let server = place.serve(&["--allow-shell"]);
    // All that `tail` has read stays in its memory: the next look sees it.
    let held = "cat /dev/zero | tail -c 200000000";
    let config = json!({"command": held, "mem_limit": "50MB", "shell": "true"});
    let (launch, _) = shell(&server, "greedy", &config);
    assert_eq!(launch["state"], "failed", "{launch}");
    assert_eq!(launch["reason"], "it took more memory than mem_limit");
    server.stopped();
}

#[test]
fn the_kernel_keeps_the_memory_of_a_command_where_there_is_a_cgroup() {
    let Some(group) = group() else {
        eprintln!("LEFT OUT: no limit of memory was kept, because this process may make no cgroup");
        return;
    };
    let place = Place::new();
    let group_path = group.0.display().to_string();
    let server = place.serve_with(&["--allow-shell"], &[("TURNWHEEL_JOBS_CGROUP", &group_path)]);
    // It is short: no look of each second would see it.
    let config = json!({"command": GREEDY, "mem_limit": "50MB", "shell": "true"});
    let (launch, _) = shell(&server, "greedy", &config);
    assert_eq!(launch["state"], "failed", "{launch}");
    assert_eq!(launch["reason"], "it took more memory than mem_limit");
    // A process that leaves its process group stays in the cgroup, and ends with it.
    let place_of = place.path("left");
    let left = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 600' > /dev/null 2>&1 & while [ ! -s {} ]; do :; done; echo ok",
        place_of.display(),
        place_of.display(),
    );
    let config = json!({"command": left, "mem_limit": "50MB", "shell": "true"});
    let (launch, output) = shell(&server, "leaver", &config);
    assert_eq!((launch["state"].as_str(), output.as_str()), (Some("succeeded"), "ok\n"));
    let process = fs::read_to_string(&place_of).expect("it has begun");
    let process = Path::new("/proc").join(process.trim());
    eventually("the process that has left is gone", || (!process.exists()).then_some(()));
    // Nothing is left of them.
    let left = || fs::read_dir(&group.0).expect("it is there").flatten();
    let mut folders = left().filter(|entry| entry.path().is_dir());
    assert!(folders.next().is_none());
    server.stopped();
}

#[test]
fn a_folder_that_is_no_cgroup_is_told_when_a_command_needs_it() {
    let place = Place::new();
    let folder = place.path("none");
    let folder = folder.display().to_string();
    let server = place.serve_with(&["--allow-shell"], &[("TURNWHEEL_JOBS_CGROUP", &folder)]);
    let (launch, _) = shell(&server, "a", &json!({"command": "true", "mem_limit": "50MB"}));
    assert_eq!(launch["state"], "failed", "{launch}");
    let reason = launch["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("jobs.cgroup") && reason.contains("no processes of its own"),
        "{reason}"
    );
    let (launch, _) = shell(&server, "b", &json!({"command": "true"}));
    assert_eq!(launch["state"], "succeeded", "a command without a limit needs none");
    server.stopped();
}
