//! Containers of flows, by an engine that is stood in for by a script: what it is asked, and how they end.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use turnwheel::flow::{
    Cleanup, Container, Io, IoCall, IoError, IoErrorKind, ProcessResult, PullPolicy,
};
use turnwheel::io::{HostIo, IoOptions};

/// What waits longer than this is stuck.
const LONG: Duration = Duration::from_secs(60);

/// A limit that is over soon.
const SOON: Duration = Duration::from_millis(300);

/// An engine that runs the command of a container on this host. It keeps what it knows in its folder:
/// what it was asked in `asked`, and a folder for each container.
const ENGINE: &str = r##"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/asked"
id_of() { for it; do :; done; echo "$it"; }
running() { test -f "$here/$1/pid" && kill -0 "-$(cat "$here/$1/pid")" 2>/dev/null; }
end() { running "$2" && kill "-$1" "-$(cat "$here/$2/pid")"; }
now() { date -u +%Y-%m-%dT%H:%M:%S.%NZ; }
test -f "$here/dead" && { echo "Cannot connect to the daemon. Is it running?" >&2; exit 1; }
test -f "$here/hangs" && exec sleep 1000
case $1 in
ps)
  want=${6#label=}
  for it in "$here"/c*/labels; do
    grep -q -e "^$want\$" -e "^$want=" "$it" 2>/dev/null && basename "$(dirname "$it")"
  done
  exit 0 ;;
create)
  case "$*" in *missing/image*) echo "no such image: missing/image" >&2; exit 125 ;; esac
  echo x >> "$here/count"
  id=c$(wc -l < "$here/count" | tr -d ' ')
  mkdir "$here/$id" && now > "$here/$id/created"
  : > "$here/$id/labels"; : > "$here/$id/environment"
  shift
  while :; do
    case $1 in
    --label=*) echo "${1#--label=}" >> "$here/$id/labels" ;;
    --env=*=*) echo "${1#--env=}" >> "$here/$id/environment" ;;
    --env=*) name=${1#--env=}; eval "echo \"$name=\$$name\"" >> "$here/$id/environment" ;;
    --name=*) echo "${1#--name=}" > "$here/$id/name" ;;
    --entrypoint=*) echo "${1#--entrypoint=}" > "$here/$id/entrypoint" ;;
    --*) ;;
    *) break ;;
    esac
    shift
  done
  shift
  printf '%s' "$2" > "$here/$id/command"; shift 3
  for it; do echo "$it"; done > "$here/$id/arguments"
  echo "Unable to find the image: fetching it"
  echo "$id" ;;
start)
  id=$(id_of "$@")
  test -f "$here/unable" && { echo "exec: no such file" >&2; exit 1; }
  case "$*" in *--interactive*) exec 3<&0 ;; *) exec 3</dev/null ;; esac
  # As an engine does: not a child of its command line, in a group of its own.
  cat > "$here/$id/run" <<'RUN'
echo $$ > "$1/pid.part"; mv "$1/pid.part" "$1/pid"
at=$1; set --
while read -r line; do set -- "$@" "$line"; done < "$at/arguments"
sh -c "$(cat "$at/command")" sh "$@"
echo $? > "$at/code.part"; date -u +%Y-%m-%dT%H:%M:%S.%NZ > "$at/finished"; mv "$at/code.part" "$at/code"
RUN
  case "$*" in
  *--attach*)
    setsid sh "$here/$id/run" "$here/$id" <&3 &
    wait $!
    test -f "$here/$id/code" && exit "$(cat "$here/$id/code")"
    exit 137 ;;
  *) setsid sh "$here/$id/run" "$here/$id" <&3 >/dev/null 2>&1 & echo "$id" ;;
  esac ;;
stop)
  id=$(id_of "$@")
  end TERM "$id"
  for round in 1 2 3 4 5 6 7 8 9 10; do running "$id" || break; sleep 0.02; done
  end KILL "$id"; echo 137 > "$here/$id/code"; exit 0 ;;
kill) id=$(id_of "$@"); end KILL "$id" ;;
rm)
  shift 3
  for id; do end KILL "$id"; rm -rf "${here:?}/$id"; done; exit 0 ;;
