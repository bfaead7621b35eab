//! Problems that do not stop a walk, joined to one text of bounded size.

use crate::limits::{PROBLEMS_BYTES_MAX, PROBLEM_BYTES_MAX, TOLD_MS};

/// Problems, each once.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    kept: Vec<String>,
    /// Bytes of those that are kept.
    bytes: usize,
    /// Problems that found no place, with repetitions.
    more: u64,
}

impl Notes {
    pub(crate) fn add(&mut self, problem: String) {
        let problem = cut(problem);
        if self.kept.contains(&problem) {
            return;
        }
        if self.bytes + problem.len() > PROBLEMS_BYTES_MAX {
            self.more += 1;
            return;
        }
        self.bytes += problem.len();
        self.kept.push(problem);
    }

    /// All of them in one text; nothing if there is none.
    pub(crate) fn text(&self) -> Option<String> {
        let more = (self.more > 0).then(|| format!("; and {} more", self.more));
        (!self.kept.is_empty()).then(|| self.kept.join("; ") + &more.unwrap_or_default())
    }
}

/// Characters of the name of an element by which its problems are known again: [`cut`] keeps them.
const BEGIN_CHARS: usize = 60;

const _: () = assert!(4 * BEGIN_CHARS < PROBLEM_BYTES_MAX / 2 - 8);

/// Begin of the problems of an element.
pub(crate) fn begin_of(element: &str) -> String {
    format!("«{element}»: ").chars().take(BEGIN_CHARS).collect()
}

/// Failures that the log has not told yet.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    count: u64,
    /// When it has told of some.
    told_ms: Option<u64>,
}

impl Untold {
    /// Counts a failure. Returns how many there are to be told if it is time for a line.
    pub(crate) fn add(&mut self, now_ms: u64) -> Option<u64> {
        self.count += 1;
        // The clock may have been set back.
        let is_time = self.told_ms.is_none_or(|told| told.abs_diff(now_ms) >= TOLD_MS);
        is_time.then(|| {
            self.told_ms = Some(now_ms);
            std::mem::take(&mut self.count)
        })
    }
}

/// A problem without its middle if it is long: it begins with the element, and ends with the reason.
fn cut(problem: String) -> String {
    const GAP: &str = " … ";
    if problem.len() <= PROBLEM_BYTES_MAX {
        return problem;
    }
    let half = (PROBLEM_BYTES_MAX - GAP.len()) / 2;
    let (mut begin, mut end) = (half, problem.len() - half);
    while !problem.is_char_boundary(begin) {
        begin -= 1;
    }
    while !problem.is_char_boundary(end) {
        end += 1;
    }
    format!("{}{GAP}{}", &problem[..begin], &problem[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(problems: impl IntoIterator<Item = String>) -> Option<String> {
        let mut notes = Notes::default();
        problems.into_iter().for_each(|problem| notes.add(problem));
        notes.text()
    }

    #[test]
    fn problems_are_told_once_in_their_order() {
        assert_eq!(text([]), None);
        let said = text(["a", "b", "a"].map(str::to_owned));
        assert_eq!(said.as_deref(), Some("a; b"));
    }

    #[test]
    fn problems_beyond_the_limit_are_counted() {
        let said = text((0..1_000).map(|number| format!("problem {number:04}"))).expect("some");
        let kept = PROBLEMS_BYTES_MAX / "problem 0000".len();
        assert!(said.starts_with("problem 0000; problem 0001; "), "{said}");
        assert!(said.ends_with(&format!("; and {} more", 1_000 - kept)), "{said}");
        assert!(said.len() < 2 * PROBLEMS_BYTES_MAX, "{}", said.len());
    }

    #[test]
    fn failures_are_told_once_a_minute_with_their_number() {
        let mut untold = Untold::default();
        let told = [5, 6, 7, 5 + TOLD_MS, 6 + TOLD_MS].map(|now_ms| untold.add(now_ms));
        assert_eq!(told, [Some(1), None, None, Some(3), None]);
        assert_eq!(untold.add(0), Some(2), "the clock was set back");
    }

    #[test]
    fn problem_of_an_element_with_a_long_name_is_known_again() {
        let name = "😀".repeat(400);
        let said = text([format!("«{name}»: {}: it fails", "x".repeat(900))]).expect("some");
        assert!(said.starts_with(&begin_of(&name)), "{said}");
        assert!(text(["«w»: it fails".to_owned()]).expect("some").starts_with(&begin_of("w")));
    }

    #[test]
    fn long_problem_keeps_its_begin_and_its_end() {
        let long = format!("«one»: {}: it fails", "é".repeat(5_000));
        let said = text([long, "other".to_owned()]).expect("some");
        assert!(said.starts_with("«one»: é") && said.ends_with("é: it fails; other"), "{said}");
        assert!(said.len() <= PROBLEMS_BYTES_MAX, "{}", said.len());
    }
}
