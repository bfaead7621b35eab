//! Names and errors of flows in the words of their authors: as the console shows them.

use std::sync::OnceLock;

use regex_lite::Regex;
use turnwheel::api::StepInfo;

/// The number of the root action of a plan, and the name of that of a flow.
const ROOT: u32 = 1;
const FLOW: &str = "flow";

fn pattern(once: &'static OnceLock<Regex>, text: &str) -> &'static Regex {
    once.get_or_init(|| Regex::new(text).expect("the pattern is constant and tested"))
}

/// The name of a step: of a task of a flow the names on the way to it, without their places.
pub(crate) fn task(name: &str) -> String {
    static PATH: OnceLock<Regex> = OnceLock::new();
    let path = name.strip_prefix('/').unwrap_or(name);
    if !pattern(&PATH, r"^do/\d+/").is_match(path) {
        return name.to_owned();
    }
    let parts: Vec<&str> = path.split('/').collect();
    let is_place = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let named = parts.windows(2).filter(|pair| is_place(pair[0])).map(|pair| pair[1]);
    let names: Vec<String> = named.map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    names.join(" › ")
}

/// Whether a step is one of the flow itself, and of none of its tasks.
pub(crate) fn is_of_flow(step: &StepInfo) -> bool {
    step.action == ROOT && step.name == FLOW
}

/// An error of this task without its name at the begin, for a line that has the name already.
pub(crate) fn of_task<'a>(error: &'a str, task: &str) -> &'a str {
    error.strip_prefix(task).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(error)
}

/// An error or a reason to wait, what matters first: «send: no such mailbox (500)».
pub(crate) fn plain(text: &str) -> String {
    static KIND: OnceLock<Regex> = OnceLock::new();
    static ERROR: OnceLock<Regex> = OnceLock::new();
    static GENERAL: OnceLock<Regex> = OnceLock::new();
    static PATH: OnceLock<Regex> = OnceLock::new();
    // The address of a kind of error says no more than its title.
    let short = pattern(&KIND, r" \(https?:[^\s()]+\)$").replace(text, "");
    let error = r"(?s)^(?:.{1,80}? failed: )?(.*?) \((\d{3})\) at (/do/\S*?)(?:: (.*))?$";
    let Some(found) = pattern(&ERROR, error).captures(&short) else {
        let named = pattern(&PATH, r"/do/\d+/[^\s:,;)]+");
        return named
            .replace_all(text, |path: &regex_lite::Captures<'_>| task(&path[0]))
            .into_owned();
    };
    let (title, status, path) = (&found[1], &found[2], &found[3]);
    let detail = found.get(4).map_or("", |detail| detail.as_str());
    let is_general = pattern(&GENERAL, r"^(https?:\S+|\w+ Error)$").is_match(title);
    let what = match (title, detail) {
        (title, "") => title.to_owned(),
        (_, detail) if is_general => detail.to_owned(),
        (title, detail) => format!("{title}: {detail}"),
    };
    format!("{}: {what} ({status})", task(path))
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
            ("Runtime Error (500) at /do/0/a/do/3/b".to_owned(), "a › b: Runtime Error (500)"),
            (
                "/do/0/approval waits for the event order.paid".to_owned(),
                "approval waits for the event order.paid",
            ),
            ("the disk is full".to_owned(), "the disk is full"),
            (format!("see {kind}"), "see https://example.org/mail"),
        ] {
            assert_eq!(plain(&text), said);
        }
    }
}