container)
  shift 4
  for id; do
    test -d "$here/$id" || { echo "no such container: $id" >&2; continue; }
    code=$(cat "$here/$id/code" 2>/dev/null || echo 0)
    status=exited; test -f "$here/$id/code" || status=created
    is=false; running "$id" && { is=true; status=running; }
    labels=$(sed 's/^\([^=]*\)=\(.*\)$/"\1":"\2"/' "$here/$id/labels" | tr '\n' ',')
    end=$(cat "$here/$id/finished" 2>/dev/null || cat "$here/$id/created")
    printf '{"Id":"%s","Created":"%s","Config":{"Labels":{%s}},"State":' "$id" "$(cat "$here/$id/created")" "${labels%,}"
    printf '{"Status":"%s","Running":%s,"ExitCode":%s,"Error":"","FinishedAt":"%s"}}\n' "$status" "$is" "$code" "$end"
  done
  exit 0 ;;
*) echo "unknown: $*" >&2; exit 125 ;;
esac
"##;

fn engine() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("engine");
    // Written under another name first: a file that is open for writing cannot be run.
    fs::write(folder.path().join("part"), ENGINE).expect("it can be written");
    fs::set_permissions(folder.path().join("part"), fs::Permissions::from_mode(0o755))
        .expect("it may be run");
    fs::rename(folder.path().join("part"), file).expect("it can be named");
    folder
}

fn io(engine: &TempDir) -> HostIo {
    let mut options = IoOptions::default();
    options.command_grace = Duration::from_millis(200);
    options.output_max = 100_000;
    options.container_engine = Some(engine.path().join("engine").display().to_string());
    HostIo::new(options)
}

fn container(command: &str) -> Container {
    Container {
        image: "alpine".to_owned(),
        name: "it-1.test-a.3".to_owned(),
        command: Some(command.to_owned()),
        arguments: Vec::new(),
        ports: Vec::new(),
        volumes: Vec::new(),
        environment: Vec::new(),
        stdin: None,
        pull: PullPolicy::IfNotPresent,
        cleanup: Cleanup::Never,
    }
}

fn run(engine: &TempDir, it: &Container) -> Result<ProcessResult, IoError> {
    io(engine).container(it, &IoCall::new("plan/3", &|| false))
}

/// What the engine was asked, without what looks for containers that are to be removed later.
fn asked(engine: &TempDir) -> Vec<String> {
    let asked = fs::read_to_string(engine.path().join("asked")).unwrap_or_default();
    let lines =
        asked.lines().filter(|line| !line.contains("remove-after") || line.starts_with("create"));
    lines.map(str::to_owned).collect()
}

