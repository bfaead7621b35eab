//! A small disk that can be full.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{binary, Place, Serve};

/// A disk of its own: a file system in memory that only processes in its namespace see.
pub(crate) struct Disk {
    holder: Child,
    folder: PathBuf,
}

impl Disk {
    /// Nothing where this user may make no namespaces.
    pub(crate) fn new(place: &Place, bytes: u64) -> Option<Self> {
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
    pub(crate) fn seen(&self, name: &str) -> PathBuf {
        let folder = self.folder.strip_prefix("/").expect("it is absolute");
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(folder).join(name)
    }

    /// Takes all that is left; bytes.
    pub(crate) fn fill(&self) -> u64 {
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

    /// Makes it larger.
    pub(crate) fn grow(&self, bytes: u64) {
        let mut mount = self.command("mount");
        mount.args(["-o", &format!("remount,size={bytes}")]).arg(&self.folder);
        assert!(mount.status().expect("there is mount").success());
    }

    pub(crate) fn serve(&self, place: &Place) -> Serve {
        let store = self.folder.join("wheel.db").display().to_string();
        let command = self.command(&binary().display().to_string());
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
