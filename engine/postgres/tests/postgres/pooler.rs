//! A pooler in transaction mode is between the nodes and the server.

use std::fs;
use std::future::poll_fn;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use turnwheel_engine::watch::{Cursor, WatchFilter};
use turnwheel_engine::{SharedStore, World};
use turnwheel_postgres::LocalServer;
use turnwheel_runtime::completion::block_on;

use crate::nodes::live::{check_order, until_stopped};
use crate::server::{name, sql, start, store_of};
use crate::worlds::{check, check_chains, Add, Chain, Runs};

/// The folders of the program that are not in the path of every user.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"];

/// Connections of the pooler to the server: fewer than those of the nodes to the pooler.
const POOL: u32 = 4;

/// Time for its start on a machine that does nothing else.
const PATIENCE: Duration = Duration::from_secs(30);

/// PgBouncer in front of a server. It is killed when it is dropped.
struct Pooler {
    child: Child,
    folder: tempfile::TempDir,
}

impl Pooler {
    /// Nothing if the program is not installed.
    fn start(server: &LocalServer, more: &str) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
        let program = folders.map(|folder| folder.join("pgbouncer")).find(|file| file.is_file())?;
        let folder = tempfile::tempdir_in("/tmp").expect("a folder");
        let at = folder.path();
        let data = sql(&server.url("postgres"), "SHOW unix_socket_directories").remove(0);
        let mut settings = format!(
            "[databases]\npostgres = host={data} user=turnwheel\n[pgbouncer]\nlisten_addr =\n\
             unix_socket_dir = {}\nlisten_port = 6432\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {POOL}\nserver_reset_query_always = 1\n\
             server_reset_query = DISCARD ALL\nlogfile = {}\n{more}",
            at.display(),
            at.join("log").display(),
        );
        // It refuses root, as the server does.
        let owner = fs::metadata(&data).expect("the socket of the server has a folder");
        if fs::metadata("/proc/self").map(|own| own.uid() == 0).unwrap_or(false) {
            settings.push_str("user = postgres\n");
            chown(at, Some(owner.uid()), Some(owner.gid())).expect("it is ours");
        }
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let file = at.join("pgbouncer.ini");
        fs::write(&file, settings).expect("there is room");
        let mut command = Command::new(program);
        command.arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it begins");
        let pooler = Self { child, folder };
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(at_socket(pooler.folder.path())).is_err() {
            let log = || fs::read_to_string(pooler.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the pooler does not begin: {}", log());
            std::thread::yield_now();
        }
        Some(pooler)
    }

    fn url(&self, more: &str) -> String {
        let socket = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://turnwheel@{socket}:6432/postgres?{more}")
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn at_socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.6432")
}

#[test]
fn nodes_work_through_a_pooler_in_transaction_mode() {
    let server = start(&[]);
    let Some(pooler) = Pooler::start(&server, "") else {
        return eprintln!("NOT TRIED: pgbouncer is not installed");
    };
    let schema = name();
    // Without the setting it is refused, and the setting is named.
    let direct = store_of(&pooler.url(&format!("schema={schema}")));
    let refused = turnwheel_engine::Store::writer(&direct).err().expect("it is refused");
    assert!(refused.to_string().contains("add pooler=transaction to the URL"), "{refused}");

    let url = pooler.url(&format!("pooler=transaction&schema={schema}"));
    let (runs, lease) = (Runs::default(), Duration::from_secs(5));
    let node = |name: &str| {
        let store = SharedStore::node(store_of(&url), lease).expect("it opens");
        let builder = World::builder().name(name).action(Add(runs.clone())).action(Chain);
        (builder.join(&store).expect("it joins"), store)
    };
    let nodes = ["one", "two"].map(node);
    let store = SharedStore::node(store_of(&url), lease).expect("it opens");
    let client = World::builder().client().name("client").join(&store).expect("it joins");
    let mut live = client.watch(WatchFilter::new().all_nodes());
    block_on(pin!(poll_fn(|cx| live.poll_listening(cx)))).expect("no worker of a group");
    let plans: Vec<_> = (0..40)
        .map(|number| (number, client.trigger::<Chain>(number).wait().expect("it is taken")))
        .collect();
    let told = until_stopped(&mut live, 40);
    check_order(&told);
    for (number, plan) in &plans {
        check(&plan.finished().wait().expect("it ends"), *number);
    }
    let filter = WatchFilter::new().all_nodes().after(Cursor::START);
    assert_eq!(until_stopped(&mut client.watch(filter), 40), told);
    drop(live);
    client.shutdown().expect("it ends");
    store.close().expect("it ends");
    for (world, store) in nodes {
        world.shutdown().expect("it ends");
        store.close().expect("it ends");
    }
    runs.check(400);
    let url = format!("{}?schema={schema}", server.url("postgres"));
    check_chains(&url);
}

#[test]
fn pooler_that_ignores_the_settings_of_a_session_is_refused_and_the_setting_is_named() {
    let server = start(&[]);
    let Some(pooler) = Pooler::start(&server, "ignore_startup_parameters = options\n") else {
        return eprintln!("NOT TRIED: pgbouncer is not installed");
    };
    let schema = name();
    let direct = store_of(&pooler.url(&format!("schema={schema}")));
    let refused = turnwheel_engine::Store::writer(&direct).err().expect("it is refused");
    assert!(refused.to_string().contains("add pooler=transaction to the URL"), "{refused}");
    let pooled = store_of(&pooler.url(&format!("pooler=transaction&schema={schema}")));
    drop(turnwheel_engine::Store::writer(&pooled).expect("it is told"));
}
