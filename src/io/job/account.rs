//! The user of a command: the setting `su` of shell, as `USER` or `USER:GROUP`, by name or number.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A user of this host.
struct User {
    name: String,
    id: u32,
    group: u32,
    home: String,
}

/// The parts of the setting.
fn parts(su: &str) -> Result<Option<(&str, Option<&str>)>, String> {
    let su = su.trim();
    if su.is_empty() {
        return Ok(None);
    }
    let (user, group) = match su.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (su, None),
    };
    if user.is_empty() || group.is_some_and(str::is_empty) {
        return Err(format!("su: «{su}» is no user: write USER or USER:GROUP"));
    }
    Ok(Some((user, group)))
}

/// Checks the form; who is there is a question of the node.
pub(super) fn check(su: &str) -> Result<(), String> {
    parts(su).map(drop)
}

/// The fields of the line of a file of accounts whose name or number this is.
fn line_of(file: &str, name: &str) -> Option<Vec<String>> {
    let text = fs::read_to_string(file).ok()?;
    let lines = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
    let mut known: Vec<Vec<String>> = lines.filter(|fields| fields.len() >= 3).collect();
    let at = known.iter().position(|fields| fields[0] == name);
    let at = at.or_else(|| known.iter().position(|fields| fields[2] == name))?;
    Some(known.swap_remove(at))
}

fn user_of(name: &str) -> Result<User, String> {
    let missing = || format!("su: this node has no user «{name}» in /etc/passwd");
    let fields = line_of("/etc/passwd", name).ok_or_else(missing)?;
    let number = |place: usize| fields.get(place).and_then(|text| text.parse().ok());
    let (id, group) = number(2).zip(number(3)).ok_or_else(missing)?;
    let home = fields.get(5).cloned().unwrap_or_default();
    Ok(User { name: fields[0].clone(), id, group, home })
}

fn group_of(name: &str) -> Result<u32, String> {
    let fields = line_of("/etc/group", name);
    let id = fields.and_then(|fields| fields[2].parse().ok());
    id.ok_or_else(|| format!("su: this node has no group «{name}» in /etc/group"))
}

/// Lets a command run as this user, without the groups of the server.
pub(super) fn switch(command: &mut Command, su: &str) -> Result<(), String> {
    let Some((user, group)) = parts(su)? else { return Ok(()) };
    let user = user_of(user)?;
    let group = group.map_or(Ok(user.group), group_of)?;
    let own = rustix::process::geteuid();
    if !own.is_root() && own.as_raw() != user.id {
        let name = &user.name;
        return Err(format!(
            "su: only a server that runs as root runs commands as «{name}»: let it, or leave su out"
        ));
    }
    command.env("USER", &user.name).env("LOGNAME", &user.name).env("HOME", &user.home);
    if own.is_root() {
        // Root's further groups are dropped with the user.
        command.uid(user.id).gid(group);
    }
    Ok(())
}
