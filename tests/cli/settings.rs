//! Settings, help and completions.

use std::process::Command;

use crate::cli_common::{Ended, Folder};

fn with(folder: &Folder, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command: Command = folder.command(arguments);
    command.envs(variables.iter().copied());
    let output = command.output().expect("the binary was built for this test");
    Ended { output, arguments: arguments.join(" ") }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let folder = Folder::new();
    let store = |flags: &[&str], variables: &[(&str, &str)]| {
        let all: Vec<&str> = ["config", "print", "--json"].iter().chain(flags).copied().collect();
        let text = with(&folder, &all, variables).ok();
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let found = &all["settings"]["store"];
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        (text(&found["value"]), text(&found["from"]))
    };
    assert_eq!(store(&[], &[]), ("turnwheel.db".into(), "default".into()));
    folder.write("turnwheel.toml", "# ours\nstore = \"file.db\"\n[io]\nhttp-timeout = \"5s\"\n");
    assert_eq!(store(&[], &[]), ("file.db".into(), "file, line 2".into()));
    let variable = [("TURNWHEEL_STORE", "env.db")];
    assert_eq!(store(&[], &variable), ("env.db".into(), "environment".into()));
    assert_eq!(store(&["--store", "f.db"], &variable), ("f.db".into(), "flag".into()));
    folder.write("other.toml", "store = \"other.db\"\n");
    assert_eq!(store(&["--config", "other.toml"], &[]).0, "other.db");
    assert_eq!(store(&[], &[("TURNWHEEL_CONFIG", "other.toml")]).0, "other.db");
    let text = folder.ok(&["config", "print"]);
    assert!(text.contains("file: turnwheel.toml") && text.contains("io.http-timeout"), "{text}");
    let secret = [("TURNWHEEL_TOKEN", "s-e-c-r-e-t")];
    assert!(!with(&folder, &["config", "print"], &secret).ok().contains("s-e-c"));
}

#[test]
fn what_is_wrong_with_settings_has_a_place_and_a_suggestion() {
    let folder = Folder::new();
    assert!(folder.ok(&["config", "check"]).contains("no file"));
    folder.write("turnwheel.toml", "stor = \"x\"\n[io]\nbody-max = \"4MB\"\n[what]\nx = 1\n");
    let says = [
        "turnwheel.toml:1:1: there is no setting «stor»; is «store» meant?",
        "turnwheel.toml:3:12: «io.body-max» must be a number of bytes",
        "turnwheel.toml:4:2: there is no setting «what»",
    ];
    folder.run(&["config", "check"]).fails(2, &says);
    folder.run(&["list"]).fails(2, &says);
    folder.write("turnwheel.toml", "store = ");
    folder.run(&["config", "print"]).fails(2, &["turnwheel.toml:1:"]);
    std::fs::remove_file(folder.path("turnwheel.toml")).expect("it is there");
    folder.run(&["list", "--config", "missing.toml"]).fails(2, &["missing.toml"]);
    let typo = [("TURNWHEEL_STOR", "x"), ("TURNWHEEL_SECRET_A", "y")];
    with(&folder, &["config", "check"], &typo)
        .fails(2, &["TURNWHEEL_STOR is no", "TURNWHEEL_STORE"]);
    let wrong = [("TURNWHEEL_SYNC", "sometimes"), ("TURNWHEEL_IO_HTTP_TIMEOUT", "soon")];
    let says = ["TURNWHEEL_SYNC must be one of full", "TURNWHEEL_IO_HTTP_TIMEOUT must be a length"];
    with(&folder, &["stats"], &wrong).fails(2, &says);
    folder.run(&["config"]).fails(2, &["print"]);
}

