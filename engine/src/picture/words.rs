//! Names and errors of flows in the words of their authors: in lists, in searches and on the
//! command line. The console has the same in `format.js`.

/// The name of a step: of a task of a flow the names on the way to it, without their places.
pub fn task(name: &str) -> String {
    let path = name.strip_prefix('/').unwrap_or(name);
    let parts: Vec<&str> = path.split('/').collect();
    let is_path = parts.len() > 2 && parts[0] == "do" && is_place(parts[1]);
    if !is_path {
        return name.to_owned();
    }
    let named = parts.windows(2).filter(|pair| is_place(pair[0])).map(|pair| pair[1]);
    let names: Vec<String> = named.map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    names.join(" › ")
}

fn is_place(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit())
}

/// An error or a reason to wait, what matters first: «send: no such mailbox (500)». A text that was
/// made so stays as it is.
pub fn plain(text: &str) -> String {
    let text = text.strip_prefix("job.run failed: ").unwrap_or(text);
    let Some(Fault { title, status, path, detail }) = Fault::read(without_kind(text)) else {
        return with_names(text);
    };
    let what = match (title, detail) {
        (title, "") => title.to_owned(),
        (title, detail) if is_general(title) => detail.to_owned(),
        (title, detail) => format!("{title}: {detail}"),
    };
    format!("{}: {what} ({status})", task(path))
}

/// The parts of `TITLE (STATUS) at PATH: DETAIL`.
struct Fault<'a> {
    title: &'a str,
    status: &'a str,
    path: &'a str,
    detail: &'a str,
}

impl<'a> Fault<'a> {
    fn read(text: &'a str) -> Option<Self> {
        text.match_indices(") at /do/").find_map(|(end, _)| {
            let (title, status) = text[..end].rsplit_once(" (")?;
            if status.len() != 3 || !is_place(status) {
                return None;
            }
            let rest = &text[end + ") at ".len()..];
            let (path, detail) = match rest.find(char::is_whitespace) {
                None => (rest, ""),
                Some(space) => (rest[..space].strip_suffix(':')?, rest[space..].trim_start()),
            };
            Some(Self { title: without_subject(title), status, path, detail })
        })
    }
}

/// A text without the address of the kind of error at its end: it says no more than the title.
fn without_kind(text: &str) -> &str {
    let kind = text.strip_suffix(')').and_then(|inner| inner.rsplit_once(" ("));
    match kind {
        Some((before, kind)) if is_address(kind) && !kind.contains([' ', ')']) => before,
        _ => text,
    }
}

/// A title without «TASK failed: »: the path names the task.
fn without_subject(title: &str) -> &str {
    match title.split_once(" failed: ") {
        Some((subject, title)) if (1..=80).contains(&subject.chars().count()) => title,
        _ => title,
    }
}

fn is_address(text: &str) -> bool {
    text.starts_with("http:") || text.starts_with("https:")
}

/// Whether a title says no more than the number beside it.
fn is_general(title: &str) -> bool {
    let is_word = |word: &str| word.chars().all(|it| it.is_alphanumeric() || it == '_');
    let word = title.strip_suffix(" Error");
    (is_address(title) && !title.contains(char::is_whitespace))
        || word.is_some_and(|word| !word.is_empty() && is_word(word))
}

/// A text with the names of tasks in place of their paths.
fn with_names(text: &str) -> String {
    let (mut told, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find("/do/") {
        let path = &rest[begin..];
        let end = path.find(|it: char| it.is_whitespace() || ":,;)".contains(it));
        let path = &path[..end.unwrap_or(path.len())];
        told.push_str(&rest[..begin]);
        told.push_str(&task(path));
        rest = &rest[begin + path.len()..];
    }
    told.push_str(rest);
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_named_without_their_places() {
        for (path, name) in [
            ("do/0/address", "address"),
            ("/do/1/open/do/0/wait", "open › wait"),
            ("do/2/a~1b", "a/b"),
            ("flow", "flow"),
            ("do/it", "do/it"),
        ] {
            assert_eq!(task(path), name);
        }
    }

    #[test]
    fn errors_begin_with_the_task_and_what_happened() {
        let kind = "https://example.org/mail";
        for (text, said) in [
            (
                format!("send failed: {kind} (500) at /do/1/send: no such mailbox ({kind})"),
                "send: no such mailbox (500)",
            ),
            ("Too much (400) at /do/0/look: 150".to_owned(), "look: Too much: 150 (400)"),
            ("Too much (400) at /do/0/look:\u{a0}150".to_owned(), "look: Too much: 150 (400)"),
            ("Runtime Error (500) at /do/0/a/do/3/b".to_owned(), "a › b: Runtime Error (500)"),
            (
                "/do/0/approval waits for the event order.paid".to_owned(),
                "approval waits for the event order.paid",
            ),
            ("the disk is full".to_owned(), "the disk is full"),
            ("job.run failed: its exit code is 3".to_owned(), "its exit code is 3"),
            (format!("see {kind}"), "see https://example.org/mail"),
        ] {
            assert_eq!(plain(&text), said);
            assert_eq!(plain(said), said, "it stays as it is");
        }
    }
}
