//! Where the blocks of one page are run: a folder, the binary in the path, and what must not be touched.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::{symlink, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{kill_process_group, Pid, Signal};

/// A command that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// The address that pages name.
const SHOWN: &str = "127.0.0.1:7070";

/// Folders of the host that pages name; they lie below the folder of the page.
const HOST_FOLDERS: [&str; 5] = [
    "/usr/local/bin",
    "/etc/systemd/system",
    "/etc/turnwheel",
    "/var/lib/turnwheel",
    "/var/backups",
];

/// Commands of the host that a test must not run: they do nothing.
const HOST_COMMANDS: [&str; 7] =
    ["systemctl", "systemd-sysusers", "useradd", "journalctl", "docker", "nginx", "git"];

/// The folder of one page, and the server that its blocks have started.
pub(crate) struct Place {
    base: tempfile::TempDir,
    server: Option<Server>,
    /// How the last command of the page has ended.
    status: i32,
}

struct Server {
    child: Child,
    address: String,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    /// Both outputs, as they came.
    pub(crate) output: String,
}

impl Place {
    pub(crate) fn new(root: &Path) -> Self {
        let place = Self {
            base: tempfile::tempdir().expect("a folder can be made"),
            server: None,
            status: 0,
        };
        let at = |name: &str| place.base.path().join(name);
        for folder in ["bin", "work", "host/usr/local/bin", "host/etc/systemd/system"] {
            fs::create_dir_all(at(folder)).expect("a folder can be made");
        }
        fs::create_dir_all(at("host/var/backups")).expect("a folder can be made");
        symlink(env!("CARGO_BIN_EXE_turnwheel"), at("bin/turnwheel")).expect("a link can be made");
        for folder in ["examples", "packaging"] {
            let link = at("work").join(folder);
            symlink(root.join(folder), link).expect("a link can be made");
        }
        place.stand_in("sudo", "exec \"$@\"");
        // `cargo run … -- ARGUMENTS` runs the binary that cargo has built for this test; what else
        // cargo is asked for is looked at before (`cargo.rs`) and not done.
        let run = "[ \"$1\" = run ] || exit 0\n\
            for word in \"$@\"; do case $word in -p|--example) exit 0;; --) break;; esac; done\n\
            while [ $# -gt 0 ]; do word=$1; shift; [ \"$word\" = -- ] && break; done\n\
            exec turnwheel \"$@\"";
        place.stand_in("cargo", run);
        for name in HOST_COMMANDS {
            place.stand_in(name, "exit 0");
        }
        let made =
            rcgen::generate_simple_self_signed(["localhost", "127.0.0.1"].map(str::to_owned));
        let made = made.expect("a certificate can be made");
        fs::write(at("work/chain.pem"), made.cert.pem()).expect("the folder is writable");
        fs::write(at("work/key.pem"), made.signing_key.serialize_pem()).expect("it is writable");
        place
    }

