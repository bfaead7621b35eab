//! `turnwheel serve` on a small disk that is full: nothing of it keeps a start from working.
#![cfg(all(feature = "server", feature = "cli", target_os = "linux"))]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::serve_common::{Place, Serve};

/// A disk of its own: a file system in memory that only processes in its namespace see.
struct Disk {
    holder: Child,
    folder: PathBuf,
}

impl Disk {
    /// Nothing where this user may make no namespaces.
    fn new(place: &Place, bytes: u64) -> Option<Self> {
        let folder = place.path("disk");
        std::fs::create_dir(&folder).expect("the folder is writable");
        let script = format!("mount -t tmpfs -o size={bytes} none \"$0\" && echo mounted && cat");
        let mut holder = Command::new("unshare");
        holder.args(["-Urm", "sh", "-c", &script]).arg(&folder);
        let holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = holder.spawn().ok()?;
        let mut said = String::new();
        let stdout = holder.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut said).expect("it is text");
        if said.trim() != "mounted" {
            let _ended = holder.wait();
            return None;
        }
        Some(Self { holder, folder })
    }

    /// A command with this disk.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command.args(["--preserve-credentials", "-U", "-m", "-t", &holder, program]);
        command
    }

    /// A file of it, as processes outside see it.
    fn seen(&self, name: &str) -> PathBuf {
        let folder = self.folder.strip_prefix("/").expect("it is absolute");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(folder).join(name)
    }

    /// Takes all that is left; bytes.
    fn fill(&self) -> u64 {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.seen("filler")).expect("it is there");
        let mut taken = 0;
        for size in [1_usize << 16, 1 << 12, 1] {
            while let Ok(written) = file.write(&vec![0; size]) {
                taken += written as u64;
            }
        }
        taken
    }

    fn serve(&self, place: &Place) -> Serve {
        let store = self.folder.join("wheel.db").display().to_string();
        let command = self.command(env!("CARGO_BIN_EXE_turnwheel"));
        let variables = [("TURNWHEEL_STORE", &*store), ("TURNWHEEL_STORE_RESERVE", "2MiB")];
        place.serve_by(command, &[], &variables)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = self.holder.kill();
        let _ended = self.holder.wait();
    }
}

#[test]
fn every_start_on_a_full_disk_works_loses_nothing_and_can_clean_up() {
    let place = Place::new();
    let Some(disk) = Disk::new(&place, 12 << 20) else {
        println!("not tried: this user may make no namespaces");
        return;
    };
    let server = disk.serve(&place);
    let input = "x".repeat(50_000);
    let body = json!({"action": "external", "input": {"topic": "t", "input": input}});
    let mut begun = Vec::new();
    let refused = loop {
        let answer = server.post("/api/v1/plans", &body);
        if answer.status != 201 {
            break answer;
        }
        begun.push(answer.json()["id"].as_str().expect("an id").to_owned());
    };
    refused.is_problem(507, "store-full");
    assert!(begun.len() > 20, "{}", begun.len());
    // What is under way, and then others, take all that is left.
    disk.fill();
    let steps: Vec<(String, u32)> =
        begun.iter().map(|plan| (plan.clone(), server.suspended(plan))).collect();
    for (plan, step) in &steps {
        let event = json!({"event": {"output": {"much": "y".repeat(40_000)}}});
        let path = format!("/api/v1/plans/{plan}/steps/{step}/events");
        if server.post(&path, &event).status >= 500 {
            break;
        }
    }
    server.killed();
    for _ in 0..5 {
        let server = disk.serve(&place);
        disk.fill();
        assert_eq!(server.get("/api/v1/plans?limit=1").status, 200);
        assert_eq!(server.get(&format!("/api/v1/plans/{}", begun[0])).status, 200);
        server.killed();
    }
    // Plans can be ended and removed, and then there is room again.
    let server = disk.serve(&place);
    let page = server.get("/api/v1/plans?limit=1000").ok();
    assert_eq!(page["plans"].as_array().map(Vec::len), Some(begun.len()));
    std::fs::remove_file(disk.seen("filler")).expect("it is there");
    let all = json!({"filter": {"states": ["running"]}, "order": "cancel"});
    server.post("/api/v1/orders", &all).ok();
    begun.iter().for_each(|plan| assert_eq!(server.ended_plan(plan)["state"], "stopped"));
    disk.fill();
    let all = json!({"filter": {"states": ["stopped"]}, "order": "delete"});
    assert_eq!(server.post("/api/v1/orders", &all).ok()["touched"], begun.len());
    std::fs::remove_file(disk.seen("filler")).expect("it is there");
    assert_eq!(server.post("/api/v1/plans", &body).status, 201);
    server.stopped();
}
