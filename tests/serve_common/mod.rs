//! `turnwheel serve` as a process of its own, and a client of few words.
#![allow(dead_code, reason = "each test file uses a part")]

#[cfg(target_os = "linux")]
pub(crate) mod disk;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

/// How long a test waits for an answer: long, because many tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary: that of these tests, else the one beside this program.
pub(crate) fn binary() -> PathBuf {
    let beside = || {
        let own = std::env::current_exe().expect("this program has a path");
        own.with_file_name("turnwheel")
    };
    option_env!("CARGO_BIN_EXE_turnwheel").map_or_else(beside, PathBuf::from)
}

/// A folder for a store and what else a server needs.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir()).expect("a folder can be made")
    }

    /// In a folder below this one.
    pub(crate) fn within(folder: &Path) -> std::io::Result<Self> {
        tempfile::tempdir_in(folder).map(Self)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("wheel.db")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path.display().to_string()
    }

    /// The binary in this folder, without settings of whoever runs the tests.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.of(Command::new(binary()), arguments)
    }

    fn of(&self, mut command: Command, arguments: &[&str]) -> Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TURNWHEEL_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command
            .env("TURNWHEEL_STORE", self.store())
            .env("HOME", self.0.path())
            .env("USER", "tester");
        command.env_remove("XDG_CONFIG_HOME");
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary was built for this test")
    }

    /// What it prints when all is well.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("it prints text")
    }

    /// The same as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// A server that listens, over the store of this folder.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Serve {
        self.serve_with(arguments, &[])
    }

    /// The same, with variables of the environment.
    pub(crate) fn serve_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Serve {
        self.begin(Command::new(binary()), arguments, variables)
    }

    /// The same, with at most so many open files.
    pub(crate) fn serve_within(&self, files: u32, arguments: &[&str]) -> Serve {
        let mut command = Command::new("sh");
        let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
        command.args(["-c", &script]).arg(binary());
        self.begin(command, arguments, &[])
    }

    /// The same by another command, which ends with the binary and has its arguments behind it.
    pub(crate) fn serve_by(
        &self,
        command: Command,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Serve {
        self.begin(command, arguments, variables)
    }

    fn begin(&self, command: Command, arguments: &[&str], variables: &[(&str, &str)]) -> Serve {
        let mut command = self.of(command, &["serve", "--log-format", "json"]);
        let is_placed = arguments.contains(&"--listen");
        command.args(if is_placed { &[][..] } else { &["--listen", "127.0.0.1:0"] });
        command.args(arguments).envs(variables.iter().copied());
        let log = std::fs::File::create(self.path("serve.log")).expect("the folder is writable");
        command.stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it listens");
        let url = line.trim().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("«{line}»: {}", self.log())).to_owned();
        Serve { child, url, token: None, stdout }
    }

    /// What the last server has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("serve.log")).unwrap_or_default()
    }
}

/// A process that serves. It is killed when it is dropped.
pub(crate) struct Serve {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    stdout: BufReader<ChildStdout>,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: ureq::http::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub(crate) fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.text);
        self.json()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// It is a problem with this code, for which there is a page.
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)));
        let pages = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md"));
        let page = format!("## {code}");
        assert!(pages.expect("there are pages").lines().any(|line| line == page), "{page}");
    }
}

/// Asks again and again what nothing else tells, for a minute at most.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::yield_now();
    }
}

impl Serve {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens, without the scheme.
    pub(crate) fn address(&self) -> &str {
        self.url.split_once("://").expect("it has a scheme").1
    }

    pub(crate) fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(killed.expect("there is kill").success());
    }

    /// Its standard output since its first line, up to the line with this text.
    pub(crate) fn output_until(mut self, text: &str) -> String {
        let mut said = String::new();
        while !said.lines().any(|line| line.contains(text)) {
            let read = self.stdout.read_line(&mut said).expect("it writes text");
            assert!(read > 0, "it ended without «{text}»: {said}");
        }
        said
    }

    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().expect("it is a child")
    }

    /// Kills it as a loss of power would.
    pub(crate) fn killed(self) {
        self.signal("-KILL");
        self.ended();
    }

    /// Stops it in order.
    pub(crate) fn stopped(self) {
        self.signal("-TERM");
        assert_eq!(self.ended().code(), Some(0));
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], Some(&body.to_string()))
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        self.try_send(&agent(), method, path, headers, body).expect("an answer")
    }

    /// The same over connections that are kept; it may fail.
    pub(crate) fn try_send(
        &self,
        agent: &ureq::Agent,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Answer, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method);
        request = request.uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = match body {
            Some(body) => {
                let is_typed = headers.iter().any(|(name, _)| *name == "content-type");
                if !is_typed {
                    request = request.header("content-type", "application/json");
                }
                agent.run(request.body(body.to_owned()).expect("a request"))?
            }
            None => agent.run(request.body(()).expect("a request"))?,
        };
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let mut text = String::new();
        answer.into_body().into_reader().read_to_string(&mut text)?;
        Ok(Answer { status, headers, text })
    }

    /// A connection on which this was sent.
    pub(crate) fn raw(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        // A server that has refused already may not read to the end.
        let _ = stream.write_all(request.as_bytes());
        stream
    }

    /// A figure; 0 if it is not told.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let text = self.get("/metrics").text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |number| number.parse().expect("a number"))
    }

    /// Begins a plan that waits for a worker of the topic.
    pub(crate) fn begin(&self, topic: &str) -> String {
        let body = json!({"action": "external", "input": {"topic": topic, "input": 1}});
        let started = self.post("/api/v1/plans", &body).ok();
        started["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until a step of a plan is suspended; nothing else tells that.
    pub(crate) fn suspended(&self, plan: &str) -> u32 {
        eventually("a step is suspended", || {
            let page = self.get(&format!("/api/v1/plans/{plan}/steps?state=suspended")).ok();
            let step = page["steps"][0]["id"].as_u64()?;
            Some(u32::try_from(step).expect("steps have small numbers"))
        })
    }

    /// A plan, when it is over or paused.
    pub(crate) fn ended_plan(&self, plan: &str) -> Value {
        self.get(&format!("/api/v1/plans/{plan}?wait_ms=60000")).ok()
    }

    /// Bytes of its memory.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let text = line.expect("Linux says so").trim().trim_end_matches(" kB");
        text.parse::<u64>().expect("a number") * 1_024
    }
}

pub(crate) fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(PATIENCE)).build().into()
}

/// All that comes on a connection.
pub(crate) fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The file with the store, and what belongs to it.
pub(crate) fn size(store: &Path) -> u64 {
    let size =
        |end: &str| std::fs::metadata(format!("{}{end}", store.display())).map(|it| it.len());
    ["", "-wal"].iter().filter_map(|end| size(end).ok()).sum()
}