    fn stand_in(&self, name: &str, script: &str) {
        let file = self.base.path().join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("the folder is writable");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&file, mode).expect("it belongs to this process");
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.base.path().join("work").join(name)
    }

    /// Text of a page as it is to be run.
    pub(crate) fn to_run(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if let Some(server) = &self.server {
            text = text.replace("localhost:7070", &server.address);
            text = text.replace(SHOWN, &server.address);
        }
        for folder in HOST_FOLDERS {
            let real = format!("{}/host{folder}", self.base.path().display());
            text = text.replace(folder, &real);
        }
        text
    }

    /// Text that came, as a page would show it.
    fn to_show(&self, text: &str) -> String {
        let base = self.base.path().display();
        let mut text = text.replace(&format!("{base}/host"), "");
        if let Some(server) = &self.server {
            text = text.replace(&server.address, SHOWN);
        }
        text
    }

    /// The binary or anything else, without settings of whoever runs the tests.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TURNWHEEL_") {
                command.env_remove(name);
            }
        }
        let mut path = OsString::from(self.base.path().join("bin"));
        if let Some(others) = std::env::var_os("PATH") {
            path.push(":");
            path.push(others);
        }
        let work = self.base.path().join("work");
        command.env("PATH", path).env("HOME", &work).env_remove("XDG_CONFIG_HOME");
        command.env("USER", "you").env_remove("NO_COLOR").current_dir(work).stdin(Stdio::null());
        command.process_group(0);
        command
    }

    /// Runs lines of shell; what they export is known to those that come later.
    pub(crate) fn shell(&mut self, script: &str) -> Ended {
        let mut child = self.begin(script);
        let mut output = child.stdout.take().expect("it is a pipe");
        let (done, ended) = channel::<()>();
        let group = Pid::from_child(&child);
        let watchdog = std::thread::spawn(move || {
            if ended.recv_timeout(LIMIT).is_err() {
                // It may have ended right now.
                let _gone = kill_process_group(group, Signal::KILL);
            }
        });
        let mut text = Vec::new();
        output.read_to_end(&mut text).expect("the output of a command can be read");
        let status = child.wait().expect("it is a child of this process");
        let _gone = done.send(());
        watchdog.join().expect("a watchdog does not panic");
        self.status = status.code().unwrap_or(-1);
        Ended { status: self.status, output: self.to_show(&String::from_utf8_lossy(&text)) }
    }

    /// Runs a command that never ends until its output is as `is_enough` wants it.
    pub(crate) fn endless(&mut self, script: &str, is_enough: impl Fn(&str) -> bool) -> Ended {
        let mut child = self.begin(script);
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (done, ended) = channel::<()>();
        let group = Pid::from_child(&child);
        let watchdog = std::thread::spawn(move || {
            // Whether time or the sender has ended the wait: it has to end now.
            let _either = ended.recv_timeout(LIMIT);
            let _gone = kill_process_group(group, Signal::KILL);
        });
        let mut text = String::new();
        while !is_enough(&self.to_show(&text)) {
            if lines.read_line(&mut text).expect("it is text") == 0 {
                break;
            }
        }
        drop(done);
        watchdog.join().expect("a watchdog does not panic");
        child.wait().expect("it is a child of this process");
        Ended { status: 0, output: self.to_show(&text) }
    }

    fn begin(&self, script: &str) -> Child {
        let kept = self.base.path().join("exported");
        let kept = kept.display();
        let script = format!(
            "exec 2>&1\n[ ! -e '{kept}' ] || . '{kept}'\n(exit {})\n{}\nstatus=$?\nexport -p > '{kept}'\n\
             exit $status\n",
            self.status,
            self.to_run(script)
        );
        let mut command = self.command("sh");
        command.arg("-c").arg(script).stdout(Stdio::piped());
        command.spawn().expect("there is a shell")
    }

    /// Starts `turnwheel serve …` on a free port, in place of the one that the page names.
    pub(crate) fn serve(&mut self, line: &str) -> Result<String, String> {
        if self.server.is_some() {
            self.stop(Signal::TERM)?;
        }
        let line = line.trim().trim_end_matches('&').trim_end();
        let line = self.to_run(line).replace(":7070", ":0").replace("0.0.0.0:", "127.0.0.1:");
        let mut command = self.command("sh");
        let log =
            fs::File::create(self.base.path().join("serve.log")).map_err(|it| it.to_string())?;
        command.arg("-c").arg(format!("exec env {line}")).stderr(log).stdout(Stdio::piped());
        command.env("TURNWHEEL_LISTEN", "127.0.0.1:0");
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut first = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        let read = BufReader::new(output).read_line(&mut first);
        let address =
            first.trim().strip_prefix("listening on ").and_then(|url| url.split_once("//"));
        match (read, address) {
            (Ok(_), Some((_, address))) => {
                let address = address.trim_end_matches('/').to_owned();
                self.server = Some(Server { child, address });
                Ok(self.to_show(&first))
            }
            _ => {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                let log = fs::read_to_string(self.base.path().join("serve.log"));
                Err(format!("the server says «{first}», and {}", log.unwrap_or_default()))
            }
        }
    }

    pub(crate) fn is_served(&self) -> bool {
        self.server.is_some()
    }

    /// Ends the server; an end in order must be one.
    pub(crate) fn stop(&mut self, signal: Signal) -> Result<(), String> {
        let Some(mut server) = self.server.take() else {
            return Err("no server was started before".to_owned());
        };
        let group = Pid::from_child(&server.child);
        kill_process_group(group, signal).map_err(|error| error.to_string())?;
        let status = server.child.wait().map_err(|error| error.to_string())?;
        match (signal, status.success()) {
            (Signal::TERM, false) => {
                let log = fs::read_to_string(self.base.path().join("serve.log"));
                Err(format!("the server has ended with {status}: {}", log.unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // A page may leave it running; a failure here must not hide another one.
            let _gone = kill_process_group(Pid::from_child(&server.child), Signal::KILL);
            let _gone = server.child.wait();
        }
    }
}