fn verbs(engine: &TempDir) -> Vec<String> {
    let first = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    asked(engine).iter().map(first).collect()
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

fn is_there(engine: &TempDir, id: &str) -> bool {
    engine.path().join(id).exists()
}

#[test]
fn output_code_input_and_arguments_are_those_of_the_container() {
    let engine = engine();
    let mut it = container("cat; echo \"$1-$2\"; echo err >&2; exit 3");
    it.arguments = vec!["a b".to_owned(), "c".to_owned()];
    it.stdin = Some("given\n".to_owned());
    let ended = run(&engine, &it).expect("it runs");
    assert_eq!((ended.code, &*ended.stdout, &*ended.stderr), (3, "given\na b-c\n", "err\n"));
    assert_eq!(verbs(&engine), ["ps", "create", "start", "container"]);
    assert!(is_there(&engine, "c1"), "nobody said that it is to be deleted");
}

#[test]
fn the_engine_is_told_all_that_the_flow_says_and_values_are_no_arguments() {
    let engine = engine();
    let mut it = container("true");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    it.ports = vec![pair("8080", "80"), pair("127.0.0.1:53", "53/udp")];
    it.volumes = vec![pair("/data", "/mnt:ro")];
    it.environment =
        vec![pair("WORD", "hunter22"), pair("LINES", "a\nb"), pair("DOCKER_HOST", "inside")];
    it.pull = PullPolicy::Always;
    it.stdin = Some(String::new());
    it.cleanup = Cleanup::After(Duration::from_secs(90));
    let call = IoCall::new("plan/3", &|| false);
    io(&engine).container(&it, &call).expect("it runs");
    let asked = asked(&engine);
    assert_eq!(
        asked[1],
        "create --name=it-1.test-a.3 --pull=always --label=turnwheel.key=plan/3 \
         --label=turnwheel.remove-after=90 --interactive --publish=8080:80 \
         --publish=127.0.0.1:53:53/udp --volume=/data:/mnt:ro --env=TURNWHEEL_KEY --env=WORD \
         --env=LINES --env=DOCKER_HOST=inside --entrypoint=sh alpine -c true sh"
    );
    assert_eq!(asked[2], "start --attach --interactive c1");
    let environment = fs::read_to_string(engine.path().join("c1/environment")).expect("some");
    assert_eq!(
        environment,
        "TURNWHEEL_KEY=plan/3\nWORD=hunter22\nLINES=a\nb\nDOCKER_HOST=inside\n"
    );
    // Without a command the image runs what it runs by itself, with the arguments of the flow.
    it.command = None;
    it.arguments = vec!["--help".to_owned()];
    it.pull = PullPolicy::Never;
    let _code = io(&engine).container(&it, &call);
    let asked = fs::read_to_string(engine.path().join("asked")).expect("it was asked");
    assert!(asked.contains("--pull=never") && asked.contains(" alpine --help\n"), "{asked}");
}

#[test]
fn what_takes_too_long_floods_or_is_wanted_no_more_is_stopped_by_the_engine() {
    let begun = Instant::now();
    for (text, kind) in [
        ("trap '' TERM; while :; do sleep 0.05; done", IoErrorKind::TimedOut),
        ("yes", IoErrorKind::TooLarge),
        ("sleep 1000", IoErrorKind::Cancelled),
    ] {
        let engine = engine();
        let mut it = container(text);
        it.cleanup = Cleanup::Always;
        let pid = engine.path().join("c1/pid");
        let is_cancelled = || kind == IoErrorKind::Cancelled && pid.exists();
        // What is stopped is known to have begun.
        let limit = if kind == IoErrorKind::TimedOut { Duration::from_secs(3) } else { LONG };
        let call = IoCall::new("plan/3", &is_cancelled).limit(Some(limit));
        let error = io(&engine).container(&it, &call).expect_err("it is ended");
        assert_eq!(error.kind, kind, "{error}");
        let mut verbs = verbs(&engine);
        // What looks for containers to remove may have asked what this one is.
        verbs.retain(|verb| verb != "container");
        assert_eq!(verbs, ["ps", "create", "start", "stop", "rm"], "{text}");
        assert!(!is_there(&engine, "c1"), "it is deleted however it ended");
    }
    assert!(begun.elapsed() < LONG);
}

#[test]
fn a_step_that_is_called_again_removes_its_former_container_first() {
    let engine = engine();
    let alive = engine.path().join("alive");
    // The process that had begun it is gone, and so is its guard: the container runs on.
    let mut first = container(&format!("while :; do date > {}; sleep 0.02; done", alive.display()));
    first.name = "named-by-the-hour-1".to_owned();
    io(&engine).container_detached(&first, &IoCall::new("plan/3", &|| false)).expect("it begins");
    wait_for("it runs", || alive.exists());
    let other = container("sleep 1000");
    io(&engine).container_detached(&other, &IoCall::new("plan/31", &|| false)).expect("it begins");
    let ended = run(&engine, &container("echo again")).expect("it runs");
    assert_eq!(ended.stdout, "again\n");
    assert!(!is_there(&engine, "c1") && is_there(&engine, "c3"));
    fs::remove_file(&alive).expect("it was written");
    assert!(is_there(&engine, "c2"), "one of another step is left alone");
    io(&engine)
        .container(&container("sleep 0.2"), &IoCall::new("plan/4", &|| false))
        .expect("it runs");
    assert!(!alive.exists(), "the former one is gone");
    io(&engine).container(&container("true"), &IoCall::new("plan/31", &|| false)).expect("it runs");
}

#[test]
fn a_container_is_deleted_so_long_after_its_end_also_by_another_process() {
    let engine = engine();
    let mut it = container("true");
    it.cleanup = Cleanup::After(Duration::ZERO);
    let host = io(&engine);
    host.container(&it, &IoCall::new("plan/3", &|| false)).expect("it runs");
    fs::write(engine.path().join("c1/finished"), "2020-01-01T00:00:00Z").expect("it has ended");
    it.cleanup = Cleanup::After(Duration::from_secs(3_600));
    host.container(&it, &IoCall::new("plan/4", &|| false)).expect("it runs");
    wait_for("it is deleted", || !is_there(&engine, "c1"));
    drop(host);
    assert!(is_there(&engine, "c2"), "its time has not come");
    fs::write(engine.path().join("c2/finished"), "2020-01-01T00:00:00Z").expect("it has ended");
    let later = io(&engine);
    later.container(&container("true"), &IoCall::new("plan/5", &|| false)).expect("it runs");
    wait_for("it is deleted", || !is_there(&engine, "c2"));
    assert!(is_there(&engine, "c3"), "one that is to stay stays");
}

#[test]
fn trouble_of_the_engine_is_said() {
    let engine = engine();
    let told = |it: &Container| run(&engine, it).expect_err("trouble");
    let mut missing = container("true");
    missing.image = "missing/image".to_owned();
    assert!(told(&missing).message.contains("code 125: no such image"));
    fs::write(engine.path().join("unable"), "").expect("it can be written");
    let error = told(&container("true"));
    assert!(error.message.contains("could not be started: exec: no such file"), "{error}");
    fs::write(engine.path().join("dead"), "").expect("it can be written");
    let error = told(&container("true"));
    assert_eq!(error.kind, IoErrorKind::Communication);
    assert!(error.message.contains("Cannot connect to the daemon"), "{error}");
    fs::remove_file(engine.path().join("dead")).expect("it was there");
    fs::write(engine.path().join("hangs"), "").expect("it can be written");
    let begun = Instant::now();
    let looks = || begun.elapsed() > SOON;
    let error = io(&engine)
        .container(&container("true"), &IoCall::new("plan/3", &looks))
        .expect_err("it hangs");
    assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
}

#[test]
fn where_no_engine_is_that_is_said_with_what_to_do() {
    let problem = |engine: Option<&str>, allow: bool| {
        let mut options = IoOptions::default();
        options.container_engine = engine.map(str::to_owned);
        options.allow_shell = allow;
        HostIo::new(options).container_problem().unwrap_or_default()
    };
    assert!(problem(Some("none"), true).contains("io.container-engine is «none»"));
    assert!(problem(Some("no-such-engine"), true).contains("names «no-such-engine»"));
    assert!(problem(Some("/no/such/engine"), true).contains("which is not installed"));
    assert!(problem(None, false).contains("io.allow-shell"));
    let engine = engine();
    assert_eq!(io(&engine).container_problem(), None);
    assert!(asked(&engine).is_empty(), "an engine that is there is not asked yet");
}

#[test]
fn what_is_not_awaited_goes_on_alone_and_ends_with_its_engine() {
    let engine = engine();
    let done = engine.path().join("done");
    let mut it = container(&format!("echo yes > {}", done.display()));
    it.cleanup = Cleanup::Always;
    io(&engine).container_detached(&it, &IoCall::new("plan/3", &|| false)).expect("it begins");
    wait_for("it runs", || done.exists());
    let asked = asked(&engine);
    assert!(asked[1].contains(" --rm ") && asked[2] == "start c1", "{asked:?}");
}

#[test]
fn a_container_ends_with_the_process_that_has_begun_it() {
    let engine = engine();
    let io = io(&engine);
    let pid = engine.path().join("c1/pid");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let call = IoCall::new("plan/3", &|| false);
            io.container(&container("trap '' TERM; while :; do sleep 0.05; done"), &call)
        });
        wait_for("it begins", || Path::new(&pid).exists());
        assert!(io.end(LONG), "it has ended");
        let error = running.join().expect("no panic").expect_err("it was ended");
        assert_eq!(error.kind, IoErrorKind::Cancelled, "{error}");
    });
    assert!(verbs(&engine).contains(&"stop".to_owned()));
}
