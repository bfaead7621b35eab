//! The fenced blocks of a page, with their places.

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The first word of its info string.
    pub(crate) language: String,
    /// What stands behind that, as `no_run`.
    pub(crate) attributes: Vec<String>,
    /// The line of its first line, from 1 on.
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into() }
    }
}

/// All blocks of a page, in order.
pub(crate) fn of(page: &str) -> Result<Vec<Block>, Fault> {
    let mut found = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (at, line) in page.lines().enumerate() {
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        let fence = inner.strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => open = Some((begin(info, at + 2), indent)),
            (Some(_), Some(rest)) if rest.trim().is_empty() => {
                found.extend(open.take().map(|(block, _)| block));
            }
            (Some((block, indent)), _) => {
                let depth = line.len() - line.trim_start().len();
                block.text.push_str(&line[depth.min(*indent)..]);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    match open {
        None => Ok(found),
        Some((block, _)) => Err(Fault::new(block.line - 1, "a block that never ends")),
    }
}

fn begin(info: &str, line: usize) -> Block {
    let mut words = info.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
    Block {
        language: words.next().unwrap_or_default(),
        attributes: words.collect(),
        line,
        text: String::new(),
    }
}

impl Block {
    /// The name of the file that the block is, if its first line is a comment with nothing but a name.
    pub(crate) fn file_name(&self) -> Option<&str> {
        let name = self.text.lines().next()?.strip_prefix("# ")?.trim();
        let is_name = name.contains('.') && !name.contains([' ', '/']) && !name.ends_with('.');
        is_name.then_some(name)
    }
}

/// Whether lines are those that a page shows: «...» stands for anything within a line, and for any
/// number of lines if it is alone in one.
pub(crate) fn fits(shown: &[&str], found: &[&str]) -> bool {
    match shown.split_first() {
        None => found.iter().all(|line| line.trim().is_empty()),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=found.len()).any(|skipped| fits(rest, &found[skipped..]))
        }
        Some((first, rest)) => match found.split_first() {
            Some((line, others)) => {
                fits_line(first.trim_end(), line.trim_end()) && fits(rest, others)
            }
            None => shown.iter().all(|line| line.trim().is_empty()),
        },
    }
}

fn fits_line(shown: &str, found: &str) -> bool {
    match shown.split_once("...") {
        None => shown == found,
        Some((before, after)) => found.strip_prefix(before).is_some_and(|rest| {
            let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.any(|at| fits_line(after, &rest[at..]))
        }),
    }
}
