//! `turnwheel dev`: a cluster on one machine, for trying out.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use turnwheel::postgres::LocalServer;

use super::exit::Exit;
use super::paint::tell;
use super::settings::{Origin, Settings};
use super::signals::{self, UNTIL_INPUT_ENDS};

const AFTER_HELP: &str = "\
Each node is a process of «turnwheel serve», with a console at its address. Kill one with kill -9
and its number, and see its plans go on at the others: it is started again a moment later. Ctrl-C
stops all nodes in order; they stop too if this process is killed.

Without --store a PostgreSQL server of its own is started if its programs are installed. Its data
are gone at the end, unless --keep names a folder for them: the next start goes on there.

Examples:
  turnwheel dev --nodes 3
  turnwheel dev --nodes 3 --keep ./cluster
  turnwheel dev --nodes 5 --store postgres://turnwheel@db.example/plans

Exit codes: 0 all nodes stopped in order, 1 something could not be started, or a node did not
stop in order, 2 wrong usage.";

/// Nodes at most: more than processors have use.
const NODES_MAX: i64 = 32;

/// Between two looks whether a node has ended.
const LOOK: Duration = Duration::from_millis(100);

/// A node that ends sooner by itself is not started again: it would end again.
const SOON: Duration = Duration::from_secs(5);

/// Pause before a node is started again that was killed before it listened: it may be killed each time.
const AGAIN: Duration = Duration::from_secs(1);

/// Run a cluster on this machine, for trying out: several nodes over one PostgreSQL.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// How many nodes.
    #[arg(long, value_name = "NUMBER", default_value_t = 3,
        value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    nodes: u16,

    /// Address of the first node; the others have the ports after it. Port 0 takes free ones.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,

    /// Folder that keeps the data of the PostgreSQL server which is started.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// A node as a process of this one.
struct Node {
    name: String,
    child: Child,
    /// The node stops in order when this is closed.
    input: Option<ChildStdin>,
    begun: Instant,
    /// Gets the first line of its output, which says where it listens; nothing once it has.
    first_line: Option<Receiver<io::Result<String>>>,
    /// When it was seen that it has ended.
    ended: Option<Instant>,
}

impl Node {
    /// Tells where it listens, from the first line of its output.
    fn listens(&mut self, line: io::Result<String>) -> Result<(), Exit> {
        let line = line.map_err(|error| failed(&error))?;
        let Some(url) = line.trim().strip_prefix("listening on ") else {
            // It ends, and its status says whether it was killed.
            return Ok(());
        };
        announce(&format!("{} listening on {url}, process {}", self.name, self.child.id()))?;
        self.first_line = None;
        Ok(())
    }
}

/// What all nodes are started with.
struct Stage<'a> {
    settings: &'a Settings,
    store: String,
    listen: SocketAddr,
}

/// Runs nodes until a stop.
pub(crate) fn run(settings: &Settings, arguments: &Arguments) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let stop = runtime.block_on(async { signals::stop() }).map_err(|error| failed(&error))?;
    let (store, server) = store(settings, arguments)?;
    let stage = Stage { settings, store, listen: arguments.listen };
    let mut nodes = Vec::new();
    let outcome = stage.start_all(arguments.nodes, &mut nodes).and_then(|()| {
        tell!("Ctrl-C stops all nodes; kill -9 one of them to see its plans go on elsewhere");
        runtime.block_on(async {
            tokio::select! {
                () = stop => Ok(()),
                failed = stage.keep_up(&mut nodes) => failed,
            }
        })
    });
    tell!("stopping {} nodes", nodes.len());
    let ended = end(nodes);
    drop(server);
    outcome.and(ended)
}

/// The URL of the store, and the server that is started for it.
fn store(
    settings: &Settings,
    arguments: &Arguments,
) -> Result<(String, Option<LocalServer>), Exit> {
    let (named, origin) = settings.get("store");
    let is_database = named.starts_with("postgres://") || named.starts_with("postgresql://");
    if is_database {
        if arguments.keep.is_some() {
            return Err(Exit::usage("dev: --keep is for a server that is started by this command")
                .advice("leave out --keep, or --store"));
        }
        return Ok((named.to_owned(), None));
    }
    if *origin == Origin::Flag {
        return Err(Exit::usage(format!("dev: nodes cannot share the file {named}"))
            .advice("name a database with --store postgres://…, or leave out --store"));
    }
    let server = match &arguments.keep {
        Some(folder) => LocalServer::start_in(folder, &[]),
        None => LocalServer::start(&[]),
    };
    let server = server.map_err(|error| {
        failed(&error).advice("or name a database that is there with --store postgres://…")
    })?;
    match &arguments.keep {
        Some(folder) => tell!("PostgreSQL keeps its data in {}", folder.display()),
        None => tell!("PostgreSQL has its data in a temporary folder: --keep FOLDER keeps them"),
    }
    let url = server.url("postgres");
    tell!("other commands find it: turnwheel node list --store {url}");
    Ok((url, Some(server)))
}

