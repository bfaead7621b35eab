//! The text of a definition: YAML or JSON as a tree with positions, and what is wrong with it.

mod node;
mod parse;
mod problem;

pub(crate) use node::{Content, Node, Place};
pub(crate) use parse::parse;
pub(crate) use problem::{Collector, PROBLEMS_MAX};
pub use problem::{Problem, Problems};

/// Reads the documents of a text in YAML or JSON as plain data.
///
/// # Errors
///
/// It is no YAML: each place with what is wrong there.
///
/// ```
/// let jobs = turnwheel_flow::documents("name: a\n---\nname: b\n", "jobs.yaml")?;
/// assert_eq!(jobs[1]["name"], "b");
/// # Ok::<(), turnwheel_flow::Problems>(())
/// ```
pub fn documents(text: &str, path: &str) -> Result<Vec<serde_json::Value>, Problems> {
    let mut problems = Collector::new(text, path);
    let read: Vec<_> = parse(text, &mut problems).iter().map(Node::to_value).collect();
    match problems.is_empty() {
        true => Ok(read),
        false => Err(problems.problems()),
    }
}

/// Names that are compared with one that is not known: more are no help to a person.
const COMPARED_MAX: usize = 1_000;

/// The name that is most like this one, if one is like it at all.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    let near = known.take(COMPARED_MAX).map(|known| (distance(name, known), known));
    near.filter(|(distance, _)| *distance <= limit).min().map(|(_, known)| known)
}

/// Insertions, deletions, replacements and swaps of neighbours between two names, case aside.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().take(64).flat_map(char::to_lowercase).collect();
    let other: Vec<char> = other.chars().take(64).flat_map(char::to_lowercase).collect();
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            let is_swap =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if is_swap {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_could_be_meant() {
        let known = ["call", "switch", "listen", "wait"];
        assert_eq!(nearest("swicth", known.into_iter()), Some("switch"));
        assert_eq!(nearest("Call", known.into_iter()), Some("call"));
        assert_eq!(nearest("container", known.into_iter()), None);
    }
}
