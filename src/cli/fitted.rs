//! Texts below the options of a help, in the width of the terminal.

use clap::Command;

/// The widest help: longer lines are hard to read.
pub(crate) const WIDEST: usize = 100;

/// The narrowest one that texts are laid out for.
const NARROWEST: usize = 30;

/// Where the description of an example goes on a line of its own.
const BELOW: &str = "      ";

/// The command with the texts of all its verbs laid out for a width.
pub(crate) fn fitted(command: Command, width: usize) -> Command {
    let command = match command.get_after_help().map(ToString::to_string) {
        Some(text) => command.after_help(laid_out(&text, width)),
        None => command,
    };
    command.mut_subcommands(|verb| fitted(verb, width))
}

/// Columns of the terminal that shows the help, as clap finds them.
pub(crate) fn width() -> usize {
    let columns = terminal().or_else(|| std::env::var("COLUMNS").ok()?.parse().ok());
    columns.unwrap_or(WIDEST).clamp(NARROWEST, WIDEST)
}

#[cfg(unix)]
fn terminal() -> Option<usize> {
    use std::os::fd::AsFd;

    fn columns(place: &impl AsFd) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(place).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }
    columns(&std::io::stdout())
        .or_else(|| columns(&std::io::stderr()))
        .or_else(|| columns(&std::io::stdin()))
}

#[cfg(not(unix))]
fn terminal() -> Option<usize> {
    None
}

/// Paragraphs are filled anew; examples whose descriptions do not fit beside them get them below.
fn laid_out(text: &str, width: usize) -> String {
    let blocks: Vec<String> = text.split("\n\n").map(|block| of_block(block, width)).collect();
    blocks.join("\n\n")
}

fn of_block(block: &str, width: usize) -> String {
    let lines = joined(block);
    let is_wide = lines.iter().any(|line| line.starts_with(' ') && line.chars().count() > width);
    let mut text = Vec::new();
    for line in &lines {
        match line.strip_prefix("  ") {
            None => wrap(&mut text, line, "", "", width),
            Some(example) => match example.trim_start().split_once("  ") {
                Some((what, said)) if is_wide => {
                    wrap(&mut text, what, "  ", BELOW, width);
                    wrap(&mut text, said.trim_start(), BELOW, BELOW, width);
                }
                Some(_) => text.push(line.clone()),
                // The rest of a long command, as it was written.
                None if example.starts_with("    ") => {
                    wrap(&mut text, example, BELOW, BELOW, width)
                }
                None => wrap(&mut text, example, "  ", BELOW, width),
            },
        }
    }
    text.join("\n")
}

/// The lines of a block. A line that goes on with the sentence of the one before is part of it;
/// examples and lists begin with two blanks and a line each.
fn joined(block: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in block.lines() {
        let has_indent = line.starts_with("  ");
        let goes_on = match lines.last() {
            None => false,
            Some(before) if has_indent => {
                before.starts_with("  ") && is_prose(before) && is_prose(line) && !begins(line)
            }
            Some(before) => !before.starts_with("  "),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some(before) => {
                before.push(' ');
                before.push_str(line.trim_start());
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Whether an indented line is a sentence, and no example and no entry of a list.
fn is_prose(line: &str) -> bool {
    let text = line.trim_start();
    !text.contains("  ") && !text.starts_with("turnwheel") && text.split(' ').count() > 4
}

fn begins(line: &str) -> bool {
    line.trim_start().starts_with(char::is_uppercase)
}

/// Adds a text in lines of at most so many columns; a word that is longer keeps its line.
fn wrap(lines: &mut Vec<String>, text: &str, first: &str, next: &str, width: usize) {
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if length > width && !is_empty {
            lines.push(std::mem::replace(&mut line, next.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
What is said is combined: plans that fit all of it are listed. Without --server the file of the
store is read, also while a server has it.

Examples:
  turnwheel list                     the newest 100 plans
  turnwheel list guide/hello         whose name, reason to wait or error has this part

Who may ask:
  Without tokens only this machine may ask, and only addresses
  of this machine are listened on.
  Clients send «Authorization: Bearer SECRET», or name and secret.";

    #[test]
    fn a_wide_terminal_has_descriptions_beside_their_examples() {
        let text = laid_out(TEXT, 100);
        assert!(
            text.contains("  turnwheel list                     the newest 100 plans\n"),
            "{text}"
        );
        assert!(
            text.contains("of the\nstore is read,") || text.contains("the store\nis"),
            "{text}"
        );
    }

    #[test]
    fn a_narrow_terminal_has_them_below() {
        let text = laid_out(TEXT, 44);
        assert!(text.lines().all(|line| line.chars().count() <= 44), "{text}");
        let below = "Examples:\n  turnwheel list\n      the newest 100 plans\n  turnwheel list guide/hello\n";
        assert!(text.contains(below), "{text}");
        assert!(
            text.contains("\n      whose name, reason to wait or error\n      has this part\n"),
            "{text}"
        );
        assert!(text.contains("\n  Clients send"), "each sentence begins a line: {text}");
    }
}