impl Stage<'_> {
    /// Starts the nodes, each after the one before it listens.
    fn start_all(&self, count: u16, nodes: &mut Vec<Node>) -> Result<(), Exit> {
        for number in 1..=count {
            let mut node = self.start(number)?;
            if let Some(Ok(line)) = node.first_line.as_ref().map(Receiver::recv) {
                node.listens(line)?;
            }
            if node.first_line.is_some() {
                let _status = node.child.wait();
                let listen = self.address(number);
                let problem = format!("{} does not listen on {listen}: see its message", node.name);
                return Err(failed(&problem));
            }
            nodes.push(node);
        }
        Ok(())
    }

    /// The address of a node.
    fn address(&self, number: u16) -> SocketAddr {
        let port = self.listen.port();
        let port = if port == 0 { 0 } else { port.saturating_add(number - 1) };
        SocketAddr::new(self.listen.ip(), port)
    }

    /// Starts a node.
    fn start(&self, number: u16) -> Result<Node, Exit> {
        let name = format!("node-{number}");
        let listen = self.address(number);
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        command.args(["serve", "--node", &name, "--listen", &listen.to_string()]);
        let log = self.settings.get("serve.log");
        if *log.1 == Origin::Default {
            command.args(["--log", "warn"]);
        }
        // Not as an argument: others see those, and it may hold a password.
        command.env("TURNWHEEL_STORE", &self.store).env(UNTIL_INPUT_ENDS, "yes");
        #[cfg(unix)]
        {
            // Ctrl-C on a terminal is for this process alone.
            use std::os::unix::process::CommandExt as _;
            command.process_group(0);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let input = child.stdin.take();
        let (sends, first_line) = mpsc::sync_channel(1);
        if let Some(output) = child.stdout.take() {
            // A thread reads it, so that the other nodes are looked after meanwhile.
            let read = move || {
                let mut line = String::new();
                let read = BufReader::new(output).read_line(&mut line).map(|_| line);
                // Nobody takes it if the node has ended before.
                let _sent = sends.send(read);
            };
            let spawned = std::thread::Builder::new().name(format!("output of {name}")).spawn(read);
            spawned.map_err(|error| failed(&error))?;
        }
        let first_line = Some(first_line);
        Ok(Node { name, child, input, begun: Instant::now(), first_line, ended: None })
    }

    /// Starts nodes again that have ended. Ends when that is in vain.
    async fn keep_up(&self, nodes: &mut [Node]) -> Result<(), Exit> {
        loop {
            tokio::time::sleep(LOOK).await;
            for (number, node) in (1..).zip(nodes.iter_mut()) {
                if let Some(Ok(line)) = node.first_line.as_ref().map(Receiver::try_recv) {
                    node.listens(line)?;
                }
                let Some(status) = node.child.try_wait().map_err(|error| failed(&error))? else {
                    continue;
                };
                let (name, has_listened) = (&node.name, node.first_line.is_none());
                if node.ended.is_none() {
                    let is_by_itself = status.code().is_some();
                    if is_by_itself && (!has_listened || node.begun.elapsed() < SOON) {
                        return Err(failed(&format!(
                            "{name} has ended soon after its start: {status}"
                        )));
                    }
                    tell!(
                        "{name} has ended ({status}): its plans go on elsewhere; it is started \
                         again"
                    );
                }
                let ended = *node.ended.get_or_insert_with(Instant::now);
                if has_listened || ended.elapsed() >= AGAIN {
                    *node = self.start(number)?;
                }
            }
        }
    }
}

/// Ends all nodes in order, at the same time. Of those that have ended before it was told.
fn end(mut nodes: Vec<Node>) -> Result<(), Exit> {
    nodes.iter_mut().for_each(|node| node.input = None);
    let mut outcome = Ok(());
    for mut node in nodes.into_iter().filter(|node| node.ended.is_none()) {
        let status = node.child.wait().map_err(|error| failed(&error))?;
        if !status.success() {
            let problem = format!("{} did not stop in order: {status}", node.name);
            outcome = Err(failed(&problem).advice("its plans go on at the next start"));
        }
    }
    outcome
}

/// A line of standard output, which scripts wait for.
fn announce(line: &str) -> Result<(), Exit> {
    let mut output = std::io::stdout().lock();
    let written = writeln!(output, "{line}").and_then(|()| output.flush());
    written.map_err(|error| failed(&error))
}

fn failed(problem: &dyn std::fmt::Display) -> Exit {
    Exit::failed(format!("dev: {problem}"))
}
