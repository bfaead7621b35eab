//! A PostgreSQL server of this process, on a temporary folder: for tests and for trying out.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{chown, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Names the folder with `initdb` and `postgres`.
const PROGRAMS: &str = "TURNWHEEL_POSTGRES_PROGRAMS";
/// Where packages put them, in a folder for each version.
const PACKAGES: &str = "/usr/lib/postgresql";
/// Users that root takes in its place, because PostgreSQL refuses root.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Ends the server when the process that has started it has ended in whatever way: its end
/// closes the
/// input of this script. The folder goes too: a server in a static value is never dropped.
const WATCH: &str =
    r#"cat >/dev/null; "$1/pg_ctl" -D "$3" -m "$4" stop >/dev/null 2>&1; rm -rf "$2""#;

/// A server with a Unix socket in a temporary folder. It ends with this value, and with the
/// process.
#[derive(Debug)]
pub struct LocalServer {
    programs: PathBuf,
    user: Option<(u32, u32)>,
    watch: Child,
    folder: TempDir,
    data: PathBuf,
    /// Whether its settings say where it listens; else on its socket only.
    listens: bool,
}

impl LocalServer {
    /// The folder with the programs of PostgreSQL on this machine: the newest version.
    pub fn programs() -> Option<PathBuf> {
        let has =
            |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
        if let Some(folder) = std::env::var_os(PROGRAMS) {
            return Some(PathBuf::from(folder)).filter(has);
        }
        let packages = fs::read_dir(PACKAGES).into_iter().flatten().flatten();
        let version = |folder: &PathBuf| -> u32 {
            let name = folder.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.parse().ok()).unwrap_or_default()
        };
        let newest = packages.map(|entry| entry.path()).max_by_key(version);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).find(has);
        newest.map(|folder| folder.join("bin")).filter(has).or(in_path)
    }

    /// Starts a server with these settings beside the usual ones, such as `max_connections=20`. It
    /// listens on its socket only, unless they say more.
    ///
    /// # Errors
    ///
    /// The programs are not there, or fail.
    pub fn start(settings: &[&str]) -> io::Result<Self> {
        Self::begin(None, settings)
    }

    /// Starts a server that keeps its data in this folder, and goes on with those that are there.
    ///
    /// # Errors
    ///
    /// The programs are not there, or fail: another server has the folder, say, or its data are of
    /// another version.
    pub fn start_in(folder: &Path, settings: &[&str]) -> io::Result<Self> {
        Self::begin(Some(folder), settings)
    }

    fn begin(keep: Option<&Path>, settings: &[&str]) -> io::Result<Self> {
        let programs = Self::programs().ok_or_else(|| {
            let problem = format!(
                "PostgreSQL is not installed: install the package postgresql, or name the folder \
                 of initdb and postgres in {PROGRAMS}"
            );
            io::Error::new(io::ErrorKind::NotFound, problem)
        })?;
        let user = server_user()?;
        let folder = tempfile::Builder::new().prefix("turnwheel-pg-").tempdir_in("/tmp")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let (data, mode) = match keep {
            Some(keep) => {
                fs::create_dir_all(keep)?;
                (fs::canonicalize(keep)?, "fast")
            }
            None => (folder.path().join("data"), "immediate"),
        };
        if let Some((user, group)) = user {
            chown(folder.path(), Some(user), Some(group))?;
            if keep.is_some() {
                chown(&data, Some(user), Some(group))?;
            }
        }
        let watch = watch([&programs, folder.path(), &data, Path::new(mode)], user)?;
        let listens = settings.iter().any(|setting| setting.contains("listen_addresses"));
        let server = Self { programs, user, watch, folder, data, listens };
        if !server.data.join("PG_VERSION").is_file() {
            server.make(settings)?;
        }
        server.resume()?;
        Ok(server)
    }

    /// Starts a standby of this server, which follows it under this name until it is
    /// [promoted](Self::promote).
    ///
    /// # Errors
    ///
    /// The programs fail.
    pub fn standby(&self, name: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("turnwheel-pg-").tempdir_in("/tmp")?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        if let Some((user, group)) = self.user {
            chown(folder.path(), Some(user), Some(group))?;
        }
        let data = folder.path().join("data");
        let (programs, user) = (self.programs.clone(), self.user);
        let watch = watch([&programs, folder.path(), &data, Path::new("immediate")], user)?;
        let standby = Self { programs, user, watch, folder, data, listens: false };
        let primary = self.folder.path().display();
        let source = format!("host={primary} user=turnwheel application_name={name}");
        standby.program("pg_basebackup", |copy| {
            copy.args(["-R", "-X", "stream", "-c", "fast", "-N", "-d", &source])
                .arg("-D")
                .arg(&standby.data)
        })?;
        standby.resume()?;
        Ok(standby)
    }

    /// Makes a standby the primary.
    ///
    /// # Errors
    ///
    /// It is none, or does not become one.
    pub fn promote(&self) -> io::Result<()> {
        self.control(&["-w", "-t", "60", "promote"])
    }

    fn make(&self, settings: &[&str]) -> io::Result<()> {
        let data = &self.data;
        let arguments = ["--encoding=UTF8", "--locale=C", "--username=turnwheel", "--auth=trust"];
        let is_kept = !data.starts_with(self.folder.path());
        let sync = if is_kept { &[][..] } else { &["--no-sync"] };
        self.program("initdb", |initdb| initdb.args(arguments).args(sync).arg(data))?;
        let mut file = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"))?;
        writeln!(file, "max_connections = 200\nshared_buffers = 64MB\nlog_min_messages = error")?;
        settings.iter().try_for_each(|setting| writeln!(file, "{setting}"))
    }

    /// The URL of a database of this server, for the user that may do everything. A new server has
    /// the database `postgres`.
    pub fn url(&self, database: &str) -> String {
        let socket = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://turnwheel@{socket}/{database}")
    }

    /// Has only users with a password in, apart from the one of [`url`](Self::url).
    ///
    /// # Errors
    ///
    /// The file of the server cannot be written.
    pub fn ask_for_passwords(&self) -> io::Result<()> {
        let rules = "local all turnwheel trust\nlocal all all scram-sha-256\n";
        fs::write(self.data.join("pg_hba.conf"), rules)?;
        self.control(&["reload"])
    }

    /// Stops the server as a loss of power does.
    ///
    /// # Errors
    ///
    /// It does not stop.
    pub fn stop(&self) -> io::Result<()> {
        self.control(&["-m", "immediate", "-w", "stop"])
    }

    /// Starts the server again.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn resume(&self) -> io::Result<()> {
        let log = self.folder.path().join("log").display().to_string();
        // The folder of the socket is another one at each start of a server that keeps its data.
        let socket = self.folder.path().display();
        let listens = if self.listens { "" } else { "-c listen_addresses= " };
        let socket = format!("{listens}-c unix_socket_directories={socket}");
        let started = self.control(&["-w", "-t", "60", "-l", &log, "-o", &socket, "start"]);
        started.map_err(|error| {
            let log = fs::read_to_string(&log).unwrap_or_default();
            io::Error::new(error.kind(), format!("{error}; the log of the server: {log}"))
        })
    }

    fn control(&self, arguments: &[&str]) -> io::Result<()> {
        self.program("pg_ctl", |control| control.arg("-D").arg(&self.data).args(arguments))
    }

    fn program(
        &self,
        name: &str,
        set: impl FnOnce(&mut Command) -> &mut Command,
    ) -> io::Result<()> {
        let program = self.programs.join(name);
        let mut command = command(program, self.user, self.folder.path());
        // A file and no pipe: a server that goes on would keep a pipe open.
        let output = self.folder.path().join("output");
        let file = fs::File::create(&output)?;
        let status = set(&mut command)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .status()?;
        if status.success() {
            return Ok(());
        }
        let said = fs::read_to_string(&output).unwrap_or_default();
        Err(io::Error::other(format!("{name} has failed ({status}): {}", said.trim())))
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ended = self.watch.wait();
    }
}

/// Starts the script that ends a server with its folder when its input ends.
fn watch(arguments: [&Path; 4], user: Option<(u32, u32)>) -> io::Result<Child> {
    command("sh", user, arguments[1])
        .args(["-c", WATCH, "sh"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn command(
    program: impl AsRef<std::ffi::OsStr>,
    user: Option<(u32, u32)>,
    folder: &Path,
) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    if let Some((user, group)) = user {
        command.uid(user).gid(group);
    }
    command
}

/// The user and group of the server if this process is of root.
fn server_user() -> io::Result<Option<(u32, u32)>> {
    use std::os::unix::fs::MetadataExt;

    let is_root = fs::metadata("/proc/self").map(|own| own.uid() == 0).unwrap_or(false);
    if !is_root {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let find = |name: &&str| {
        let mut parts =
            users.lines().find(|line| line.split(':').next() == Some(*name))?.split(':');
        Some((parts.nth(2)?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    let found = USERS.iter().find_map(find);
    found.map(Some).ok_or_else(|| io::Error::other("there is no user postgres and no user nobody"))
}
