//! A folder with a store whose plans are in known states, and the binary run in it.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnwheel::engine::{
    Action, ActionError, Next, PlanId, PlanState, RunAsync, RunsAsync, StepContext, TriggerOptions,
    World, WorldBuilder,
};
use turnwheel::sqlite::SqliteStore;

/// Says hello.
struct Greet;

impl Action for Greet {
    const NAME: &'static str = "greet";
    type Input = String;
    type Output = String;
    type Phases = RunsAsync;
}

impl RunAsync for Greet {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        step.output = format!("hello {}", step.input);
        Ok(Next::Done)
    }
}

/// Waits for an event.
struct Listen;

impl Action for Listen {
    const NAME: &'static str = "listen";
    type Input = ();
    type Output = Value;
    type Phases = RunsAsync;
}

impl RunAsync for Listen {
    async fn run(&self, step: &mut StepContext<Self>) -> Result<Next, ActionError> {
        match step.event::<Value>()? {
            Some(event) => {
                step.output = event;
                Ok(Next::Done)
            }
            None => Ok(Next::Suspend("a word".to_owned())),
        }
    }
}

/// Fails, so that its plan is paused.
struct Fail;

impl Action for Fail {
    const NAME: &'static str = "fail";
    type Input = ();
    type Output = ();
    type Phases = RunsAsync;
}

impl RunAsync for Fail {
    async fn run(&self, _: &mut StepContext<Self>) -> Result<Next, ActionError> {
        Err(ActionError::new("no_luck", "the dice\x1b[31m say no").and_final())
    }
}

/// A folder with a store.
pub(crate) struct Folder {
    pub(crate) folder: tempfile::TempDir,
}

/// The plans of the store, oldest first.
pub(crate) struct Plans {
    /// Over, with success; labelled `customer=Ann`, triggered by eva, with the key `k-1`.
    pub(crate) done: PlanId,
    /// Waits for an event.
    pub(crate) waits: PlanId,
    /// Paused: its step has failed.
    pub(crate) paused: PlanId,
}

pub(crate) fn builder() -> WorldBuilder {
    World::builder().action(Greet).action(Listen).action(Fail)
}

impl Folder {
    /// Without a store.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder can be made") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> SqliteStore {
        SqliteStore::new(self.path("turnwheel.db"))
    }

    pub(crate) fn world(&self) -> World {
        builder().build(self.store()).expect("the store is free")
    }

    /// With a store that nobody has.
    pub(crate) fn with_plans() -> (Self, Plans) {
        let folder = Self::new();
        let world = folder.world();
        let options = TriggerOptions::new().key("k-1").label("customer", "Ann").by("eva");
        let greet = world.trigger_with::<Greet>(options, "Ann".to_owned());
        let done = greet.wait().expect("it is taken");
        done.finished().wait().expect("it ends");
        let waits = world.trigger::<Listen>(()).wait().expect("it is taken");
        let paused = world.trigger::<Fail>(()).wait().expect("it is taken");
        let view = paused.finished().wait().expect("it fails");
        assert_eq!(view.state, PlanState::Paused);
        let plans = Plans { done: done.id(), waits: waits.id(), paused: paused.id() };
        world.shutdown().expect("it ends");
        (folder, plans)
    }

    /// The binary with arguments, without settings of whoever runs the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnwheel"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TURNWHEEL_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME").env("USER", "tester");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        let output = self.command(arguments).output().expect("the binary was built for this test");
        Ended { output, arguments: arguments.join(" ") }
    }

    /// What it prints when all is well.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments).ok()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("the folder is writable");
        name.to_owned()
    }
}

/// A run of the binary that has ended.
pub(crate) struct Ended {
    pub(crate) output: Output,
    pub(crate) arguments: String,
}

impl Ended {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    pub(crate) fn code(&self) -> i32 {
        self.output.status.code().expect("no signal has ended it")
    }

    pub(crate) fn ok(&self) -> String {
        assert_eq!(self.code(), 0, "{}: {}", self.arguments, self.stderr());
        self.stdout()
    }

    /// It failed with this code, printed nothing as its result, and its message says all of this.
    pub(crate) fn fails(&self, code: i32, says: &[&str]) {
        let text = self.stderr();
        assert_eq!(self.code(), code, "{}: {text}", self.arguments);
        assert_eq!(self.stdout(), "", "{}", self.arguments);
        for said in says {
            assert!(text.contains(said), "{}: «{said}» is missing from:\n{text}", self.arguments);
        }
    }
}