/// What `serve` takes is in the file and the environment too, and looked at before it is served.
#[test]
#[cfg(feature = "server")]
fn what_a_server_takes_are_settings() {
    let folder = Folder::new();
    let text = "[serve]\nlisten = \"0.0.0.0:0\"\ntoken = \"s-e-c-r-e-t\"\nrate = 5\n\
                head-within = \"5s\"\nbody-bytes-max = \"1MiB\"\nlog-format = \"json\"\n";
    folder.write("turnwheel.toml", text);
    assert!(folder.ok(&["config", "check"]).contains("is right"));
    let shown = folder.ok(&["config", "print"]);
    assert!(shown.contains("serve.token") && !shown.contains("s-e-c"), "{shown}");
    let all: serde_json::Value =
        serde_json::from_str(&folder.ok(&["config", "print", "--json"])).expect("JSON");
    let listen = &all["settings"]["serve.listen"];
    assert_eq!((&listen["value"], &listen["from"]), (&"0.0.0.0:0".into(), &"file, line 2".into()));
    assert_eq!(listen["variable"], "TURNWHEEL_LISTEN");
    assert!(!all.to_string().contains("s-e-c"));
    let variable = [("TURNWHEEL_LISTEN", "here")];
    with(&folder, &["config", "check"], &variable).fails(2, &["TURNWHEEL_LISTEN must be an add"]);
    // Each of several, with its place.
    folder.write("bad.txt", "operate ann one\nrule bob two\n");
    let text =
        "[serve]\nlisten = \"7070\"\nrate = 0\nstop-within = \"soon\"\nlog-format = \"xml\"\n";
    folder.write("turnwheel.toml", text);
    let says = [
        "turnwheel.toml:2:10: «serve.listen» must be an address",
        "turnwheel.toml:3:8: «serve.rate» must be a whole number from 1",
        "turnwheel.toml:4:15: «serve.stop-within» must be a length",
        "turnwheel.toml:5:14: «serve.log-format» must be one of text, json",
    ];
    folder.run(&["config", "check"]).fails(2, &says);
    let text = "[serve]\nlisten = \"0.0.0.0:0\"\ntokens = \"bad.txt\"\ntls-key = \"none.pem\"\n";
    folder.write("turnwheel.toml", text);
    let says = [
        "turnwheel.toml:3: «serve.tokens»: bad.txt, line 2: there is no such role",
        "turnwheel.toml:4: «serve.tls-key» is given, and «serve.tls-certificates» (--tls",
        "turnwheel.toml:4: «serve.tls-key»: none.pem:",
    ];
    folder.run(&["config", "check"]).fails(2, &says);
    folder.run(&["serve"]).fails(2, &["bad.txt, line 2"]);
    folder.write("turnwheel.toml", "[serve]\nlisten = \"0.0.0.0:0\"\n");
    let open = ["turnwheel.toml:2: «serve.listen»: 0.0.0.0:0 can be reached from other machines"];
    folder.run(&["config", "check"]).fails(2, &open);
    folder.run(&["serve", "--tls-key", "k.pem"]).fails(2, &["tls-key", "tls-certificates"]);
}

#[test]
fn every_verb_has_help_with_examples() {
    let folder = Folder::new();
    let help = folder.ok(&["--help"]);
    assert!(help.contains("Exit codes:"), "{help}");
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|verb| !verb.is_empty() && *verb != "help")
        .collect();
    assert!(verbs.len() >= 18, "{verbs:?}");
    for verb in verbs {
        let help = folder.ok(&[verb, "--help"]);
        assert!(help.contains("Examples:"), "{verb}: {help}");
        assert!(help.contains(&format!("turnwheel {verb}")), "{verb}: {help}");
        let long = help.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{verb}");
    }
}

#[test]
fn colours_are_for_those_who_want_them() {
    let (folder, _) = Folder::with_plans();
    let no = with(&folder, &["list"], &[("NO_COLOR", "1"), ("TURNWHEEL_COLOUR", "always")]);
    assert!(no.ok().contains('\x1b'), "what is set says more than NO_COLOR");
    assert!(!with(&folder, &["list"], &[("NO_COLOR", "1")]).ok().contains('\x1b'));
}

#[test]
fn shells_get_their_completions() {
    let folder = Folder::new();
    for (shell, says) in [
        ("bash", "-F _clap_complete_turnwheel turnwheel"),
        ("zsh", "#compdef turnwheel"),
        ("fish", "complete --keep-order --exclusive --command turnwheel"),
    ] {
        let script = folder.ok(&["completions", shell]);
        assert!(
            script.contains(says) && script.contains("TURNWHEEL_COMPLETE"),
            "{shell}: {script}"
        );
    }
    folder.run(&["completions", "tcsh"]).fails(2, &["bash"]);
    folder.run(&["completions"]).fails(2, &["<SHELL>"]);
}

#[test]
#[cfg(all(unix, feature = "server"))]
fn a_server_waits_for_the_disk_as_the_settings_say() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new();
    for (sync, shown) in
        [("off", "sync=\"off\""), ("normal", "sync=\"normal\""), ("full", "sync=\"full\"")]
    {
        let mut server = folder
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .env("TURNWHEEL_SYNC", sync)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let log = BufReader::new(server.stderr.take().expect("it is piped"));
        let mut lines = log.lines().map(|line| line.expect("text"));
        let line = lines.find(|line| line.contains("listening")).expect("it says that it listens");
        server.kill().expect("it runs");
        server.wait().expect("it is a child");
        assert!(line.contains(shown), "{line}");
    }
}
