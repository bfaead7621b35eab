//! Files that flows read: secrets, and resources by their paths.

use serde_json::json;
use turnwheel::flow::{Io, IoCall, IoErrorKind};
use turnwheel::io::HostIo;

use super::http::options;

#[test]
fn secrets_are_files_or_variables_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let write =
        |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("room");
    write("token", "t-1\n");
    write("login", "{\"username\": \"ann\", \"password\": \"p\"}");
    write("large", &"x".repeat(100_000));
    let mut from_files = options();
    from_files.secrets = Some(folder.path().to_owned());
    let io = HostIo::new(from_files);
    assert_eq!(io.secret("token"), Ok(Some(json!("t-1"))));
    assert_eq!(io.secret("login"), Ok(Some(json!({ "username": "ann", "password": "p" }))));
    assert_eq!(io.secret("missing"), Ok(None));
    assert_eq!(io.secret("large").expect_err("too large").kind, IoErrorKind::TooLarge);
    for name in ["../token", "/etc/passwd", "", ".", "..", "a/b", "a\0b"] {
        assert_eq!(io.secret(name).expect_err(name).kind, IoErrorKind::Forbidden, "{name}");
    }
    let io = HostIo::new(options());
    assert_eq!(io.secret("surely-not-set"), Ok(None));
    assert!(!format!("{io:?}").contains("t-1"));
}

#[test]
fn files_are_resources_and_other_kinds_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a b.txt");
    std::fs::write(&file, "text").expect("room");
    let io = HostIo::new(options());
    let read = |uri: &str| io.resource(uri, &IoCall::new("k", &|| false));
    assert_eq!(read(&format!("file://{}", file.display())), Ok(b"text".to_vec()));
    assert_eq!(
        read(&format!("file://{}", file.display().to_string().replace(' ', "%20"))),
        Ok(b"text".to_vec())
    );
    assert_eq!(read("file:///no/such/file").expect_err("none").kind, IoErrorKind::NotFound);
    assert_eq!(read("s3://bucket/x").expect_err("none").kind, IoErrorKind::Unsupported);
    std::fs::write(&file, "x".repeat(100_001)).expect("room");
    let error = read(&file.display().to_string()).expect_err("it is too large");
    assert_eq!(error.kind, IoErrorKind::TooLarge);
}

#[test]
fn files_are_read_only_where_commands_are_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.json");
    std::fs::write(&file, "{}").expect("room");
    let mut forbidden = options();
    forbidden.allow_shell = false;
    let uri = format!("file://{}", file.display());
    let error = HostIo::new(forbidden).resource(&uri, &IoCall::new("k", &|| false));
    let error = error.expect_err("it may not be read");
    assert_eq!(error.kind, IoErrorKind::Forbidden);
    assert!(error.message.contains("io.allow-shell"), "{error}");
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read_and_a_pipe_without_a_writer_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is mkfifo").success());
    let mut with_secrets = options();
    with_secrets.secrets = Some(folder.path().to_owned());
    let io = HostIo::new(with_secrets);
    for path in [pipe.as_path(), folder.path(), std::path::Path::new("/dev/zero")] {
        let error = io.resource(&path.display().to_string(), &IoCall::new("k", &|| false));
        let error = error.expect_err("it is no regular file");
        assert_eq!(error.kind, IoErrorKind::Unsupported, "{error}");
    }
    let error = io.secret("pipe").expect_err("it is no regular file");
    assert!(error.message.contains("no regular file"), "{error}");
}
